"""Mutation testing: one small change of a module at a time; a test must fail with each.

    python benchmarks/mutation.py src/happycat/base/metrics.py tests/base/test_metrics.py

The tree is copied. Each mutant takes the module's place in the copy and is tested there, in a process that is forked
when all that the tests import, but happycat itself, is imported already. One that takes ten times the CPU time of the
whole tests counts as killed. Prints the mutants that survived, with their lines, and how many were killed. Which of the
survivors change nothing that can be seen has to be judged.

Not changed: docstrings, annotations, decorators, imports, and the words of error messages.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
NEGATED = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
NEIGHBOUR = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}  # the edge is moved
OPERATOR = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
PASSED_BY = {"clamp_min", "clone", "copy", "detach", "resolve", "strip"}  # methods without which there is a value, too
UNTOUCHED = {"annotation", "returns", "decorator_list"}
TIMES, LEAST = 10, 10  # the limit of CPU time: so many times the tests' own, and so many seconds at least


class Mutant(NamedTuple):
    """A module with one change: its line, the change in words, and the whole source."""

    line: int
    change: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every module that differs from the given one in one place."""
    tree, found = ast.parse(source), []
    for holder, field, place, node in _places(tree):
        for other in _variants(node):
            _put(holder, field, place, other)
            before, after = (ast.unparse(one) if one else "nothing" for one in (node, other))
            found.append(Mutant(node.lineno, f"{_short(before)}  →  {_short(after)}", ast.unparse(tree)))
            _put(holder, field, place, node)
    return found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) < 90 else line[:87] + "…"


def _put(holder: ast.AST, field: str, place: int | None, node: ast.AST | None) -> None:
    if place is None:
        setattr(holder, field, node)
    else:
        getattr(holder, field)[place] = node


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Every statement and expression that may be changed, and where it stands."""
    for field, value in ast.iter_fields(node):
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if field in UNTOUCHED or not isinstance(child, ast.AST) or _is_for_readers(child):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield node, field, place, child
            if not isinstance(child, ast.Raise):  # its words
                yield from _places(child)


def _is_for_readers(node: ast.AST) -> bool:
    """Whether a node is a docstring, an import, or there for types only."""
    for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return for_types or docstring or isinstance(node, ast.Import | ast.ImportFrom)


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    """What can stand in the place of a node: operators, constants and conditions changed, statements left out."""
    match node:
        case ast.Compare(left, [operator], [right]):
            yield ast.Compare(left, [NEGATED[type(operator)]()], [right])
            if type(operator) in NEIGHBOUR:
                yield ast.Compare(left, [NEIGHBOUR[type(operator)]()], [right])
        case ast.Compare(left, operators, rights):
            for i, operator in enumerate(operators):
                kinds = [NEGATED[type(operator)], NEIGHBOUR.get(type(operator))]
                yield from (
                    ast.Compare(left, [*operators[:i], kind(), *operators[i + 1 :]], rights) for kind in kinds if kind
                )
        case ast.BinOp(left, operator, right) if type(operator) in OPERATOR:
            yield ast.BinOp(left, OPERATOR[type(operator)](), right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(OPERATOR[type(operator)](), values)
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.AugAssign(target, operator, value) if type(operator) in OPERATOR:
            yield ast.AugAssign(target, OPERATOR[type(operator)](), value)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1 if isinstance(value, int) else value * 2 or 1.0)
        case ast.Constant(str() | bytes() as value) if value:
            yield ast.Constant(value + ("x" if isinstance(value, str) else b"x"))
        case ast.If(test, body, orelse) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr(ast.Call() | ast.Await()) | ast.Delete() | ast.AugAssign():
            yield ast.Pass()
        case ast.Call(ast.Attribute(value, name)) if name in PASSED_BY:
            yield value
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


class Bench:
    """A copy of the tree in which a module is exchanged and tested."""

    def __init__(self, folder: Path, module: Path, tests: list[str]):
        self.folder, self.module, self.tests = folder, folder / module.relative_to(ROOT), tests
        for name in ("src", "tests", "benchmarks", "docs", "pyproject.toml", "README.md"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
            copy(ROOT / name, folder / name)
        os.chdir(folder)
        os.environ.update(PYTHONPATH=str(folder / "src"), OMP_NUM_THREADS="1")
        sys.path[:0] = [str(folder / "src"), str(folder)]
        self._begin()

    def _begin(self) -> None:
        """Test without any change: that the tests pass, what they take, and what they import, which is imported."""
        self.limit, imported, before = LEAST, self.folder / "imported.txt", _children_time()
        if not self.passes(imported):
            raise SystemExit(f"the tests fail without any change:\n{self.log.read_text('utf-8')}")
        self.limit = int(max(LEAST, TIMES * (_children_time() - before)))
        for name in imported.read_text("utf-8").splitlines():
            with suppress(Exception):  # what cannot be imported here is imported by each mutant
                importlib.import_module(name)
        # What is compiled now stays so, but for the module; a mutant of the same second could be taken for another
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        for stale in self.module.parent.glob(f"__pycache__/{self.module.stem}.*"):
            stale.unlink()

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def passes(self, imported: Path | None = None) -> bool:
        """Whether the tests pass, in a process of its own; `imported` is to hold the names of what that imported."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = self._test(imported)
            finally:
                os._exit(code)
        return _end_of(child, 60 * self.limit) == 0

    def _test(self, imported: Path | None) -> int:
        os.setpgid(0, 0)  # what the tests start ends with them
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if imported is None:
            resource.setrlimit(resource.RLIMIT_CPU, (self.limit, self.limit))
        import pytest

        code = pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp", "temporary", *self.tests])
        if imported:
            names = [name for name in sys.modules if name.split(".")[0] not in ("happycat", "tests", "__main__")]
            imported.write_text("\n".join(names), "utf-8")
        return int(code)

    def kills(self, mutant: Mutant) -> bool:
        """Whether a test fails with this change."""
        self.module.write_text(mutant.source, "utf-8")
        return not self.passes()


def _children_time() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _end_of(child: int, seconds: float) -> int:
    """The status with which a process ends; with all that it started, it is killed when that takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return status if found else os.waitpid(child, 0)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path, help="the module that is changed")
    parser.add_argument("tests", nargs="+", help="what pytest is to run: its tests")
    parser.add_argument("--lines", help="only mutants of these lines, as in 41 or 10-60")
    given = parser.parse_args()
    module = given.module.resolve()
    first, _, last = (given.lines or f"1-{10**6}").partition("-")
    wanted = [m for m in mutants(module.read_text("utf-8")) if int(first) <= m.line <= int(last or first)]
    with tempfile.TemporaryDirectory() as folder:
        bench, killed = Bench(Path(folder), module, given.tests), 0
        for mutant in wanted:
            if bench.kills(mutant):
                killed += 1
            else:
                print(f"{given.module}:{mutant.line}: {mutant.change}", flush=True)
        os.chdir(ROOT)
    share = 100 * killed / max(1, len(wanted))
    print(
        f"{given.module}: {len(wanted)} mutants, {killed} killed ({share:.1f}%), {_children_time():.0f} s of CPU time"
    )


if __name__ == "__main__":
    main()

"""The table of commands, a lazy group: a command's module is imported when it is run or asked for its own help.

So `happycat --help` needs no torch. Results go to stdout, progress to stderr; a person's mistake is one line and exit
code 2, Ctrl-C one line and exit code 130 (SIGTERM 143, SIGHUP 129).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from happycat.base.errors import DEAD_WORKER, HappycatError
from happycat.base.text import shown
from happycat.base.version import __version__
from happycat.cli.flags import with_method_flags
from happycat.cli.help import SectionedCommand
from happycat.cli.signals import catching_signals, exit_after

WIDTH = 100  # columns of a help text at most


class Entry(NamedTuple):
    """Where a command's function is, `module:function` within this package, and its help in one line."""

    place: str
    help: str


GROUPS: dict[str, dict[str, Entry]] = {
    "Your images": {
        "fit": Entry("practitioner:fit", "Learn the classes of labelled images."),
        "discover": Entry(
            "practitioner:discover",
            "Find new classes among unlabelled images; the model learns them as a new version.",
        ),
        "app": Entry("app:app", "Look at what was discovered and correct it, in the browser on this computer."),
        "predict": Entry("practitioner:predict", "Predict the class of each image, or that none fits."),
        "teach": Entry("images:teach", "Learn more labelled images, of known classes or of new ones, without a refit."),
        "accept": Entry("images:accept", "Take up what `discover --propose` has found, or some of its classes."),
    },
    "Corrections": {
        "name": Entry("corrections:name", "Give a class its name."),
        "merge": Entry("corrections:merge", "Make one class of several."),
        "split": Entry(
            "corrections:split",
            "Make two classes of one, by a few examples or an automatic cut; or take apart what was merged.",
        ),
        "drop": Entry(
            "corrections:drop",
            "Give a class up: nothing is given to it any more, and nothing like it is discovered again.",
        ),
        "apart": Entry("corrections:apart", "Say that two classes are not the same: they are never merged."),
        "move": Entry("images:move", "Say that images are of a class; they stay there."),
        "confirm": Entry("images:confirm", "Say that images are of the classes that they are given."),
        "reject": Entry("images:reject", "Say that images are not of the classes that they are given."),
        "ignore": Entry(
            "images:ignore", "Say that images are of no class: they and what looks like them are left alone."
        ),
        "unignore": Entry("images:unignore", "Take back that images are to be left alone."),
        "undo": Entry("corrections:undo", "Go back to the version before; `redo` brings it back."),
        "redo": Entry("corrections:redo", "Bring back what was undone last."),
    },
    "Look": {
        "show": Entry("corrections:show", "Show a model's classes, its versions, and what it holds."),
        "report": Entry(
            "practitioner:report",
            "Show a model's last discovery with the corrections made since, or research runs, as one page.",
        ),
        "export-labels": Entry(
            "images:export_labels", "Write the class of each image, as corrected, as CSV or JSON (COCO, FiftyOne)."
        ),
        "doctor": Entry(
            "doctor:doctor",
            "Check the installation, or whether a model file, a run folder or stored features are whole.",
        ),
        "export": Entry("practitioner:export", "Write a model as one ONNX file: images in, class and probability out."),
    },
    "Research": {
        "demo": Entry(
            "research:demo", "Learn six handwritten digits with their labels, then discover the other four without."
        ),
        "bench": Entry("research:bench", "Run a method over all stages of a data set and score it."),
        "paper": Entry(
            "paper:paper",
            "Run one of the paper's experiments: a table with the paper's numbers beside, and its figure.",
        ),
        "stages": Entry(
            "research:stages",
            "Write the split of a data set to a file that can be published: the same images everywhere.",
        ),
        "features": Entry(
            "research:features",
            "Write the features of a data set's images to a NumPy file, for `paper calm-check` or other programs.",
        ),
        "list": Entry("research:list_", "Show the methods, data sets and tested backbones."),
        "cache": Entry(
            "cache:cache", "List tokens and features that are stored, and files never finished; check or remove them."
        ),
        "speed": Entry(
            "research:speed",
            "Measure throughput: a training step (reference, fresh, cached), extraction by precision, reading.",
        ),
    },
}
TABLE: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}
SUBCOMMANDS = {  # a first word that has arguments and flags of its own
    ("paper", "calm-check"): "check:calm_check",
    ("paper", "questions"): "questions:questions",
    ("paper", "splits"): "splits:splits",
}


def load_command(name: str, words: Sequence[str] = ("--help",)) -> TyperCommand:
    """The command of that name; its module is imported now. Its flags may depend on the words that follow it."""
    place = SUBCOMMANDS.get((name, words[0] if words else ""), TABLE[name].place)
    module, function = place.split(":")
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    command = getattr(import_module(f"happycat.cli.{module}"), function)
    single.command(name, cls=SectionedCommand)(with_method_flags(command, words))
    made = get_command(single)
    assert isinstance(made, TyperCommand)
    return made


class LazyCommands(MutableMapping[str, Any]):
    """The commands by name, each made when it is asked for and then kept."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in TABLE:
                raise KeyError(name)
            self._made[name] = load_command(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*TABLE, *self._made]))

    def __len__(self) -> int:
        return len(set(TABLE) | set(self._made))


class CommandGroup(TyperGroup):
    """The group of all commands. Its help comes from the table alone."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, words = super().resolve_command(ctx, args)
        if name not in TABLE:
            return name, command, words
        made = load_command(name, words)
        if words and (name, words[0]) in SUBCOMMANDS:
            return f"{name} {words[0]}", made, words[1:]
        return name, made, words

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, entries in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<8}", entry.help) for name, entry in entries.items()])
        options = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(options)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise exit_after(stop) from None


app = typer.Typer(
    cls=CommandGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": WIDTH},
)


def show_version(wanted: bool) -> None:
    """Print the version and end, if that is wanted."""
    if wanted:
        print(f"happycat {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """happycat learns the classes you have labelled, then keeps discovering new ones in unlabelled images."""


def main() -> None:
    """Run a command; the entry point of `happycat`."""
    try:
        with catching_signals():
            app()
    except HappycatError as error:
        print(f"happycat: {shown(str(error))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:  # before the command itself has begun
        sys.exit(exit_after(stop).exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except RuntimeError as error:  # torch raises it wherever the command is
        if DEAD_WORKER not in str(error):
            raise
        reason = str(error).splitlines()[0].rstrip(". ")
        advice = "the same command goes on with what is kept; fewer workers need less memory"
        print(f"happycat: {shown(reason)}; {advice}", file=sys.stderr)
        sys.exit(2)

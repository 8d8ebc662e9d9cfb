"""Writes docs/architecture.svg, and the tree in docs/architecture.md, from what stands here and in the modules.

    python docs/draw_architecture.py

Run it after a module was added, moved or renamed, or its first line was changed; a test says when it is due. It needs
nothing but Python.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "src" / "happycat"
KINDS = (".py", ".html", ".css", ".js", ".json")  # of the files that the tree names

# The layers, highest first: a module imports from its own layer and from those below it.
LAYERS = {
    "cli": "the commands",
    "app": "in the browser",
    "benchmark | model": "researcher | practitioner",
    "report": "drawing only",
    "methods": "one file each; Calm",
    "learning": "parts of methods",
    "backbone": "pixels to features",
    "images": "where pictures are from",
    "base": "what all stand on",
}


class Step(NamedTuple):
    """A step on an image's way: its column, the module that does it (below src/happycat), what happens there."""

    column: int
    module: str
    what: str


class Way(NamedTuple):
    """The way of one image, step by step."""

    title: str
    note: str
    colour: str
    fill: str
    steps: tuple[Step, ...]


WAYS = (
    Way(
        "A researcher: happycat bench",
        "4 to 12 are repeated for every stage; a stage's tokens and features are deleted when it ends.",
        "#1f5fa8",
        "#e6f0fb",
        (
            Step(0, "cli/research.py", "bench"),
            Step(0, "images/datasets/", "data set"),
            Step(1, "benchmark/protocol.py", "split in stages"),
            Step(2, "benchmark/data.py", "serve a stage"),
            Step(2, "backbone/views.py", "cut views"),
            Step(3, "backbone/trunk.py", "frozen trunk"),
            Step(4, "backbone/store.py", "store tokens"),
            Step(5, "methods/counting.py", "how many new"),
            Step(6, "learning/batches.py", "batches"),
            Step(6, "methods/happy.py", "tail and head"),
            Step(7, "base/scores.py", "scores"),
            Step(8, "benchmark/record.py", "run record"),
            Step(8, "report/figures.py", "figures"),
        ),
    ),
    Way(
        "A practitioner: happycat fit, discover, predict",
        "discover takes 1 to 13; fit learns 7 and calibrates 8 to 10 on held-out classes; predict skips 8 and 9; "
        "14 and 15 are a correction.",
        "#a3480b",
        "#fdeee2",
        (
            Step(0, "cli/practitioner.py", "discover"),
            Step(0, "images/collecting.py", "collect files"),
            Step(1, "images/decoding.py", "decode"),
            Step(1, "backbone/views.py", "cut views"),
            Step(2, "backbone/trunk.py", "frozen trunk"),
            Step(3, "backbone/extraction.py", "features"),
            Step(3, "methods/calm/space.py", "discriminant space"),
            Step(4, "methods/calm/number.py", "how many new"),
            Step(5, "methods/calm/mixture.py", "mixture"),
            Step(6, "methods/calm/prediction.py", "predict, reject"),
            Step(6, "model/registry.py", "class registry"),
            Step(7, "model/file.py", "model file"),
            Step(7, "report/html.py", "page"),
            Step(8, "cli/corrections.py", "correct"),
            Step(8, "model/corrections.py", "new version"),
        ),
    ),
)

LEFT, COLUMN, BOX, GAP = 172, 148, 134, 14  # pixels: of the layers' names, of a column, of a box, between boxes
ROW, HEIGHT, TOP = 54, 40, 62  # of a layer, of a box, of a way's title
COLUMNS = 1 + max(step.column for way in WAYS for step in way.steps)
WIDTH = LEFT + COLUMNS * COLUMN + 10
WAY_HEIGHT = TOP + len(LAYERS) * ROW + 22


def drawing() -> str:
    """The whole drawing, as SVG."""
    height = len(WAYS) * WAY_HEIGHT + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">',
        "<title>The layers of happycat, and the way of one image through them</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for number, way in enumerate(WAYS):
        parts += _way(way, number * WAY_HEIGHT)
    imports = (
        "Rows are layers, each a folder of src/happycat: a module imports from its own row and from lower ones only."
    )
    parts += [_text(16, height - 16, imports, 13, "#444444"), "</svg>"]
    return "\n".join(parts) + "\n"


def _way(way: Way, top: int) -> list[str]:
    """One way: the layers as stripes, the steps as boxes, arrows between them."""
    marker = f"arrow-{way.colour[1:]}"
    parts = [
        f'<marker id="{marker}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{way.colour}"/></marker>',
        _text(16, top + 30, way.title, 18, way.colour, 'font-weight="700"'),
        _text(16, top + 50, way.note, 13, "#444444"),
    ]
    for row, (name, what) in enumerate(LAYERS.items()):
        y = top + TOP + row * ROW
        stripe = "#f4f4f1" if row % 2 == 0 else "#fbfbf9"
        parts.append(f'<rect x="8" y="{y}" width="{WIDTH - 16}" height="{ROW}" fill="{stripe}"/>')
        parts.append(_text(18, y + 23, name, 14, "#111111", 'font-weight="600"'))
        parts.append(_text(18, y + 41, what, 11.5, "#555555"))
    for number, step in enumerate(way.steps):
        parts += _box(way, step, number + 1, top)
        if number:
            parts.append(_arrow(way.steps[number - 1], step, top, way.colour, marker))
    return parts


def _box(way: Way, step: Step, number: int, top: int) -> list[str]:
    """A step's box: its number and what happens, and the module below."""
    x, y = _corner(step, top)
    return [
        f'<rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6" fill="{way.fill}" stroke="{way.colour}"/>',
        _text(x + 6, y + 16, f"{number} {step.what}", 12, "#111111", 'font-weight="600"'),
        _text(
            x + 6,
            y + 32,
            step.module.split("/", 1)[1],
            11.5,
            way.colour,
            'font-family="ui-monospace, Menlo, Consolas, monospace"',
        ),
    ]


def _arrow(first: Step, second: Step, top: int, colour: str, marker: str) -> str:
    """From one step's box to the next one's: straight down or up in a column, else through the gap before the next."""
    (x, y), (to_x, to_y) = _corner(first, top), _corner(second, top)
    if first.column == second.column:
        down = to_y > y
        path = f"M{x + BOX / 2:g} {y + HEIGHT if down else y}V{to_y if down else to_y + HEIGHT}"
    else:
        path = f"M{x + BOX} {y + HEIGHT / 2:g}H{to_x - GAP / 2:g}V{to_y + HEIGHT / 2:g}H{to_x}"
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5" marker-end="url(#{marker})"/>'


def _corner(step: Step, top: int) -> tuple[int, int]:
    """The upper left corner of a step's box."""
    folder = step.module.split("/")[0]
    row = next(i for i, name in enumerate(LAYERS) if folder in name.split(" | "))
    return LEFT + step.column * COLUMN, top + TOP + row * ROW + (ROW - HEIGHT) // 2


def _text(x: float, y: float, text: str, size: float, colour: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}" {more}>{escape(text)}</text>'


def tree() -> str:
    """Every module of the package with its first line, folder by folder, the lowest layer first; as Markdown."""
    folders = [folder for names in reversed(LAYERS) for folder in names.split(" | ")]
    parts = [_folder(PACKAGE, "src/happycat")]
    for folder in folders:
        inner = sorted(path.parent for path in (PACKAGE / folder).rglob("__init__.py"))
        parts += [_folder(path, path.relative_to(PACKAGE).as_posix()) for path in inner]
    return "\n\n".join(parts)


def _folder(folder: Path, name: str) -> str:
    """A folder's heading, what it is for, and its files."""
    purpose = _first_line(folder / "__init__.py")
    files = sorted(path for path in folder.iterdir() if path.suffix in KINDS and path.name != "__init__.py")
    link = "../" + folder.relative_to(DOCS.parent).as_posix()
    lines = [f"- [`{path.name}`]({link}/{path.name}){_colon(_first_line(path))}" for path in files]
    return "\n".join([f"### [`{name}/`]({link})", "", purpose, "", *lines])


def _first_line(path: Path) -> str:
    """What a file says of itself at its beginning: a docstring's first paragraph, or a comment; "" if nothing."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return " ".join((ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].split("\n"))
    comment = re.match(r"(?:/\*|\{#|<!--)\s*(.*?)\s*(?:\*/|#\}|-->)", text, re.DOTALL)
    return " ".join(comment[1].split()) if comment else ""


def _colon(text: str) -> str:
    return f": {text}" if text else ""


def with_tree(page: str) -> str:
    """The page with the tree as it is now between its two marks."""
    begin, end = "<!-- the tree: written by draw_architecture.py -->", "<!-- the end of the tree -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{tree()}\n\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    (DOCS / "architecture.svg").write_text(drawing(), encoding="utf-8")
    page = DOCS / "architecture.md"
    page.write_text(with_tree(page.read_text("utf-8")), encoding="utf-8")

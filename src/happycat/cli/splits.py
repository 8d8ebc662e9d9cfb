"""The command `paper splits`: the table of the data sets' splits, and class orders as files with checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from happycat.cli.display import print_line
from happycat.cli.display import results as out


def splits(
    folder: Annotated[Path, typer.Option("--out", "-o", help="where the table and the class orders go")] = Path(
        "splits"
    ),
) -> None:
    """Write the data sets' splits as a table, and their class orders as files; no images are needed.

    The list of images of each stage needs the data set: `happycat stages NAME` writes it.
    """
    from happycat.benchmark.paper.splits import split_table, write_orders

    table = split_table()
    files = table.write(folder, "splits")
    out.print(table)
    for path, checksum in write_orders(folder).values():
        print_line(f"{checksum}  {path}")
    print_line(f"written: {', '.join(str(path) for path in files)}")

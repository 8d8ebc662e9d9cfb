"""Discoveries that are started from the app: an inbox by path or of dropped files, and where its results go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from happycat.app.desk import Desk
from happycat.app.inbox import Inbox
from happycat.base.errors import InputError
from happycat.base.progress import Progress

# Inbox, number of new classes or "auto", progress; may return a sentence for the person
Discover = Callable[[Path, int | str, Progress], str | None]


class Discoveries:
    """Starts discoveries of a desk's model, one at a time, and holds the inbox that files are dropped into."""

    def __init__(self, desk: Desk, discover: Discover):
        self.desk, self._discover = desk, discover
        self._inbox: Inbox | None = None

    def new_inbox(self) -> dict[str, Any]:
        """Make an empty inbox beside the model; files are dropped into it from now on."""
        self._inbox = Inbox(self.desk.editor.path)
        return {"path": str(self._inbox.folder)}

    def inbox(self) -> Inbox:
        """The inbox that was made last."""
        if self._inbox is None:
            raise InputError("there is no inbox to drop files into; make one first")
        return self._inbox

    def start(self, values: dict[str, Any]) -> dict[str, Any]:
        """Discover the classes of an inbox, `path`, with `new` classes or "auto"; how far it is."""
        path, number = values.get("path"), values.get("new", "auto")
        if not isinstance(path, str) or not path.strip():
            raise InputError("give the path of a folder of images, or of a CSV file that lists them")
        if number != "auto" and (type(number) is not int or not 0 <= number <= 10_000):
            raise InputError(f"the number of new classes is a whole number, or auto to estimate it, not {number!r}")
        return self.begin(Path(path.strip()).expanduser(), number)

    def begin(self, inbox: Path, number: int | str = "auto") -> dict[str, Any]:
        """Discover the classes of an inbox in the background."""
        if "\0" in str(inbox) or not inbox.exists():
            raise InputError(f"there is no folder or file {inbox}; give a folder of images, or a CSV file")
        self.desk.job.start(lambda progress: self._discover(inbox, number, progress))
        return {"discovery": self.desk.job.progress()}

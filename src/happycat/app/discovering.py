"""Work that is started from the app: discoveries, proposals, teaching, another number of new classes; dropped files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from happycat.app.desk import Desk
from happycat.app.discovery import Watched
from happycat.app.inbox import Inbox
from happycat.base.errors import InputError
from happycat.base.progress import Progress

Join = Callable[[str], bool]  # asks the person a question


@dataclass
class Lesson:
    """Labelled images: a folder of folders by class or a CSV file; or files, all of the class `to` or called `name`."""

    source: Path | Sequence[Path]
    name: str | None = None
    to: int | None = None


@dataclass
class Work:
    """What needs the backbone; the command gives it. Each may return a sentence for the person."""

    discover: Callable[[Path, int | str, Progress], str | None]  # inbox, number of new classes or "auto"
    propose: Callable[[Path, int | str, Progress], Path]  # the same; the proposal's folder
    teach: Callable[[Lesson, Join, Progress], str | None]


class Discoveries:
    """Starts work on a desk's model, one piece at a time, and holds the inbox that files are dropped into."""

    def __init__(self, desk: Desk, work: Work):
        self.desk, self.work = desk, work
        self._inbox: Inbox | None = None

    def new_inbox(self, values: dict[str, Any]) -> dict[str, Any]:
        """Make an empty inbox beside the model; files are dropped into it from now on. `teach`: they are labelled."""
        self._inbox = Inbox(self.desk.editor.path, "taught" if values.get("teach") else "inbox")
        return {"path": str(self._inbox.folder)}

    def inbox(self) -> Inbox:
        """The inbox that was made last."""
        if self._inbox is None:
            raise InputError("there is no inbox to drop files into; make one first")
        return self._inbox

    def start(self, values: dict[str, Any]) -> dict[str, Any]:
        """Discover the classes of an inbox, `path`, with `new` classes or "auto"; how far it is."""
        number = values.get("new", "auto")
        if number != "auto" and (type(number) is not int or not 0 <= number <= 10_000):
            raise InputError(f"the number of new classes is a whole number, or auto to estimate it, not {number!r}")
        path = _path(values, "a folder of images, or of a CSV file that lists them")
        return self.begin(path, number, values.get("propose") is True)

    def begin(self, inbox: Path, number: int | str = "auto", propose: bool = False) -> dict[str, Any]:
        """Discover the classes of an inbox in the background."""
        job = self.desk.job

        def discover(progress: Watched) -> str | None:
            if not propose:
                return self.work.discover(inbox, number, progress)
            folder = self.work.propose(inbox, number, progress)
            job.result = str(folder)
            return None

        job.start(discover, "proposal" if propose else "discovery")
        return {"discovery": job.progress()}

    def teach(self, values: dict[str, Any]) -> dict[str, Any]:
        """Teach labelled images: a `path`, or the dropped files, of the class with the id `to` or called `name`."""
        if "path" in values:
            wanted = "a folder with one folder of images per class, or of a CSV file with the columns path and label"
            return self._taught(Lesson(_path(values, wanted)), None)
        name, to = values.get("name"), values.get("to")
        if to is None and (not isinstance(name, str) or not name.strip()):
            raise InputError("say what the images show: give the name of their class")
        if to is not None and type(to) is not int:
            raise InputError("to must be the number of a class")
        folder = self.inbox().folder
        files = sorted(folder.iterdir())
        if not files:
            raise InputError("none of the files is an image")
        return self._taught(Lesson(files, None if name is None else name.strip(), to), folder)

    def _taught(self, lesson: Lesson, copies: Path | None) -> dict[str, Any]:
        def teach(progress: Watched) -> str | None:
            try:
                return self.work.teach(lesson, progress.ask, progress)
            finally:
                if copies is not None:  # the model keeps no image, and the person has them
                    shutil.rmtree(copies, ignore_errors=True)

        self.desk.job.start(teach, "lesson")
        return {"discovery": self.desk.job.progress()}

    def renumber(self, values: dict[str, Any]) -> dict[str, Any]:
        """Give the last discovery another number of new classes, as the next version."""
        number, path = values.get("number"), self.desk.editor.path
        if type(number) is not int or not 0 <= number <= 10_000:
            raise InputError(f"the number of new classes is a whole number, not {number!r}")

        def work(progress: Watched) -> None:
            from happycat.model import file as model_file
            from happycat.model.renumbering import renumber

            with model_file.locked(path):
                renumber(path, number, progress)

        with self.desk.alone(values.get("tag")):
            self.desk.job.start(work, "discovery")
        return {"discovery": self.desk.job.progress()}


def _path(values: dict[str, Any], wanted: str) -> Path:
    """A path that is there."""
    given = values.get("path")
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"give the path of {wanted}")
    path = Path(given.strip()).expanduser()
    if "\0" in given or not path.exists():
        raise InputError(f"there is no folder or file {path}; give the path of {wanted}")
    return path

"""What another number of new classes would change, computed in the background while the person moves the slider."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from happycat.app.discovery import Watched
from happycat.base.errors import HappycatError, InputError
from happycat.model.estimator import Happycat

if TYPE_CHECKING:
    from happycat.app.desk import Desk
    from happycat.model.renumbering import Renumbering

Answer = dict[str, Any]


class Preview:
    """Answers for numbers of new classes of a desk's last discovery; they hold for one version of the model."""

    def __init__(self, desk: Desk):
        self.desk = desk
        self._lock = threading.Lock()
        self._tag, self._known, self._wanted = "", dict[int, Answer](), dict[str, int]()
        self._thread: threading.Thread | None = None
        self._watched = Watched()

    def of(self, number: int) -> Answer:
        """What so many new classes would change; or that it is being computed, and what is done at the moment."""
        tag = self.desk.tag()
        with self._lock:
            if tag != self._tag:
                self._watched.cancelled.set()  # what is computed for another version is of no use
                self._tag, self._known, self._wanted = tag, {}, {}
                self._thread, self._watched = None, Watched()
            if number in self._known:
                return self._known[number]
            self._wanted["number"] = number
            if self._thread is None or not self._thread.is_alive():
                work = (self._known, self._wanted, self._watched)
                self._thread = threading.Thread(target=self._compute, args=work, name="preview", daemon=True)
                self._thread.start()
            return {"state": "computing", "step": self._watched.title}

    def _compute(self, known: dict[int, Answer], wanted: dict[str, int], watched: Watched) -> None:
        """Answer what is wanted last, until nothing is."""
        again: Renumbering | None = None
        while True:
            with self._lock:
                if watched.cancelled.is_set() or "number" not in wanted:
                    if self._watched is watched:
                        self._thread = None
                    return
                number = wanted.pop("number")
            try:
                again = again or self._search(watched)
                watched.title = f"looking for {number} classes"
                answer = _answer(again, number)
            except HappycatError as error:
                answer = {"state": "failed", "error": str(error)}
            except BaseException as error:  # the person is told; the app goes on
                answer = {"state": "failed", "error": f"the preview failed: {error!r}"}
            known[number] = answer

    def _search(self, watched: Watched) -> Renumbering:
        from happycat.model.renumbering import Renumbering

        review = self.desk.review
        if review is None:
            raise InputError("there are no images to look at: discover some first")
        return Renumbering(Happycat.load(self.desk.editor.path), review, watched)


def _answer(again: Renumbering, number: int) -> Answer:
    changes = [{"text": one.text, "classes": one.classes, "parts": one.parts} for one in again.changes(number)]
    kept = len(again.kept)
    return {"state": "done", "now": again.now, "kept": kept, "most": again.numbers[-1], "changes": changes}

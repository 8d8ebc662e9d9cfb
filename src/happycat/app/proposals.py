"""Proposals: discoveries that the model has not learned yet, looked at in the app, and accepted or refused."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from happycat.app.state import images_of, state_of
from happycat.app.summaries import Summaries
from happycat.base.errors import HappycatError, InputError
from happycat.model import file as model_file
from happycat.model.discovering import PROPOSAL, accept, refuse
from happycat.model.editor import Editor

if TYPE_CHECKING:
    from happycat.app.desk import Desk


class Proposals:
    """The proposals for a desk's model: those in folders beside it, and others by their path."""

    def __init__(self, desk: Desk):
        self.desk = desk
        self.open: Editor | None = None  # of the proposal that was looked at last; nothing is changed with it

    def listed(self) -> list[dict[str, Any]]:
        """The proposals beside the model that can still be accepted, the newest first."""
        model = self.desk.editor.path
        found = model.parent.glob(f"{glob.escape(model.stem)}-*/{PROPOSAL}")
        described = [self._described(one.parent) for one in found if self._fits(one)]
        return sorted(described, key=lambda one: one["when"], reverse=True)

    def look(self, values: dict[str, Any]) -> dict[str, Any]:
        """The classes and images of the proposal in a folder; nothing in the model has changed."""
        folder = _folder(values)
        editor = Editor(folder / PROPOSAL)
        if editor.review is None:
            raise InputError(f"the images of the proposal in {folder} are gone; discover them again")
        state = state_of(editor, Summaries())
        self.open = editor
        keep = ("classes", "cls", "probability", "unsure", "sentence", "review")
        return {
            **self._described(folder),
            **{key: state[key] for key in keep},
            "images": images_of(editor.review),
            "fits": self._fits(folder / PROPOSAL),
        }

    def accept(self, values: dict[str, Any]) -> dict[str, Any]:
        """Take up a proposal, or those of its classes whose ids are in `only`; the state after that."""
        folder, only = _folder(values), values.get("only")
        if only is not None and (not isinstance(only, list) or not all(type(one) is int for one in only)):
            raise InputError("only must be a list of classes' numbers")
        if only == []:
            raise InputError("no class is chosen; choose some, or refuse the proposal")
        with self.desk.alone():
            accept(self.desk.editor.path, folder, only)
            self.open = None
        return self.desk.state()

    def refuse(self, values: dict[str, Any]) -> dict[str, Any]:
        """Delete a proposal."""
        folder = _folder(values)
        with self.desk.alone():
            refuse(folder)
            self.open = None
        return {}

    def _described(self, folder: Path) -> dict[str, Any]:
        last = model_file.history(folder / PROPOSAL)[-1]
        if "found" not in last or "review" not in last:
            raise InputError(f"the model in {folder} is no proposal; a discovery that is only proposed makes one")
        found = last["found"]
        return {
            "folder": str(folder),
            "what": last["what"],
            "when": last["when"],
            "new": len(found["new"]),
            "total": found["images"],
        }

    def _fits(self, proposal: Path) -> bool:
        """Whether the model is as it was when the proposal was made."""
        try:
            self._described(proposal.parent)
            return model_file.tag_before(proposal) == model_file.read(self.desk.editor.path).tag
        except HappycatError:  # what lies beside the model may be anything
            return False


def _folder(values: dict[str, Any]) -> Path:
    given = values.get("folder")
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise InputError("give the path of a proposal's folder")
    folder = Path(given.strip()).expanduser()
    folder = folder.parent if folder.name == PROPOSAL else folder
    if not (folder / PROPOSAL).is_file():
        raise InputError(f"there is no proposal in {folder}; a discovery that is only proposed makes one")
    return folder

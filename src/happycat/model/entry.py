"""One class of the registry: its id, name and rows of prototypes, and what a person made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from happycat.base.errors import InputError
from happycat.model.naming import Name, checked_name
from happycat.model.schema import ENTRY, MORE_OF_ENTRY, check_keys

State = Literal["living", "merged", "dropped", "ignored"]
FLAGS = ("dropped", "taught", "ignored")


@dataclass(frozen=True, kw_only=True)
class ClassEntry:
    """A class; those of fit have stage 0, the others that of the last discovery when they came."""

    id: int
    name: Name | None  # None: discovered, not named yet
    stage: int
    rows: tuple[int, ...]  # of the pool, its own; none: an id of a version that was undone, never given again
    dropped: bool = False
    merged_into: int | None = None
    merge: int | None = None  # which merge put it there; what one command merged comes apart together
    taught: bool = False  # a person gave its images after fit
    ignored: bool = False  # of images that are no class at all; it is dropped from the start

    @property
    def labelled(self) -> bool:
        """Whether a person gave its images, at fit or since."""
        return self.stage == 0 or self.taught

    @property
    def alive(self) -> bool:
        """Whether an image can be given to it."""
        return not self.dropped and self.merged_into is None

    @property
    def state(self) -> State:
        """What a person made of it: ignored images are kept as a dropped class, but never were one."""
        if self.ignored:
            return "ignored"
        return "dropped" if self.dropped else "living" if self.merged_into is None else "merged"

    def packed(self) -> dict[str, Any]:
        """The class for JSON, without its id, which is its place in the table, and without what is usual."""
        metadata: dict[str, Any] = {"name": self.name, "stage": self.stage, "rows": list(self.rows)}
        metadata |= {flag: True for flag in FLAGS if getattr(self, flag)}
        if self.merged_into is not None:
            metadata["merged_into"], metadata["merge"] = self.merged_into, self.merge
        return metadata

    @classmethod
    def unpacked(cls, number: int, packed: dict[str, Any]) -> ClassEntry:
        """The class with that id that was packed; a ValueError, KeyError or TypeError if none was."""
        check_keys(packed, ENTRY, MORE_OF_ENTRY, f"class {number}")
        into, flags = packed.get("merged_into"), {flag: packed.get(flag, False) for flag in FLAGS}
        if (into is None) != (packed.get("merge") is None) or (flags["ignored"] and not flags["dropped"]):
            raise ValueError(f"class {number} is merged and not, or ignored and not dropped")
        try:
            name = None if packed["name"] is None else checked_name(packed["name"])
        except InputError as error:
            raise ValueError(str(error)) from error
        rows, merge = tuple(packed["rows"]), packed.get("merge")
        return cls(id=number, name=name, stage=packed["stage"], rows=rows, merged_into=into, merge=merge, **flags)

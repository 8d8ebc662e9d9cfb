"""One class of the registry: its id, name and rows of prototypes, and what a person made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from happycat.model.naming import Name

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
        name, stage, rows = packed["name"], packed["stage"], tuple(packed["rows"])
        into, merge, flags = packed.get("merged_into"), packed.get("merge"), {f: packed.get(f, False) for f in FLAGS}
        numbers = [stage, *rows, *([] if into is None else [into, merge])]
        if not all(type(one) is int for one in numbers) or any(type(flag) is not bool for flag in flags.values()):
            raise TypeError(f"class {number}")
        if name is not None and type(name) not in (str, int, float):
            raise TypeError(f"the name of class {number}")
        return cls(id=number, name=name, stage=stage, rows=rows, merged_into=into, merge=merge, **flags)

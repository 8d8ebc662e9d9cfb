"""The difference between two states of a model: what an action changed, which is all that is sent after it."""

from __future__ import annotations

from typing import Any

State = dict[str, Any]

COLUMNS = ("cls", "probability", "unsure", "said")  # one value an image
LISTS = (*COLUMNS, "classes", "history")


def difference(before: State, after: State) -> State:
    """What a tab that shows `before` needs to show `after`; `after` itself if it is of other images.

    `since` is the version that it is a difference to. `images` are the places of images that changed, with their
    values, column by column; `changed` are the classes that did, `order` the ids of all; `kept` is the number of
    versions at the beginning of the history that are as they were.
    """
    if before["review"] != after["review"] or len(before["cls"]) != len(after["cls"]):
        return after
    places = _changed_places(before, after)
    known = {one["id"]: one for one in before["classes"]}
    old, new = before["history"], after["history"]
    kept = next((i for i, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), min(len(old), len(new)))
    return {
        **{key: value for key, value in after.items() if key not in LISTS},
        "since": before["tag"],
        "images": {"places": places, **{name: [after[name][i] for i in places] for name in COLUMNS}},
        "changed": [one for one in after["classes"] if known.get(one["id"]) != one],
        "order": [one["id"] for one in after["classes"]],
        "kept": kept,
        "history": new[kept:],
    }


def _changed_places(before: State, after: State) -> list[int]:
    """The places of images of which something is not as it was."""
    changed: set[int] = set()
    for name in COLUMNS:
        if before[name] != after[name]:
            pairs = enumerate(zip(before[name], after[name], strict=True))
            changed |= {i for i, (one, two) in pairs if one != two}
    return sorted(changed)

"""Which images of a discovery a person means: paths as in its lists, files, or folders of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from happycat.base.disk import file_sha256
from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.model.review import Review
from happycat.model.statements import DIGEST, as_bytes


def places_of(review: Review, paths: Sequence[Path]) -> list[int]:
    """The places of images in a discovery; a file is also found by its content, wherever it lies now."""
    by_key = {key: i for i, key in enumerate(review.keys)}
    by_path = {} if review.root is None else {str(review.root / key): i for key, i in by_key.items()}
    by_content = {digest: i for i, digest in enumerate(as_bytes(review.digests))}
    found: dict[int, None] = {}
    for path in paths:
        whole = str(path.expanduser().resolve())
        if path.as_posix() in by_key:
            places = [by_key[path.as_posix()]]
        elif whole in by_path:
            places = [by_path[whole]]
        elif path.is_dir():
            places = [i for other, i in by_path.items() if Path(other).is_relative_to(whole)]
        elif path.is_file():
            places = [by_content[digest]] if (digest := file_sha256(path)[:DIGEST]) in by_content else []
        else:
            places = []
        if not places:
            raise InputError(
                f"{shown(str(path))} is not among the {len(review.keys)} images of the last discovery; give paths as "
                "in its assignments.csv, or teach the model other images"
            )
        found |= dict.fromkeys(places)
    return list(found)

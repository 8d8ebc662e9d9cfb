"""Discovery in a model file: new classes among the images of an inbox, as the next version or as a proposal.

The results lie in a folder: a page, where each image went, and the review, with which the discovery is looked at and
corrected. A proposal is a copy of the model with one version more, in that folder; the model itself stays as it is
until the proposal, or some of its classes, are accepted.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from happycat.base.disk import replacing, storage_errors
from happycat.base.errors import HappycatError, InputError
from happycat.base.progress import SILENT, Progress
from happycat.base.ranks import ALONE, Ranks
from happycat.model import file as model_file
from happycat.model.corrections import Corrected, Correction
from happycat.model.entry import ClassEntry
from happycat.model.estimator import Happycat
from happycat.model.file import Part
from happycat.model.page import page_of, write_assignments
from happycat.model.reading import open_model
from happycat.model.results import Assignment, Discovery
from happycat.model.review import Review, has_review
from happycat.report.html import write_page

PROPOSAL = "proposal.cat"


@dataclass(frozen=True, kw_only=True)
class DiscoveryRecord:
    """A discovery in a model file: what was found, the model after it, its version, and where the results lie.

    `seen` are earlier discoveries with the same images: a version's number, and how many of the images it had.
    """

    found: Discovery
    cat: Happycat
    version: int
    folder: Path
    seen: tuple[tuple[int, int], ...] = ()


def discover_inbox(
    model: Path,
    inbox: Path | Sequence[Path],
    num_new: int | str = "auto",
    folder: Path | None = None,
    progress: Progress = SILENT,
    *,
    propose: bool = False,
    images: bool = True,
    cache_dir: Path | None = None,
    ranks: Ranks = ALONE,
    **backbone: Any,
) -> DiscoveryRecord:
    """Find new classes in an inbox; the model learns them as its next version, or it is a proposal.

    `images` says whether the page has small pictures and links to the originals; `cache_dir` and `backbone` are
    parameters of the estimator, such as `weights`. The results go to `folder`, MODEL-VERSION beside the model if it is
    not given. Hold `happycat.model.file.locked` meanwhile.
    """
    tag = model_file.read(model).tag
    folder = folder or model.with_name(f"{model.stem}-{tag.number + 1}")
    cat = Happycat.load(model, **backbone).set_params(progress=progress, cache_dir=cache_dir)
    cat.ranks = ranks
    found = cat.discover(inbox, num_new)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    progress.step("drawing the page")
    seen = _seen(model, found)
    target = _copy(model, folder) if propose else model
    review, what = Review.of(found, cat.stage_), f"discover {_in_words(inbox)}"
    number = write_results(cat, review, found.assigned, _summary(found), target, folder, what, images)
    progress.close()
    return DiscoveryRecord(found=found, cat=cat, version=number, folder=folder, seen=seen)


def write_results(
    cat: Happycat,
    review: Review,
    assigned: Sequence[Assignment],
    summary: dict[str, Any],
    model: Path,
    folder: Path,
    what: str,
    images: bool = True,
) -> int:
    """Write the results of a discovery into its folder, and the next version of the model, whose number is returned."""
    write_assignments(folder / "assignments.csv", assigned)
    more = {"found": summary, "results": str(folder.resolve()), "review": review.write(folder)}
    number = cat.append(model, what, {**more, "images": len(assigned)})
    try:
        write_page(page_of(cat, review, model, images), folder / "page.html")
    except HappycatError as error:
        advice = f"version {number} of {model} is written; `happycat report {model}` draws its page"
        raise type(error)(f"{error}; {advice}") from error
    return number


def accept(
    model: Path, folder: Path, only: Sequence[int | str] | None = None, wait: bool = False
) -> Corrected[list[ClassEntry]]:
    """Take up a proposal, or some of its new classes only; what is not taken is as if it had never been found.

    The model must be as it was when the proposal was made.
    """
    proposal = folder / PROPOSAL
    if not proposal.is_file():
        raise InputError(f"there is no proposal in {folder}; `happycat discover --propose` makes one")
    with model_file.locked(model, wait):
        opened = open_model(proposal)
        proposed, registry = opened
        tag, described = model_file.read(model).tag, model_file.history(proposal)[-1]
        if model_file.tag_before(proposal) != tag:
            raise InputError(
                f"{model} was changed since the proposal in {folder} was made (it is at version {tag.number}); "
                "discover the images again"
            )
        if "review" not in described or "found" not in described:
            raise InputError(f"the model in {folder} is no proposal; discover the images again")
        review = Review.read(folder, described["review"])
        correction = Correction(model, opened, review)
        new = [entry for entry in registry if entry.stage == review.stage]
        wanted = {entry.id for entry in new} if only is None else {registry.find(which).id for which in only}
        if strange := wanted - {entry.id for entry in new}:
            raise InputError(f"class {min(strange)} is not a new one of the proposal; it is known already")
        for entry in new:
            if entry.id not in wanted:
                registry.forget(entry)
        correction.count_again()
        what = described["what"] + ("" if only is None else f", {len(wanted)} of {len(new)} new classes")
        more: dict[str, Any] = {key: described[key] for key in ("found", "review", "images") if key in described}
        more["results"] = str(folder.resolve())
        arrays = {**dict(proposed.arrays), **registry.new_arrays()}
        version = Part({**proposed.metadata, **registry.metadata()}, arrays)
        number = model_file.append(model, version, tag, what, more).number
    with storage_errors(proposal):
        proposal.unlink(missing_ok=True)
    return Corrected(result=[entry for entry in registry if entry.id in wanted], registry=registry, version=number)


def refuse(folder: Path) -> None:
    """Delete a proposal; the model was never changed by it. What else lies in the folder is the person's."""
    with storage_errors(folder / PROPOSAL):
        (folder / PROPOSAL).unlink(missing_ok=True)


def _in_words(inbox: Path | Sequence[Path]) -> str:
    return str(inbox) if isinstance(inbox, str | Path) else f"{len(inbox)} files"


def _copy(model: Path, folder: Path) -> Path:
    """A copy of the model in the folder, to which a version can be added."""
    target = folder / PROPOSAL
    with replacing(target, like=model) as temporary:
        shutil.copyfile(model, temporary)
    return target


def _seen(model: Path, found: Discovery) -> tuple[tuple[int, int], ...]:
    """Earlier discoveries that had some of the same images, and how many; those whose folders are gone are unknown."""
    now = {digest.tobytes() for digest in found.digests}
    seen = []
    for version in model_file.history(model):
        if not version.get("review") or not has_review(Path(version["results"])):
            continue
        try:
            before = Review.read(Path(version["results"]), version["review"])
        except HappycatError:  # the folder is the person's
            continue
        same = sum(digest.tobytes() in now for digest in before.digests)
        if same:
            seen.append((version["number"], same))
    return tuple(seen)


def _summary(found: Discovery) -> dict[str, Any]:
    """What a version of the model remembers of the discovery that made it."""
    return {
        "images": len(found.assigned),
        "new": found.new,
        "unsure": found.unsure,
        "count": found.count._asdict() if found.count else None,
        "skipped": len(found.skipped),
        "duplicates": found.duplicates,
    }

"""What a person says to the estimator: corrections of classes and of images, of a model in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from happycat.backbone.extraction import FeatureExtractor
from happycat.base.progress import Progress
from happycat.images.collecting import Gathered
from happycat.images.sources import Accepted, Label, Source, checked_labels, read, read_labelled
from happycat.model import from_images, membership
from happycat.model.chosen import Chosen
from happycat.model.embedding import embed, view_names
from happycat.model.entry import ClassEntry
from happycat.model.fitting import chosen_images
from happycat.model.from_images import Taught
from happycat.model.naming import same_name
from happycat.model.registry import ClassRegistry
from happycat.model.review import review_of_stage
from happycat.model.statements import as_bytes
from happycat.model.storage import State


class CorrectionVerbs:
    """The estimator's verbs of correction; how it makes points of images is its own."""

    registry_: ClassRegistry
    stage_: int
    views: int
    cache_dir: str | Path | None
    _counted: dict[bytes, int]  # the row of the pool that the last discovery counted each of its images in
    _file: Path | None  # that the model was loaded from, until its last discovery was looked at or another made

    @abstractmethod
    def extractor(self) -> FeatureExtractor | None: ...

    @abstractmethod
    def _checked(self, X: Source) -> Accepted: ...

    @abstractmethod
    def _watched(self) -> AbstractContextManager[Progress]: ...

    @abstractmethod
    def _state(self) -> State: ...

    # What a person says of the classes; a class is given by its id or its name

    def find(self, which: int | str) -> ClassEntry:
        """The class with that id or name."""
        check_is_fitted(self, "registry_")
        return self.registry_.find(which)

    def name(self, which: int | str, name: Label) -> ClassEntry:
        """Give a class its name."""
        check_is_fitted(self, "registry_")
        return self.registry_.name(which, name)

    def merge(self, first: int | str, *others: int | str) -> ClassEntry:
        """Make one class of several; it keeps the id and the name of the first."""
        check_is_fitted(self, "registry_")
        return self.registry_.merge(first, *others)

    def split(self, which: int | str) -> tuple[ClassEntry, ...]:
        """Take a class apart: what was merged last comes back; or else two are made of it, the first keeps the id."""
        check_is_fitted(self, "registry_")
        return self.registry_.split(which)

    def drop(self, which: int | str) -> ClassEntry:
        """Give nothing to a class any more, and discover nothing that looks like it."""
        check_is_fitted(self, "registry_")
        return self.registry_.drop(which)

    # What a person says of images; these are given as to `predict`

    def teach(self, X: Source, y: Any = None, join: bool | Callable[[Label, Label, int], bool] = True) -> Taught:
        """Learn more labelled images, given as to `fit`, of known classes or of new ones, without fitting again.

        A discovered class without a name that most of the images of a new name belong to is given that name; with
        `join` false there are two classes then. It may be a function of the name, the class's label and the number
        of images. How many images each class got is in `taught_`, by its id.
        """
        chosen, named = self._chosen_labelled(X, y)

        def joined(name: Label, entry: ClassEntry, images: int) -> bool:
            return join(name, self.registry_.label(entry), images) if callable(join) else join

        taught = from_images.teach(self.registry_, chosen, named, self.stage_, joined)
        entries = [entry for some in taught for entry in some]
        self.taught_ = {entry.id: sum(same_name(entry.name, name) for name in named) for entry in entries}
        return taught

    def move(self, X: Source, to: int | str) -> ClassEntry:
        """Say that images are of a class. They stay there, come what may."""
        return membership.move(self.registry_, self._chosen(X), to)

    def confirm(self, X: Source) -> None:
        """Say that images are of the classes that `predict` gives them."""
        membership.confirm(self.registry_, self._chosen(X))

    def reject(self, X: Source) -> None:
        """Say that images are not of the classes that `predict` gives them. They never go there again."""
        membership.reject(self.registry_, self._chosen(X))

    def ignore(self, X: Source) -> None:
        """Say that images are of no class: they and what looks like them are left alone."""
        membership.ignore(self.registry_, self._chosen(X), self.stage_)

    def unignore(self, X: Source) -> None:
        """Take back that images are to be left alone."""
        membership.unignore(self.registry_, self._chosen(X))

    def new_class(self, X: Source, name: Label | None = None) -> ClassEntry:
        """Make a class of images."""
        return from_images.new_class(self.registry_, self._chosen(X), self.stage_, name)

    def hold_apart(self, one: int | str, two: int | str) -> None:
        """Say that two classes are not the same: they are never merged."""
        check_is_fitted(self, "registry_")
        self.registry_.hold_apart(one, two)

    # The images that a person speaks of

    def _chosen(self, X: Source) -> Chosen:
        source = self._checked(X)
        with self._watched() as progress:
            return self._chosen_of(read(source, progress.step("reading")), progress)

    def _chosen_labelled(self, X: Source, y: Any) -> tuple[Chosen, list[Label]]:
        source = self._checked(X)
        labels = checked_labels(source, y)
        with self._watched() as progress:
            gathered, named = read_labelled(source, labels, progress.step("reading"))
            return self._chosen_of(gathered, progress), named

    def _chosen_of(self, gathered: Gathered, progress: Progress) -> Chosen:
        features = embed(self.extractor(), gathered.pictures, view_names(self.views), progress, self.cache_dir)
        if self._file is not None:  # the last discovery's folder is read when it is needed
            review, self._file = review_of_stage(self._file, self.stage_), None
            if review is not None:
                self._counted = dict(zip(as_bytes(review.digests), review.counted.tolist(), strict=True))
        return chosen_images(self._state(), features, gathered.pictures.contents(), self._counted)

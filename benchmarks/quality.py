"""Does a measure of a class fall when the class is mixed? Rank correlation of measures with purity, on real features.

    python benchmarks/quality.py FEATURES.npz --base 50 --labelled 100

FEATURES.npz has `X` (N, D), `cls` and `part` ("train" or "test"). The first `--base` classes in alphabetical order are
labelled. Purity is the share of a class's images that belong to its largest true class. Two experiments:

- discoveries: ten other classes in an inbox, asked for 10, 7, 5 or 3 new classes, so that mixed ones arise;
- mixtures: groups of 10, 30 or 100 images of one class, of which 0 to 50% are replaced by those of another one.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import normalize

from happycat import Happycat
from happycat.methods.calm.number import Penalty
from happycat.model.quality import largest_part, nearer_share, separation

OLD_EACH, NEW_CLASSES = 6, 10  # images of each labelled class in an inbox; other classes in it
ASKED = (10, 7, 5, 3)
SIZES, SHARES = (10, 30, 100), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


class Case(NamedTuple):
    """Images in the model's space (N, d) and their group (N,), -1 for none; what is known of the groups."""

    points: Tensor
    group: Tensor
    directions: Tensor  # (G, d), fitted to the images
    means: Tensor  # (G, d), of the images; of a labelled class, as it was learned
    purity: list[float | None]  # None: not evaluated


class Data(NamedTuple):
    vectors: np.ndarray
    names: np.ndarray
    train: np.ndarray

    def of(self, name: str, number: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of so many images of a class, or of as many as there are."""
        rows = np.flatnonzero((self.names == name) & self.train)
        return rng.permutation(rows)[:number]


class Group(NamedTuple):
    """What a measure is made of: images (n, d), the means of all other classes (G, d), the fitted direction (d,)."""

    images: Tensor
    others: Tensor
    direction: Tensor
    cat: Happycat

    def penalty(self) -> Penalty:
        """The complexity penalty of a component, as the model has learned it."""
        return self.cat.calm_.number_model.penalty


def fitted_direction(group: Group) -> float:
    """The mean cosine to the direction that was fitted to the same images, 1 if it is that of labelled classes."""
    return min(1.0, max(0.0, float((group.images @ group.direction).mean()) / group.cat.mean_cosine_))


def pairs(group: Group) -> float:
    """The mean cosine of two different images."""
    total, n = group.images.sum(0), len(group.images)
    return float((total @ total - n) / (n * (n - 1)))


def silhouette(group: Group) -> float:
    """How much nearer an image is to the others of its class than to the nearest other class, on average."""
    images = group.images
    own = 1 - (images @ images.sum(0) - 1) / (len(images) - 1)
    nearest = 1 - (images @ group.others.T).amax(1)
    return float(((nearest - own) / torch.maximum(nearest, own)).mean())


def largest(group: Group) -> float:
    """The share of the largest part."""
    return len(largest_part(group.images, group.penalty())) / len(group.images)


def within_largest(group: Group) -> float:
    """The share of the images that are of the largest part, and more like it than like any other class."""
    part = largest_part(group.images, group.penalty())
    return nearer_share(part, group.others) * len(part) / len(group.images)


MEASURES: dict[str, Callable[[Group], float | None]] = {
    "cosine to the fitted direction (coherence)": fitted_direction,
    "cosine of pairs of different images": pairs,
    "silhouette": silhouette,
    "share nearer to its class than to any other": lambda group: nearer_share(group.images, group.others),
    "share of the largest part": largest,
    "share nearer, within the largest part": within_largest,
    "share nearer × largest part (separation)": lambda group: separation(group.images, group.others, group.penalty()),
}


def discoveries(cat: Happycat, data: Data, base: list[str], novel: list[str], seed: int) -> Iterator[tuple[str, Case]]:
    """An inbox for each ten of the other classes, discovered with each number that is asked for."""
    rng = np.random.default_rng(seed)
    for start in range(0, len(novel) - NEW_CLASSES + 1, NEW_CLASSES):
        rows = [data.of(name, 100, rng) for name in novel[start : start + NEW_CLASSES]]
        rows += [data.of(name, 1000, np.random.default_rng(0))[-OLD_EACH:] for name in base]
        inbox = np.concatenate(rows)
        for asked in ASKED:
            yield f"asked for {asked}", discovered(copy.deepcopy(cat), data, inbox, asked)


def discovered(cat: Happycat, data: Data, inbox: np.ndarray, asked: int) -> Case:
    found = cat.discover(data.vectors[inbox], asked)
    ids = [c.id for c in cat.registry_]
    group = torch.tensor([-1 if row.id is None else ids.index(row.id) for row in found.assigned])
    points, directions = found.points.float(), cat.calm_.memory.prototypes
    means, shares = directions * cat.mean_cosine_, []
    for i, one in enumerate(ids):
        true = data.names[inbox[(group == i).numpy()]]
        counts = one in found.new and len(true) > 1
        shares.append(largest_share(true) if counts else None)
        if counts:
            means[i] = points[group == i].mean(0)
    return Case(points, group, directions, means, shares)


def mixtures(cat: Happycat, data: Data, novel: list[str], seed: int) -> Iterator[tuple[str, Case]]:
    """Ten groups of two classes each, with each share of the second, among the labelled classes' directions."""
    rng, known = np.random.default_rng(seed), cat.calm_.memory.prototypes
    for size in SIZES:
        for _ in range(4):
            names = rng.permutation(novel)[: 2 * NEW_CLASSES]
            rows, groups = [], []
            for g, (first, second) in enumerate(zip(names[::2], names[1::2], strict=True)):
                replaced = round(SHARES[g % len(SHARES)] * size)
                some = [data.of(first, size - replaced, rng), data.of(second, replaced, rng)]
                rows += some
                groups += [g] * sum(map(len, some))
            chosen, group = np.concatenate(rows), torch.tensor(groups)
            points = placed(cat, data.vectors[chosen])
            means = torch.stack([points[group == g].mean(0) for g in range(NEW_CLASSES)])
            directions = torch.cat([normalize(means, dim=-1), known])
            shares = [largest_share(data.names[chosen[(group == g).numpy()]]) for g in range(NEW_CLASSES)]
            means = torch.cat([means, known * cat.mean_cosine_])
            yield f"mixtures of {size}", Case(points, group, directions, means, [*shares, *[None] * len(known)])


def placed(cat: Happycat, vectors: np.ndarray) -> Tensor:
    """Vectors as points in the model's space."""
    with torch.no_grad():
        return cat.calm_.space(normalize(torch.from_numpy(vectors), dim=-1))


def largest_share(names: np.ndarray) -> float:
    return float(np.unique(names, return_counts=True)[1].max() / len(names))


def evaluated(case: Case, cat: Happycat) -> Iterator[tuple[float, list[float]]]:
    """The purity of each group and what the measures say of it."""
    for g, share in enumerate(case.purity):
        if share is not None:
            others = torch.cat([case.means[:g], case.means[g + 1 :]])
            group = Group(case.points[case.group == g], others, case.directions[g], cat)
            yield share, [measure(group) or 0.0 for measure in MEASURES.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features")
    parser.add_argument("--base", type=int, default=50, help="labelled classes")
    parser.add_argument("--labelled", type=int, default=100, help="labelled images of each, at most")
    parser.add_argument("--last", action="store_true", help="the last classes are labelled, not the first")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    stored = np.load(given.features, allow_pickle=False)
    data = Data(stored["X"].astype(np.float32), stored["cls"].astype(str), stored["part"].astype(str) == "train")
    names = sorted(set(data.names.tolist()), reverse=given.last)
    base = names[: given.base]
    novel = [str(name) for name in np.random.default_rng(given.seed).permutation(names[given.base :])]
    rows = np.concatenate([data.of(name, 1000, np.random.default_rng(0))[: given.labelled] for name in base])
    cat = Happycat().fit(data.vectors[rows], data.names[rows])
    print_table(cat, data, base, novel, given.seed)


def print_table(cat: Happycat, data: Data, base: list[str], novel: list[str], seed: int) -> None:
    """Print the rank correlations as a table, a row for each measure, and how far the separation is from the purity."""
    results: dict[str, list[tuple[float, list[float]]]] = {"discoveries": [], "mixtures": []}
    for whole, experiments in (
        ("discoveries", discoveries(cat, data, base, novel, seed)),
        ("mixtures", mixtures(cat, data, novel, seed)),
    ):
        for name, case in experiments:
            rows = list(evaluated(case, cat))
            results[whole] += rows
            results.setdefault(name, []).extend(rows)
    print("| rank correlation with the true purity | " + " | ".join(results) + " |\n|---|" + "---:|" * len(results))
    true = {name: np.array([share for share, _ in rows]) for name, rows in results.items()}
    said = {name: np.array([values for _, values in rows]) for name, rows in results.items()}
    for m, measure in enumerate(MEASURES):
        print_row(measure, [rank_correlation(true[name], said[name][:, m]) for name in results])
    print_row(
        "mean distance of the separation from the purity",
        [f"{np.abs(true[name] - said[name][:, -1]).mean():.2f}" for name in results],
    )
    print_row("classes, their mean purity", [f"{len(true[name])}, {true[name].mean():.2f}" for name in results])


def rank_correlation(true: np.ndarray, said: np.ndarray) -> str:
    """Spearman's; there is none if a measure says the same of all classes."""
    return f"{spearmanr(true, said).statistic:.2f}" if np.ptp(said) else "–"


def print_row(first: str, rest: list[str]) -> None:
    print(f"| {first} | " + " | ".join(rest) + " |")


if __name__ == "__main__":
    main()

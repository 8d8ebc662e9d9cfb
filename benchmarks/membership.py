"""What does a model file tell of single images? Membership inference from the directions that it stores.

    OMP_NUM_THREADS=1 python benchmarks/membership.py FEATURES.npz --classes 20 --images 5 25 100

FEATURES.npz has `X` (N, D) and `cls` (N,). A model learns so many images of each class (members); others of the same
classes are held out. Whoever has the file and a candidate image asks whether it was learned: its cosine with the
direction of its class, or with the nearest of all directions that are stored of that class, the prepared halves
included, is the score. AUC 50 is guessing; a stored feature gives 100. "singled out": how often the image nearest to
a stored direction, among equally many members and others, is a member (50 is chance).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import normalize

from happycat import Happycat

OTHERS = 50  # images of a class that are held out, at most


def divided(classes: np.ndarray, chosen: np.ndarray, images: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the members and of the others, `images` and up to `OTHERS` of each chosen class."""
    random, members, others = np.random.default_rng(seed), [], []
    for c in chosen:
        places = random.permutation(np.flatnonzero(classes == c))
        members.append(places[:images])
        others.append(places[images : images + OTHERS])
    return np.concatenate(members), np.concatenate(others)


def measured(features: np.ndarray, classes: np.ndarray, chosen: np.ndarray, images: int, seed: int) -> dict[str, float]:
    """The figures of one model."""
    members, others = divided(classes, chosen, images, seed)
    cat = Happycat(random_state=seed).fit(features[members], classes[members])
    registry, pool = cat.registry_, cat.registry_.pool
    both = np.concatenate([members, others])
    points = cat.calm_.space(normalize(torch.from_numpy(features[both].astype(np.float32)), dim=-1)).numpy()
    learned = np.arange(len(both)) < len(members)
    whole, nearest = np.zeros(len(both)), np.zeros(len(both))
    halves, out, out_halves = pool.children, [], []
    random = np.random.default_rng(seed)
    for entry in registry:
        own = np.flatnonzero(classes[both] == entry.name)
        (row,) = entry.rows
        rows = [row]
        for one in rows:
            rows += [half for half in halves[one].tolist() if half >= 0]
        cosines = points[own] @ pool.vectors[rows].T
        whole[own], nearest[own] = cosines[:, 0], cosines.max(1)
        number = min(learned[own].sum(), (~learned[own]).sum())
        same = np.concatenate([random.permutation(np.flatnonzero(learned[own] == one))[:number] for one in (1, 0)])
        first = learned[own][same[cosines[same].argmax(0)]]
        out.append(first[0])
        out_halves += first[1:].tolist()
    return {
        "stored directions": len(pool),
        "fewest images in one": int(pool.sizes.min()),
        "mean cosine with the class, members": float(whole[learned].mean()),
        "mean cosine with the class, others": float(whole[~learned].mean()),
        "AUC, directions of classes": 100 * float(roc_auc_score(learned, whole)),
        "AUC, all directions": 100 * float(roc_auc_score(learned, nearest)),
        "singled out by a class": 100 * float(np.mean(out)),
        "singled out by a half": 100 * float(np.mean(out_halves)) if out_halves else float("nan"),
        "accuracy on the others": 100 * float(np.mean(cat.predict(features[others]) == classes[others])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=Path)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--images", type=int, nargs="+", default=[5, 25, 100])
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with np.load(asked.features) as file:
        features, classes = file["X"].astype(np.float32), file["cls"]
    _, classes = np.unique(classes, return_inverse=True)
    chosen = np.random.default_rng(asked.seed).permutation(classes.max() + 1)[: asked.classes]
    for images in asked.images:
        print(f"{images} images of each of {len(chosen)} classes")
        for name, value in measured(features, classes, chosen, images, asked.seed).items():
            print(f"  {name}: {value:.2f}" if "cosine" in name else f"  {name}: {value:.1f}", flush=True)


if __name__ == "__main__":
    main()

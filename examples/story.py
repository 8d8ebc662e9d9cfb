"""The whole story of one's own images, on characters drawn for it: python story.py FOLDER (some minutes)."""

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

from happycat.images.datasets import load

LABELLED, INBOXES = range(10), {"march": range(10, 13), "april": range(13, 15)}


def happycat(*words) -> None:
    print("\n$ happycat", *words, flush=True)
    subprocess.run([sys.executable, "-m", "happycat", *map(str, words)], check=True)


def draw(folder: Path) -> dict[str, str]:
    """Labelled folders and two inboxes of known and new characters; gives the truth for each image of an inbox."""
    glyphs, truth = load("glyphs", num_classes=15, per_class=80), {}
    seen: Counter = Counter()
    for i, c in enumerate(glyphs.train_labels.tolist()):
        seen[c] += 1
        if c in LABELLED and seen[c] <= 40:
            place = folder / "labelled" / f"character {c}"
        else:
            inbox = next((name for name, new in INBOXES.items() if c in new), "march" if seen[c] <= 50 else "april")
            place = folder / inbox
            truth[f"{inbox}/{i}.png"] = f"character {c}"
        place.mkdir(parents=True, exist_ok=True)
        glyphs.train.read(i).save(place / f"{i}.png")
    return truth


def compare(folder: Path, inbox: str, version: int, truth: dict[str, str]) -> None:
    """How many new classes there were and were found, and how many images went where most of their kind went."""
    with open(folder / f"shop-{version}" / "assignments.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds: dict[str, Counter] = {}
    for row in rows:
        kinds.setdefault(row["class"], Counter())[truth[f"{inbox}/{row['image']}"]] += 1
    right = sum(kind.most_common(1)[0][1] for name, kind in kinds.items() if name != "unknown")
    print(f"truth: {len(INBOXES[inbox])} new classes; {right} of {len(rows)} images are where most of their kind are")


folder = Path(sys.argv[1] if len(sys.argv) > 1 else "story")
truth, model = draw(folder), folder / "shop.cat"
happycat("fit", folder / "labelled", "-o", model, "--backbone", "scratch_vit", "--no-mirror")
for version, inbox in enumerate(INBOXES, 2):
    happycat("discover", model, folder / inbox)
    compare(folder, inbox, version, truth)
happycat("name", model, 10, "the tenth")
happycat("undo", model)
happycat("show", model)
happycat(
    "predict", model, folder / "labelled" / "character 3" / next((folder / "labelled" / "character 3").iterdir()).name
)

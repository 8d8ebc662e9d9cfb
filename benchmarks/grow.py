"""How do time, memory and disk grow with images, classes and stages? A table, and a figure of it.

    python benchmarks/grow.py --out docs/results          # about half an hour on two cores
    python benchmarks/grow.py --only evaluation --largest 2

Each point is measured in a process of its own, on one thread. Seconds are processor time. Memory (Linux only) is the
most that the process had which the system cannot take back (`RssAnon`, looked at a hundred times a second); tokens and
tables that are mapped from files are not in it. What was measured is kept in OUT/growth.json, and not measured again.
Pictures are noise, vectors are drawn around the means of classes: nothing here depends on what they show.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from scale import class_means, discover
from scale import images as vectors_of

BACKBONE = "vit_tiny_patch16_224"  # at 32 px, random weights: what grows is everything around it


class Memory(threading.Thread):
    """Watches the memory (MB) that this process has for itself, and remembers the largest."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest = float("nan")

    def run(self) -> None:
        status = Path("/proc/self/status")
        while status.is_file():
            lines = status.read_text().splitlines()
            now = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))
            self.largest = max(now, self.largest) if self.largest > 0 else now
            time.sleep(0.01)


def folder_size(folder: Path) -> float:
    """MB on disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def noise(number: int):
    from happycat.images.pictures import ArrayPictures

    return ArrayPictures(np.random.default_rng(0).integers(0, 256, (number, 40, 40, 3), dtype=np.uint8))


def stored_tokens(number: int, folder: Path):
    """Tokens of noise in a store, written shard by shard."""
    from happycat.backbone.recipe import Recipe
    from happycat.backbone.token_store import TokenStore, token_tensors
    from happycat.backbone.trunk import Tokens

    recipe = Recipe(
        kind="tokens", backbone="noise", precision="torch.float32", pictures="noise", num_pictures=number,
        view_names=("centre", "1", "2"), image_size=32, crop_share=0.875, mirror=True, view_seed=0, num_tokens=5,
        dim=192,
    )  # fmt: skip
    store = TokenStore(folder, recipe)

    def extract(shards):
        for shard in shards:
            some = torch.randn(3 * len(shard), 5, 192, generator=torch.Generator().manual_seed(shard.start))
            yield token_tensors(Tokens(some, some[:, 0]))

    store.fill(extract)
    return store


def extraction(number: int, folder: Path) -> dict[str, float]:
    """Images: three views of each through the backbone, features stored and read again."""
    import timm
    from safetensors.torch import save_file

    from happycat.backbone.config import BackboneConfig
    from happycat.backbone.extraction import FeatureExtractor

    weights = folder / "weights.safetensors"
    save_file(timm.create_model(BACKBONE, num_classes=0).state_dict(), weights)
    extractor = FeatureExtractor.of(BackboneConfig(name=BACKBONE, weights=weights, image_size=32), workers=0)
    pictures, started = noise(number), time.process_time()
    extractor.extract(pictures, cache_dir=folder / "store")
    return {"seconds": time.process_time() - started, "disk_mb": folder_size(folder / "store")}


def stage(number: int, folder: Path) -> dict[str, float]:
    """Images: two epochs of a stage of Happy on stored tokens, from k-means to the class memory."""
    import timm

    from happycat.backbone.tail import Tail
    from happycat.learning.batches import StoredViews, Unlabelled
    from happycat.learning.training import Training
    from happycat.methods.happy import Happy, HappyConfig

    store = stored_tokens(number, folder)
    served = Unlabelled(StoredViews(store, torch.device("cpu")))
    tail = Tail(timm.create_model(BACKBONE, num_classes=0, img_size=32))
    method = Happy(tail, HappyConfig(epochs=2, projector_hidden=256))
    rows = torch.randn(50, 192, generator=torch.Generator().manual_seed(0))
    method.head.grow(rows)
    method.memory.learn(rows, torch.arange(50), rows)
    started = time.process_time()
    list(method.discover(served, 10, Training(torch.Generator().manual_seed(0))))
    return {"seconds": time.process_time() - started, "disk_mb": folder_size(folder)}


def kmeans(number: int, folder: Path) -> dict[str, float]:
    """Images: k-means of 384 numbers into 100 clusters, once, as a stage of Happy begins."""
    from happycat.base import tables
    from happycat.learning.clustering import kmeans as clustered

    generator = np.random.default_rng(0)
    means = class_means(100, generator)
    some = (torch.from_numpy(vectors_of(means, np.arange(1000) % 100, generator)) for _ in range(number // 1000))
    vectors = tables.joined((torch.nn.functional.normalize(part, dim=-1) for part in some), number)
    started = time.process_time()
    clustered(vectors, 100, seed=0, restarts=1)
    return {"seconds": time.process_time() - started}


def evaluation(classes: int, folder: Path) -> dict[str, float]:
    """Classes: Hungarian matching and the scores of a stage, ten test images a class."""
    from happycat.base.metrics import clustering_accuracy

    generator = np.random.default_rng(0)
    truth = np.arange(10 * classes) % classes
    found = np.where(
        generator.random(len(truth)) < 0.7, (truth * 7 + 3) % classes, generator.integers(0, classes, len(truth))
    )
    started = time.process_time()
    clustering_accuracy(truth, found, classes // 2)
    return {"seconds": time.process_time() - started}


def prediction(classes: int, folder: Path) -> dict[str, float]:
    """Classes: the class of 100,000 vectors of 384 numbers."""
    from happycat.methods.calm.prediction import PredictionRule

    generator = torch.Generator().manual_seed(0)
    normal = torch.nn.functional.normalize
    prototypes = normal(torch.randn(classes, 384, generator=generator), dim=-1)
    points = normal(torch.randn(100_000, 384, generator=generator), dim=-1)
    rule = PredictionRule(prototypes, torch.arange(classes), classes, torch.tensor(0.1), torch.zeros(classes))
    started = time.process_time()
    rule.decide(points)
    return {"seconds": time.process_time() - started}


def million(images: int, folder: Path) -> dict[str, float]:
    """Images: stored features of 384 numbers in 10,000 classes, read from shards and given their classes."""
    from happycat.backbone.recipe import Recipe
    from happycat.backbone.store import FeatureStore
    from happycat.methods.calm.prediction import PredictionRule

    recipe = Recipe(
        kind="features", backbone="noise", precision="torch.float32", pictures="noise", num_pictures=images,
        view_names=("centre",), image_size=224, crop_share=0.875, mirror=True, view_seed=0, num_tokens=1, dim=384,
    )  # fmt: skip
    store, started = FeatureStore(folder, recipe), time.process_time()

    def extract(shards):
        for shard in shards:
            generator = torch.Generator().manual_seed(shard.start)
            yield {"features": torch.randn(len(shard), 1, 384, generator=generator)}

    store.fill(extract)
    points = store.features()[:, 0]
    prototypes = torch.nn.functional.normalize(torch.randn(10_000, 384), dim=-1)
    rule = PredictionRule(prototypes, torch.arange(10_000), 10_000, torch.tensor(0.1), torch.zeros(10_000))
    rule.decide(points, lambda some: torch.nn.functional.normalize(some, dim=-1))
    return {"seconds": time.process_time() - started, "disk_mb": folder_size(folder)}


def discovery(images: int, folder: Path) -> dict[str, float]:
    """Images: vectors of 384 numbers, mapped from a file; a class for each hundred, a fifth of them to be found."""
    classes = images // 100
    figures = discover(images, classes - classes // 5, classes // 5, folder / "vectors.npy")
    return {**figures, "seconds": figures["cpu_seconds"]}


def model_file(classes: int, folder: Path) -> dict[str, float]:
    """Classes: fit on ten vectors of 384 numbers each, saved, a class named, loaded again."""
    from happycat import Happycat

    generator = np.random.default_rng(0)
    ids = np.arange(10 * classes) % classes
    cat = Happycat().fit(vectors_of(class_means(classes, generator), ids, generator), ids)
    started = time.process_time()
    cat.save(folder / "model.cat")
    Happycat.load(folder / "model.cat")
    return {"seconds": time.process_time() - started, "disk_mb": (folder / "model.cat").stat().st_size / 1e6}


POINTS: dict[str, tuple[Callable[[int, Path], dict[str, float]], tuple[int, ...]]] = {
    "extraction": (extraction, (1_000, 2_000, 4_000)),
    "stage": (stage, (2_000, 8_000, 32_000)),
    "kmeans": (kmeans, (10_000, 20_000, 40_000)),
    "evaluation": (evaluation, (100, 1_000, 10_000)),
    "prediction": (prediction, (100, 1_000, 10_000)),
    "million": (million, (100_000, 1_000_000)),
    "discovery": (discovery, (10_000, 100_000, 300_000, 1_000_000)),
    "model_file": (model_file, (50, 100, 200)),
}


def measured(name: str, number: int) -> dict[str, float]:
    """One point, in a process of its own: a copy of this one, which need not import everything again."""
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    process = context.Process(target=measure, args=(name, number, its))
    process.start()
    its.close()
    try:
        return ours.recv()
    except EOFError:
        sys.exit(f"{name} {number:,}: the process has ended; was there enough memory?")
    finally:
        process.join()


def measure(name: str, number: int, answer: Connection) -> None:
    """Measure one point here, and send it."""
    torch.set_num_threads(1)
    memory = Memory()
    memory.start()
    with tempfile.TemporaryDirectory() as folder:
        result = POINTS[name][0](number, Path(folder))
    answer.send({**result, "number": number, "memory_mb": memory.largest})


def exponent(numbers: list[int], values: list[float]) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit(np.log(numbers), np.log(np.maximum(values, 1e-3)), 1)[0])


def table(found: dict[str, list[dict]]) -> list[str]:
    """The lines of a Markdown table, with the exponent of time behind the last point of each."""
    lines = ["| what | number | seconds | memory, MB | disk, MB | exponent of time |", "|---|---:|---:|---:|---:|---:|"]
    for name, rows in found.items():
        for row in rows:
            last = ""
            if row is rows[-1] and len(rows) > 1:
                last = f"{exponent([r['number'] for r in rows], [r['seconds'] for r in rows]):.2f}"
            disk = f"{row['disk_mb']:.1f}" if "disk_mb" in row else ""
            lines.append(
                f"| {name} | {row['number']:,} | {row['seconds']:.2f} | {row['memory_mb']:.0f} | {disk} | {last} |"
            )
    return lines


def draw(found: dict[str, list[dict]], path: Path) -> None:
    """Seconds against what grows, one panel for each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter

    figure, axes = pyplot.subplots(2, 4, figsize=(14, 6))
    for axis, (name, rows) in zip(axes.flat, found.items(), strict=False):
        axis.loglog([r["number"] for r in rows], [r["seconds"] for r in rows], "o-", label="seconds")
        axis.loglog([r["number"] for r in rows], [r["memory_mb"] for r in rows], "s--", label="MB of memory")
        axis.set_title(name.replace("_", " "))
        axis.minorticks_off()
        axis.set_xticks([r["number"] for r in rows])
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.set_xlabel((POINTS[name][0].__doc__ or "").split(":")[0].lower())
    axes.flat[0].legend()
    for axis in axes.flat[len(found) :]:
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=POINTS, default=list(POINTS))
    parser.add_argument("--largest", type=int, help="how many of the points, from the smallest on")
    parser.add_argument("--out", type=Path, help="where the table and the figure go")
    arguments = parser.parse_args()
    kept = arguments.out / "growth.json" if arguments.out else None
    found: dict[str, list[dict]] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for name in arguments.only:
        for number in POINTS[name][1][: arguments.largest]:
            rows = found.setdefault(name, [])
            if number not in [row["number"] for row in rows]:
                rows.append(measured(name, number))
                print(name, rows[-1], flush=True)
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(found, indent=1) + "\n")
    lines = table(found)
    print("\n".join(lines))
    if arguments.out:
        (arguments.out / "growth.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        draw(found, arguments.out / "growth.png")


if __name__ == "__main__":
    main()

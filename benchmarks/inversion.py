"""How much of a picture can be got back? Inversion of what is stored, by gradient descent on pixels.

    OMP_NUM_THREADS=1 python benchmarks/inversion.py cars/train --out inversion.png
    OMP_NUM_THREADS=1 python benchmarks/inversion.py cars/train --backbone vit_base_patch16_clip_quickgelu_224 \
        --weights clip.safetensors --size 96 --invert 2 --steps 120 --out inversion-clip.png

A model learns some images of each class of a folder; others are held out. Somebody who has the model file and the
backbone looks for a picture whose point has the highest cosine with what is stored: the direction of a class, the
smallest of its prepared halves, the direction of a class of a single image; and, for comparison, with a feature of a
single image and with its tokens (of a CNN: its last map), which a model file never holds. A picture is a sum of grids
from coarse to fine, a natural prior. Printed are, for each kind, the cosine that was reached, and the mean correlation
of the 16 × 16 grey thumbnails (centred) of the result and of images: those that the target was made of, others of the
same class, and of other classes; and how often an image that it was made of correlates more than another of the same
class (50: chance). The mean picture of the members, which nobody has, is what an inversion of a mean could show.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import timm
import torch
from PIL import Image, ImageDraw
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, interpolate, normalize

from happycat import Happycat
from happycat.backbone.weights import with_weights
from happycat.images.decoding import read_picture

THUMBNAIL = 16
COARSEST = 4  # cells of the coarsest grid, each way
RATE, SMOOTH = 0.05, 0.02  # learning rate; weight of the total variation
SHIFT = 4  # pixels at most by which a picture is moved at each step: what holds for one position only is noise
CLIP = ((0.4815, 0.4578, 0.4082), (0.2686, 0.2613, 0.2758))


class Eyes(nn.Module):
    """A backbone: pixels (N, 3, S, S) from 0 to 1 → tokens or map (N, …) → features (N, D)."""

    def __init__(self, name: str, weights: Path | None, size: int):
        super().__init__()
        more = {"img_size": size} if name.startswith("vit") else {}
        model = with_weights(timm.create_model(name, num_classes=0, **more), name, weights, size)
        self.model = model.eval().requires_grad_(False)
        found = model.pretrained_cfg
        mean, std = CLIP if "clip" in name else (found["mean"], found["std"])
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1))

    def tokens(self, pixels: Tensor) -> Tensor:
        """What goes into the last block of a ViT; the last map of a CNN."""
        seen = (pixels - self.mean) / self.std
        model = self.model
        if not isinstance(model, VisionTransformer):
            return model.forward_features(seen)
        found = model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(seen))))
        return model.blocks[:-1](found)

    def features(self, tokens: Tensor) -> Tensor:
        if isinstance(self.model, VisionTransformer):
            tokens = self.model.norm(self.model.blocks[-1](tokens))
        return self.model.forward_head(tokens, pre_logits=True)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.features(self.tokens(pixels))


class Target(NamedTuple):
    """Something stored: its kind, class, the places of the images that it was made of, and the goal of the descent."""

    kind: str
    name: str
    members: np.ndarray
    cosine: Callable[[Tensor], Tensor]  # of pixels (1, 3, S, S) with what is stored


def read_folder(folder: Path, classes: int, images: int, size: int, seed: int) -> tuple[Tensor, np.ndarray, list[str]]:
    """Pictures (N, 3, S, S), as many of each class, their classes (N,) and names; twice `images` of each."""
    random, pixels, labels, names = np.random.default_rng(seed), [], [], []
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(path for path in place.iterdir() if path.is_file())
        if len(files) >= 2 * images and len(names) < classes:
            for i in random.permutation(len(files))[: 2 * images]:
                pixels.append(squared(read_picture(files[i]), size))
                labels.append(len(names))
            names.append(place.name)
    return torch.stack(pixels), np.array(labels), names


def squared(picture: Image.Image, size: int) -> Tensor:
    """The middle of a picture, (3, S, S) from 0 to 1."""
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    small = picture.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255


def targets(
    eyes: Eyes, cat: Happycat, name: str, pixels: Tensor, features: Tensor, own: np.ndarray
) -> Iterator[Target]:
    """What is stored of a class whose members are at `own`, and what is not: a feature and the tokens of the first."""
    points = cat.calm_.space(normalize(features, dim=-1))
    pool, entry = cat.registry_.pool, cat.registry_.find(f"name:{name}")

    def of_direction(direction: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda seen: cosine_similarity(cat.calm_.space(normalize(eyes(seen), dim=-1)), direction[None]).mean()

    (row,) = entry.rows
    below = [row]
    for one in below:
        below += [half for half in pool.children[one].tolist() if half >= 0]
    smallest = min(below, key=lambda one: pool.sizes[one])
    vectors = torch.from_numpy(pool.vectors.copy())
    cosines = (points[own] @ vectors[smallest]).numpy()
    yield Target("class", name, own, of_direction(vectors[row]))
    nearest = own[np.argsort(-cosines)[: int(pool.sizes[smallest])]]
    yield Target(f"smallest half ({int(pool.sizes[smallest])})", name, nearest, of_direction(vectors[smallest]))
    one = own[:1]
    yield Target("class of one image", name, one, of_direction(points[one[0]]))
    feature, tokens = features[one[0]], eyes.tokens(pixels[one]).flatten(1)
    yield Target("feature", name, one, lambda seen: cosine_similarity(eyes(seen), feature[None]).mean())
    yield Target("tokens", name, one, lambda seen: cosine_similarity(eyes.tokens(seen).flatten(1), tokens).mean())


def inverted(target: Target, size: int, steps: int, seed: int) -> tuple[Tensor, float]:
    """The picture (3, S, S) that descent finds for a target, and the cosine that it reached."""
    random = torch.Generator().manual_seed(seed)
    sides = [side for side in (COARSEST * 2**i for i in range(10)) if side < size] + [size]
    grids = [torch.zeros(1, 3, side, side, requires_grad=True) for side in sides]
    for grid in grids:
        grid.data.normal_(0, 0.05, generator=random)
    optimizer = torch.optim.Adam(grids, RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, RATE / 20)
    for _ in range(steps):
        picture = drawn(grids, size)
        shift = torch.randint(-SHIFT, SHIFT + 1, (2,), generator=random).tolist()
        rough = (picture.diff(dim=2).abs().mean() + picture.diff(dim=3).abs().mean()) * SMOOTH
        loss = 1 - target.cosine(picture.roll(shift, (2, 3))) + rough
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        picture = drawn(grids, size)
        return picture[0], float(target.cosine(picture))


def drawn(grids: list[Tensor], size: int) -> Tensor:
    """The picture that grids from coarse to fine make."""
    whole = sum(interpolate(grid, size=(size, size), mode="bilinear", align_corners=False) for grid in grids)
    return torch.sigmoid(whole)


def thumbnails(pixels: Tensor) -> Tensor:
    """Grey thumbnails of pictures (N, 3, S, S) as centred unit rows (N, 256)."""
    small = interpolate(pixels, size=(THUMBNAIL, THUMBNAIL), mode="area").mean(1).flatten(1)
    return normalize(small - small.mean(1, keepdim=True), dim=-1)


def compared(picture: Tensor, pixels: Tensor, labels: np.ndarray, members: np.ndarray, c: int) -> tuple[float, ...]:
    """Mean correlation with the members, other images of the class, other classes; share of pairs that members win."""
    found = (thumbnails(picture[None]) @ thumbnails(pixels).T)[0].numpy()
    is_member = np.isin(np.arange(len(labels)), members)
    own, same, other = found[is_member], found[(labels == c) & ~is_member], found[labels != c]
    return own.mean(), same.mean(), other.mean(), 100 * float(np.mean(own[:, None] > same[None]))


def write_pictures(path: Path, rows: list[tuple[str, list[Tensor]]]) -> None:
    """A sheet of pictures, a row for each class, the kinds beside each other."""
    size = rows[0][1][0].shape[-1]
    sheet = Image.new("RGB", (size * max(len(row) for _, row in rows), (size + 12) * len(rows)), "white")
    for y, (name, row) in enumerate(rows):
        ImageDraw.Draw(sheet).text((2, y * (size + 12)), name[:60], fill="black")
        for x, picture in enumerate(row):
            values = (picture.clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy()
            sheet.paste(Image.fromarray(values), (x * size, y * (size + 12) + 12))
    sheet.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of images for each class")
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--classes", type=int, default=8, help="that the model learns")
    parser.add_argument("--images", type=int, default=20, help="of a class; as many are held out")
    parser.add_argument("--invert", type=int, default=6, help="of how many classes what is stored is inverted")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("inversion.png"))
    asked = parser.parse_args()
    pixels, labels, names = read_folder(asked.folder, asked.classes, asked.images, asked.size, asked.seed)
    eyes = Eyes(asked.backbone, asked.weights, asked.size)
    with torch.no_grad():
        features = torch.cat([eyes(some) for some in pixels.split(32)])
    learned = np.tile(np.arange(2 * asked.images) < asked.images, len(names))
    cat = Happycat(random_state=asked.seed).fit(features[learned].numpy(), np.array(names)[labels[learned]])
    print(
        f"accuracy on the others: {100 * cat.score(features[~learned].numpy(), np.array(names)[labels[~learned]]):.1f}"
    )
    rows, found = [], {}
    for c in range(asked.invert):
        own = np.flatnonzero((labels == c) & learned)
        mean = pixels[own].mean(0)
        found.setdefault("mean picture of the members", []).append((1.0, *compared(mean, pixels, labels, own, c)))
        shown = [pixels[own[0]], mean]
        for target in targets(eyes, cat, names[c], pixels, features, own):
            picture, cosine = inverted(target, asked.size, asked.steps, asked.seed)
            shown.append(picture)
            found.setdefault(target.kind, []).append((cosine, *compared(picture, pixels, labels, target.members, c)))
        rows.append((f"{names[c]}: an image, the mean, {', '.join(list(found)[1:])}", shown))
        write_pictures(asked.out, rows)
        print(f"{c + 1} classes, {time.process_time():.0f} s of CPU time", flush=True)
    print("kind: cosine; correlation with members, others of the class, other classes; members win")
    for kind, figures in found.items():
        cosine, own_, same, other, wins = np.mean(figures, axis=0)
        print(f"{kind}: {cosine:.2f}; {own_:.2f}, {same:.2f}, {other:.2f}; {wins:.0f}%")


if __name__ == "__main__":
    main()

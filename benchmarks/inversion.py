"""How much of a picture can be got back? Inversion of what is stored, by gradient descent and by a trained decoder.

    OMP_NUM_THREADS=1 python benchmarks/inversion.py cars/train --out inversion.png
    OMP_NUM_THREADS=1 python benchmarks/inversion.py cars/train --steps 0 --invert 8 --out decoded.png
    OMP_NUM_THREADS=1 python benchmarks/inversion.py cars/train --backbone vit_base_patch16_clip_quickgelu_224 \
        --weights clip.safetensors --size 96 --invert 2 --steps 120 --out inversion-clip.png

A model learns some images of each class of a folder; others are held out. Somebody who has the model file and the
backbone looks for a picture whose point has the highest cosine with what is stored: the direction of a class, the
smallest of its prepared halves, the direction of a class of a single image; and, for comparison, with a feature of a
single image and with its tokens (of a CNN: its last map), which a model file never holds. A picture is a sum of grids
from coarse to fine, a natural prior.

The same somebody has pictures of the same kind, here of the classes that the model did not learn, and fits a decoder to
them: a linear map from what the backbone and the model's space make of a picture to the picture, small (ridge
regression; its penalty by cross-validation among these pictures). It is applied to what is stored.

Printed are, for each kind, the cosine that was reached, and the mean correlation of the 16 × 16 grey thumbnails
(centred) of the result and of images: those that the target was made of, others of the same class, and of other
classes; and how often an image that it was made of correlates more than another of the same class (50: chance). The
mean picture of the members, which nobody has, is what an inversion of a mean could show.
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
from sklearn.linear_model import RidgeCV
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, interpolate, normalize

from happycat import Happycat
from happycat.backbone.weights import with_weights
from happycat.images.decoding import read_picture

THUMBNAIL = 16
DECODED = 24  # pixels a side of what a decoder gives
PENALTIES = np.logspace(-4, 2, 7)  # of a decoder whose inputs have a length of about 1
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


Represent = Callable[[Tensor], Tensor]  # pixels (N, 3, S, S) from 0 to 1 → vectors (N, D)


class Target(NamedTuple):
    """Something stored: its kind, the places of the images that it was made of, and the vector that stands for them."""

    kind: str
    members: np.ndarray
    vector: Tensor
    represent: Represent  # of single pictures, as vectors of the same sort

    def cosine(self, pixels: Tensor) -> Tensor:
        """Of a picture (1, 3, S, S) with what is stored: what the descent makes large."""
        return cosine_similarity(self.represent(pixels), self.vector[None]).mean()


class Folder(NamedTuple):
    """Pictures (N, 3, S, S) and their classes (N,); names of the classes; pictures of other classes, (M, 3, S, S)."""

    pixels: Tensor
    labels: np.ndarray
    names: list[str]
    others: Tensor


def read_folder(folder: Path, classes: int, images: int, size: int, seed: int) -> Folder:
    """Twice `images` pictures of each of the first classes that have them; of the other classes, as many as there."""
    random, pixels, labels, names, others = np.random.default_rng(seed), [], [], [], []
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(path for path in place.iterdir() if path.is_file())
        chosen = [squared(read_picture(files[i]), size) for i in random.permutation(len(files))[: 2 * images]]
        if len(chosen) == 2 * images and len(names) < classes:
            pixels += chosen
            labels += [len(names)] * len(chosen)
            names.append(place.name)
        else:
            others += chosen
    return Folder(torch.stack(pixels), np.array(labels), names, torch.stack(others))


def squared(picture: Image.Image, size: int) -> Tensor:
    """The middle of a picture, (3, S, S) from 0 to 1."""
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    small = picture.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255


class Sorts(NamedTuple):
    """The sorts of vectors that stand for a picture: points in the model's space, features, tokens."""

    point: Represent
    feature: Represent
    tokens: Represent

    @classmethod
    def of(cls, eyes: Eyes, cat: Happycat) -> Sorts:
        return cls(
            point=lambda pixels: cat.calm_.space(normalize(eyes(pixels), dim=-1)),
            feature=eyes,
            tokens=lambda pixels: eyes.tokens(pixels).flatten(1),
        )


def targets(sorts: Sorts, cat: Happycat, name: str, pixels: Tensor, own: np.ndarray) -> Iterator[Target]:
    """What is stored of a class whose members are at `own`, and what is not: a feature and the tokens of the first."""
    pool, entry = cat.registry_.pool, cat.registry_.find(f"name:{name}")
    (row,) = entry.rows
    below = [row]
    for one in below:
        below += [half for half in pool.children[one].tolist() if half >= 0]
    smallest = min(below, key=lambda one: pool.sizes[one])
    vectors = torch.from_numpy(pool.vectors.copy())
    points = vectors_of(pixels[own], sorts.point)
    yield Target("class", own, vectors[row], sorts.point)
    nearest = own[np.argsort(-(points @ vectors[smallest]).numpy())[: int(pool.sizes[smallest])]]
    yield Target(f"smallest half ({len(nearest)})", nearest, vectors[smallest], sorts.point)
    yield Target("class of one image", own[:1], points[0], sorts.point)
    for kind, represent in (("feature", sorts.feature), ("tokens", sorts.tokens)):
        yield Target(kind, own[:1], vectors_of(pixels[own[:1]], represent)[0], represent)


@torch.no_grad()
def vectors_of(pixels: Tensor, represent: Represent) -> Tensor:
    """A vector (N, D) of each picture, some pictures at a time."""
    return torch.cat([represent(some) for some in pixels.split(32)])


class Decoder:
    """A linear map from vectors of a sort to small pictures, fitted to pictures that the model has not learned."""

    def __init__(self, pixels: Tensor, represent: Represent):
        vectors = vectors_of(pixels, represent)
        self.length = vectors.norm(dim=1).mean()
        small = interpolate(pixels, size=(DECODED, DECODED), mode="area").flatten(1)
        self.ridge = RidgeCV(PENALTIES).fit((vectors / self.length).double().numpy(), small.double().numpy())

    def __call__(self, vector: Tensor, size: int) -> Tensor:
        """The picture (3, S, S) that it makes of a vector."""
        small = torch.from_numpy(self.ridge.predict((vector / self.length)[None].double().numpy()))
        picture = small.float().view(1, 3, DECODED, DECODED)
        return interpolate(picture, size=(size, size), mode="bilinear", align_corners=False)[0]


def inverted(target: Target, size: int, steps: int, seed: int) -> Tensor:
    """The picture (3, S, S) that descent finds for a target."""
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
    return drawn(grids, size)[0].detach()


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
    parser.add_argument("--steps", type=int, default=200, help="of descent; 0: only the decoders")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("inversion.png"))
    asked = parser.parse_args()
    there = read_folder(asked.folder, asked.classes, asked.images, asked.size, asked.seed)
    pixels, labels, names = there.pixels, there.labels, there.names
    eyes = Eyes(asked.backbone, asked.weights, asked.size)
    features = vectors_of(pixels, eyes)
    learned = np.tile(np.arange(2 * asked.images) < asked.images, len(names))
    cat = Happycat(random_state=asked.seed).fit(features[learned].numpy(), np.array(names)[labels[learned]])
    accuracy = 100 * cat.score(features[~learned].numpy(), np.array(names)[labels[~learned]])
    print(f"accuracy on the others: {accuracy:.1f}; {len(there.others)} pictures for the decoders", flush=True)
    sorts = Sorts.of(eyes, cat)
    decoders = {represent: Decoder(there.others, represent) for represent in sorts}
    rows, found = [], {}
    for c in range(asked.invert):
        own = np.flatnonzero((labels == c) & learned)
        mean = pixels[own].mean(0)
        found.setdefault("mean picture of the members", []).append((1.0, *compared(mean, pixels, labels, own, c)))
        shown = [pixels[own[0]], mean]
        for target in targets(sorts, cat, names[c], pixels, own):
            pictures = {"decoded": decoders[target.represent](target.vector, asked.size)}
            if asked.steps:
                pictures["inverted"] = inverted(target, asked.size, asked.steps, asked.seed)
            for how, picture in pictures.items():
                shown.append(picture)
                with torch.no_grad():
                    cosine = float(target.cosine(picture.clamp(0, 1)[None]))
                figures = (cosine, *compared(picture, pixels, labels, target.members, c))
                found.setdefault(f"{target.kind}, {how}", []).append(figures)
        rows.append((f"{names[c]}: an image, the mean, {', '.join(list(found)[1:])}", shown))
        write_pictures(asked.out, rows)
        print(f"{c + 1} classes, {time.process_time():.0f} s of CPU time", flush=True)
    print("kind: cosine; correlation with members, others of the class, other classes; members win")
    for kind, figures in found.items():
        cosine, own_, same, other, wins = np.mean(figures, axis=0)
        print(f"{kind}: {cosine:.2f}; {own_:.2f}, {same:.2f}, {other:.2f}; {wins:.0f}%")


if __name__ == "__main__":
    main()

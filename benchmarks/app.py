"""How long does an action in the app take with very many images, and how much is sent to the browser?

    OMP_NUM_THREADS=1 python benchmarks/app.py --images 20000 --known 100 --new 100

A model of random directions whose last discovery has so many images, as vectors; with `--pictures FOLDER` each is a
file, too, made of those of the folder. Requests are made to the server as the page makes them, in this process,
`--repeats` times; medians are printed: the time, that of the processor (which counts beside other processes), and the
bytes of the answer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image, ImageEnhance
from starlette.testclient import TestClient
from torch.nn.functional import normalize

from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries, Work
from happycat.app.routes import make_app
from happycat.backbone.tail import Vectors
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.model import file as model_file
from happycat.model.classes import count_images
from happycat.model.editor import Editor
from happycat.model.from_method import prototype_registry
from happycat.model.review import Review
from happycat.model.storage import State, base_part, version_part

TOKEN, HOST = "benchmark", "127.0.0.1:8123"
ORIGIN = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}


def make_model(
    folder: Path, images: int, known: int, new: int, features: int, pictures: Path | None, largest: int = 0
) -> Path:
    """A model with so many known and new classes, and a discovery of images of all of them; nothing is learned.

    `pictures`: a folder of images that the discovery's are made of; `largest`: images more of the first new class.
    """
    random = np.random.default_rng(0)
    truth = random.integers(0, known + new, images)
    truth[:largest] = known
    calm = Calm(Vectors(features), CalmConfig())
    calm.space.set(torch.zeros(features), torch.eye(features))
    prototypes = normalize(torch.from_numpy(random.normal(size=(known + new, features))).float(), dim=-1)
    calm.memory.replace(prototypes, torch.from_numpy(np.bincount(truth, minlength=known + new)))
    calm.softmax_temperature.fill_(0.05)
    calm.thresholds = torch.full((known + new,), 0.5)
    calm.number_values[:] = 1.0
    names = [f"kind {c}" for c in range(known)] + [None] * new
    registry = prototype_registry(calm, names, [0] * known + [1] * new)
    noise = torch.from_numpy(random.normal(size=(images, features))).float()
    points = normalize(prototypes[truth] + noise / features**0.5, dim=-1)
    inbox, results, model = folder / "inbox", folder / "shop-2", folder / "shop.cat"
    inbox.mkdir()
    results.mkdir()
    review = Review(
        keys=tuple(f"{i:06}.jpg" for i in range(images)),
        points=points.numpy(),
        learned=points.numpy(),
        counted=truth.astype(np.int64),
        digests=random.integers(0, 256, (images, 16), np.uint8),
        places=random.normal(size=(images, 2)).astype(np.float32),
        root=inbox,
        stage=1,
        found=new,
        count=None,
    )
    if pictures:
        draw(pictures, [inbox / key for key in review.keys])
    count_images(registry, points, calm.softmax_temperature, 1, review.digests)
    found = {"images": images, "new": list(range(known, known + new))}
    more = {"found": found, "results": str(results), "review": review.write(results), "images": images}
    state = State(calm, registry, 1, 0.7, 0)
    model_file.create(model, base_part(None, None, None, views=1), version_part(state), f"discover {inbox}", more)
    return model


def draw(source: Path, targets: list[Path]) -> None:
    """Images of a folder, repeated with another brightness each time until there are enough."""
    found = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    for n, target in enumerate(targets):
        picture = Image.open(found[n % len(found)]).convert("RGB")
        ImageEnhance.Brightness(picture).enhance(1 - 0.1 * (n // len(found))).save(target, quality=90)


class Tab:
    """Requests as the page makes them."""

    def __init__(self, model: Path):
        self.desk = Desk(Editor(model))
        discoveries = Discoveries(self.desk, Work(*[lambda *_: None] * 3))
        self.client = TestClient(make_app(self.desk, discoveries, TOKEN, 8123), base_url=f"http://{HOST}")
        self.tag = self.get("api/state").json()["tag"]

    def get(self, path: str):
        answer = self.client.get(f"/{TOKEN}/{path}")
        assert answer.status_code == 200, answer.text
        return answer

    def do(self, verb: str, **values):
        answer = self.client.post(f"/{TOKEN}/api/do/{verb}", json={"tag": self.tag, **values}, headers=ORIGIN)
        assert answer.status_code == 200, answer.text
        self.tag = answer.json()["tag"]
        return answer


def measure(name: str, request: Callable[[int], object], repeats: int) -> None:
    """Print the median time of a request, the processor's time in it, and the size of its answer."""
    times, work, answer = [], [], None
    for number in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        answer = request(number)
        times.append(time.perf_counter() - start)
        work.append(time.process_time() - busy)
    size = len(answer.content) / 1000
    print(f"{name:24}{1000 * median(times):7.0f} ms{1000 * median(work):7.0f} ms of CPU{size:9.1f} kB", flush=True)


def main() -> None:
    """Print a line for each action."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("images", 20000), ("known", 100), ("new", 100), ("features", 384), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--pictures", type=Path, help="a folder of images, to measure thumbnails as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        model = make_model(Path(folder), given.images, given.known, given.new, given.features, given.pictures)
        print(f"a model with {given.images} images was made in {time.perf_counter() - start:.0f} s")
        tab = Tab(model)
        new = [entry.id for entry in tab.desk.editor.registry if entry.stage == 1]
        measure("the whole state", lambda n: tab.get("api/state"), given.repeats)
        measure("pulse", lambda n: tab.get("api/pulse"), given.repeats)
        measure("name a class", lambda n: tab.do("name", which=new[0], name=f"fox {n}"), given.repeats)
        rows = [row.id for row in tab.desk.editor.assigned()]
        own = {which: [i for i, one in enumerate(rows) if one == which] for which in new[1:3]}
        measure("confirm 24 images", lambda n: tab.do("confirm", images=own[new[1]][8 * n :][:24]), given.repeats)
        measure("move 3 images", lambda n: tab.do("move", images=own[new[2]][3 * n :][:3], to=new[3]), given.repeats)
        measure("merge two classes", lambda n: tab.do("merge", which=0, other=new[10 + n]), given.repeats)
        measure("undo", lambda n: tab.do("undo"), given.repeats)
        if given.pictures:
            number = tab.get("api/state").json()["review"]["id"]
            measure("a thumbnail, first", lambda n: tab.get(f"thumb/{number}/{n}"), 100)
            measure("a thumbnail, again", lambda n: tab.get(f"thumb/{number}/{n}"), 100)
            again = Tab(model)
            measure("a thumbnail, next start", lambda n: again.get(f"thumb/{number}/{n}"), 100)


if __name__ == "__main__":
    main()

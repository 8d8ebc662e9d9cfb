import numpy as np
import pytest
import torch
from PIL import Image

from happycat.backbone.views import ViewDataset, ViewPlan, view_loader
from happycat.base.errors import InputError
from happycat.images.pictures import ArrayPictures, FilePictures

SIZE, SIDE = 16, 18  # 16 · 256/224 = 18.3
KEYS = [f"bird/{i}.jpg" for i in range(300)]


def gradient(height=SIDE, width=SIDE):
    """Every pixel tells its row (red) and column (green); (3, H, W), as if it were resized already."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([rows, columns, rows * 0]).to(torch.uint8)


def pixels(number=6, height=20, width=24):
    return np.random.default_rng(0).integers(256, size=(number, height, width, 3), dtype=np.uint8)


def place(crop):
    """Where a crop of `gradient` was cut, and whether it was mirrored: (top, left, mirrored)."""
    mirrored = bool(crop[1, 0, 0] > crop[1, 0, -1])
    straight = crop.flip(-1) if mirrored else crop
    top, left = int(straight[0, 0, 0]), int(straight[1, 0, 0])
    assert torch.equal(straight, gradient(99, 99)[:, top : top + SIZE, left : left + SIZE])
    return top, left, mirrored


@pytest.mark.parametrize(
    ("image_size", "picture", "expected"),
    [
        (224, (300, 300), (256, 256)),
        (16, (5, 5), (18, 18)),  # smaller than a view
        (16, (40, 20), (18, 36)),  # PIL says width × height
        (16, (20, 40), (36, 18)),
        (16, (1000, 2), (18, 9000)),
    ],
)
def test_the_shorter_side_is_a_little_longer_than_a_view(image_size, picture, expected):
    plan = ViewPlan(image_size=image_size)
    resized = plan.resized(Image.new("RGB", picture, (10, 20, 30)))
    assert resized.dtype == torch.uint8
    assert resized.shape == (3, *expected)
    assert resized.flatten(1).unique(dim=1).flatten().tolist() == [10, 20, 30]
    for view in (plan.centre(resized), plan.random(resized, "key", "1")):
        assert view.shape == (3, image_size, image_size)
        assert view.dtype == torch.uint8


def test_the_centre_crop_is_the_centre():
    plan = ViewPlan(image_size=SIZE, seed=1)
    assert place(plan.centre(gradient())) == (1, 1, False)
    assert place(plan.centre(gradient(SIDE, 36))) == (1, 10, False)
    assert place(ViewPlan(image_size=SIZE, seed=2).centre(gradient(36, SIDE))) == (10, 1, False)


@pytest.mark.parametrize("shape", [(SIDE, SIDE), (SIDE, 24), (24, SIDE)])
def test_random_crops_stay_inside_and_reach_every_place(shape):
    plan = ViewPlan(image_size=SIZE)
    cut = {place(plan.random(gradient(*shape), key, view)) for key in KEYS for view in ("1", "2")}
    height, width = shape
    assert cut == {
        (top, left, mirrored)
        for top in range(height - SIZE + 1)
        for left in range(width - SIZE + 1)
        for mirrored in (False, True)
    }


def test_half_of_the_views_are_mirrored_or_none():
    def mirrored(plan):
        return sum(place(plan.random(gradient(), key, "1"))[2] for key in KEYS)

    assert 110 < mirrored(ViewPlan(image_size=SIZE, mirror=True)) < 190
    assert mirrored(ViewPlan(image_size=SIZE, mirror=False)) == 0


def test_without_mirroring_the_same_places_are_cut():
    both = [ViewPlan(image_size=SIZE, mirror=mirror) for mirror in (True, False)]
    for key in KEYS[:30]:
        assert place(both[0].random(gradient(), key, "1"))[:2] == place(both[1].random(gradient(), key, "1"))[:2]


def test_a_view_depends_on_seed_key_and_name_alone():
    plan, again = ViewPlan(image_size=SIZE, seed=3), ViewPlan(image_size=SIZE, seed=3)
    first = {key: plan.random(gradient(), key, "1") for key in KEYS}
    torch.manual_seed(77)
    for key in reversed(KEYS):
        again.random(gradient(), key, "2")
        assert torch.equal(again.random(gradient(), key, "1"), first[key])

    def differing(cut):
        return sum(not torch.equal(cut(key), first[key]) for key in KEYS)

    # 18 crops are possible, so that one in 18 is the same by chance.
    assert differing(lambda key: plan.random(gradient(), key, "2")) > 250
    assert differing(lambda key: plan.random(gradient(), "x" + key, "1")) > 250
    assert differing(lambda key: ViewPlan(image_size=SIZE, seed=4).random(gradient(), key, "1")) > 250


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "LA", "I;16", "CMYK"])
def test_pictures_of_every_mode(tmp_path, mode):
    picture = Image.fromarray(pixels(1)[0])
    picture = Image.new("I;16", (24, 20), 300) if mode == "I;16" else picture.convert(mode)
    name = "a.tif" if mode == "CMYK" else "a.png"
    picture.save(tmp_path / name)
    views = ViewDataset(FilePictures(tmp_path, [name]), ViewPlan(image_size=SIZE), ("centre", "1"))[0]
    assert views.shape == (2, 3, SIZE, SIZE)
    assert views.dtype == torch.uint8


def test_grey_pictures_give_three_equal_channels():
    views = ViewDataset(ArrayPictures(pixels()[..., 0]), ViewPlan(image_size=SIZE), ("centre",))[0][0]
    assert torch.equal(views[0], views[1])
    assert torch.equal(views[0], views[2])
    assert views.float().std() > 0


def test_a_dataset_gives_the_views_in_the_order_of_their_names():
    pictures, plan = ArrayPictures(pixels()), ViewPlan(image_size=SIZE)
    dataset = ViewDataset(pictures, plan, ("2", "centre", "1"))
    assert len(dataset) == 6
    resized = plan.resized(pictures.read(4))
    expected = [plan.random(resized, "4", "2"), plan.centre(resized), plan.random(resized, "4", "1")]
    assert torch.equal(dataset[4], torch.stack(expected))


def test_workers_give_what_the_main_process_gives():
    dataset = ViewDataset(ArrayPictures(pixels()), ViewPlan(image_size=SIZE), ("centre", "1", "2"))
    batches = [[5, 0], [3], [1, 2, 4]]
    before = torch.get_rng_state()
    alone, helped = (list(view_loader(dataset, batches, workers)) for workers in (0, 1))
    assert torch.equal(torch.get_rng_state(), before)  # the loader left the global stream alone
    assert [views.shape for views in alone] == [(n, 3, 3, SIZE, SIZE) for n in (2, 1, 3)]
    for a, b, batch in zip(alone, helped, batches, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, torch.stack([dataset[i] for i in batch]))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_picture_is_one_line_from_any_process(tmp_path, workers):
    for name, picture in zip("abc", pixels(3), strict=True):
        Image.fromarray(picture).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    pictures = FilePictures(tmp_path, ["a.png", "b.png", "c.png"])
    dataset = ViewDataset(pictures, ViewPlan(image_size=SIZE), ("centre",))
    with pytest.raises(InputError) as direct:
        pictures.read(1)
    loader = view_loader(dataset, [[0, 2], [0, 1]], workers)
    assert next(loader).shape == (2, 1, 3, SIZE, SIZE)
    with pytest.raises(InputError) as caught:
        next(loader)
    assert type(caught.value) is InputError
    assert str(caught.value) == str(direct.value)
    assert "b.png" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_gigantic_picture_is_a_persons_mistake_too(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # 24 × 20 is more than twice that: a bomb to Pillow
    Image.fromarray(pixels(1)[0]).save(tmp_path / "a.png")
    dataset = ViewDataset(FilePictures(tmp_path, ["a.png"]), ViewPlan(image_size=SIZE), ("centre",))
    with pytest.raises(InputError, match=r"a\.png"):
        next(view_loader(dataset, [[0]], workers))

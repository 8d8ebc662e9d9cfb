"""CUB, Stanford Cars and FGVC-Aircraft, from trees of the same layout."""

import numpy as np
import pytest
from scipy.io import savemat

from happycat.base.errors import InputError
from happycat.images.datasets import aircraft, cars, cub


@pytest.fixture
def cub_root(tmp_path, draw):
    """Three pictures: number, class, is-train."""
    folder = tmp_path / "CUB_200_2011"
    pictures = {
        1: ("001.Black_footed_Albatross/a.jpg", 1, 1),
        2: ("200.Wren/b.jpg", 200, 0),
        3: ("b/c.jpg", 71, 1),
    }
    for number, (path, _, _) in pictures.items():
        draw(folder / "images" / path, 40 * number)
    names = ["001.Black_footed_Albatross"] + [f"{i:03d}.Bird_{i}" for i in range(2, 201)]
    (folder / "classes.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(names, 1)))
    for file, field in (("images", 0), ("image_class_labels", 1), ("train_test_split", 2)):
        (folder / f"{file}.txt").write_text("".join(f"{n} {row[field]}\n" for n, row in pictures.items()))
    return tmp_path


def test_cub(cub_root, grey):
    images = cub.load(cub_root)
    assert images.train.keys == ("images/001.Black_footed_Albatross/a.jpg", "images/b/c.jpg")
    assert images.train_labels.tolist() == [0, 70]
    assert images.test.keys == ("images/200.Wren/b.jpg",)
    assert images.test_labels.tolist() == [199]
    assert [grey(images.train, 0), grey(images.test, 0)] == [40, 80]
    assert images.classes[:2] == ("Black footed Albatross", "Bird 2")


def test_cub_bad_archives(cub_root):
    folder = cub_root / "CUB_200_2011"
    (folder / "images" / "b" / "c.jpg").unlink()
    with pytest.raises(InputError, match=r"1 of 3 listed images are missing .*first: images/b/c\.jpg"):
        cub.load(cub_root)
    (folder / "train_test_split.txt").write_text("1 1\n2 0\n")
    with pytest.raises(InputError, match=r"train_test_split\.txt has no line for image 3"):
        cub.load(cub_root)
    (folder / "image_class_labels.txt").write_text("1\n")
    with pytest.raises(InputError, match=r"image_class_labels\.txt: '1' is not 2 fields"):
        cub.load(cub_root)
    (folder / "classes.txt").unlink()
    with pytest.raises(InputError, match=r"classes\.txt is missing"):
        cub.load(cub_root)
    with pytest.raises(InputError, match=r"get CUB_200_2011\.tgz .* and unpack it in"):
        cub.load(cub_root / "elsewhere")


@pytest.fixture
def cars_root(tmp_path, draw):
    """Two train pictures and one for test."""
    folder = tmp_path / "stanford_cars"
    (folder / "devkit").mkdir(parents=True)

    def annotate(path, rows):
        kinds = [("bbox_x1", "O"), ("class", "O"), ("fname", "O")]
        savemat(path, {"annotations": np.array([(1, label, name) for name, label in rows], dtype=kinds)})

    draw(folder / "cars_train" / "00001.jpg", 10)
    draw(folder / "cars_train" / "00002.jpg", 20)
    draw(folder / "cars_test" / "00001.jpg", 30)
    annotate(folder / "devkit" / "cars_train_annos.mat", [("00001.jpg", 14), ("00002.jpg", 196)])
    annotate(folder / "cars_test_annos_withlabels.mat", [("00001.jpg", 1)])
    names = np.array([f"Car {i}" for i in range(196)], dtype=object)
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": names})
    return tmp_path


@pytest.mark.parametrize("labels_in_devkit", [False, True])
def test_cars(cars_root, grey, labels_in_devkit):
    if labels_in_devkit:
        folder = cars_root / "stanford_cars"
        name = "cars_test_annos_withlabels.mat"
        (folder / name).rename(folder / "devkit" / name)
    images = cars.load(cars_root)
    assert images.train.keys == ("cars_train/00001.jpg", "cars_train/00002.jpg")
    assert images.train_labels.tolist() == [13, 195]
    assert images.test.keys == ("cars_test/00001.jpg",)
    assert images.test_labels.tolist() == [0]
    assert [grey(images.train, 1), grey(images.test, 0)] == [20, 30]
    assert images.classes[195] == "Car 195"


def test_cars_bad_archives(cars_root):
    folder = cars_root / "stanford_cars"
    (folder / "cars_test_annos_withlabels.mat").write_bytes(b"not Matlab")
    with pytest.raises(InputError, match=r"withlabels\.mat cannot be read as Matlab data"):
        cars.load(cars_root)
    (folder / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(InputError, match=r"withlabels\.mat is missing"):
        cars.load(cars_root)
    with pytest.raises(InputError, match=r"cannot be downloaded any more; put a copy in torchvision's layout"):
        cars.load(cars_root / "elsewhere", download=True)


@pytest.fixture
def aircraft_root(tmp_path, draw):
    """Two train pictures and one for test; the variants are listed backwards."""
    data = tmp_path / "fgvc-aircraft-2013b" / "data"
    for number, grey_level in (("0034309", 10), ("1025794", 20), ("0000001", 30)):
        draw(data / "images" / f"{number}.jpg", grey_level)
    variants = [f"Variant {i:02d}" for i in range(98)] + ["707-320", "F-16A/B"]
    (data / "variants.txt").write_text("".join(f"{name}\n" for name in reversed(variants)))
    (data / "images_variant_trainval.txt").write_text("1025794 Variant 97\n0034309 707-320\n")
    (data / "images_variant_test.txt").write_text("0000001 F-16A/B\n")
    return tmp_path


def test_aircraft(aircraft_root, grey):
    images = aircraft.load(aircraft_root)
    assert images.classes[:3] == ("707-320", "F-16A/B", "Variant 00")
    assert images.train.keys == ("data/images/1025794.jpg", "data/images/0034309.jpg")
    assert images.train_labels.tolist() == [99, 0]
    assert images.test_labels.tolist() == [1]
    assert [grey(images.train, 0), grey(images.test, 0)] == [20, 30]


def test_aircraft_bad_archives(aircraft_root):
    annotations = aircraft_root / "fgvc-aircraft-2013b" / "data" / "images_variant_test.txt"
    annotations.write_text("0000001 Zeppelin\n")
    with pytest.raises(InputError, match=r"images_variant_test\.txt: 'Zeppelin' is not one of the 100 classes"):
        aircraft.load(aircraft_root)
    with pytest.raises(InputError, match=r"variants\.txt is missing; the option download fetches it"):
        aircraft.load(aircraft_root / "elsewhere")


@pytest.mark.parametrize(
    ("dataset", "num_classes", "known", "new"),
    [
        # Semantic Shift Benchmark: pairs of lookalikes, one known and one new.
        (cub, 200, (28, 26, 70, 199), (29, 3, 71, 125)),
        (cars, 196, (22, 41, 82, 189), (23, 42, 83, 190)),  # Audi S4 2012 and 2007, …, VW Golf 2012 and 1991
        (aircraft, 100, (2, 10, 14, 99), (6, 12, 15, 94)),  # Boeing 737-200 and -600, …
    ],
)
def test_semantic_shift_base_classes(dataset, num_classes, known, new, drawn_novel):
    assert sorted(dataset.BASE + dataset.NOVEL) == list(range(num_classes))
    assert len(dataset.BASE) == num_classes // 2
    assert set(known) <= set(dataset.BASE)
    assert set(new) <= set(dataset.NOVEL)
    assert drawn_novel(num_classes, dataset.BASE) == dataset.NOVEL

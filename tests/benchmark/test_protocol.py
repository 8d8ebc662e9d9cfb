"""The protocol; `stages.test_pictures` is called through its module, or pytest would take it for a test."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from PIL import Image

from happycat.base.errors import DamagedError, InputError
from happycat.base.sealed import write_sealed
from happycat.base.strict_json import as_json
from happycat.benchmark import protocol as stages
from happycat.benchmark.protocol import Protocol, Split, check_split, default_protocol, make_split, read_order
from happycat.images.pictures import ArrayPictures, FilePictures, Images


def make_images(classes=10, each=20, test_each=3, **more):
    """A data set whose i-th picture belongs to class i mod `classes`; the first pixels say which picture it is."""

    def pictures(number):
        pixels = np.zeros((number, 2, 2), dtype=np.uint8)
        pixels[:, 0, 0], pixels[:, 0, 1] = np.arange(number) % 256, np.arange(number) // 256
        return ArrayPictures(pixels), np.arange(number) % classes

    train, train_labels = pictures(classes * each)
    test, test_labels = pictures(classes * test_each)
    names = tuple(f"class {c}" for c in range(classes))
    return Images(
        name="fake",
        classes=names,
        train=train,
        train_labels=train_labels,
        test=test,
        test_labels=test_labels,
        **more,
    )


def class_of(images, key):
    return images.classes[images.train_labels[int(key)]]


def numbers(stage):
    return {name: len(keys) for name, keys in stage["images"].items()}


def all_served(split):
    return [key for stage in split.stages for keys in stage["images"].values() for key in keys]


def assert_one_line(error):
    assert "\n" not in str(error)


# Protocol


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("base_classes", 1),
        ("base_classes", -3),
        ("stages", 0),
        ("labelled_share", 0.0),
        ("labelled_share", 1.0),
        ("labelled_share", float("nan")),
        ("new_per_class", 0),
        ("old_per_class", -1),
    ],
)
def test_protocol_refuses_what_cannot_be(name, value):
    with pytest.raises(InputError, match=name) as caught:
        Protocol(**{"base_classes": 5, name: value})
    assert str(value) in str(caught.value)
    assert_one_line(caught.value)


def test_protocol_takes_the_least_values():
    Protocol(base_classes=2, stages=1, labelled_share=0.01, new_per_class=1, old_per_class=1)


def test_what_a_protocol_is_if_nothing_is_said():
    assert dataclasses.asdict(Protocol(base_classes=4)) == {
        "base_classes": 4, "stages": 5, "labelled_share": 0.8, "new_per_class": None, "old_per_class": None,
        "overlap": True, "split_seed": 0, "order_seed": None,
    }  # fmt: skip
    assert make_split(make_images(), Protocol(base_classes=4)).content()["format"] == 1


def test_default_protocol():
    images = make_images(protocol={"stages": 3, "new_per_class": 7})
    assert default_protocol(images) == Protocol(base_classes=5, stages=3, new_per_class=7)
    changed = default_protocol(images, stages=2, base_classes=4, new_per_class=None)
    assert changed == Protocol(base_classes=4, stages=2, new_per_class=7)
    with pytest.raises(InputError, match=r"unknown protocol values.*'sessions'"):
        default_protocol(images, sessions=2)


# What is served


def test_counts_of_each_class_and_stage():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3, new_per_class=9, old_per_class=2))
    base = split.classes[:4]
    assert {name: len(keys) for name, keys in split.labelled.items()} == dict.fromkeys(base, 16)
    assert [stage["new"] for stage in split.stages] == [list(split.classes[a : a + 2]) for a in (4, 6, 8)]
    for t, stage in enumerate(split.stages, 1):
        expected = {name: 9 if name in stage["new"] else 2 for name in split.classes[: split.num_seen(t)]}
        assert numbers(stage) == expected
        for keys in stage["images"].values():
            assert len(set(keys)) == len(keys)
    assert [split.num_seen(t) for t in range(4)] == [4, 6, 8, 10]
    assert [split.num_new(t) for t in (1, 2, 3)] == [2, 2, 2]


def test_counts_that_follow_from_the_class():
    # 40 images: 32 labelled; 32 of a new class; 2 = 32/16 of an old one.
    split = make_split(make_images(each=40), Protocol(base_classes=4, stages=2))
    assert {len(keys) for keys in split.labelled.values()} == {32}
    assert set(numbers(split.stages[0]).values()) == {2, 32}
    # 5 images: 4 labelled; 4 new; at least one old.
    split = make_split(make_images(each=5), Protocol(base_classes=4, stages=2))
    assert {len(keys) for keys in split.labelled.values()} == {4}
    assert set(numbers(split.stages[1]).values()) == {1, 4}


@pytest.mark.parametrize(("each", "share", "labelled"), [(29, 0.8, 23), (6, 0.8, 4), (100, 0.29, 29)])
def test_the_labelled_share_is_rounded_down(each, share, labelled):
    """As the authors' program does: 23.2 and 4.8; but 0.29 × 100, a hair below 29 in floating point, is 29."""
    split = make_split(make_images(each=each), Protocol(base_classes=4, stages=2, labelled_share=share))
    assert {len(keys) for keys in split.labelled.values()} == {labelled}


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_a_base_class_has_both_labelled_and_unlabelled_images(share):
    split = make_split(make_images(each=2), Protocol(base_classes=4, stages=2, labelled_share=share))
    assert {len(keys) for keys in split.labelled.values()} == {1}
    assert all(numbers(split.stages[0])[name] == 1 for name in split.classes[:4])


@pytest.mark.parametrize("overlap", [False, True])
def test_every_key_is_of_the_class_it_stands_under(overlap):
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3, overlap=overlap))
    for part in (split.labelled, *(stage["images"] for stage in split.stages)):
        for name, keys in part.items():
            assert keys
            assert {class_of(images, key) for key in keys} == {name}
    for name, keys in split.test.items():
        assert [images.classes[images.test_labels[int(key)]] for key in keys] == [name] * 3
    assert set(split.test) == set(split.classes)


@pytest.mark.parametrize("overlap", [False, True])
def test_labelled_images_are_never_served_unlabelled(overlap):
    split = make_split(make_images(), Protocol(base_classes=5, stages=5, old_per_class=20, overlap=overlap))
    labelled = {key for keys in split.labelled.values() for key in keys}
    assert len(labelled) == 5 * 16
    assert not labelled & set(all_served(split))


@pytest.mark.parametrize("old_per_class", [None, 1, 3, 20])
@pytest.mark.parametrize("new_per_class", [None, 5, 20])
def test_without_overlap_no_image_is_served_twice(old_per_class, new_per_class):
    protocol = Protocol(
        base_classes=4, stages=3, overlap=False, old_per_class=old_per_class, new_per_class=new_per_class
    )
    split = make_split(make_images(), protocol)
    served = all_served(split) + [key for keys in split.labelled.values() for key in keys]
    assert len(served) == len(set(served))


def test_without_overlap_what_is_left_is_shared_out():
    split = make_split(make_images(), Protocol(base_classes=4, stages=3, overlap=False, old_per_class=20))
    # 4 of a base class are left for 3 stages; of one found at stage 1, 4 for 2 stages; at stage 2, 4 for one.
    base, first, second = split.classes[0], split.classes[4], split.classes[6]
    assert [numbers(stage).get(base) for stage in split.stages] == [2, 1, 1]
    assert [numbers(stage).get(first) for stage in split.stages] == [16, 2, 2]
    assert [numbers(stage).get(second) for stage in split.stages] == [None, 16, 4]


def test_without_overlap_a_class_may_run_out():
    split = make_split(make_images(), Protocol(base_classes=4, stages=3, overlap=False, new_per_class=20))
    assert split.classes[4] not in split.stages[1]["images"]
    assert all(keys for stage in split.stages for keys in stage["images"].values())


def test_with_overlap_a_found_class_is_served_again_from_all_its_images():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3, new_per_class=16, old_per_class=20))
    found = split.stages[0]["new"][0]
    everything = {key for key in images.train.keys if class_of(images, key) == found}
    first, later = (set(split.stages[t]["images"][found]) for t in (0, 1))
    assert len(first) == 16
    assert first < everything
    assert later == everything
    # A base class's images come from its unlabelled ones only, stage after stage.
    base = split.classes[0]
    assert [len(stage["images"][base]) for stage in split.stages] == [4, 4, 4]


def test_with_overlap_some_images_come_again():
    split = make_split(make_images(), Protocol(base_classes=4, stages=3, old_per_class=3))
    served = all_served(split)
    assert len(set(served)) < len(served)
    found = split.stages[0]["new"][0]
    assert split.stages[1]["images"][found] != split.stages[2]["images"][found]  # drawn anew


# Orders


def test_a_given_order():
    order = tuple(f"class {c}" for c in (3, 1, 9, 0, 2, 5))  # not all of them
    split = make_split(make_images(), Protocol(base_classes=2, stages=2), order)
    assert split.classes == order
    assert list(split.labelled) == ["class 3", "class 1"]
    assert [stage["new"] for stage in split.stages] == [["class 9", "class 0"], ["class 2", "class 5"]]
    assert set(split.test) == set(order)


def test_the_published_order_is_taken_unless_another_is_asked_for():
    published = (3, 1, 9, 0, 2, 5, 4, 6, 8, 7)
    images, protocol = make_images(order=published), Protocol(base_classes=4, stages=2, split_seed=1)
    names = tuple(f"class {c}" for c in published)
    assert make_split(images, protocol).classes == names
    assert make_split(images, protocol, names[::-1]).classes == names[::-1]
    shuffled = make_split(images, dataclasses.replace(protocol, order_seed=1)).classes
    assert shuffled != names
    assert shuffled == make_split(make_images(), protocol).classes  # as if nothing had been published
    assert sorted(shuffled) == sorted(names)


def test_the_order_by_seed():
    orders = {make_split(make_images(), Protocol(base_classes=4, split_seed=s)).classes for s in range(5)}
    assert len(orders) == 5


def test_another_order_draws_the_same_images_of_a_class():
    some, other = (make_split(make_images(), Protocol(base_classes=4, stages=2, order_seed=s)) for s in (1, 2))
    assert some.classes != other.classes
    (both, *_) = set(some.labelled) & set(other.labelled)
    assert some.labelled[both] == other.labelled[both]


def test_an_order_and_a_seed_for_it_are_one_too_many():
    with pytest.raises(InputError, match="give one of the two"):
        make_split(make_images(), Protocol(base_classes=4, order_seed=1), ("class 0", "class 1"))


@pytest.mark.parametrize(
    ("order", "match"),
    [
        (("class 0", "class 1", "dragon"), "'dragon', which fake does not have"),
        (("class 0", "class 1", "class 2", "class 1"), "names a class twice"),
        (("class 0", "class 1"), "none is new"),
    ],
)
def test_orders_that_cannot_be(order, match):
    with pytest.raises(InputError, match=match) as caught:
        make_split(make_images(), Protocol(base_classes=2, stages=1), order)
    assert_one_line(caught.value)


def test_read_order(tmp_path):
    (tmp_path / "order.txt").write_text("\nGrünfink\n  class 1 \n\nclass 2\n", encoding="utf-8")
    assert read_order(tmp_path / "order.txt") == ("Grünfink", "class 1", "class 2")
    with pytest.raises(InputError, match=r"class order .*none\.txt cannot be read"):
        read_order(tmp_path / "none.txt")


def test_an_order_file_that_is_no_text(tmp_path):
    (tmp_path / "order.txt").write_bytes(b"\xff\xfe\x00order")
    with pytest.raises(InputError, match=r"order\.txt"):
        read_order(tmp_path / "order.txt")


def test_what_is_left_over_goes_to_the_last_stage():
    # 196 cars: 98 are base and 98 are new.
    split = make_split(make_images(classes=196, each=2, test_each=1), Protocol(base_classes=98, stages=5))
    assert [split.num_new(t) for t in range(1, 6)] == [19, 19, 19, 19, 22]
    new = [name for stage in split.stages for name in stage["new"]]
    assert new == list(split.classes[98:])


def test_too_few_new_classes():
    with pytest.raises(InputError, match="10 classes, 8 of them base, leave 2 new classes for 3 stages"):
        make_split(make_images(), Protocol(base_classes=8, stages=3))


def test_a_class_of_one_image():
    images = make_images(each=2)
    labels = images.train_labels.copy()
    labels[0] = 1
    with pytest.raises(InputError, match="class 'class 0' has 1 training images, at least 2 are needed"):
        make_split(dataclasses.replace(images, train_labels=labels), Protocol(base_classes=4, stages=2))


def test_class_names_must_differ():
    images = dataclasses.replace(make_images(classes=4), classes=("a", "b", "a", "c"))
    with pytest.raises(InputError, match="not unique"):
        make_split(images, Protocol(base_classes=2, stages=1))


# Seeds


def test_same_seed_same_split_and_another_seed_another():
    def split(seed, order=None):
        return make_split(make_images(), Protocol(base_classes=4, stages=3, split_seed=seed), order)

    assert split(0) == split(0)
    order = tuple(f"class {c}" for c in range(10))
    one, other = split(0, order), split(1, order)
    for name in order[:4]:
        assert set(one.labelled[name]) != set(other.labelled[name])
    assert all(a["images"] != b["images"] for a, b in zip(one.stages, other.stages, strict=True))


def test_the_images_of_a_class_do_not_depend_on_the_order_of_the_classes():
    order = tuple(f"class {c}" for c in range(10))
    swapped = ("class 1", "class 0", *order[2:])
    one, other = (make_split(make_images(), Protocol(base_classes=4, stages=3), o) for o in (order, swapped))
    assert one.labelled == other.labelled
    assert [s["images"] for s in one.stages] == [s["images"] for s in other.stages]


# Files


def test_written_and_read_again(tmp_path):
    names = ("Grünfink", "a/b", '"q"', *(f"class {c}" for c in range(3, 10)))
    images = dataclasses.replace(make_images(), classes=names)
    for overlap in (False, True):
        split = make_split(images, Protocol(base_classes=4, stages=3, overlap=overlap, old_per_class=2))
        split.write(tmp_path / "split.json")
        assert Split.read(tmp_path / "split.json") == split


def written(tmp_path, **changes):
    path = tmp_path / "split.json"
    make_split(make_images(), Protocol(base_classes=4, stages=3)).write(path)
    data = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(json.dumps({name: value for name, value in data.items() if value is not None}), "utf-8")
    return path


@pytest.mark.parametrize(
    "content", [b"", b"no json", b"\xff\xfe\x00", b"[]", b"[1, 2]", b"3", b"null", b'"text"', b"{}", b'{"format": 1}']
)
def test_garbage_is_not_a_split(tmp_path, content):
    path = tmp_path / "split.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"split\.json") as caught:
        Split.read(path)
    assert_one_line(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": None},
        {"protocol": None},
        {"protocol": 3},
        {"protocol": {"base_classes": 4, "sessions": 3}},
        {"classes": None},
        {"classes": 3},
        {"stages": None},
        {"labelled": None},
        {"test": None},
        {"more": 1},
    ],
    ids=str,
)
def test_a_split_with_something_missing_or_odd(tmp_path, changes):
    with pytest.raises(InputError, match=r"split\.json is not a split file") as caught:
        Split.read(written(tmp_path, **changes))
    assert_one_line(caught.value)


def test_a_split_of_another_format(tmp_path):
    with pytest.raises(InputError, match=f"another format; this version reads format {stages.FORMAT}"):
        Split.read(written(tmp_path, format=stages.FORMAT + 1))


def test_no_split_file(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        Split.read(tmp_path / "none.json")


# Pictures


def test_labelled_pictures_and_their_ids():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3))
    pictures, ids = stages.labelled_pictures(images, split)
    assert len(pictures) == len(ids) == 4 * 16
    assert sorted(set(ids.tolist())) == [0, 1, 2, 3]
    for i, key in enumerate(pictures.keys):
        assert split.classes[ids[i]] == class_of(images, key)
        assert np.asarray(pictures.read(i))[0, 0, 0] == int(key) % 256  # the picture of that key


def test_unlabelled_pictures_carry_no_label():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3, old_per_class=4))
    for t in (1, 2, 3):
        pictures = stages.unlabelled_pictures(images, split, t)
        expected = [key for keys in split.stages[t - 1]["images"].values() for key in keys]
        assert sorted(pictures.keys) == sorted(expected)
        assert not isinstance(pictures, tuple)
        assert not [name for name in dir(pictures) if "label" in name or "class_id" in name]
        assert all(isinstance(key, str) for key in pictures.keys)
        for i, key in enumerate(pictures.keys):
            assert np.asarray(pictures.read(i))[0, 0, 0] == int(key) % 256


def test_unlabelled_pictures_stand_in_an_order_that_says_nothing():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3, old_per_class=4))
    keys = stages.unlabelled_pictures(images, split, 1).keys
    labels = [class_of(images, key) for key in keys]
    neighbours = sum(a == b for a, b in itertools.pairwise(labels))
    assert neighbours < len(labels) / 2  # grouped by class, it would be all but five
    # Whatever classes the same images were filed under, their order is the same.
    pooled = sorted(keys, key=int)
    stage = {"new": ["class 0"], "images": {"class 0": pooled[:9], "class 1": pooled[9:]}}
    other = dataclasses.replace(split, stages=(stage, *split.stages[1:]))
    assert stages.unlabelled_pictures(images, other, 1).keys == keys
    assert list(keys) != pooled


def test_unlabelled_order_is_the_same_every_time_and_differs_by_seed():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3))
    keys = stages.unlabelled_pictures(images, split, 1).keys
    assert stages.unlabelled_pictures(images, split, 1).keys == keys
    other = dataclasses.replace(split, protocol=dataclasses.replace(split.protocol, split_seed=1))
    assert stages.unlabelled_pictures(images, other, 1).keys != keys


def test_test_pictures_of_a_stage_are_those_of_its_new_classes():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3))
    seen = []
    for t, expected in enumerate([[0, 1, 2, 3], [4, 5], [6, 7], [8, 9]]):
        pictures, ids = stages.test_pictures(images, split, t)
        assert sorted(ids.tolist()) == sorted(expected * 3)
        for i, key in enumerate(pictures.keys):
            assert split.classes[ids[i]] == images.classes[images.test_labels[int(key)]]
            assert np.asarray(pictures.read(i))[0, 0, 0] == int(key)
        seen += pictures.keys
    assert sorted(seen, key=int) == list(images.test.keys)


def test_a_key_that_the_data_set_does_not_have():
    images = make_images()
    split = make_split(images, Protocol(base_classes=4, stages=3))
    labelled = {**split.labelled, split.classes[0]: ["999999"]}
    with pytest.raises(InputError, match="image '999999', which the data set does not have") as caught:
        stages.labelled_pictures(images, dataclasses.replace(split, labelled=labelled))
    assert_one_line(caught.value)
    stage = {**split.stages[0], "images": {split.classes[0]: ["999999"]}}
    with pytest.raises(InputError, match="999999"):
        stages.unlabelled_pictures(images, dataclasses.replace(split, stages=(stage, *split.stages[1:])), 1)


def test_a_subset_reads_files_by_key(tmp_path):
    for level in range(3):
        Image.new("L", (2, 2), level * 10).save(tmp_path / f"{level}.png")
    subset = stages.Subset(FilePictures(tmp_path, ["0.png", "1.png", "2.png"]), ["2.png", "0.png"])
    assert len(subset) == 2
    assert [subset.read(i).getpixel((0, 0)) for i in range(2)] == [(20, 20, 20), (0, 0, 0)]
    assert subset.source == str(tmp_path.resolve())


# check_split


def good_split():
    return make_split(make_images(), Protocol(base_classes=4, stages=2, old_per_class=1, new_per_class=5))


def with_stage(split, number, images):
    changed = list(split.stages)
    changed[number - 1] = {**changed[number - 1], "images": images}
    return dataclasses.replace(split, stages=tuple(changed))


def test_a_good_split_passes():
    check_split(good_split(), batch_size=19)  # stage 1 has 4 · 1 + 3 · 5


def test_a_stage_without_images():
    with pytest.raises(InputError, match="stage 2 has no images"):
        check_split(with_stage(good_split(), 2, {}), batch_size=2)
    with pytest.raises(InputError, match="Stage-0 has no images"):
        check_split(dataclasses.replace(good_split(), labelled={}), batch_size=2)


def test_more_new_classes_than_images():
    split = good_split()
    with pytest.raises(InputError, match="stage 1 has 3 new classes but only 2 images"):
        check_split(with_stage(split, 1, {split.classes[4]: ["0", "10"]}), batch_size=2)


def test_fewer_images_than_a_batch():
    with pytest.raises(InputError, match="stage 1 has 19 images, fewer than a batch of 20; use a batch size of 19"):
        check_split(good_split(), batch_size=20)
    with pytest.raises(InputError, match="Stage-0 has 64 images, fewer than a batch of 128"):
        check_split(good_split(), batch_size=128)


@pytest.mark.parametrize("missing", [[], None])
def test_a_class_without_a_test_image(missing):
    split = good_split()
    test = {**split.test, split.classes[3]: missing}
    if missing is None:
        del test[split.classes[3]]
    with pytest.raises(InputError, match=f"1 classes have no test image \\(first: '{split.classes[3]}'"):
        check_split(dataclasses.replace(split, test=test), batch_size=2)


def test_plan_text():
    assert stages.plan_text(good_split()).splitlines() == [
        "Stage-0: 4 labelled classes, 64 images",
        "Stage 1: 3 new classes, 19 unlabelled images",
        "Stage 2: 3 new classes, 22 unlabelled images",
    ]


def test_the_least_seeds_and_the_fewest_base_classes():
    assert Protocol(base_classes=2, order_seed=0, split_seed=0).order_seed == 0
    for name in ("order_seed", "split_seed"):
        with pytest.raises(InputError, match=name):
            Protocol(**{"base_classes": 2, name: -1})
    assert default_protocol(make_images(classes=4)).base_classes == 2
    assert default_protocol(make_images(classes=3)).base_classes == 2
    assert default_protocol(make_images(classes=7)).base_classes == 3


def test_blank_lines_of_an_order_file_are_no_classes(tmp_path):
    (tmp_path / "order.txt").write_text("a\n   \n\n b \n")
    assert read_order(tmp_path / "order.txt") == ("a", "b")


def test_a_split_of_a_run_folder_has_a_checksum_that_is_verified(tmp_path):
    split = good_split()
    write_sealed(tmp_path / "split.json", as_json(split.content()))
    assert Split.read(tmp_path / "split.json") == Split.of(as_json(split.content()), "it")
    text = (tmp_path / "split.json").read_text()
    (tmp_path / "split.json").write_text(text.replace('"split_seed": 0', '"split_seed": 1'))
    with pytest.raises(DamagedError, match="checksum"):
        Split.read(tmp_path / "split.json")


def test_as_many_images_as_new_classes_are_enough():
    split = good_split()
    images = {name: [str(4 + i)] for i, name in enumerate(split.classes[4:7])}
    check_split(with_stage(split, 1, images), batch_size=3)

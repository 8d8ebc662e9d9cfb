"""Collecting image files and labels, readable or not."""

import csv
import os
from pathlib import Path

import pytest
from PIL import Image

from happycat.base.errors import InputError, StorageError
from happycat.images import collecting as module
from happycat.images import decoding
from happycat.images.collecting import Skipped, gather, gather_labelled, write_skipped, write_table
from happycat.images.finding import listed


@pytest.fixture
def pets(tmp_path, draw):
    """Two classes of two pictures, in different depths."""
    root = tmp_path / "pets"
    draw(root / "cat" / "1.png", 1)
    draw(root / "cat" / "deep" / "er" / "2.png", 2)
    draw(root / "dog" / "3.png", 3)
    draw(root / "dog" / "4.jpg", 4)
    return root


def table(path: Path, *rows: tuple, encoding: str = "utf-8") -> Path:
    with open(path, "w", encoding=encoding, newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def mistake(function, *arguments) -> str:
    """The one line of the error."""
    with pytest.raises(InputError) as caught:
        function(*arguments)
    assert len(str(caught.value).splitlines()) == 1
    str(caught.value).encode()  # it can be printed
    return str(caught.value)


def test_a_folder_per_class(pets, grey):
    gathered = gather_labelled(pets)
    assert gathered.pictures.keys == ("cat/1.png", "cat/deep/er/2.png", "dog/3.png", "dog/4.jpg")
    assert gathered.labels == ["cat", "cat", "dog", "dog"]
    assert gathered.skipped == []
    assert gathered.duplicates == {}
    assert [grey(gathered.pictures, i) for i in range(4)] == [1, 2, 3, 4]
    assert gathered.pictures.source == str(pets.resolve())


def test_without_labels_any_depth_will_do(pets, draw):
    draw(pets / "5.png", 5)
    gathered = gather(pets)
    assert gathered.pictures.keys == ("5.png", "cat/1.png", "cat/deep/er/2.png", "dog/3.png", "dog/4.jpg")
    assert gathered.labels is None


def test_what_is_no_picture_is_told_and_what_is_hidden_is_not(pets, draw):
    draw(pets / "5.png", 5)
    draw(pets / ".hidden.png", 6)
    draw(pets / "cat" / ".cache" / "7.png", 7)
    draw(pets / ".git" / "8.png", 8)
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store"):
        (pets / "cat" / name).write_text("x")
        (pets / name).write_text("x")
    (pets / "cat" / "notes.txt").write_text("not a picture")
    (pets / "dog" / "empty.jpg").touch()
    (pets / "dog" / "4.jpg").write_bytes((pets / "dog" / "4.jpg").read_bytes()[:-30])
    (pets / "dog" / "gone.png").symlink_to(pets / "nowhere.png")
    gathered = gather_labelled(pets)
    assert gathered.pictures.keys == ("cat/1.png", "cat/deep/er/2.png", "dog/3.png")
    reasons = dict(gathered.skipped)
    assert "truncated" in reasons.pop("dog/4.jpg").lower()
    assert reasons == {
        "5.png": "not in a class folder",
        "cat/notes.txt": "not an image",
        "dog/empty.jpg": "file is empty",
        "dog/gone.png": "link leads nowhere",
    }
    assert gathered.skipped == sorted(gathered.skipped)


def test_each_content_counts_once(pets, draw):
    draw(pets / "dog" / "0.png", 3)
    draw(pets / "dog" / "z" / "5.png", 3)
    gathered = gather_labelled(pets)
    assert gathered.pictures.keys == ("cat/1.png", "cat/deep/er/2.png", "dog/0.png", "dog/4.jpg")
    assert gathered.labels == ["cat", "cat", "dog", "dog"]
    assert gathered.duplicates == {"dog/3.png": "dog/0.png", "dog/z/5.png": "dog/0.png"}
    assert gathered.skipped == []
    assert gather(pets).duplicates == gathered.duplicates


def test_parts_come_one_after_the_other_and_the_first_keeps_what_both_have(tmp_path, draw):
    draw(tmp_path / "train" / "dog" / "9.png", 1)
    draw(tmp_path / "train" / "cat" / "9.png", 2)
    draw(tmp_path / "test" / "dog" / "0.png", 1)
    draw(tmp_path / "test" / "cat" / "0.png", 3)
    draw(tmp_path / "other" / "cat" / "0.png", 4)
    draw(tmp_path / "test" / "stray.png", 5)
    gathered = gather_labelled(tmp_path, parts=("train", "test"))
    assert gathered.pictures.keys == ("train/cat/9.png", "train/dog/9.png", "test/cat/0.png")
    assert gathered.labels == ["cat", "dog", "cat"]
    assert gathered.duplicates == {"test/dog/0.png": "train/dog/9.png"}
    assert gathered.skipped == [Skipped("test/stray.png", "not in a class folder")]
    whole = gather_labelled(tmp_path, parts=("train", "test"), keep_duplicates=True)
    assert whole.pictures.keys == ("train/cat/9.png", "train/dog/9.png", "test/cat/0.png", "test/dog/0.png")
    assert whole.duplicates == {}


def test_a_class_folder_without_files_is_told(pets):
    (pets / "fox" / "deeper").mkdir(parents=True)
    gathered = gather_labelled(pets)
    assert gathered.skipped == [Skipped("fox", "class folder without files")]
    assert set(gathered.labels) == {"cat", "dog"}


def test_only_files_of_one_length_are_compared(pets, monkeypatch):
    compared, digest = [], module._digest_or_reason
    monkeypatch.setattr(module, "_digest_or_reason", lambda path: compared.append(path.name) or digest(path))
    (pets / "dog" / "5.jpg").write_bytes((pets / "dog" / "4.jpg").read_bytes())
    (pets / "cat" / "1.png").write_bytes((pets / "cat" / "1.png").read_bytes() + bytes(50))  # Pillow reads on
    assert gather_labelled(pets).duplicates == {"dog/5.jpg": "dog/4.jpg"}
    assert "1.png" not in compared
    assert {"4.jpg", "5.jpg"} <= set(compared)


def test_contradictory_labels_are_not_learned(pets, draw):
    draw(pets / "cat" / "also.png", 3)
    draw(pets / "cat" / "again.png", 3)
    draw(pets / "fox" / "5.png", 5)
    gathered = gather_labelled(pets)
    assert gathered.pictures.keys == ("cat/1.png", "cat/deep/er/2.png", "dog/4.jpg", "fox/5.png")
    assert gathered.labels == ["cat", "cat", "dog", "fox"]
    assert gathered.skipped == [
        Skipped("cat/again.png", "labelled cat here and dog there"),
        Skipped("cat/also.png", "labelled cat here and dog there"),
        Skipped("dog/3.png", "labelled dog here and cat there"),
    ]
    assert gathered.duplicates == {}
    assert gather(pets).duplicates == {"cat/also.png": "cat/again.png", "dog/3.png": "cat/again.png"}


def test_links_are_followed_but_not_in_circles(pets, draw, tmp_path):
    draw(tmp_path / "elsewhere" / "5.png", 5)
    (pets / "cat" / "circle").symlink_to(pets)
    (pets / "cat" / "deep" / "up").symlink_to("..")
    (pets / "dog" / "a_other").symlink_to(tmp_path / "elsewhere")
    (pets / "dog" / "other").symlink_to(tmp_path / "elsewhere")
    (pets / "dog" / "me").symlink_to("me")
    (pets / "fox").symlink_to(tmp_path / "foxes")
    (tmp_path / "elsewhere" / "back").symlink_to(pets / "dog")
    draw(tmp_path / "foxes" / "6.png", 6)
    draw(tmp_path / "foxes" / "7.png", 7)
    (tmp_path / "foxes" / "8.png").symlink_to("7.png")
    wanted = (
        *("cat/1.png", "cat/deep/er/2.png", "dog/3.png", "dog/4.jpg", "dog/a_other/5.png"),
        *("fox/6.png", "fox/7.png"),
    )
    for gathered in (gather_labelled(pets), gather(pets)):
        assert gathered.pictures.keys == wanted
        assert [path for path, _ in gathered.skipped] == ["dog/me"]
        assert gathered.duplicates == {"fox/8.png": "fox/7.png"}


def test_a_folder_is_named_by_itself_rather_than_by_a_link(tmp_path, draw):
    draw(tmp_path / "z" / "1.png", 1)
    (tmp_path / "a").symlink_to("z")
    assert gather(tmp_path).pictures.keys == ("z/1.png",)


def test_a_folder_linked_into_two_classes_contradicts_itself(pets):
    (pets / "pup").symlink_to("dog")
    gathered = gather_labelled(pets)
    assert gathered.labels == ["cat", "cat"]
    assert [path for path, _ in gathered.skipped] == ["dog/3.png", "dog/4.jpg", "pup/3.png", "pup/4.jpg"]


NAMES = ["héllo wörld 猫.png", ' a, "b";c\'.png', "line\nbreak.png", "tab\tcr\r.png", "-x.png", "#%s{}.png"]


@pytest.mark.skipif(os.name == "nt", reason="such names are not allowed there")
def test_names_of_all_kinds(tmp_path, draw):
    names = list(NAMES)
    for i, name in enumerate(names):
        draw(tmp_path / "in" / "a\nclass, 1" / name, i)
    bad = os.fsdecode(b"caf\xe9.png")
    try:
        draw(tmp_path / "in" / "a\nclass, 1" / bad, 100)
        (tmp_path / "in" / "a\nclass, 1" / f"empty{bad}").touch()
    except OSError:
        pytest.skip("the file system wants names in UTF-8")
    names.append(bad)
    gathered = gather_labelled(tmp_path / "in")
    assert gathered.pictures.keys == tuple(sorted(f"a\nclass, 1/{name}" for name in names))
    assert set(gathered.labels) == {"a\nclass, 1"}
    assert gathered.skipped == [Skipped(f"a\nclass, 1/empty{bad}", "file is empty")]
    write_skipped(tmp_path / "skipped.csv", gathered.skipped)
    with open(tmp_path / "skipped.csv", encoding="utf-8", errors="surrogateescape", newline="") as file:
        assert list(csv.reader(file)) == [["path", "reason"], list(gathered.skipped[0])]
    listed = table(tmp_path / "in" / "list.csv", ["path"], *(["a\nclass, 1/" + name] for name in NAMES))
    assert gather(listed).pictures.keys == tuple(sorted(f"a\nclass, 1/{name}" for name in NAMES))
    (tmp_path / "in" / "a\nclass, 1" / bad).write_bytes(b"")
    assert "caf\\udce9.png" in mistake(gather, [tmp_path / "in" / "a\nclass, 1" / bad])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_csv_file(pets, tmp_path, encoding, grey):
    listed = table(
        tmp_path / "list.csv",
        ("PATH", "Weight", " Label "),
        ("pets/dog/3.png", 1, "Hund "),
        (),
        (pets / "cat" / "1.png", 1, "Katze, süß"),
        ("pets/absent.png", 1, "Hund"),
        ("pets/dog/4.jpg", 1),
        ("", 1, "Hund"),
        ("pets/dog/4.jpg", 1, " "),
        ("./pets/dog/3.png", 1, "Hund"),
        ("pets/dog", 1, "Hund"),
        encoding=encoding,
    )
    gathered = gather_labelled(listed)
    assert gathered.pictures.keys == (str(pets / "cat" / "1.png"), "pets/dog/3.png")
    assert gathered.labels == ["Katze, süß", "Hund"]
    assert [grey(gathered.pictures, i) for i in range(2)] == [1, 3]
    assert gathered.pictures.source == str(tmp_path.resolve())
    assert gathered.duplicates == {}
    assert gathered.skipped == [
        Skipped("", "no path in line 7"),
        Skipped("pets/absent.png", "no such file"),
        Skipped("pets/dog", "is a folder"),
        Skipped("pets/dog/4.jpg", "no label"),
    ]
    unlabelled = gather(listed)
    assert unlabelled.pictures.keys == (str(pets / "cat" / "1.png"), "pets/dog/3.png", "pets/dog/4.jpg")
    assert unlabelled.labels is None


def test_a_csv_file_may_contradict_itself(pets):
    rows = ("path", "label"), ("dog/3.png", "a"), ("dog/3.png", "b"), ("dog/4.jpg", "a"), ("dog/4.jpg", "a")
    gathered = gather_labelled(table(pets / "list.csv", *rows))
    assert gathered.pictures.keys == ("dog/4.jpg",)
    assert gathered.skipped == [
        Skipped("dog/3.png", "labelled a here and b there"),
        Skipped("dog/3.png", "labelled b here and a there"),
    ]
    assert gathered.duplicates == {}


def test_csv_files_that_are_none(tmp_path, draw):
    path = tmp_path / "list.csv"
    path.touch()
    assert mistake(gather_labelled, path) == f"{path} is empty; its first line should name the columns path and label"
    table(path, ["path", "class"], ["a.png", "x"])
    assert "has no column label (found: path, class); its first line should name" in mistake(gather_labelled, path)
    table(path, ["file"], ["a.png"])
    assert "has no column path (found: file)" in mistake(gather, path)
    path.write_bytes(b"path,label\ncaf\xe9.png,x\n")
    assert f"{path} cannot be read as a table ('utf-8'" in mistake(gather_labelled, path)
    path.write_bytes(b"path,label\n" + b"x" * 200_000)
    assert "field larger than field limit" in mistake(gather_labelled, path)
    table(path, ["path", "label"])
    assert mistake(gather_labelled, path).startswith(f"no image can be used in {path} (no files there); give a folder")
    assert "cannot be read as a table" in mistake(gather_labelled, draw(tmp_path / "photo.png"))


def test_what_was_typed(pets, draw, monkeypatch, grey, tmp_path):
    monkeypatch.chdir(tmp_path)
    extra = draw(tmp_path / "out side" / "5.png", 5)
    (tmp_path / "broken.png").touch()
    (tmp_path / "gone.png").symlink_to("nowhere.png")
    typed = ["pets/cat", extra, "./pets/dog/3.png", "pets/dog", "pets/cat/deep", "broken.png", "gone.png", "pets"]
    gathered = gather([Path(path) for path in typed])
    keys = (str(extra), "pets/cat/1.png", "pets/cat/deep/er/2.png", "pets/dog/3.png", "pets/dog/4.jpg")
    assert gathered.pictures.keys == keys
    assert [grey(gathered.pictures, i) for i in range(5)] == [5, 1, 2, 3, 4]
    assert gathered.skipped == [Skipped("broken.png", "file is empty"), Skipped("gone.png", "link leads nowhere")]
    assert gathered.duplicates == {}
    assert gathered.pictures.source == str(tmp_path.resolve())
    assert gather([Path(".")]).pictures.keys[0] == "out side/5.png"
    assert gather(Path("pets/dog/3.png")).pictures.keys == ("pets/dog/3.png",)
    Path("same").symlink_to("pets")
    twice = gather([Path("pets"), Path("same")])
    assert (len(twice.pictures), twice.duplicates) == (4, {})


def test_a_missing_path_among_others_is_listed(pets):
    gathered = gather([pets / "dog", pets / "absent.png", pets / "cat" / "1.png", pets / "nor this"])
    assert [Path(key).name for key in gathered.pictures.keys] == ["1.png", "3.png", "4.jpg"]
    assert gathered.skipped == [
        Skipped(str(pets / "absent.png"), "no such file"),
        Skipped(str(pets / "nor this"), "no such file"),
    ]


def test_a_path_and_the_same_file_otherwise_is_a_duplicate(pets, monkeypatch):
    monkeypatch.chdir(pets)
    gathered = gather([Path("dog/3.png"), pets / "dog" / "3.png"])
    assert gathered.pictures.keys == (str(pets / "dog" / "3.png"),)
    assert gathered.duplicates == {"dog/3.png": str(pets / "dog" / "3.png")}


def test_every_file_is_counted_as_it_is_done(pets, monkeypatch):
    (pets / "cat" / "notes.txt").write_text("not a picture")
    monkeypatch.setattr(module, "AT_ONCE", 2)
    told = []
    gathered = gather_labelled(pets, lambda steps, total=None: told.append((steps, total)))
    assert told == [(0, 5)] + [(1, None)] * 5
    assert len(gathered.pictures) == 4
    told.clear()
    gather([pets / "cat", pets / "dog" / "3.png"], lambda steps, total=None: told.append((steps, total)))
    assert told == [(0, 4)] + [(1, None)] * 4


def test_decoded_pictures_are_not_kept(tmp_path, draw, monkeypatch):
    for i in range(40):
        draw(tmp_path / f"{i}.png", i)
    alive, most, read = set(), [0], decoding._upright_rgb

    class Watched:
        def __init__(self, picture: Image.Image):
            self.picture = picture
            alive.add(id(self))
            most.append(len(alive))

        def __del__(self):
            alive.discard(id(self))

    monkeypatch.setattr(decoding, "_upright_rgb", lambda image: Watched(read(image)))
    assert len(gather(tmp_path).pictures) == 40
    assert len(most) == 41
    assert max(most) <= 16
    assert not alive


def test_nothing_to_read(tmp_path):
    assert mistake(gather, tmp_path / "absent") == (f"there is no file or folder {tmp_path / 'absent'}; check the path")
    assert f"there is no folder or file {tmp_path / 'absent'}; give" in mistake(gather_labelled, tmp_path / "absent")
    assert mistake(gather, [tmp_path / "absent"]) == f"there is no file or folder {tmp_path / 'absent'}; check the path"
    assert mistake(gather, [tmp_path / "a\x1b[31m.png", tmp_path / "b.png"]) == (
        f"none of the 2 paths exists (first: {tmp_path}/a\\x1b[31m.png); check them"
    )
    assert "there is no file or folder" in mistake(gather, tmp_path / "absent.csv")
    assert "no files are named" in mistake(gather, [])
    assert mistake(gather, tmp_path) == (
        f"no image can be used in {tmp_path} (no files there); give a folder of images, or a CSV file that lists them"
    )
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").write_text("x")
    assert f"in {tmp_path} (2 left out, first: a.txt: not an image); give" in mistake(gather, tmp_path)
    assert "(2 left out, first: a.txt: not in a class folder); give" in mistake(gather_labelled, tmp_path)
    assert f"in {tmp_path / 'a.txt'} and 1 more (" in mistake(gather, [tmp_path / "a.txt", tmp_path / "b.txt"])


def test_closed_folders(pets):
    (pets / "dog").chmod(0)
    try:
        if os.access(pets / "dog", os.R_OK):
            pytest.skip("we may open everything")
        for gathered in (gather_labelled(pets), gather(pets)):
            assert len(gathered.pictures) == 2
            assert gathered.skipped == [Skipped("dog", "Permission denied")]
        pets.chmod(0)
        assert "Permission denied" in mistake(gather, pets)
        assert "Permission denied" in mistake(gather_labelled, pets)
    finally:
        pets.chmod(0o755)
        (pets / "dog").chmod(0o755)


def test_folders_that_the_system_does_not_open(pets, monkeypatch):
    scandir = os.scandir

    def closed(path):
        if Path(path).name in shut:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(module.os, "scandir", closed)
    shut = {"dog"}
    for gathered in (gather_labelled(pets), gather(pets)):
        assert len(gathered.pictures) == 2
        assert gathered.skipped == [Skipped("dog", "Permission denied")]
    shut = {"pets"}
    assert "(1 left out, first: .: Permission denied)" in mistake(gather, pets)
    assert f"{pets} cannot be opened (Permission denied); give" in mistake(gather_labelled, pets)


def test_a_spreadsheet_runs_no_cell_of_skipped(tmp_path):
    names = ["=HYPERLINK(1)", "+1.png", "-x.png", "@SUM.png", "\t=1.png", "a=b.png", ""]
    write_skipped(tmp_path / "skipped.csv", [Skipped(name, "not an image") for name in names])
    with open(tmp_path / "skipped.csv", encoding="utf-8", newline="") as file:
        cells = [row["path"] for row in csv.DictReader(file)]
    assert cells == ["'=HYPERLINK(1)", "'+1.png", "'-x.png", "'@SUM.png", "'\t=1.png", "a=b.png", ""]


def test_a_table_that_was_defused_is_read_as_it_was(tmp_path):
    keys, labels = ["=1.png", "'=2.png", "-3.png", "four's.png"], ["@a", "-1", "'+b", "c"]
    write_table(tmp_path / "labels.csv", ("path", "label"), zip(keys, labels, strict=True))
    assert "'=1.png,'@a" in (tmp_path / "labels.csv").read_text("utf-8")
    found = listed(tmp_path / "labels.csv", ("path", "label"))
    assert dict(found.files) == dict(zip(keys, labels, strict=True))


@pytest.mark.skipif(os.name == "nt", reason="such names are not allowed there")
def test_no_escape_sequence_reaches_the_terminal(tmp_path, draw):
    steer = "\x1b[31m\x07\x9b\u202e"
    for label in (f"{steer}a", f"{steer}b"):
        draw(tmp_path / "in" / label / f"{steer}1.png", 1)
    table(tmp_path / f"{steer}.csv", [f"{steer}path"])
    messages = [
        mistake(gather_labelled, tmp_path / "in"),
        mistake(gather_labelled, tmp_path / steer),
        mistake(gather_labelled, tmp_path / f"{steer}.csv"),
        mistake(gather, tmp_path / f"{steer}.csv"),
        mistake(gather, tmp_path / steer),
        mistake(gather, [tmp_path / steer, tmp_path / steer / "more"]),
    ]
    draw(tmp_path / "in" / "c" / "2.png", 2)
    messages += [reason for _, reason in gather_labelled(tmp_path / "in").skipped]
    assert len(messages) == 8
    for message in messages:
        assert not set(message) & set(steer) - set("[31m")
        assert "\\x1b[31m\\x07\\x9b\\u202e" in message


def test_skipped_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "skipped.csv"
    write_skipped(path, [Skipped('a,"b"\n.png', "not an image")])
    with open(path, encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [{"path": 'a,"b"\n.png', "reason": "not an image"}]
    with pytest.raises(UnicodeEncodeError):
        write_skipped(path, [Skipped("b.png", "x"), Skipped("\ud800", "x")])
    assert "not an image" in path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == ["skipped.csv"]
    write_skipped(path, [])
    assert path.read_text().split() == ["path,reason"]
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError):
        write_skipped(path, [])


def test_a_very_long_cell_of_a_table_does_not_fill_the_screen(tmp_path):
    (tmp_path / "labels.csv").write_text(f"path,label\n{'x' * 10_000},cat\n")
    with pytest.raises(InputError, match=r"1 left out, first: x+ … x+: File name too long") as caught:
        gather_labelled(tmp_path / "labels.csv")
    assert len(str(caught.value)) <= 1000

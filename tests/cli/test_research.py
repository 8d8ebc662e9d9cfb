"""The commands as a person uses them: what they print, and one clear line with exit code 2 for a mistake."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from happycat.backbone.int8 import is_installed
from happycat.base import disk
from happycat.base.errors import HappycatError
from happycat.benchmark.protocol import Split
from happycat.cli import display, main, running

QUICK = [
    *("--base-epochs", "2", "--epochs", "1", "--batch-size", "8", "--projector-hidden", "8", "--projector-out", "4"),
    *("--base-optimizer", "adamw", "--base-rate", "0.001", "--views", "2", "--backbone", "scratch_vit"),
]


def happycat(monkeypatch, capsys, *arguments) -> tuple[int, str, str]:
    """Run a command in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["happycat", *map(str, arguments)])
    monkeypatch.setattr(display.results, "width", 200)
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    return stop.value.code or 0, captured.out, captured.err


@pytest.fixture
def say(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: happycat(monkeypatch, capsys, *arguments)


def folder_of_images(root: Path, classes=4, number=14, size=20) -> Path:
    """ROOT/CLASS/*.png, each class a colour with noise."""
    random = np.random.default_rng(0)
    for c in range(classes):
        (root / f"class{c}").mkdir(parents=True)
        colour = random.integers(40, 215, 3)
        for i in range(number):
            pixels = colour + random.integers(-30, 30, (size, size + i % 3, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(root / f"class{c}" / f"{i}.png")
    return root


def mistake(result, *words) -> None:
    """One line on stderr, nothing on stdout, exit code 2."""
    code, _, err = result
    lines = [line for line in err.strip().splitlines() if line.startswith("happycat: ")]
    assert code == 2, err
    assert len(lines) == 1, err
    assert err.strip().splitlines()[-1] == lines[0], err
    assert "Traceback" not in err
    for word in words:
        assert word in lines[0], err


def test_bench_on_a_folder_of_images(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    code, out, err = say("bench", "happy", root, "--out", "run", "--base-classes", 2, "--stages", 2, *QUICK)
    assert code == 0, err
    rows = [line for line in out.splitlines() if re.match(r"^│ \d", line)]
    assert len(rows) == 3
    run = Path("run")
    scores = [json.loads(line) for line in (run / "stages.jsonl").read_text().splitlines()]
    assert f"{scores[2]['all']:.1f}" in rows[2]
    assert f"{scores[2]['new']:.1f}" in rows[2]
    assert {"run.json", "split.json", "epochs.jsonl", "curves.png", "discovered.png", "summary.png"} <= {
        path.name for path in run.iterdir()
    }
    metadata = json.loads((run / "run.json").read_text())
    assert metadata["numbers"]["seed"] == 0
    assert metadata["versions"]["torch"]
    assert "Stage 2: 1 new classes, 11 images × 3 views" in err
    assert json.loads((run / "summary.json").read_text())["final_all"] == scores[2]["all"]


@pytest.mark.usefixtures("undrawn")
def test_fresh_views(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    arguments = ("bench", "happy", root, "--base-classes", 2, "--stages", 2, *QUICK, "--fresh-views", "-o", "run")
    code, _, err = say(*arguments)
    assert code == 0, err
    assert not (Path("run") / "tokens").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_written_split_gives_the_same_images(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    code, out, _ = say("stages", root, "--base-classes", 2, "--stages", 2, "--split-seed", 3, "-o", "mine.json")
    assert code == 0
    assert "Stage 1: 1 new classes" in out
    code, _, err = say("bench", "happy", root, "--split", "mine.json", "-o", "run", *QUICK)
    assert code == 0, err
    assert Split.read(Path("mine.json")) == Split.read(Path("run/split.json"))


def test_list_names_everything(say):
    from happycat.backbone.weights import TESTED
    from happycat.images.datasets import DATASETS
    from happycat.methods import METHODS

    code, out, _ = say("list")
    assert code == 0
    for name in (*METHODS, *DATASETS, *TESTED):
        assert name in out


def test_speed_prints_json(say):
    code, out, _ = say("speed", "--backbone", "vit_tiny_patch16_224", "--image-size", 32, "--seconds", 0.2, "--json")
    assert code == 0
    figures = json.loads(out)
    assert figures["ratio"]["cached"] == pytest.approx(figures["cached"] / figures["reference"])
    assert figures["ratio"]["fresh"] == pytest.approx(figures["fresh"] / figures["reference"])
    assert 0 < figures["reference"] < figures["cached"]
    assert {"fp32", figures["trunk_precision"]} <= set(figures["extraction"]) == set(figures["extraction_ratio"])
    assert figures["extraction_ratio"]["fp32"] == 1
    assert ("int8" in figures["extraction"]) == is_installed()
    assert 0 < figures["loader_12mp"] < figures["loader"]


def test_speed_of_a_backbone_that_cannot_be_had(say):
    mistake(say("speed", "--backbone", "vit_nothing"), "vit_nothing", "for example")
    mistake(say("speed", "--backbone", "resnet18"), "no class token")
    mistake(say("speed", "--backbone", "vit_tiny_patch16_224", "--image-size", 33), "33", "patch of 16")


def test_version(say):
    from importlib.metadata import version

    code, out, _ = say("--version")
    assert (code, out) == (0, f"happycat {version('happycat')}\n")


def test_unknown_method(say):
    mistake(say("bench", "sad", "digits"), "'sad'", "happy")


def test_unknown_dataset(say):
    mistake(say("bench", "happy", "no-such-thing"), "no-such-thing", "digits")


def test_unknown_flavour(say):
    mistake(say("bench", "happy", "digits", "--flavour", "odd"), "odd", "paper")


@pytest.mark.parametrize("flags", [("--epochs", 0), ("--views", 1), ("--rate-floor", 2), ("--select", "best")])
def test_values_out_of_range(say, flags):
    mistake(say("bench", "happy", "digits", *flags), flags[0].strip("-").replace("-", "_"))


@pytest.mark.usefixtures("undrawn")
def test_unreadable_and_empty_images(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    (root / "class1" / "3.png").write_bytes(b"")
    (root / "class2" / "4.png").write_bytes(b"not a picture")
    code, _, err = say("bench", "happy", root, "--base-classes", 2, "--stages", 1, *QUICK, "-o", "run")
    assert code == 0, err
    assert "2 of 56 files are left out (first: class1/3.png: file is empty); see run/skipped.csv" in err
    assert Path("run/skipped.csv").read_text().splitlines() == [
        *("path,reason", "class1/3.png,file is empty", "class2/4.png,not an image")
    ]


@pytest.mark.usefixtures("undrawn")
def test_an_image_damaged_during_a_run_is_named_and_nothing_is_lost(say, tmp_path, monkeypatch):
    root = folder_of_images(tmp_path / "shop")
    arguments = ("bench", "happy", root, "--base-classes", 2, "--stages", 2, "--split-seed", 0, *QUICK, "-o", "run")
    code, _, _ = say("stages", root, "--base-classes", 2, "--stages", 2)
    assert code == 0
    served = json.loads(Path("split.json").read_text())["stages"][1]
    victim = root / next(iter(served["images"][served["new"][0]]))
    whole = victim.read_bytes()

    from happycat.benchmark.setup import the_split

    def damage(request, data):  # after the files have been checked
        victim.write_bytes(whole[: len(whole) // 2])
        return the_split(request, data)

    with monkeypatch.context() as patched:
        patched.setattr("happycat.benchmark.setup.the_split", damage)
        mistake(say(*arguments, "--workers", 1), str(victim), "cannot be read")
    assert (Path("run") / "stages" / "1" / "scores.json").exists()
    victim.write_bytes(whole)
    code, _, err = say(*arguments, "--resume")
    assert code == 0, err


def test_one_class_only(say, tmp_path):
    mistake(say("bench", "happy", folder_of_images(tmp_path / "one", classes=1)), "class")


def test_a_stage_smaller_than_a_batch(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    mistake(
        say("bench", "happy", root, "--base-classes", 2, "--backbone", "scratch_vit"),
        "batch of 128",
        "use a batch size of",
    )
    assert not Path("runs").exists()


def test_more_new_classes_than_images_and_a_stage_without_images(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    say("stages", root, "--base-classes", 2, "--stages", 1)
    split = json.loads(Path("split.json").read_text())
    stage = split["stages"][0]
    stage["images"] = {stage["new"][0]: stage["images"][stage["new"][0]][:1]}
    Path("few.json").write_text(json.dumps(split))
    mistake(say("bench", "happy", root, "--split", "few.json", *QUICK), "2 new classes but only 1 images")
    stage["images"] = {}
    Path("none.json").write_text(json.dumps(split))
    mistake(say("bench", "happy", root, "--split", "none.json", *QUICK), "no images")


def test_more_stages_than_new_classes(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    mistake(say("bench", "happy", root, "--base-classes", 3, "--stages", 2, *QUICK), "1 new classes", "2 stages")


def test_a_backbone_without_class_token(say, tmp_path):
    root, flags = folder_of_images(tmp_path / "shop"), [*QUICK[:-2], "--base-classes", "2", "--stages", "2"]
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"")
    mistake(say("bench", "happy", root, *flags, "--backbone", "resnet18", "--weights", weights), "no class token")
    mistake(say("bench", "happy", root, *flags, "--backbone", "vit_nothing"), "vit_nothing", "for example")


def test_weights_that_do_not_fit(say, tmp_path):
    import torch
    from safetensors.torch import save_file

    root, flags = folder_of_images(tmp_path / "shop"), [*QUICK[:-2], "--base-classes", "2", "--stages", "2"]
    flags += ["--backbone", "vit_tiny_patch16_224", "--image-size", "32"]
    save_file({"blocks.0.attn.qkv.weight": torch.zeros(3, 4)}, tmp_path / "w.safetensors")
    mistake(say("bench", "happy", root, *flags, "--weights", tmp_path / "w.safetensors"), "do not fit")
    (tmp_path / "w.pt").write_bytes(b"rubbish")
    mistake(say("bench", "happy", root, *flags, "--weights", tmp_path / "w.pt"), "w.pt")
    mistake(say("bench", "happy", root, *flags, "--weights", tmp_path / "none.pt"), "no weights file")


def test_the_hub_cannot_be_reached(say, tmp_path, monkeypatch):
    import timm

    create = timm.create_model

    def unreachable(*words, pretrained=False, **values):
        if pretrained:
            raise OSError("no route to host")
        return create(*words, **values)

    monkeypatch.setattr(timm, "create_model", unreachable)
    root = folder_of_images(tmp_path / "shop")
    flags = [*QUICK[:-2], "--base-classes", "2", "--stages", "2", "--backbone", "vit_tiny_patch16_224"]
    mistake(say("bench", "happy", root, *flags), "hub", "a file with its weights")


def test_a_run_folder_that_is_none(say):
    Path("elsewhere").mkdir()
    (Path("elsewhere") / "letter.txt").write_text("dear cat")
    mistake(say("demo", "-o", "elsewhere", "--resume"), "not a run folder")


@pytest.mark.usefixtures("undrawn")
def test_resume_begins_a_run_that_was_killed_before_it_began(say, tmp_path):
    root = folder_of_images(tmp_path / "shop")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "split.json").write_text("{")
    flags = ("--base-classes", 2, "--stages", 2, *QUICK, "--out", "run", "--resume")
    code, _, err = say("bench", "happy", root, *flags)
    assert code == 0, err


def test_a_folder_that_cannot_be_written(say, tmp_path):
    (tmp_path / "file").write_text("")
    mistake(say("demo", "-o", tmp_path / "file" / "run"), "cannot write")


def test_an_interrupted_command_says_how_to_go_on(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "prepare", interrupted)
    code, _, err = happycat(monkeypatch, capsys, "demo")
    assert code == 130
    assert "--resume" in err


def test_a_full_disk_says_how_to_go_on(monkeypatch, say):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "sync", full)
    mistake(say("demo"), "no space left for", "free some, or write elsewhere; the same command with --resume goes on")


def test_every_error_is_of_one_family():
    from happycat.base import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, HappycatError) for kind in kinds)


def test_as_a_module_of_python():
    result = subprocess.run([sys.executable, "-m", "happycat", "--help"], capture_output=True, text=True)
    assert result.returncode == 0
    for command in ("bench", "demo", "list", "speed", "split"):
        assert command in result.stdout


# paper

GLYPHS = ("--dataset", "glyphs", "--option", "num_classes=6", "--option", "per_class=16", "--base-classes", "4")


def test_paper_plans_without_running(say):
    code, out, _ = say("paper", "main", *GLYPHS, "--stages", "1", *QUICK, "--plan")
    assert code == 0
    assert "11 runs, 11 of them to be done" in out
    assert "on this machine" in out
    assert not Path("runs/paper").exists()


def test_paper_runs_the_rows_asked_for_and_writes_tables_and_figures(say):
    code, out, err = say(
        "paper", "main", *GLYPHS, "--stages", "1", *QUICK, "--only", "kmeans", "--only", "Happy", "--results", "found"
    )
    assert code == 0, err
    assert "KMeans" in out
    assert "SimGCD" not in out
    written = {path.name for path in Path("found").iterdir()}
    assert written == {f"main.{end}" for end in ("csv", "md", "png", "svg", "tex")}
    assert Path("runs/paper/tokens").exists()


def test_paper_deletes_its_tokens_when_asked_to(say):
    arguments = ("paper", "main", *GLYPHS, "--stages", "1", *QUICK, "--only", "kmeans", "--no-keep-tokens")
    mine = Path("runs/paper/tokens/mine.txt")
    mine.parent.mkdir(parents=True)
    mine.write_text("not a token")
    assert say(*arguments)[0] == 0
    assert [path.name for path in mine.parent.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("until", ["0", "1"])
def test_a_run_that_stops_early_is_shown_as_far_as_it_went(say, until):
    code, out, err = say("bench", "happy", "glyphs", *GLYPHS[2:], "--stages", "2", *QUICK, "--until", until)
    assert code == 0, err
    assert "run folder" in out
    assert Path("runs/happy-glyphs/summary.png").exists()


def test_paper_takes_any_backbone_for_methods_that_need_features_only(say, tmp_path):
    import timm
    from safetensors.torch import save_file

    weights = tmp_path / "resnet.safetensors"
    save_file(timm.create_model("test_resnet", num_classes=0).state_dict(), weights)
    flags = [*GLYPHS, *QUICK[:-2], "--backbone", "test_resnet", "--weights", weights, "--image-size", "32"]
    code, out, err = say("paper", "main", *flags, "--only", "kmeans")
    assert code == 0, err
    assert "views to extract at" in out
    assert "train on" not in out
    assert "KMeans" in out
    mistake(say("paper", "main", *flags, "--plan"), "no class token")


def test_mistakes_with_paper(say):
    mistake(say("paper", "table-9"), "no experiment 'table-9'", "ablation")
    mistake(say("paper", "main", *GLYPHS, *QUICK, "--only", "best"), "no row is 'best'", "Happy")
    mistake(say("paper", "main", "--dataset", "no-such-folder"), "no-such-folder")


def test_a_value_that_the_method_does_not_have(say):
    mistake(say("bench", "simgcd", "digits", "--hardness-temperature", "1"), "simgcd has no value")


@pytest.mark.parametrize("method", ["calm", "kmeans"])
def test_a_method_that_trains_nothing_has_no_batch_size(say, tmp_path, method):
    root = folder_of_images(tmp_path / "shop")
    flags = ["--base-classes", "2", "--stages", "2", "--backbone", "test_vit", "--batch-size", "8"]
    mistake(say("bench", method, root, *flags), f"{method} has no value 'batch_size'")
    assert "--batch-size" not in say("bench", method, "--help")[1]


def test_an_unknown_log(say):
    mistake(say("bench", "happy", "digits", "--log", "nothing", *QUICK), "nothing")
    assert not Path("runs").exists()


def test_features_are_written_for_calm_check(say, tmp_path):
    import timm
    from safetensors.torch import save_file

    from happycat.benchmark.paper.check_data import class_token_of, read_features

    name, folder = "test_vit", folder_of_images(tmp_path / "photos", number=5)
    save_file(timm.create_model(name, num_classes=0).state_dict(), tmp_path / "tiny.safetensors")
    asked = ("features", folder, "--backbone", name, "--weights", "tiny.safetensors", "--image-size", 32)
    code, out, err = say(*asked, "--patches", "-o", "both.npz")
    assert code == 0, err
    assert "128 numbers for each of 20 images" in out
    assert not Path("both.npz.cache").exists()
    data = read_features(Path("both.npz"))
    assert (data.classes, len(data.train), len(data.test)) == (("class0", "class1", "class2", "class3"), 16, 4)
    code, out, err = say(*asked, "-o", "token.npz")
    assert code == 0, err
    assert (class_token_of(data), class_token_of(read_features(Path("token.npz")))) == (64, None)
    with np.load("both.npz") as both, np.load("token.npz") as token:
        assert (both["key"] == token["key"]).all()
        unit = token["X"] / np.linalg.norm(token["X"], axis=1, keepdims=True)
        np.testing.assert_allclose(both["X"][:, :64], unit, atol=1e-6)
    mistake(say(*asked, "-o", "both.npz"), "both.npz is there already")
    mistake(say("features", "digits"), "no weights to extract features with")

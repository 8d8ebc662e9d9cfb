"""The paper's tables and figures as lists of runs: what is run for each, on which data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a list of the experiments needs no torch
    from happycat.benchmark.protocol import Split
    from happycat.methods.happy import HappyConfig

COMPARED = ("kmeans", "vanilla_gcd", "simgcd", "simgcd_lwf", "frost", "gm", "metagcd", "happy", "calm")
NAMES = {
    "kmeans": "KMeans",
    "vanilla_gcd": "VanillaGCD",
    "simgcd": "SimGCD",
    "simgcd_lwf": "SimGCD+LwF",
    "frost": "FRoST",
    "gm": "GM",
    "metagcd": "MetaGCD",
    "happy": "Happy",
    "calm": "Calm (ours)",
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One row of an experiment: a method with some values changed, run once for each data set and seed.

    `paper` identifies its row in the paper's table.
    """

    label: str
    method: str = "happy"
    values: dict = field(default_factory=dict)
    loop: dict = field(default_factory=dict)
    protocol: dict = field(default_factory=dict)
    paper: dict = field(default_factory=dict)


def _methods(names: tuple[str, ...], **more: dict) -> tuple[Variant, ...]:
    return tuple(Variant(label=NAMES[name], method=name, paper={"method": name}, **more) for name in names)


# Each function below gives the variants of an experiment, for a split and Happy's usual values.


def main(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return _methods(COMPARED)


def forgetting(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return _methods(("vanilla_gcd", "frost", "metagcd", "happy"))


def ten_stages(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return _methods(("vanilla_gcd", "metagcd", "happy", "calm"), protocol={"stages": 10})


def unknown_k(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    """The paper's estimator for the paper's methods; ours beside it, and the true number."""
    return (
        *_methods(("vanilla_gcd", "metagcd", "happy"), loop={"num_new": "silhouette"}),
        *(
            Variant(label=f"{NAMES[method]}, {text}", method=method, loop=loop, paper={"method": None})
            for method in ("happy", "calm")
            for text, loop in (("our estimate", {"num_new": "auto"}), ("K known", {}))
        ),
    )


def some_methods(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return _methods(("vanilla_gcd", "metagcd", "happy"))


def _switched(*, entropy: bool, init: bool, prototypes: bool, distillation: bool) -> dict:
    """Happy's values with some of its parts switched off."""
    off = {
        "entropy_weight": 0.0,
        "cluster_init": False,
        "prototype_weight": 0.0,
        "distillation_weight": 0.0,
    }
    on = {"entropy_weight": entropy, "cluster_init": init, "prototype_weight": prototypes}
    on["distillation_weight"] = distillation
    return {name: value for name, value in off.items() if not on[name]}


ROWS = {
    # entropy, init, prototypes, distillation
    "a": (False, False, False, False),
    "b": (True, False, False, False),
    "c": (False, True, False, False),
    "d": (True, True, False, False),
    "e": (False, False, True, True),
    "f": (True, True, True, False),
    "g": (True, True, True, True),
}
PARTS = ("entropy", "init", "prototypes", "distillation")


def ablation(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            label=f"({row}) " + (" + ".join(p for p, on in zip(PARTS, parts, strict=True) if on) or "self-training"),
            values=_switched(**dict(zip(PARTS, parts, strict=True))),
            paper={"row": row},
        )
        for row, parts in ROWS.items()
    )


HARDNESS = (0.01, 0.05, 0.1, 1.0, 10.0)


def hardness(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return (
        Variant(label="without hardness", values={"hardness": False}),
        *(
            Variant(label=f"τ_h = {t:g}", values={"hardness_temperature": t}, paper={"hardness_temperature": t})
            for t in HARDNESS
        ),
    )


LAMBDAS = {
    # the value it weighs, and the factors of its usual value that the paper tries
    "λ1": ("entropy_weight", (0.0, 0.5, 1.0, 3.0, 5.0)),
    "λ2": ("distillation_weight", (0.0, 0.5, 1.0, 3.0, 5.0)),
    "λ3": ("contrast_weight", (0.0, 0.5, 0.7, 1.0, 3.0)),
}


def lambdas(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    """The paper's λ are factors: in the authors' flavour λ2 = 1 is a weight of 2."""
    return tuple(
        Variant(label=f"{symbol} = {factor:g}", values={name: factor * getattr(config, name)}, paper={name: factor})
        for symbol, (name, factors) in LAMBDAS.items()
        for factor in factors
    )


def prior(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return (
        Variant(label="soft entropy"),
        Variant(label="true ratio", values={"new_shares": new_shares(split)}),
    )


def new_shares(split: Split) -> tuple[float, ...]:
    """The share of the images of new classes at each stage."""
    shares = []
    for stage in split.stages:
        sizes = {name: len(keys) for name, keys in stage["images"].items()}
        shares.append(sum(sizes[name] for name in stage["new"]) / sum(sizes.values()))
    return tuple(shares)


def bias(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    return (
        Variant(label="Happy", paper={"entropy": True, "hardness": True}),
        Variant(label="without entropy", values={"entropy_weight": 0.0}, paper={"entropy": False}),
        Variant(label="without hardness", values={"hardness": False}, paper={"hardness": False}),
    )


def confidence(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    parts = dict.fromkeys(PARTS, False)
    return (Variant(label="self-training alone", values=_switched(**parts)), Variant(label="Happy"))


def preliminary(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    """The model that the paper begins with, and the same with what makes it learn new classes at all."""
    parts = dict.fromkeys(PARTS, False)
    return (
        Variant(label="self-training alone", values=_switched(**parts)),
        Variant(label="with entropy and init", values=_switched(**{**parts, "entropy": True, "init": True})),
    )


ORDERS = 5


def orders(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    """The usual class order and shuffled ones; a class's images are drawn alike in all of them."""
    return tuple(
        Variant(label=NAMES[method], method=method, protocol={"order_seed": seed} if seed else {})
        for method in ("happy", "calm")
        for seed in range(ORDERS)
    )


def calm_ablation(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    parts: dict[str, dict] = {
        "Calm": {},
        "centre view only": {"averaged_views": 0},
        "not whitened": {"shrinkage": 1.0},
        "all directions alike": {"exponent": 0.0},
        "all dimensions": {"dimensions": 1_000_000},
    }
    loops: dict[str, dict] = {
        "tail tuned on the labelled classes": {"tune_tail": True},
        "number of classes estimated": {"num_new": "auto"},
    }
    return (
        *(Variant(label=label, method="calm", values=values) for label, values in parts.items()),
        *(Variant(label=label, method="calm", loop=loop) for label, loop in loops.items()),
    )


TRIED: dict[str, dict[str, tuple[float, ...]]] = {
    # values that the paper does not give; each of them is tried alone, and all together in SimGCD+LwF
    "simgcd": {"entropy_weight": (1.0, 2.0)},
    "simgcd_lwf": {"entropy_weight": (1.0, 4.0), "lwf_weight": (1.0, 3.0, 10.0), "lwf_temperature": (1.0, 2.0)},
    "frost": {
        "distillation_weight": (1.0, 30.0, 100.0),
        "prototype_weight": (3.0,),
        "pseudo_label_weight": (0.1, 1.0),
    },
    "gm": {
        "grow_distillation_weight": (1.0, 30.0),
        "distillation_weight": (1.0, 10.0, 100.0),
        "static_share": (0.25, 0.75),
        "prototype_weight": (3.0,),
        "lwf_weight": (3.0,),
    },
    "metagcd": {
        "rate": (3e-4, 1e-3, 3e-3),
        "neighbour_share": (0.0, 0.1),
        "neighbour_similarity": (0.95,),
        "outer_rate": (1e-4,),
    },
}
TOGETHER = ("simgcd_lwf",)


def tuning(split: Split, config: HappyConfig) -> tuple[Variant, ...]:
    """The paper's other methods with values of ours, and with others."""

    def label(values: dict[str, float]) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in values.items()) or "as usual"

    return tuple(
        Variant(label=label(values), method=method, values=values)
        for method, tried in TRIED.items()
        for values in (_every(tried) if method in TOGETHER else [{}, *_one_at_a_time(tried)])
    )


def _every(tried: dict[str, tuple[float, ...]]) -> list[dict[str, float]]:
    return [dict(zip(tried, values, strict=True)) for values in product(*tried.values())]


def _one_at_a_time(tried: dict[str, tuple[float, ...]]) -> list[dict[str, float]]:
    return [{name: value} for name, values in tried.items() for value in values]


class Experiment(NamedTuple):
    """What it shows, the paper's data sets for it, its variants, and how often it reads the test images once more.

    On `held_out` classes, it looks at no test image at all.
    """

    title: str
    datasets: tuple[str, ...]
    variants: Callable[[Split, HappyConfig], tuple[Variant, ...]]
    again: int = 0
    held_out: bool = False


FOUR = ("cifar100", "imagenet100", "tiny_imagenet", "cub")
EXPERIMENTS = {
    "main": Experiment("all methods, stage by stage", FOUR, main),
    "forgetting": Experiment("forgetting M_f and discovery M_d", ("cifar100", "tiny_imagenet"), forgetting),
    "ten-stages": Experiment("ten stages instead of five", ("cifar100", "tiny_imagenet"), ten_stages),
    "ablation": Experiment("Happy's parts switched on one after another", ("cifar100", "cub"), ablation),
    "hardness": Experiment("with and without hardness, and its temperature", FOUR, hardness),
    "lambdas": Experiment("the three weights of the loss", ("cifar100",), lambdas),
    "prior": Experiment("the true ratio of new images in the entropy term", ("cifar100",), prior),
    "unknown-k": Experiment("the number of new classes estimated", ("cifar100",), unknown_k),
    "bias": Experiment("prediction bias and hardness bias", ("cifar100", "cub"), bias),
    "preliminary": Experiment("old and new after each stage, and each labelled class", ("cifar100",), preliminary),
    "confidence": Experiment("confidence in old and new classes", ("cifar100",), confidence),
    "corruption": Experiment(
        "16 shifted distributions, Gaussian blur among them", ("cifar100",), some_methods, again=16
    ),
    "fine-grained": Experiment("cars and aircraft", ("cars", "aircraft"), some_methods),
    "orders": Experiment("Happy and Calm over five class orders", ("cifar100",), orders),
    "tuning": Experiment(
        "values of the other methods, tried on held-out classes", ("cifar100",), tuning, held_out=True
    ),
    "calm-ablation": Experiment("Calm's parts left out one at a time", ("cifar100",), calm_ablation),
}
# With arguments and flags of their own:
OWN_EXPERIMENTS = {
    "splits": "the data sets' splits as a table, and class orders as files with checksums; needs no images",
    "calm-check": "Calm on feature vectors of one's own, with supervised bounds",
    "questions": "what a person's answers are worth, on feature vectors: chosen against random questions",
}

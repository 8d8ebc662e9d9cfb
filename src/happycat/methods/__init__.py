"""Methods of continual category discovery, one file each, imported when they are looked up: they need torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from happycat.methods.method import Method, MethodConfig

# The class of each method, as module:class; its hyperparameters are the class of that name with Config behind it.
PLACES = {
    "calm": "calm:Calm",
    "happy": "happy:Happy",
    "kmeans": "kmeans:KMeans",
    "vanilla_gcd": "vanilla_gcd:VanillaGCD",
    "simgcd": "simgcd:SimGCD",
    "simgcd_lwf": "simgcd_lwf:SimGCDLwF",
    "frost": "frost:Frost",
    "gm": "gm:GM",
    "metagcd": "metagcd:MetaGCD",
}
FLAVOURS = ("authors", "paper")  # whose hyperparameters
COUNTERS = ("known", "auto", "silhouette")  # who says how many new classes a stage has (`counting`)


class Methods(Mapping[str, "tuple[type[Method], type[MethodConfig]]"]):
    """The methods by name: a method's class and that of its hyperparameters."""

    def __getitem__(self, name: str) -> tuple[type[Method], type[MethodConfig]]:
        module, method = PLACES[name].split(":")
        found = import_module(f"happycat.methods.{module}")
        return getattr(found, method), getattr(found, f"{method}Config")

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


METHODS = Methods()

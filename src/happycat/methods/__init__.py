"""Methods of continual category discovery, one file each."""

from happycat.methods.calm.method import Calm, CalmConfig
from happycat.methods.frost import Frost, FrostConfig
from happycat.methods.gm import GM, GMConfig
from happycat.methods.happy import Happy, HappyConfig
from happycat.methods.kmeans import KMeans, KMeansConfig
from happycat.methods.metagcd import MetaGCD, MetaGCDConfig
from happycat.methods.method import Method, MethodConfig
from happycat.methods.simgcd import SimGCD, SimGCDConfig
from happycat.methods.simgcd_lwf import SimGCDLwF, SimGCDLwFConfig
from happycat.methods.vanilla_gcd import VanillaGCD, VanillaGCDConfig

METHODS: dict[str, tuple[type[Method], type[MethodConfig]]] = {
    "calm": (Calm, CalmConfig),
    "happy": (Happy, HappyConfig),
    "kmeans": (KMeans, KMeansConfig),
    "vanilla_gcd": (VanillaGCD, VanillaGCDConfig),
    "simgcd": (SimGCD, SimGCDConfig),
    "simgcd_lwf": (SimGCDLwF, SimGCDLwFConfig),
    "frost": (Frost, FrostConfig),
    "gm": (GM, GMConfig),
    "metagcd": (MetaGCD, MetaGCDConfig),
}
FLAVOURS = ("authors", "paper")

__all__ = ["FLAVOURS", "METHODS", "Method", "MethodConfig"]

"""Several processes for one command, started by Lightning Fabric (`--devices`), torchrun or srun."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from happycat.base.errors import HappycatError, InputError
from happycat.cli.display import results

if TYPE_CHECKING:
    from happycat.base.ranks import Ranks

PROCESSES = "Processes"
DevicesOption = Annotated[
    int,
    typer.Option(
        min=1,
        help="processes on this machine, one for each GPU, or as many as share the cores",
        rich_help_panel=PROCESSES,
    ),
]
NodesOption = Annotated[
    int, typer.Option(min=1, help="machines that take part; start the command on each", rich_help_panel=PROCESSES)
]
StrategyOption = Annotated[
    str, typer.Option(help="how processes train together: auto or ddp (data-parallel)", rich_help_panel=PROCESSES)
]
STRATEGIES = ("auto", "ddp")
NOTICED = 0.1  # seconds after which it is noticed that a process has ended before all were connected


class Processes(NamedTuple):
    """How many processes are asked for, on how many machines, and what the launcher has started, if there is one."""

    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"

    @property
    def external(self) -> tuple[int, int] | None:
        """Processes on this machine and machines, as torchrun or srun has started them."""
        env = os.environ
        if "TORCHELASTIC_RUN_ID" in env:
            local = int(env["LOCAL_WORLD_SIZE"])
            return local, int(env["WORLD_SIZE"]) // local
        if "SLURM_PROCID" in env and "SLURM_JOB_NAME" in env and env["SLURM_JOB_NAME"] not in ("bash", "interactive"):
            nodes = int(env.get("SLURM_NNODES", 1))
            return int(env.get("SLURM_NTASKS", 1)) // nodes, nodes
        return None

    def checked(self) -> Processes:
        """The processes that there will be."""
        if self.strategy not in STRATEGIES:
            raise InputError(f"there is no strategy {self.strategy!r}; there are: {', '.join(STRATEGIES)}")
        if self.external is None:
            return self
        asked = (self.devices, self.nodes)
        if asked not in ((1, 1), self.external):
            raise InputError(
                f"{asked[0]} processes on {asked[1]} machines are asked for, the launcher has started "
                f"{self.external[0]} on {self.external[1]}; leave --devices and --nodes out"
            )
        return Processes(*self.external, self.strategy)


@contextmanager
def together(processes: Processes, device: str, advice: str) -> Iterator[tuple[Ranks, str]]:
    """This process among those that run the command, and the device that it computes on; `advice` if one dies.

    Of several processes only the first prints.
    """
    from happycat.base.ranks import ALONE

    processes = processes.checked()
    if processes.devices * processes.nodes == 1:
        yield ALONE, device
        return
    import torch.distributed as dist

    from happycat.base.lifeline import Lifeline
    from happycat.base.ranks import Helped
    from happycat.base.together import Together

    fabric = _launch(processes, device, advice)
    ranks = Together(fabric.device)
    results.quiet = not ranks.first
    lifeline = Lifeline(advice)
    try:
        yield ranks, str(fabric.device)
    except Helped:
        lifeline.close()
        raise typer.Exit from None
    except BaseException as error:
        expected = isinstance(error, HappycatError | KeyboardInterrupt | typer.Exit)
        lifeline.close(failed=True)
        if not ranks.first and expected and lifeline.first_has_said_why():
            os._exit(2)
        raise
    lifeline.close()
    dist.destroy_process_group()


def _launch(processes: Processes, device: str, advice: str) -> Any:
    """Start the processes, or join those that are started, and connect them."""
    from lightning_fabric import Fabric

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it would say what our display says
    warnings.filterwarnings("ignore", module="lightning_fabric")
    accelerator = device.partition(":")[0]
    try:
        fabric = Fabric(accelerator=accelerator, devices=processes.devices, num_nodes=processes.nodes, strategy="ddp")
        with _children_watched(fabric, processes.devices * processes.nodes, advice):
            fabric.launch()
    except (RuntimeError, ValueError) as error:  # what Fabric makes of GPUs that are not there
        raise InputError(f"{processes.devices} processes cannot be started: {str(error).splitlines()[0]}") from error
    return fabric


@contextmanager
def _children_watched(fabric: Any, size: int, advice: str) -> Iterator[None]:
    """Until all processes are connected, end if one of them does; one that was killed could not say so: it is said.

    Fabric has a watch of its own, which kills this process without a word: the list that it looks at is emptied. Once
    the processes are connected, each notices when another dies (`Lifeline`).
    """
    connected = threading.Event()

    def watch() -> None:
        children: list[Any] = []
        while not connected.wait(NOTICED):
            started = getattr(getattr(fabric.strategy, "launcher", None), "procs", [])
            while started:
                children.append(started.pop(0))
            ended = [(number, child.poll()) for number, child in enumerate(children, 2) if child.poll()]
            if ended and not connected.is_set():
                for child in children:
                    child.kill()
                number, code = ended[0]
                if code < 0:  # by a signal
                    line = f"process {number} of {size} has ended before the work was done; {advice}"
                    print(f"happycat: {line}", file=sys.stderr, flush=True)
                os._exit(max(code, 1))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        connected.set()
        watcher.join()

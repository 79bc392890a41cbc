"""The kinds of networks: what all have, and what one kind has."""

from __future__ import annotations

from typing import Literal

from headrace.pool.spec import MOST_THREADS
from headrace.train.settings.fields import record, setting
from headrace.train.settings.kinds import NETWORKS, TRUNKS
from headrace.train.settings.values import require
from headrace.train.settings.when import CNN, CONTINUOUS, LAYERS, MLP, given

NAMES = ("auto", *NETWORKS)


@record("network")
class Network:
    """The kind of the network."""

    network: str = setting(
        "auto",
        "".join(f"{name}: {kind.words}; " for name, kind in NETWORKS.items())
        + "auto: the cnn for images, the mlp for all else. Or one of your own: file.py:name or "
        "package.module:name of a function (observation space, outputs) -> torch.nn.Module.",
        speed=True,
    )

    def __post_init__(self) -> None:
        own = ":" in self.network
        require(own or self.network in NAMES, "network", self.network, f"{', '.join(NAMES)} or file.py:name")


@record("network", LAYERS)
class Layers:
    """The layers of an mlp, and of a gru before its memory."""

    hidden: tuple[int, ...] = setting(
        (64, 64),
        "Widths of an mlp's hidden layers, the same for actor and critic; of a gru, the last is the size of the "
        "memory.",
        low=1,
        high=1 << 16,  # whose square is 17 GB
        speed=True,
    )
    activation: Literal["tanh", "relu"] = setting(
        "tanh", "Nonlinearity of an mlp, and of a gru's layers before the memory.", speed=True
    )

    def __post_init__(self) -> None:
        require(len(self.hidden) >= 1, "hidden", self.hidden, "at least one layer")


@record("network")
class Computation:
    """How a network is computed."""

    torch_threads: int = setting(
        0,
        "Threads of one torch operation; 0 for one with an mlp over few environments, and for all cores otherwise. "
        "With 0, PPO's and A2C's updates have as many of the cores as their minibatches keep busy.",
        low=0,
        high=MOST_THREADS,
        shared=True,
        speed=True,
    )
    matmul_precision: Literal["highest", "high", "medium"] = setting(
        "highest",
        "How the factors of float32 matrix products are rounded; sums stay float32. highest: not at all; high: to "
        "TensorFloat32 on GPUs; medium: also to bfloat16 on CPUs with units for it, where products are several times "
        "as fast. It holds for the whole process.",
        shared=True,
        speed=True,
    )
    graphs: bool = setting(
        True,
        "On CUDA, run rollouts and updates as CUDA graphs, if the environments are on the GPU, too.",
        shared=True,
        speed=True,
    )


@record("network")
class Compilation:
    """Compilation by torch."""

    compile: bool = setting(
        False,
        "Compile the network with torch.compile (a cnn, or any network on CUDA); the first steps are then slow.",
        speed=True,
    )


@record("network", CNN)
class Convolutions:
    """What a CNN has."""

    bf16: bool = setting(
        False,
        "Run the CNN's matrix products in bfloat16, unless a CPU cannot; parameters, losses and updates stay float32.",
        speed=True,
    )
    trunk: Literal[*TRUNKS] = setting(  # type: ignore[valid-type]
        "nature",
        "The CNN for images of at least 36 x 36; others have a small one. "
        + "; ".join(f"{name}: {trunk.words}" for name, trunk in TRUNKS.items())
        + ".",
        speed=True,
    )


@record("network", CNN, given("trunk", "strided"))
class Pixels:
    """The standardisation of pixels."""

    standardise_pixels: bool = setting(
        False,
        "Give every pixel mean 0 and standard deviation 1, by statistics that are taken once, before the first update.",
        speed=True,
    )


@record("network", MLP)
class SharedLayers:
    """Whether actor and critic have one perceptron."""

    shared: bool = setting(False, "One perceptron for actor and critic of an mlp, instead of one for each.", speed=True)


@record("network", CONTINUOUS)
class Gaussian:
    """A Gaussian policy."""

    log_std_init: float = setting(
        0.0,
        "Initial logarithm of a Gaussian policy's standard deviation, in units of half the action range.",
        low=-20,
        high=10,
    )

"""The kinds of networks, and of trunks of a CNN: what help, checks, documentation and `make_network` know of them.

A further trunk is a class, such as those of `headrace.train.modules.cnn`, and a line of `TRUNKS`; a further network is
a class, such as `headrace.train.modules.gru.GRU`, and a line of `NETWORKS`. This module imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of networks.

    Attributes:
        words: what the help says of it.
        made_by: the import path of its class of actor-critics. It is called with the number of inputs, or a trunk for
            pictures, then the number of outputs, and by name with ``log_std`` and the settings below.
        settings: the settings that only some kinds have, of which this one has these.
        pictures: whether it sees pictures; others take pixels as numbers.
    """

    words: str
    made_by: str
    settings: tuple[str, ...]
    pictures: bool = False


@dataclass(frozen=True)
class Trunk:
    """A kind of trunks for images that are not small.

    Attributes:
        words: what the help says of it.
        made_by: the import path of its class, which is called with channels, height, width, the setting ``bf16``, and
            the number of outputs, its attribute ``features``.
        outputs: number of units of the last layer.
    """

    words: str
    made_by: str
    outputs: int


M = "headrace.train.modules"
NETWORKS = {
    "mlp": Kind("two multilayer perceptrons", f"{M}.mlp:MLP", ("hidden", "activation", "shared")),
    "cnn": Kind(
        "a shared CNN (the Nature-CNN, or a small one for images under 36 x 36)",
        f"{M}.cnn:ImageActorCritic", ("trunk", "bf16"), pictures=True,
    ),
    "gru": Kind("a recurrent network", f"{M}.gru:GRU", ("hidden", "activation")),
}  # fmt: skip
FOR_PICTURES, FOR_NUMBERS = "cnn", "mlp"
"""the kinds that ``network="auto"`` means"""
OWN = "own"
"""the kind of a user's network"""
NETWORK_KINDS = (*NETWORKS, OWN)
TRUNKS = {
    "nature": Trunk("the Nature-CNN", f"{M}.cnn:NatureTrunk", 512),
    "strided": Trunk(
        "filters of 6 x 6 with stride 3, then of 3 x 3 with stride 2, which makes images of 42 x 42 cheap",
        f"{M}.cnn:StridedTrunk", 256,
    ),
}  # fmt: skip

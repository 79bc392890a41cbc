"""Updates of small networks on a CPU."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

def widths() -> list[int]:
    """
    Floats in a register, of those that this processor has; the best first.
    """

class Learner:
    """
    A network whose parameters, and their gradients, are the caller's memory, by addresses.

    stacks: for each, its layers: (inputs, parts); a part is (outputs, whether weights are [outputs, inputs],
    weight, bias, gradient of the weight, gradient of the bias).
    """

    def __init__(
        self,
        *,
        inputs: int,
        relu: bool,
        stacks: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int]]]]],
        width: int = 0,
    ) -> None: ...
    def refresh(self) -> None:
        """Parameters have changed by other hands."""

    def forward(
        self,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        outputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
    ) -> None:
        """Writes the outputs float32[B, all stacks'] of inputs float32[B, D]."""

    def backward(
        self,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        gradients: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    ) -> None:
        """Writes the gradients of all parameters, given those of the outputs."""

    def epoch(
        self,
        *,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        choices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        actions: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        | None,
        columns: Sequence[
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        ],
        order: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        size: int,
        log_std: tuple[int, int],
        rates: tuple[float, float, float, float, float],
        value_clip: float,
        normalise: bool,
        adam: tuple[
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        ],
        betas: tuple[float, float, float],
        steps: int,
    ) -> list[float]:
        """
        Makes one update of proximal policy optimisation for each row of order, int64[minibatches, size].

        columns: log-probabilities, advantages, returns, values. size: logits, or dimensions of an action. log_std:
        addresses of the logarithms of deviations and of their gradient. rates: learning rate, clip range, entropy
        coefficient, value coefficient, largest norm. adam: parameters, gradient, mean, square.
        Returns averages: policy loss, value loss, entropy, KL, share of clipped, gradient's norm.
        """

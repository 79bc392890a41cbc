"""Updates of small networks on a CPU."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

def widths() -> list[int]:
    """
    Floats in a register, of those that this processor has; the best first.
    """

def approach(
    target: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
    source: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rate: float,
) -> None:
    """target += rate (source - target), of float32[P]; on one thread."""

class Learner:
    """
    A network whose parameters, and their gradients, are the caller's memory, by addresses.

    stacks: for each, its layers: (inputs, parts); a part is (outputs, whether weights are [outputs, inputs],
    weight, bias, gradient of the weight, gradient of the bias, the first of its inputs, their number or 0 for all).
    """

    def __init__(
        self,
        *,
        inputs: int,
        relu: bool,
        stacks: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int, int, int]]]]],
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
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        ],
        betas: tuple[float, float, float],
        threads: bool,
    ) -> list[float]:
        """
        Makes one update of proximal policy optimisation for each row of order, int64[minibatches, size].

        columns: log-probabilities, advantages, returns, values. size: logits, or dimensions of an action. log_std:
        addresses of the logarithms of deviations and of their gradient. rates: learning rate, clip range, entropy
        coefficient, value coefficient, largest norm. adam: parameters, gradient, mean, square, steps.
        Returns averages: policy loss, value loss, entropy, KL, share of clipped, gradient's norm.
        """

def has_bfloat16() -> bool:
    """
    Whether this processor multiplies numbers of bfloat16, and the system lets it.
    """

class ActorCriticLearner:
    """
    A policy and its critics, whose inputs are followed by actions; networks as for Learner.

    A policy without target_actor is stochastic: means and logarithms of deviations of variables whose tanh are
    actions. adams: of actor, critics and, of a stochastic policy, temperature: parameters, gradient, mean, square, steps.
    """

    def __init__(
        self,
        *,
        inputs: int,
        actions: int,
        relu: bool,
        actor: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int, int, int]]]]],
        critics: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int, int, int]]]]],
        target_actor: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int, int, int]]]]],
        target_critics: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int, int, int]]]]],
        adams: Sequence[
            tuple[
                Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
                Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
                Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
                Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
                Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            ]
        ],
        betas: tuple[float, float, float],
        width: int = 0,
        bfloat16: bool = False,
    ) -> None: ...
    def update(
        self,
        *,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)],
        actions: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)],
        columns: Sequence[Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)]],
        next_inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)] | None,
        next_noise: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        | None,
        noise: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        | None,
        rates: tuple[float, float, float, float, float],
        critics: bool,
        actor: bool,
        threads: bool,
    ) -> list[float]:
        """
        Makes a gradient step of the critics, and one of the actor.

        columns: rewards, discounts. noise float32[B, A]: standard normal; for target_actor, what is added to its actions.
        rates: critics' and actor's learning rate, largest norm, weight of each critic's mean squared error, target entropy.
        threads: whether two critics, and halves of the actor's samples, may have a thread each, which changes no result.
        Returns the critics' loss, mean value and gradient's norm; the actor's loss, gradient's norm, entropy, temperature.
        """

class QLearner:
    """
    Action values and their targets, networks as for Learner; of dueling ones the last output is the state's value.
    """

    def __init__(
        self,
        *,
        inputs: int,
        actions: int,
        relu: bool,
        dueling: bool,
        q: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int, int, int]]]]],
        target: Sequence[Sequence[tuple[int, Sequence[tuple[int, bool, int, int, int, int, int, int]]]]],
        adam: tuple[
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        ],
        betas: tuple[float, float, float],
        width: int = 0,
        bfloat16: bool = False,
    ) -> None: ...
    def update(
        self,
        *,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)],
        actions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        columns: Sequence[Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)]],
        next_inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)] | None,
        rates: tuple[float, float],
        chooses: bool,
        huber: bool,
        errors: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
    ) -> list[float]:
        """
        Makes a gradient step; writes the absolute errors of values.

        columns: rewards, discounts. rates: learning rate, largest norm. chooses: whether the network, not its target, chooses
        the next action. Returns the loss, the mean value and the gradient's norm.
        """

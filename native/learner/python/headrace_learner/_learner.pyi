"""Updates of small networks on a CPU."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

def widths(*, bfloat16: bool = False) -> list[int]:
    """
    Floats in a register, of those that this processor has, or that multiply bfloat16; the best first.
    """

def polyak_update(
    target: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
    source: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rate: float,
) -> None:
    """target += rate (source - target), of float32[P]; on one thread."""

class Norm:
    """
    A normalisation of a sample's outputs of a layer, before their activation. gain, shift: float32[outputs], or of filters one
    for each channel; epsilon is added to variances. Gradients have the same shapes; a target has none.
    """

    def __init__(
        self,
        *,
        gain: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        shift: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        gain_gradient: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")] | None,
        shift_gradient: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")] | None,
        epsilon: float,
    ) -> None: ...

class Linear:
    """
    Some of a layer's outputs. weight: float32[outputs, inputs] if output_first, else [inputs, outputs]; bias: float32[outputs];
    begin: the first of the layer's inputs that they depend on; norm: of a layer's only part. Gradients have the same shapes; a
    target has none.
    """

    def __init__(
        self,
        *,
        weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
        bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        weight_gradient: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")] | None,
        bias_gradient: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")] | None,
        output_first: bool = True,
        begin: int = 0,
        norm: Norm | None = None,
    ) -> None: ...
    @property
    def outputs(self) -> int:
        """The number of these outputs."""

class Convolution:
    """
    Filters with a ReLU. weight: float32[outputs, side, side, channels], which is multiplied by factor; bias: float32[outputs];
    norm: of all outputs at all places together. Gradients have the same shapes; a target has none.
    """

    def __init__(
        self,
        *,
        weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order="C", device="cpu")],
        bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        weight_gradient: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None, None, None), order="C", device="cpu")
        ]
        | None,
        bias_gradient: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")] | None,
        stride: int,
        factor: float = 1.0,
        norm: Norm | None = None,
    ) -> None: ...

class Trunk:
    """
    Convolutions over pictures uint8[B, *shape], shape being channels, height and width, whose results are a network's inputs.
    mean, scale: of pixels, float32[*shape]: what convolutions see is (picture - mean) scale.
    """

    def __init__(
        self,
        *,
        shape: tuple[int, int, int],
        convolutions: Sequence[Convolution],
        mean: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order="C", device="cpu", writable=False)]
        | None = None,
        scale: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
        ]
        | None = None,
    ) -> None: ...

class Adam:
    """
    An optimiser: parameters, gradient and moments float32[P], which begin on cache lines and fill them; steps float32[1].
    """

    def __init__(
        self,
        *,
        parameters: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        gradient: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        mean: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        square: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        steps: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> None: ...

class Learner:
    """
    A network whose parameters, and their gradients, are the caller's memory.

    stacks: for each, its layers, of which each is a list of parts. log_std: of a normal distribution, float32[outputs - 1].
    """

    def __init__(
        self,
        *,
        inputs: int,
        relu: bool,
        stacks: Sequence[Sequence[Sequence[Linear]]],
        log_std: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")] | None = None,
        log_std_gradient: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")] | None = None,
        trunk: Trunk | None = None,
        width: int = 0,
        bfloat16: bool = False,
    ) -> None: ...
    def refresh(self, threads: int = 1) -> None:
        """Parameters have changed by other hands."""

    def forward(
        self,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        outputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
        keeps: bool = False,
        threads: int = 1,
    ) -> None:
        """
        Writes the outputs float32[B, all stacks'] of inputs float32[B, D], or of pictures uint8[B, C, H, W].

        keeps: whether backward of the same inputs may follow as the next call. threads: how many may share the work, which
        changes no result, as in all other calls.
        """

    def backward(
        self,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        gradients: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        kept: bool = False,
        threads: int = 1,
    ) -> None:
        """
        Writes the gradients of all parameters, given those of the outputs.

        kept: whether the last call was forward of these inputs, with keeps.
        """

    def epoch(
        self,
        *,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        choices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        actions: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        | None,
        log_probs: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        advantages: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        returns: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        forbidden: Annotated[NDArray[numpy.bool_], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        | None,
        order: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        learning_rate: float,
        clip_range: float,
        entropy_coef: float,
        value_coef: float,
        max_grad_norm: float,
        value_clip_range: float | None,
        normalise_advantages: bool,
        adam: Adam,
        threads: int,
        measured: int = 0,
    ) -> list[float]:
        """
        Makes one update of proximal policy optimisation for each row of order, int64[minibatches, size].

        choices int64[rows], or actions float32[rows, size]; log_probs, advantages, returns, values float32[rows]; forbidden:
        masked choices, bool[rows, size]; measured: of each minibatch the first, of which KL and share of clipped are; 0: all.
        Returns averages: policy loss, value loss, entropy, KL, share of clipped, gradient's norm.
        """

class ActorCriticLearner:
    """
    A policy and its critics, whose inputs are followed by actions; networks as for Learner.

    A policy without target_actor is stochastic, and has a temperature: means and logarithms of deviations of variables
    whose tanh are actions.
    """

    def __init__(
        self,
        *,
        inputs: int,
        actions: int,
        relu: bool,
        actor: Sequence[Sequence[Sequence[Linear]]],
        critics: Sequence[Sequence[Sequence[Linear]]],
        target_actor: Sequence[Sequence[Sequence[Linear]]],
        target_critics: Sequence[Sequence[Sequence[Linear]]],
        actor_adam: Adam,
        critic_adam: Adam,
        temperature_adam: Adam | None,
        width: int = 0,
        bfloat16: bool = False,
    ) -> None: ...
    def update(
        self,
        *,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        actions: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)],
        rewards: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)],
        discounts: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)],
        next_inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)] | None,
        next_noise: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        | None,
        noise: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        | None,
        critic_learning_rate: float,
        actor_learning_rate: float,
        max_grad_norm: float,
        critic_weight: float,
        target_entropy: float,
        critics: bool,
        actor: bool,
        threads: int,
    ) -> list[float]:
        """
        Makes a gradient step of the critics, and one of the actor.

        noise float32[B, A]: standard normal; for target_actor, what is added to its actions. critic_weight: of each critic's
        mean squared error. max_grad_norm: infinite for none.
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
        q: Sequence[Sequence[Sequence[Linear]]],
        target: Sequence[Sequence[Sequence[Linear]]],
        adam: Adam,
        trunk: Trunk | None = None,
        target_trunk: Trunk | None = None,
        width: int = 0,
        bfloat16: bool = False,
    ) -> None: ...
    def update(
        self,
        *,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        actions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        rewards: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)],
        discounts: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)],
        next_inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), device="cpu", writable=False)] | None,
        learning_rate: float,
        max_grad_norm: float,
        chooses: bool,
        huber: bool,
        errors: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu")],
        threads: int,
    ) -> list[float]:
        """
        Makes a gradient step; writes the absolute errors of values, float32[B].

        chooses: whether the network, not its target, chooses the next action. Returns the loss, the mean value and the
        gradient's norm.
        """

class ValueLearner:
    """
    Action values that are learnt from rollouts, by RAdam, whose memory is as that of Adam; networks as for Learner.
    """

    def __init__(
        self,
        *,
        inputs: int,
        relu: bool,
        stacks: Sequence[Sequence[Sequence[Linear]]],
        radam: Adam,
        trunk: Trunk | None = None,
        width: int = 0,
        bfloat16: bool = False,
    ) -> None: ...
    def epoch(
        self,
        *,
        inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device="cpu", writable=False)]
        | Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), device="cpu", writable=False)],
        choices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        returns: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        order: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        learning_rate: float,
        max_grad_norm: float,
        threads: int,
    ) -> list[float]:
        """
        Makes one update for each row of order, int64[minibatches, size]: values of choices int64[rows] come closer to returns
        float32[rows]. Returns averages: half the squared error, values, gradient's norm.
        """

"""How a policy in C chooses an action from its network's outputs: the most likely one, in the environment's units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from headrace.errors import OptionError
from headrace.train.modules.distributions import BoxActions, Categorical, DiagonalGaussian, MultiCategorical
from headrace.train.modules.exploration import Deterministic, SquashedGaussian
from headrace.train.play.export.layers import CLAMP, Name

BEST = """\
/* The first of the greatest numbers; of those that a mask allows, if there is one and any is allowed. */
static int32_t best(int count, const float *x, const int8_t *mask)
{
    int masked = 0;
    int32_t found = -1;
    for (int i = 0; mask && i < count; i++)
        masked |= mask[i];
    for (int i = 0; i < count; i++)
        if ((!masked || mask[i]) && (found < 0 || x[i] > x[found]))
            found = i;
    return found;
}
"""


@dataclass(frozen=True, eq=False)
class Discrete:
    """One or several choices among numbers of actions, by the greatest outputs.

    Attributes:
        sizes, starts: the number of actions of each choice, and the number of its first action.
        single: whether the action is one number rather than a row.
        masked: whether a mask says which actions are allowed.
    """

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    single: bool
    masked: bool
    functions: tuple[str, ...] = (BEST,)
    words: ClassVar[str] = "logits or values of actions, of which the greatest is chosen"

    @property
    def actions(self) -> int:
        """How many numbers an action has."""
        return len(self.sizes)

    @property
    def outputs(self) -> int:
        """How many outputs of the network are read."""
        return sum(self.sizes)

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        return {}

    @property
    def kind(self) -> str:
        """The type in C of an element of an action."""
        return "int32_t"

    def body(self, name: Name) -> list[str]:
        """Returns the statements that set ``action``, or return it, from the outputs ``y``."""
        lines, at = [], 0
        for i, (size, start) in enumerate(zip(self.sizes, self.starts, strict=True)):
            mask = ("mask" if not at else f"mask + {at}") if self.masked else "0"
            value = f"best({size}, y{f' + {at}' * bool(at)}, {mask})" + f" + ({start})" * bool(start)
            lines.append(f"return {value};" if self.single else f"action[{i}] = {value};")
            at += size
        return lines


@dataclass(frozen=True, eq=False)
class Continuous:
    """Numbers in a range: ``centre + scale · y`` for outputs y clipped to ± ``limit``, then clipped to the bounds.

    Attributes:
        squashed: whether the hyperbolic tangent of outputs is taken first.
        numbers: limit, scale, centre, low and high, float32 [n] each.
    """

    squashed: bool
    numbers: Mapping[str, np.ndarray]
    functions: tuple[str, ...] = (CLAMP,)
    single: bool = False
    masked: bool = False
    words: ClassVar[str] = "what the action is made of, before its scale and its bounds"

    @property
    def actions(self) -> int:
        """How many numbers an action has."""
        return self.outputs

    @property
    def outputs(self) -> int:
        """How many outputs of the network are read."""
        return self.numbers["low"].size

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        return self.numbers

    @property
    def kind(self) -> str:
        """The type in C of an element of an action."""
        return "float"

    def body(self, name: Name) -> list[str]:
        """Returns the statements that set ``action`` from the outputs ``y``."""
        limit, scale, centre, low, high = (f"{name(each)}[i]" for each in ("limit", "scale", "centre", "low", "high"))
        value = "tanhf(y[i])" if self.squashed else "y[i]"
        return [
            f"for (int i = 0; i < {self.outputs}; i++) {{",
            f"    const float part = clamp({value}, -{limit}, {limit});",
            f"    action[i] = clamp({centre} + part * {scale}, {low}, {high});",
            "}",
        ]


Choice = Discrete | Continuous


def choice_of(distribution: Any, masked: bool) -> Choice:
    """Returns how the most likely action of a distribution is chosen; raises `OptionError` for an unknown one."""
    if isinstance(distribution, Categorical):
        return Discrete((distribution.size,), (distribution.start,), True, masked)
    if isinstance(distribution, MultiCategorical):
        known = distribution.starts
        starts = (0,) * len(distribution.sizes) if known is None else tuple(map(int, known))
        return Discrete(distribution.sizes, starts, False, masked)
    if isinstance(distribution, DiagonalGaussian | SquashedGaussian | Deterministic):
        return Continuous(isinstance(distribution, SquashedGaussian), _numbers(distribution))
    raise OptionError(
        f"C has no form of the actions of {type(distribution).__name__}: export the policy to a file that ends in .onnx"
    )


def _numbers(actions: BoxActions) -> dict[str, np.ndarray]:
    tensors: dict[str, torch.Tensor] = {
        name: getattr(actions, name) for name in ("limit", "scale", "centre", "low", "high")
    }
    return {name: tensor.flatten().cpu().numpy() for name, tensor in tensors.items()}

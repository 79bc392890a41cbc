"""What the numbers of a task's observations and actions are, for those who connect a trained policy to a machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import gymnasium as gym

from headrace.errors import KernelError


@dataclass(frozen=True)
class Part:
    """Elements of an observation that follow each other and belong together.

    Attributes:
        name: what it is, in words.
        shape: its shape; a picture has three dimensions.
        unit: the unit of its elements, such as ``"rad/s"``; empty for a number without one, or where nobody says.
        elements: a name for each row of its first dimension, such as those of joints; empty where they have none.
    """

    name: str
    shape: tuple[int, ...] = (1,)
    unit: str = ""
    elements: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Control:
    """What one element of a continuous action moves: it asks for ``offset + scale * action``, in this unit.

    Attributes:
        name: such as that of an actuator.
        unit: such as ``"N m"`` or ``"rad"``; empty where nobody says.
    """

    name: str
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Signals:
    """What a task says of its observations and actions.

    Attributes:
        observation: the parts of an observation in their order, without what only a critic sees; of stacked
            observations those of one. Empty where nobody says.
        action: the elements of a continuous action in their order; empty where nobody says.
        rate_hz: agent steps in a second of the world; 0 where the world has no time of its own.
    """

    observation: tuple[Part, ...] = ()
    action: tuple[Control, ...] = ()
    rate_hz: float = 0.0


NO_SIGNALS = Signals()


def check_signals(task: str, signals: Signals, observation: gym.Space | None, action: gym.Space | None) -> Signals:
    """Returns the signals; raises `KernelError` if they describe more or fewer numbers than a task's spaces have.

    Args:
        observation: the space of one observation, without what only a critic sees; one that is no `Box` has any parts.
        action: the space of an action.
    """
    for what, space, found in (
        ("observation", observation, sum(part.size for part in signals.observation)),
        ("action", action, len(signals.action)),
    ):
        if found and isinstance(space, gym.spaces.Box) and found != math.prod(space.shape):
            raise KernelError(f"{task}: signals describe {found} numbers of an {what} of {math.prod(space.shape)}")
    for part in signals.observation:
        if part.elements and len(part.elements) != part.shape[0]:
            raise KernelError(f"{task}: {part.name!r} has {part.shape[0]} elements, and {len(part.elements)} names")
    return signals


def numbers(**units: str) -> tuple[Part, ...]:
    """Returns parts of one element each: name, whose underscores are spaces, → unit."""
    return tuple(Part(name.replace("_", " "), unit=unit) for name, unit in units.items())

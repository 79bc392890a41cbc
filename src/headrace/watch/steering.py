"""Commands and pushes of people who watch a robot: the one reader of a task's ``steering``, for the page and for 3D.

What a page sends is checked against `Controls` twice: by the server, which knows them of the player's frames and tells
whoever sent it what is wrong, and by the player. A message is one of::

    {"command": [0.5, 0.0, 0.2]}     numbers within the task's limits
    {"command": null}                the task commands again
    {"key": "w"}                     one of `KEYS`, which changes the command, or pushes
    {"push": true}
    {"chase": true}                  pictures from behind it, by a camera that turns with it; false for the task's own
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import OptionError

if TYPE_CHECKING:
    from headrace.pool.pool import Pool

PUSH = 0.7  # m/s that a push adds to a robot's velocity, in a random direction
STEP = 0.25  # how far a key changes a command, of its greatest value
COMMAND, VELOCITY = "command", "qvel"  # arrays of a pool's state
CHASE = "chase"  # a camera of a robot's model
STOP, PUSHES = " ", "p"
KEYS: Mapping[str, tuple[int, int] | None] = {
    "w": (0, 1), "s": (0, -1), "a": (1, 1), "d": (1, -1), "q": (2, 1), "e": (2, -1),
    "i": (0, 1), "k": (0, -1), "j": (1, 1), "l": (1, -1), "u": (2, 1), "o": (2, -1),
    "arrowup": (0, 1), "arrowdown": (0, -1), "arrowleft": (1, 1), "arrowright": (1, -1),
    STOP: None, PUSHES: None,
}  # fmt: skip
"""a key by its name in browsers, in lower case → the column of the command and its direction"""
HELP = "W S or ↑ ↓: forwards, backwards · A D or ← →: sideways · Q E: turn · space: stop · P: push"


@dataclass(frozen=True)
class Controls:
    """What may be said to a robot.

    Attributes:
        ranges: label, least and greatest value of each column of the command; empty if the task takes none.
        can_push: whether it can be pushed.
        can_chase: whether its model has a camera that turns with it.
    """

    ranges: tuple[tuple[str, float, float], ...] = ()
    can_push: bool = False
    can_chase: bool = False

    @classmethod
    def of_frame(cls, header: Mapping[str, Any] | None) -> Controls:
        """Returns the controls that a player's frame has."""
        shown = (header or {}).get("controls") or {}
        return cls(
            tuple(map(tuple, shown.get("ranges", ()))), bool(shown.get("can_push")), bool(shown.get("can_chase"))
        )

    @classmethod
    def of(cls, pool: Pool) -> Controls:
        """Returns the controls of a pool's environments."""
        rows, steering = pool._executor.state_arrays(), pool.spec.steering
        can_steer = COMMAND in rows and rows[COMMAND].shape[1:] == (len(steering),)
        ranges = tuple((label, float(low), float(high)) for label, (low, high) in steering.items()) if can_steer else ()
        return cls(ranges, VELOCITY in rows and _is_free(pool), _chase(pool) is not None)

    def check(self, said: Any) -> dict[str, Any]:
        """Returns a message of a page; the key that pushes as a push.

        Raises:
            OptionError: it is none, or not for this robot; the error says what is wrong.
        """
        if not isinstance(said, dict) or len(said) != 1 or not said.keys() <= {"command", "key", "push", CHASE}:
            raise OptionError("a robot is steered by a command, a key or a push")
        message: dict[str, Any] = said
        (kind, value), *_ = message.items()
        if kind == "key" and (not isinstance(value, str) or value not in KEYS):
            raise OptionError(f"no such key; {HELP}")
        if kind == "push" and value is not True:
            raise OptionError("a push is true")
        if kind == CHASE and not isinstance(value, bool):
            raise OptionError("chase is true or false")
        if kind == CHASE and not self.can_chase:
            raise OptionError(f"this robot's model has no camera {CHASE!r}")
        pushes = kind == "push" or (kind == "key" and value == PUSHES)
        if pushes and not self.can_push:
            raise OptionError("this robot cannot be pushed")
        if not pushes and kind != CHASE and not self.ranges:
            raise OptionError("this task takes no commands")
        move = KEYS[str(value)] if kind == "key" else None
        if move is not None and move[0] >= len(self.ranges):
            raise OptionError("this robot has no command for that key")
        if kind == "command" and value is not None:
            self._check_command(value)
        return {"push": True} if pushes else message

    def _check_command(self, command: Any) -> None:
        if not isinstance(command, list) or len(command) != len(self.ranges):
            raise OptionError(f"a command is {len(self.ranges)} numbers: {', '.join(each[0] for each in self.ranges)}")
        for (label, low, high), value in zip(self.ranges, command, strict=True):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and low <= value <= high and math.isfinite(value)):
                raise OptionError(f"{label} must be a number from {low:g} to {high:g}, not {value!r:.40}")


class Steering:
    """Commands and pushes for the environments of a pool, in place of the task's own.

    Args:
        pool: the pool; it has been reset.

    Attributes:
        controls: what may be said.
        command: the command of who watches; None while the task commands.
        camera: the number of the camera that who watches has chosen; None for the task's own.
    """

    def __init__(self, pool: Pool):
        self.controls = Controls.of(pool)
        self.command: list[float] | None = None
        self.camera: int | None = None
        self._chase = _chase(pool)
        self._rows = pool._executor.state_arrays()
        self._pushes: list[None] = []  # of which other threads may add
        self._chance = np.random.default_rng()

    def take(self, said: Any) -> None:
        """Does what a message says, at the next step; raises `OptionError` as `Controls.check`."""
        (kind, value), *_ = self.controls.check(said).items()
        if kind == "command":
            self.command = None if value is None else list(map(float, value))
        elif kind == "push":
            self._pushes.append(None)
        elif kind == CHASE:
            self.camera = self._chase if value else None
        else:
            self.command = self._moved(KEYS[value])

    def _moved(self, move: tuple[int, int] | None) -> list[float]:
        """Returns the command after a key; `None` for the one that stops."""
        still = [min(max(0.0, low), high) for _, low, high in self.controls.ranges]
        if move is None:
            return still
        column, way = move
        command = list(self.command or still)
        _, low, high = self.controls.ranges[column]
        moved = command[column] + way * STEP * max(abs(low), abs(high))
        command[column] = min(max(round(moved, 6), low), high)
        return command

    def apply(self) -> None:
        """Writes command and pushes into the environments' state: before and after a step, which may draw others."""
        if self.command is not None:
            self._rows[COMMAND][:] = self.command
        while self._pushes:
            self._pushes.pop()
            way = self._chance.uniform(0, 2 * np.pi, len(self._rows[VELOCITY]))
            self._rows[VELOCITY][:, :2] += PUSH * np.stack((np.cos(way), np.sin(way)), 1)

    def shown(self) -> dict[str, Any] | None:
        """Returns the controls and the first environment's command that holds, for a page; None for no controls."""
        if self.controls == Controls():
            return None
        now = self._rows[COMMAND][0].tolist() if self.controls.ranges else []
        steps = [slider_step(low, high) for _, low, high in self.controls.ranges]
        about = {"command": now, "steered": self.command is not None, "chased": self.camera is not None}
        return {**asdict(self.controls), **about, "steps": steps, "keys": list(KEYS), "help": HELP}


def slider_step(low: float, high: float) -> float:
    """Returns the step of a slider, a power of ten, so that 0 is one of its values."""
    return 10.0 ** math.floor(math.log10((high - low) / 60)) if high > low else 1.0


def _is_free(pool: Pool) -> bool:
    """Returns whether the environments are a robot of MuJoCo that stands on nothing but the ground."""
    model: Any = getattr(pool._executor, "model", None)
    return getattr(model, "njnt", 0) > 0 and model.jnt_type[0] == 0 and model.nv >= 6  # mjJNT_FREE


def _chase(pool: Pool) -> int | None:
    """Returns the number of the camera that turns with the robot; None if its model has none."""
    from headrace.pool.executors.mujoco.pictures import named

    number = named(pool._executor.model, CHASE) if _is_free(pool) else -1  # pyright: ignore[reportAttributeAccessIssue]
    return number if number >= 0 else None

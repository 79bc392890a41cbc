"""The options of an Atari task: EnvPool's names and defaults, checked one by one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from headrace.errors import OptionError

RANGES: dict[str, tuple[float, float]] = {
    "stack_num": (1, 64),
    "frame_skip": (1, 1000),
    "noop_max": (0, 10_000),
    "img_height": (1, 4096),
    "img_width": (1, 4096),
    "mode": (-1, 255),
    "difficulty": (-1, 255),
    "repeat_action_probability": (0.0, 1.0),
    "max_episode_steps": (0, 2**31 - 1),
}


@dataclass(frozen=True)
class AtariOptions:
    """How a game is played and seen.

    Attributes:
        stack_num: frames in one observation, oldest first.
        frame_skip: emulated frames in one agent step; an observation shows the maximum of the last two.
        noop_max: a new game starts with 1 to so many frames of doing nothing; 0 for none.
        zero_discount_on_life_loss: report ``info["discount"]`` 0 where a life was lost or the game ended, else 1.
        episodic_life: a lost life terminates the episode while there are others; autoreset then plays on in the
            same game, with ``noop_max`` and FIRE as at its beginning, and `reset` starts a new one.
        reward_clip: rewards become -1, 0 or 1; ``info["reward"]`` stays as it is.
        use_fire_reset: press FIRE once after the no-ops, in games that have it.
        img_height: rows of a frame.
        img_width: columns of a frame.
        mode: the game's mode, see its manual; -1 for the default.
        difficulty: the difficulty switches, 0 to 3; -1 for the default.
        full_action_space: all 18 actions instead of those the game uses.
        repeat_action_probability: of a sticky action, in each frame (Machado et al. 2018 advise 0.25).
        use_inter_area_resize: average over areas (OpenCV's INTER_AREA) or interpolate (INTER_LINEAR).
        gray_scale: grey frames, or red, green and blue as three channels each.
        original: the Arcade Learning Environment's own processor and picture chip in place of ours, which do
            the same to the bit, but faster.
        max_episode_steps: agent steps after which a game is truncated; 0 for never.
    """

    stack_num: int = 4
    frame_skip: int = 4
    noop_max: int = 30
    zero_discount_on_life_loss: bool = False
    episodic_life: bool = False
    reward_clip: bool = False
    use_fire_reset: bool = True
    img_height: int = 84
    img_width: int = 84
    mode: int = -1
    difficulty: int = -1
    full_action_space: bool = False
    repeat_action_probability: float = 0.0
    use_inter_area_resize: bool = True
    gray_scale: bool = True
    original: bool = False
    max_episode_steps: int = 27_000


DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(AtariOptions)}


def checked(task: str, options: Mapping[str, Any]) -> AtariOptions:
    """The options, completed; raises `OptionError` for one that is unknown, of a wrong type or out of range."""
    return AtariOptions(**{name: _checked(task, name, value) for name, value in options.items()})


def _checked(task: str, name: str, value: Any) -> Any:
    if name not in DEFAULTS:
        close = difflib.get_close_matches(name, DEFAULTS, 3, 0.4) or sorted(DEFAULTS)
        raise OptionError(f"{task} has no option {name!r}: did you mean {', '.join(close)}?")
    default = DEFAULTS[name]
    if isinstance(default, bool):
        if not isinstance(value, bool | np.bool_):
            raise OptionError(f"{name} of {task} must be True or False, not {value!r}")
        return bool(value)
    low, high = RANGES[name]
    kinds = int | np.integer if isinstance(default, int) else int | float | np.integer | np.floating
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "an integer" if isinstance(default, int) else "a number"
        raise OptionError(f"{name} of {task} must be {kind} in [{low}, {high}], not {value!r}")
    return type(default)(value)

"""The options of Atari tasks, with EnvPool's names and defaults, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.options import unknown_option

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
    """Options of a game's emulation, its rewards and its observations.

    Attributes:
        stack_num: number of frames in one observation, oldest first.
        frame_skip: number of emulated frames in one agent step; an observation is the maximum of the last two.
        noop_max: maximal number of no-op frames at the start of a new game, drawn from 1 to this number; 0 for none.
        zero_discount_on_life_loss: whether ``info["discount"]`` is reported: 0 if a life was lost or the game ended,
            else 1.
        episodic_life: whether a lost life terminates the episode; autoreset then continues the same game, with no-ops
            and FIRE as at its start, and `reset` starts a new game.
        reward_clip: whether rewards are clipped to their sign, -1, 0 or 1; ``info["reward"]`` is not clipped.
        use_fire_reset: whether FIRE is pressed once after the no-ops, in games that use it.
        img_height: height of a frame, in pixels.
        img_width: width of a frame, in pixels.
        mode: the game's mode, see its manual; -1 for the default.
        difficulty: the game's difficulty, 0 to 3; -1 for the default.
        full_action_space: whether all 18 actions are available, instead of only those that the game uses.
        repeat_action_probability: probability of a sticky action in each frame (Machado et al. 2018 recommend 0.25).
        use_inter_area_resize: whether frames are resized by averaging over areas (OpenCV's INTER_AREA) or by
            interpolation (INTER_LINEAR).
        gray_scale: whether frames are grayscale, or have three channels: red, green and blue.
        original: whether the Arcade Learning Environment's own CPU and video emulation is used, instead of Headrace's,
            which is faster and bit for bit identical.
        max_episode_steps: number of agent steps after which an episode is truncated; 0 for no limit.
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
    """Returns the given options, completed with the defaults.

    Raises:
        OptionError: an option is unknown, has the wrong type or is out of range.
    """
    return AtariOptions(**{name: _checked(task, name, value) for name, value in options.items()})


def _checked(task: str, name: str, value: Any) -> Any:
    if name not in DEFAULTS:
        raise unknown_option(task, name, DEFAULTS)
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

"""The options of ViZDoom tasks, with EnvPool's names and defaults, and their validation."""

from __future__ import annotations

import operator
import os
from typing import Any

from headrace.envs.vizdoom.rewards import REWARDS, WEAPON_REWARDS
from headrace.pool.options import Checked, Option

SIDE = 4096
MOST_WEAPON = 7


def _text(default: str, wanted: str) -> Option:
    return Checked(default, check=os.fspath, wanted=wanted)


def _number(value: Any) -> float:
    if isinstance(value, bool | str):
        raise TypeError
    return float(value)


def _pairs(value: Any) -> dict[str, tuple[float, float]]:
    pairs = {name: tuple(map(_number, pair)) for name, pair in dict(value).items()}
    if not all(isinstance(name, str) and len(pair) == 2 for name, pair in pairs.items()):
        raise ValueError
    return pairs  # pyright: ignore[reportReturnType]


def _weapons(value: Any) -> dict[int, float]:
    weapons = {int(weapon): _number(reward) for weapon, reward in dict(value).items()}  # JSON's keys are strings
    if not all(0 <= weapon <= MOST_WEAPON for weapon in weapons):
        raise ValueError
    return weapons


def _deltas(value: Any) -> dict[str, tuple[int, float, float]]:
    deltas = {}
    for name, (count, least, greatest) in dict(value).items():
        if not isinstance(name, str) or isinstance(count, bool) or operator.index(count) < 0:
            raise ValueError
        deltas[name] = operator.index(count), _number(least), _number(greatest)
    return deltas


OPTIONS: dict[str, Any] = {
    # height and width of a frame (pixels), number of frames in one observation (oldest first), game tics in one step
    "img_height": Option(84, 1, SIDE),
    "img_width": Option(84, 1, SIDE),
    "stack_num": Option(4, 1, 64),
    "frame_skip": Option(4, 1, 1000),
    # whether frames are resized by averaging over areas (OpenCV's INTER_AREA) or by interpolation (INTER_LINEAR)
    "use_inter_area_resize": True,
    # folder for the engine's recordings, env_<env_id>_<episode>.lmp; empty for no recordings
    "lmp_save_dir": _text("", "a folder's path"),
    # whether a death terminates the episode in games that continue after it, such as multiplayer games
    "episodic_life": False,
    # whether actions are discrete, indices of a table of button combinations, or a value for each button
    "use_combined_action": False,
    # for that table: whether SPEED is always pressed, and the number and range of values of delta buttons
    "force_speed": False,
    "delta_button_config": Checked(
        {}, check=_deltas, wanted='a dict of delta buttons, such as {"TURN_LEFT_RIGHT_DELTA": (3, -10, 10)}'
    ),
    # whether the reward is the scenario's own or, as in EnvPool, computed from changes of game variables (see
    # `headrace.envs.vizdoom.rewards`), with the options below
    "scenario_reward": False,
    "weapon_duration": Option(5, 0),
    "reward_config": Checked(
        REWARDS, check=_pairs, wanted='a dict of game variables, such as {"HEALTH": (0.01, -0.01)}: gained, lost'
    ),
    "selected_weapon_reward_config": Checked(
        WEAPON_REWARDS, check=_weapons, wanted="a dict of weapons' numbers, 0 to 7, and rewards"
    ),
    # custom files: settings, map and game data; additional arguments of the engine; and the map's name in its file
    "cfg_path": _text("", "a .cfg file's path"),
    "wad_path": _text("", "a .wad file's path"),
    "iwad_path": _text("", "a .wad file's path"),
    "game_args": _text("", "text"),
    "map_id": _text("map01", "a map's name, such as 'map01'"),
}
DEFAULTS: dict[str, Any] = {name: getattr(option, "default", option) for name, option in OPTIONS.items()}

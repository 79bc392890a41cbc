"""The package EnvPool: its tasks, their options and spaces, in the form in which Headrace's tasks have them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError, UnknownTaskError
from headrace.pool import flat_observation
from headrace.pool.infos import OURS
from headrace.pool.options import Checked, Option
from headrace.pool.sources import ENVPOOL as PREFIX
from headrace.pool.spec import Field
from headrace.pool.structure import Path, leaves
from headrace.pool.suggestions import nearest

LEAST = (1, 2, 5)  # the first version whose names, info and autoreset are those that this module knows
INSTALL = f"pip install 'envpool>={'.'.join(map(str, LEAST))}'"
LIMIT = "max_episode_steps"
NO_LIMIT = 2**31 - 1  # in EnvPool
PICTURES = {"from_pixels": False, "render_width": 0, "render_height": 0, "render_camera_id": -1}
FLAT = "flat_observation"
TEXT = "mission"  # the key of texts in BabyAI's and MiniGrid's observations
NOT_OPTIONS = {
    *("num_envs", "batch_size", "num_threads", "max_num_players", "thread_affinity_offset", "seed", "env_seed"),
    *("base_path", "gym_reset_return_info", "reward_threshold", "task", "task_name", "env_name"),
}  # what pools have by other names, and what a task's name stands for
ENDLESS = {
    "envpool.highway",
    "envpool.jumanji",
    "envpool.pgx",
    "envpool.procgen",
    "CatchEnvSpec",
    "CliffWalkingEnvSpec",
}
"""modules and tasks of EnvPool that end no episode after ``max_episode_steps``"""
DRAW = "import sys, envpool as e; p = e.make_gymnasium(sys.argv[1], num_envs=1, render_mode='rgb_array'); "
DRAW += "p.reset(); p.render()"
PATIENCE = 60.0  # seconds for drawing one picture in a process of its own


def package() -> ModuleType:
    """Returns the package; raises `OptionError`, which says what to install, if it is missing or too old."""
    try:
        found = version("envpool")
    except PackageNotFoundError:
        raise OptionError(f"tasks {PREFIX}… run in the package EnvPool, which is not installed: {INSTALL}") from None
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < LEAST:
        raise OptionError(f"tasks {PREFIX}… do not run in EnvPool {found}, which is too old: {INSTALL}")
    try:
        return importlib.import_module("envpool")
    except ImportError as error:
        raise OptionError(f"EnvPool {found} cannot be imported: {error}") from error


def names() -> list[str]:
    """Returns the names of all of EnvPool's tasks, with the prefix, sorted; raises `OptionError` as `package` does."""
    return sorted(PREFIX + name for name in package().list_all_envs())


def options_of(name: str) -> dict[str, Option]:
    """Returns the options of a task: those of EnvPool's config, those of pictures, and ``flat_observation``.

    Raises:
        UnknownTaskError: EnvPool has no task of this name.
        OptionError: EnvPool lacks something to make it, such as a library of the system.
    """
    registry = package().registration.registry
    if name not in registry.specs:
        close = [PREFIX + each for each in nearest(name, registry.specs)]
        hint = f"did you mean {', '.join(close)}?" if close else f"headrace envs {PREFIX} lists all"
        raise UnknownTaskError(f"EnvPool has no task {name!r}: {hint}")
    place, kind, given = registry.specs[name]
    try:
        spec = getattr(importlib.import_module(place), kind)
    except ImportError as error:
        raise OptionError(f"{PREFIX}{name}: {error}") from error
    keys = (key.replace(".", "_") for key in spec._config_keys)
    config = {**dict(zip(keys, spec._default_config_values, strict=True)), **given, **PICTURES}
    absent = NOT_OPTIONS | ({LIMIT} if {place, kind} & ENDLESS else set())
    known = {key: _option(key, value) for key, value in config.items() if key not in absent}
    return known | {FLAT: flat_observation.flat_option()}


def _option(key: str, default: Any) -> Option:
    """Returns an option that takes values of its default's type, and integers for floats."""
    if key == LIMIT:
        return Option(0 if default == NO_LIMIT else default)
    kind = type(default)

    def check(value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if kind in (list, tuple) and isinstance(value, list | tuple):
            return kind(value)
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind or (kind is int and abs(value) > NO_LIMIT):
            raise TypeError
        return value

    wanted = {
        bool: "True or False",
        int: "an integer",
        float: "a number",
        str: "a text",
        list: "a list",
        tuple: "a list",
    }
    return Checked(default, check=check, wanted=wanted.get(kind, f"a {kind.__name__}"))


def spec_of(name: str, options: Mapping[str, Any]) -> Any:
    """Returns EnvPool's spec of a task with these options.

    Raises:
        OptionError: EnvPool refuses the options, or the task is for several players.
    """
    task = PREFIX + name
    try:
        spec = package().make_spec(name, **given(options))
    except Exception as error:  # of any kind that compiled code raises
        raise OptionError(f"{task}: {error or type(error).__name__}") from error
    players = getattr(spec.config, "max_num_players", 1)
    if players != 1:
        raise OptionError(
            f"{task} is for {players} players, and only EnvPool's tasks for one run in Headrace: "
            "headrace envs boards lists games for two"
        )
    return spec


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a task's options as EnvPool takes them: those of pictures only where they are not the default."""
    ours = {FLAT: options.get(FLAT), **PICTURES}
    chosen = {key: value for key, value in options.items() if key not in ours or value != ours[key]}
    return chosen | ({LIMIT: options[LIMIT] or NO_LIMIT} if LIMIT in options else {})


def observation_keys(spec: Any) -> dict[Path, str]:
    """Returns path of keys in the observation → EnvPool's name of the array."""
    keys = [key for key in spec._state_keys if re.match("obs\\b", key)]
    return {(): keys[0]} if len(keys) == 1 else {tuple(re.split("[:.]", key)[1:]): key for key in keys}


def observation_space(spec: Any, flat: bool | str = False) -> gym.Space:
    """Returns the space of an observation; if it is one array, by the option ``flat_observation``, a `Joined`."""
    with warnings.catch_warnings(action="ignore"):  # of bounds that float32 rounds
        space = spec.observation_space
    if not flat:
        return space
    texts = [path for path in leaves(space) if path == (TEXT,)]
    return flat_observation.Joined(space, flat == flat_observation.PICTURES, texts)


def action_space(spec: Any) -> gym.Space:
    """Returns the space of an action; whole numbers are choices."""
    with warnings.catch_warnings(action="ignore"):
        space = spec.action_space
    if isinstance(space, gym.spaces.Box) and space.dtype.kind == "i":
        return gym.spaces.MultiDiscrete(space.high - space.low + 1, space.dtype.type, start=space.low)
    return space


def info_fields(spec: Any) -> tuple[Field, ...]:
    """Returns the info fields of a task, without those that all pools have."""
    fields = []
    for key, array in spec.state_array_spec.items():
        kind, _, name = key.partition(":")
        if kind == "info" and name not in OURS and not name.startswith("players"):
            shape = tuple(array.shape)
            fields.append(Field(name, np.dtype(array.dtype), shape[1:] if shape[:1] == (-1,) else shape))
    return tuple(fields)


@cache
def why_no_pictures(name: str) -> str:
    """Returns why EnvPool cannot draw a task here; empty if it can.

    Where it finds no OpenGL, it ends the process: so one of its own is the first to draw a robot.
    """
    place, _, _ = package().registration.registry.specs[name]
    if not place.startswith("envpool.mujoco"):
        return ""
    try:
        tried = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", DRAW, name], capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return f"no picture came within {PATIENCE:.0f} s"
    said = (tried.stderr + tried.stdout).strip().splitlines()
    return "" if not tried.returncode else (said[-1] if said else f"exit status {tried.returncode}")

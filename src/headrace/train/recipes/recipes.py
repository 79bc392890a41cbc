"""Looks up what a run begins with: the best algorithm and settings known for its task, its family or its kind.

The choices of algorithms are in `headrace.train.recipes.table`, and the settings beside each algorithm.
``reached.json`` beside this module holds what they have reached, by task: returns, or shares of points in a board game.
`docs/leaderboard.py` writes it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import numpy as np

from headrace.pool.family import FROM_PIXELS
from headrace.pool.flat_observation import Joined, picture_shape
from headrace.pool.make_pool import make_pool
from headrace.pool.registry import build_task, families, family_of, is_python, is_registered, or_headraces, own_name
from headrace.pool.structure import leaves
from headrace.train.recipes.table import GENERAL, KINDS, RECIPES
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings, find_settings

T = TypeVar("T")
REACHED = Path(__file__).with_name("reached.json")
MINUTE, SOON = 60.0, 100.0
SLOW = "slow steps"  # in the names of kinds
SLOW_STEP = 0.005  # seconds of a step above which an environment is slow
PROBED, PATIENCE = 20, 2.0  # steps of which the fastest counts, and the seconds after which there are no more


class Recipe(NamedTuple):
    """What a run begins with: an algorithm, a preset, and a key of that preset, such as a task or a family.

    A key may end in `FROM_PIXELS`.
    """

    algo: str
    preset: str
    key: str

    def describe(self, task: str) -> str:
        """Returns in words what was chosen, and what it has reached on two cores without a GPU."""
        known = reached(task) if self == recipe_of(task, {}) else None
        known = "" if known is None else f": {known}"
        what = f"recipe {'for ' if self.key in KINDS else ''}{self.key}" if self.key else "no recipe is for such tasks"
        return f"{self.algo}, {what}{known}{or_headraces(task)}"


def recipe_of(task: str, given: Mapping[str, Any]) -> Recipe:
    """Returns what a run of a task begins with.

    Args:
        given: the settings that the user gave, of which ``algo``, ``preset``, ``network`` and ``env_options`` count.
            A given algorithm that is not the recipe's has its default preset.

    Raises:
        OptionError: there is no such algorithm.
    """
    options, network = given.get("env_options", {}), given.get("network") or "auto"
    _, (algo, preset) = _first(RECIPES, task, options) or ("", RECIPES[""])
    if network != "auto" and ("own" if ":" in network else network) not in find_settings(algo).network_kinds:
        algo, preset = RECIPES[""]
    if given.get("algo", algo) != algo:
        algo, preset = given["algo"], DEFAULT_PRESET
    preset = given.get("preset", preset)
    return Recipe(algo, preset, _found(find_settings(algo).presets, task, preset, options)[0])


def another(algo: str, action: gym.Space) -> str:
    """Returns an algorithm to try in place of another, for these actions."""
    if algo != "ppo":
        return "ppo"
    if isinstance(action, gym.spaces.Discrete):
        return "dqn"
    return "sac" if isinstance(action, gym.spaces.Box) else "a2c"


def is_proven(task: str, algo: str, preset: str) -> bool:
    """Returns whether a run has the recipe of its task, of which it is known what it reaches."""
    return reached(task) is not None and recipe_of(task, {})[:2] == (algo, preset)


def keys() -> list[str]:
    """Returns the tasks, then the families and the kinds of tasks, that have a recipe of their own."""
    tables = [find_settings(algo).presets[preset] for algo, preset in dict.fromkeys(RECIPES.values())]
    found = dict.fromkeys(key for table in tables for key in table)
    groups = [key for name in (*families(), *KINDS) for key in (name, f"{name}{FROM_PIXELS}") if key in found]
    named = (key for key in found if is_registered(key.removesuffix(FROM_PIXELS)))
    return [*sorted(key for key in named if recipe_at(key).key == key), *groups]


def recipe_at(key: str) -> Recipe:
    """Returns the recipe of a task, a family or a kind."""
    task = key.removesuffix(FROM_PIXELS)
    if is_registered(task):
        return recipe_of(task, {"env_options": {"from_pixels": True}} if task != key else {})
    return Recipe(*(RECIPES.get(key) or RECIPES.get(task, RECIPES[""])), key)


def preset_of(
    presets: Presets, task: str, network: str, preset: str, env_options: Mapping[str, Any] | None = None
) -> Settings:
    """Returns the settings, name → value, with which a run of this task and network begins."""
    return _found(presets, task, preset, env_options or {})[1] | presets.get(DEFAULT_PRESET, {}).get(network, {})


def reached(task: str) -> str | None:
    """Returns in words which return the task's recipe has reached, and when; None if that was not measured."""
    measured = _reached()
    rows = [each for each in measured["tasks"].get(own_name(task), ()) if each["seconds"] is not None]
    if not rows:
        return None
    goal, seconds, against = rows[-1]["goal"], rows[-1]["seconds"], rows[-1].get("against")
    took = f"{seconds:.0f} s" if seconds < SOON else f"{seconds / MINUTE:.0f} min"
    what = f"{goal:g} of the points against {against}" if against else f"a return of {goal:,g}"
    return f"{what} in about {took} on {measured['cores']} cores"


@cache
def _reached() -> dict[str, Any]:
    return json.loads(REACHED.read_text())


def _found(presets: Presets, task: str, preset: str, options: Mapping[str, Any]) -> tuple[str, Settings]:
    tables = (presets.get(preset, {}), presets.get(DEFAULT_PRESET, {}))
    return next(filter(None, (_first(table, task, options) for table in tables)), ("", {}))


def _first(table: Mapping[str, T], task: str, options: Mapping[str, Any]) -> tuple[str, T] | None:
    """Returns the key that fits the task best, and what a table has there; None if no key fits."""
    return next(((key, table[key]) for key in _keys(task, table, options) if key in table), None)


def _keys(task: str, table: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    task = own_name(task)
    family = family_of(task)
    if options.get("from_pixels"):
        yield from (f"{name}{FROM_PIXELS}" for name in (task, family.name if family else ""))
    yield task
    if family is not None and family.name in table:
        yield family.name
    elif not table.keys().isdisjoint(GENERAL if family else KINDS):  # only then the task is built
        yield from kinds_of(task, options, any(SLOW in key for key in table))
    yield ""


def kinds_of(task: str, options: Mapping[str, Any], timed: bool = True) -> tuple[str, ...]:
    """Returns the kinds of a task, that which says most first: of `KINDS`, or the spec's own, which is a family's name.

    There are none for a task that cannot be built. Unless ``timed``, none says how long a step takes.
    """
    try:
        spec = build_task(task, **options).spec
    except Exception:  # of the user's own code, too; a later check raises it again
        return ()
    if spec.agents:
        return ("several agents",)
    seen = spec.observation.source if isinstance(spec.observation, Joined) else spec.observation
    picture = any(picture_shape(leaf) for leaf in leaves(seen).values())
    moves = "continuous actions" if isinstance(spec.action, gym.spaces.Box) else "discrete actions"
    if picture:
        return ("pictures", moves)
    if spec.kind:
        return (spec.kind, moves)
    if isinstance(seen, gym.spaces.Discrete) and moves == "discrete actions":
        return ("observations of a category", moves)
    slow = timed and step_seconds(task, options) > SLOW_STEP
    return (f"{SLOW}, {moves}", moves) if slow else (moves,)


def step_seconds(task: str, options: Mapping[str, Any]) -> float:
    """Returns the seconds of the fastest step of an environment that is a Python object; 0 for others.

    It is measured once in a process, with random actions. Other load on the machine hardly changes the fastest of
    several.
    """
    known = task, json.dumps(dict(options), default=repr)
    if known not in _measured:
        _measured[known] = _measure_step(*known)
    return _measured[known]


def measured_seconds(task: str, options: Mapping[str, Any]) -> float:
    """Returns what `step_seconds` has measured; 0 if it was not called, as it makes an environment."""
    return _measured.get((task, json.dumps(dict(options), default=repr)), 0.0)


_measured: dict[tuple[str, str], float] = {}
"""a task and its options, as JSON → what `step_seconds` returns"""


def _measure_step(task: str, options: str) -> float:
    if not is_python(task):
        return 0.0
    times = list[float]()
    try:
        with make_pool(task, seed=0, **json.loads(options)) as pool:
            pool.action_space.seed(0)
            pool.reset()
            begun = time.perf_counter()
            while len(times) < PROBED and time.perf_counter() - begun < PATIENCE:
                action, start = np.asarray(pool.action_space.sample())[None], time.perf_counter()
                pool.step(action)
                times.append(time.perf_counter() - start)
    except Exception:  # training raises it again, unless it is of a random action
        return 0.0
    return min(times, default=0.0)

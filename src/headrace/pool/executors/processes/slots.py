"""Operations of a worker on one of its environments other than steps; `Dispatch.call` runs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.utils import EzPickle

from headrace.pool.executors.processes import states
from headrace.pool.executors.processes.parallel import layers


@dataclass(slots=True)
class Slot:
    """One environment of a worker, and the progress of its episode.

    Attributes:
        env: the environment; None before it is made and after it has failed.
        elapsed: number of steps of the current episode.
        over: whether the episode has ended and no other has begun.
        seeded: whether the environment has been reset with a seed, so that its random stream continues.
        options: options for the next reset that is requested with options.
        loaded: what `loaded` has unpickled and `replaced` has not yet put in place.
    """

    env: Any = None
    elapsed: int = 0
    over: bool = False
    seeded: bool = False
    options: Mapping[str, Any] | None = None
    loaded: tuple[Any, int, bool, bool] | None = None


def saved(slot: Slot, _: object) -> bytes:
    """Returns the environment's pickle; see `states`.

    Raises:
        TypeError: the environment cannot be pickled, or its pickle holds constructor arguments instead of its state.
    """
    for part in layers(slot.env):
        if isinstance(part, EzPickle):
            raise TypeError(f"{type(part).__name__} pickles its arguments (EzPickle), not its present state")
    return states.dumped((slot.env, slot.elapsed, slot.over, slot.seeded))


def loaded(slot: Slot, blob: bytes) -> None:
    """Unpickles what `saved` pickled; `replaced` puts it in place, once the states of all environments are unpickled.

    Raises:
        ValueError: it is no state of an environment.
    """
    env, elapsed, over, seeded = states.loaded(blob)
    if type(elapsed) is not int or type(over) is not bool or type(seeded) is not bool or not hasattr(env, "step"):
        raise ValueError("the pickle holds no environment")
    slot.loaded = env, elapsed, over, seeded


def replaced(slot: Slot, _: object) -> None:
    """Replaces the environment by the one that `loaded` has unpickled."""
    assert slot.loaded is not None
    (slot.env, slot.elapsed, slot.over, slot.seeded), slot.loaded = slot.loaded, None


def told(slot: Slot, options: Mapping[str, Any]) -> None:
    """Stores the options of a reset that follows."""
    slot.options = options


def rendered(slot: Slot, _: object) -> Any:
    """Returns what the environment's ``render`` returns, or a description of the error that it raises.

    Environments are made without a render mode, since some step more slowly with one. It is set here, also in
    environments that are attributes of this one, which render for it in gymnasium_robotics' mazes. Without a display,
    the environment variable ``MUJOCO_GL`` makes Gymnasium's MuJoCo environments use EGL, since GLFW, their first
    choice, fails.
    """
    if sys.platform == "linux" and not os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:
        os.environ.setdefault("MUJOCO_GL", "egl")
    env = getattr(slot.env, "unwrapped", slot.env)
    for each in (env, *(part for part in getattr(env, "__dict__", {}).values() if isinstance(part, gym.Env))):
        if getattr(each, "render_mode", None) is None and "rgb_array" in each.metadata.get("render_modes", ()):
            each.render_mode = "rgb_array"
    try:
        return slot.env.render()
    except NotImplementedError:
        return None
    except Exception as error:  # e.g. an environment that needs a render mode when it is made
        return f"its render raised {type(error).__name__}: {error}"


def called(name: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any], slot: Slot, _: object) -> Any:
    """Returns an attribute of the environment or its wrappers, or its result if it is callable.

    If ``name`` is a function, returns its result for the environment as first argument.
    """
    if callable(name):
        return name(slot.env, *arguments, **keywords)
    found = slot.env.get_wrapper_attr(name) if isinstance(slot.env, gym.Env) else getattr(slot.env, name)
    return found(*arguments, **keywords) if callable(found) else found


def assigned(name: str, slot: Slot, value: Any) -> None:
    """Sets an attribute on the outermost wrapper that has it, or else on the environment itself."""
    if isinstance(slot.env, gym.Env):
        slot.env.set_wrapper_attr(name, value)
    else:
        setattr(slot.env, name, value)

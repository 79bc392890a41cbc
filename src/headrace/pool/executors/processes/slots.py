"""What a worker can be asked to do with one of its environments, beside stepping it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.utils import EzPickle

from headrace.pool import by_value
from headrace.pool.executors.processes.parallel import layers


@dataclass(slots=True)
class Slot:
    """One environment's place: the environment itself, once it was made, and where it is in its episode.

    Attributes:
        seeded: whether it has been reset with a seed, so that its random stream goes on.
        options: for its next reset, if that is told to use them.
    """

    env: Any = None
    elapsed: int = 0
    over: bool = False
    seeded: bool = False
    options: Mapping[str, Any] | None = None


def saved(slot: Slot, _: object) -> bytes:
    """The environment as bytes, which were loaded once: what can't be restored is found now.

    Raises:
        TypeError: it can't be pickled, or its pickles hold how it was made and not where it is.
    """
    for part in layers(slot.env):
        if isinstance(part, EzPickle):
            raise TypeError(f"{type(part).__name__} pickles what it was made with (EzPickle), not the state it is in")
    state = (slot.env, slot.elapsed, slot.over, slot.seeded)
    try:
        return pickle.dumps(pickle.loads(pickle.dumps(state)), pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError):  # a class of the user's own script, which travels by value
        text = by_value.dumps(state)
        pickle.loads(text)
        return text


def loaded(slot: Slot, blob: bytes) -> None:
    """Put what `saved` gave in the environment's place."""
    env, elapsed, over, seeded = pickle.loads(blob)
    slot.env, slot.elapsed, slot.over, slot.seeded = env, elapsed, over, seeded


def told(slot: Slot, options: Mapping[str, Any]) -> None:
    """Keep the options of a reset that follows."""
    slot.options = options


def rendered(slot: Slot, _: object) -> Any:
    """What the environment draws; None where it draws nothing.

    It was made without pictures, since some environments take longer steps where they may be asked for one.
    """
    inner = getattr(slot.env, "unwrapped", slot.env)
    if getattr(inner, "render_mode", None) is None and "rgb_array" in inner.metadata.get("render_modes", ()):
        inner.render_mode = "rgb_array"
    try:
        return slot.env.render()
    except NotImplementedError:
        return None


def called(name: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any], slot: Slot, _: object) -> Any:
    """A method's answer, or an attribute, wherever among the environment's wrappers it is; or a function's answer."""
    if callable(name):
        return name(slot.env, *arguments, **keywords)
    found = slot.env.get_wrapper_attr(name) if isinstance(slot.env, gym.Env) else getattr(slot.env, name)
    return found(*arguments, **keywords) if callable(found) else found


def assigned(name: str, slot: Slot, value: Any) -> None:
    """Set an attribute of the environment, where one of its wrappers has it or on the environment itself."""
    if isinstance(slot.env, gym.Env):
        slot.env.set_wrapper_attr(name, value)
    else:
        setattr(slot.env, name, value)

"""Objects that a program passes in place of names: a network, a reward function.

The settings, and therefore ``config.json``, hold a name in place of an object, ``<given>:NAME``. The object itself is
registered under that name during the call that it was passed to. It is pickled with the settings, so that it is also
registered in the processes that the call starts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from headrace.errors import OptionError
from headrace.pool.sources import GIVEN as PREFIX

NAMES = ("network", "reward")
"""settings that may be objects"""

_held: ContextVar[Mapping[str, Any]] = ContextVar("given", default=MappingProxyType({}))


def is_given(value: object) -> bool:
    return isinstance(value, str) and value.startswith(PREFIX)


def split_off(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns settings with names in place of objects, and the objects, setting → object."""
    objects = {
        name: settings[name] for name in NAMES if name in settings and not isinstance(settings[name], str | None)
    }
    named = {name: PREFIX + getattr(given, "__qualname__", type(given).__qualname__) for name, given in objects.items()}
    return {**settings, **named}, objects


@contextmanager
def holding(objects: Mapping[str, Any]) -> Iterator[None]:
    """Registers these objects, setting → object, and no others, within this context."""
    token = _held.set({name: given for name, given in objects.items() if given is not None})
    try:
        yield
    finally:
        _held.reset(token)


def find(setting: str, name: str) -> Any:
    """Returns the object that a setting's value names.

    Raises:
        OptionError: the object is not registered, since it was passed to another call.
    """
    try:
        return _held.get()[setting]
    except KeyError:
        own = name.removeprefix(PREFIX)
        raise OptionError(
            f"this run began with the object {own} as {setting}, which no folder holds: pass it again, {setting}=…"
        ) from None


def check_wanted(settings: Mapping[str, Any], objects: Mapping[str, Any]) -> None:
    """Raises `OptionError` unless objects are passed for exactly those settings of a run that name objects."""
    for name in NAMES:
        value, given = settings.get(name), objects.get(name)
        if is_given(value):
            with holding(objects):
                find(name, str(value))
        elif given is not None:
            raise OptionError(f"this run did not begin with an object as {name}, but with {value!r}: leave {name} out")


def packed(settings: Mapping[str, Any]) -> bytes | None:
    """Returns the objects that settings name, pickled by value; None if there are none.

    Raises:
        OptionError: an object cannot be pickled.
    """
    if not any(is_given(settings.get(name)) for name in NAMES):
        return None
    from headrace.pool import by_value

    objects = {name: find(name, settings[name]) for name in NAMES if is_given(settings.get(name))}
    try:
        return by_value.dumps(objects)
    except by_value.UNPICKLABLE as error:
        names = " and ".join(objects)
        raise OptionError(f"{names} cannot be sent to another process: {error}; train with samplers=0") from error


def unpack(objects: bytes | None) -> None:
    if objects is not None:
        _held.set(pickle.loads(objects))

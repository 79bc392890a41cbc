"""Pickles functions and classes of a user's script by value, since other processes cannot import them."""

from __future__ import annotations

import contextlib
import functools
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from headrace.pool.sources import SCRIPT

UNPICKLABLE = TypeError, AttributeError, pickle.PicklingError
"""what `dumps` raises for a value that holds something that cannot be pickled, such as a lock"""
CACHED = type(functools.lru_cache(lambda: None))


class Pickler(cloudpickle.Pickler):
    """A pickler that supports methods with `functools.lru_cache`, which PettingZoo recommends for its space methods."""

    watched: Sequence[Any] = ()
    met = False
    """whether one of the ``watched`` objects was pickled"""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        for name in SCRIPT & sys.modules.keys():
            cloudpickle.register_pickle_by_value(sys.modules[name])

    def reducer_override(self, obj: Any) -> Any:
        """Returns how an object is pickled, as `pickle.Pickler.reducer_override`."""
        self.met = self.met or any(obj is each for each in self.watched)
        if isinstance(obj, CACHED) and not _is_found_by_name(obj):
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)


def dumps(value: Any) -> bytes:
    """Returns the pickle of any function or object, for `pickle.loads`.

    Raises:
        UNPICKLABLE: the value holds something that cannot be pickled.
    """
    file = io.BytesIO()
    Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def holds(value: Any, objects: Sequence[Any]) -> bool:
    """Returns whether a function, or an object, holds one of some objects, as far as it can be pickled by value."""
    pickler = Pickler(io.BytesIO(), pickle.HIGHEST_PROTOCOL)
    pickler.watched = objects
    with contextlib.suppress(Exception):
        pickler.dump(value)
    return pickler.met


def _is_found_by_name(function: Any) -> bool:
    found: Any = None if function.__module__ in SCRIPT else sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    return functools.lru_cache(**parameters)(function)

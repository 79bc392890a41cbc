"""The check that results never change: keeps all results of a run, and compares them with copies at its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.structure import row_of
from headrace.testing.report import conformance
from headrace.testing.trial import Actions, Mismatch, Trial, text

MARK = "added by the caller"
STEPS = 30  # greatest number of steps of each of the several runs


@conformance
def kept_results(trial: Trial) -> None:
    """Checks that results that a caller keeps (arrays, frames, dicts) never change, with each interface of pools."""
    actions = trial.actions(min(trial.steps, STEPS))
    views: dict[str, dict[str, Any]] = {
        "the pool": {},
        "EnvPool's view": {"env_type": "gymnasium"},
        "the vector view": {"env_type": "vec"},
        "the dm view": {"env_type": "dm", "autoreset": "next_step"},
    }
    for name, settings in views.items():
        for batch_size in (0, trial.num_envs // 2):
            pool: Any = trial.make(batch_size=batch_size, **settings)
            try:
                played = _asynchronous(pool, actions) if batch_size else _synchronous(pool, actions)
                keep_all(played, f"{name}, batch_size={batch_size or trial.num_envs}")
            finally:
                pool.close()


def keep_all(results: Iterator[Any], where: str) -> None:
    """Keeps all results; raises `Mismatch`, which ``where`` begins, if one has changed or two share a dict."""
    kept = []
    for number, result in enumerate(results):
        if path := marked(result):
            raise Mismatch(f"{where}: what a caller has added to the dict {path} of one result is in result {number}")
        mark(result)
        kept.append((result, copied(result)))
    gc.collect()
    for number, (result, before) in enumerate(kept):
        if found := changed(result, before):
            raise Mismatch(f"{where}: result {number} of {len(kept)} was kept, and has changed since: {found}")


def _synchronous(pool: Any, actions: Actions) -> Iterator[Any]:
    yield pool.reset()
    first, rest = np.array_split(np.arange(pool.num_envs), 2)
    for step, action in enumerate(actions):
        if step % 3:
            yield pool.step(action)
        else:  # in parts, sent and received
            pool.send(row_of(action, rest), rest)
            yield pool.step(row_of(action, first), first)
            yield pool.recv()
        if step % 10 == 0:
            yield _pictures(pool)


def _asynchronous(pool: Any, actions: Actions) -> Iterator[Any]:
    pool.async_reset()
    for action in actions:
        result = pool.recv()
        yield result
        info = result.observation if hasattr(result, "observation") else result[-1]
        ids = info.env_id if hasattr(info, "env_id") else info["env_id"]
        pool.send(row_of(action, ids), ids)


def _pictures(pool: Any) -> Any:
    try:
        return pool.render()
    except OptionError:
        return None


# -- any result, part by part --------------------------------------------------------------------


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a dict, a tuple or an array of objects, each with its index as text."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items() if key != MARK)
    elif isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.dtype == object):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))


def copied(value: Any) -> Any:
    """Returns a copy of a result, as nested lists of arrays."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy()
    return [(name, copied(part)) for name, part in parts(value)]


def changed(value: Any, before: Any, path: str = "") -> str:
    """Returns a description of the first difference between a result and its copy; empty if they are equal."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return "" if value.tobytes() == before.tobytes() else f"{path} was {text(before)}, and is {text(value)}"
    now = list(parts(value))
    if [name for name, _ in now] != [name for name, _ in before]:
        return f"{path} had {len(before)} entries, and has {len(now)}"
    found = (changed(part, was, path + name) for (name, part), (_, was) in zip(now, before, strict=True))
    return next(filter(None, found), "")


def mark(value: Any) -> None:
    """Adds the key `MARK` to every dict of a result."""
    for _, part in parts(value):
        mark(part)
    if isinstance(value, dict):
        value[MARK] = True


def marked(value: Any, path: str = "result") -> str:
    """Returns the path of the first dict of a result that `mark` has changed; empty if there is none."""
    if isinstance(value, dict) and MARK in value:
        return path
    return next(filter(None, (marked(part, path + name) for name, part in parts(value))), "")

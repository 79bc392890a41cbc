"""The runs of checks: plays the same seeds and actions in different pools, and compares the results.

A pool's results are stored as frames: dicts of arrays in the order of env_id, so that results of all kinds of calls can
be compared.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.infos import OF_THE_BATCH
from headrace.pool.make_pool import check_int
from headrace.pool.pool import Pool
from headrace.pool.structure import mapped, row_of
from headrace.pool.views.make import make, make_spec

Frame = dict[str, np.ndarray]
Actions = list[Any]
FINAL = "final "


class Mismatch(Exception):
    """A check has failed; the message says what was expected and what was seen."""


@dataclass(frozen=True)
class Trial:
    """The task of a check, and the seed and size of its runs.

    Attributes:
        task: a registered name.
        options: the task's own options.
        seed: the seed of the environments and of the actions.
        num_envs: number of environments in a pool.
        steps: number of steps of one run.
        limit: ``max_episode_steps`` in most runs, so that episodes end, if the task has that option.

    Raises:
        OptionError: ``seed``, ``num_envs`` or ``steps`` is not an integer in its range.
    """

    task: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    num_envs: int = 5
    steps: int = 100
    limit: int = 13

    def __post_init__(self) -> None:
        check_int("seed", self.seed, 0, 2**63 - 1)
        check_int("num_envs", self.num_envs, 2)
        check_int("steps", self.steps, 4)

    def make(self, **settings: Any) -> Pool:
        """Returns a pool with the trial's seed and options, overridden by ``settings``."""
        given = {"num_envs": self.num_envs, "seed": self.seed, "autoreset": "same_step", **self.options}
        if "max_episode_steps" not in given and self.can_be_limited:
            given["max_episode_steps"] = self.limit
        return make(self.task, **given | settings)

    @property
    def can_be_limited(self) -> bool:
        """Whether the task has the option ``max_episode_steps``."""
        try:
            return make_spec(self.task, **{**self.options, "max_episode_steps": 7}).max_episode_steps == 7
        except OptionError:
            return False

    def actions(self, steps: int = 0, seed: int = 0) -> Actions:
        """Returns random actions: one batch for each step, whose row i belongs to environment i."""
        space = copy.deepcopy(make_spec(self.task, **self.options).action)
        space.seed(self.seed + seed)
        rows = [stack([space.sample() for _ in range(min(self.num_envs, 64))]) for _ in range(steps or self.steps)]
        return [row_of(row, np.arange(self.num_envs) % 64) for row in rows]


def stack(rows: Sequence[Any]) -> Any:
    """Returns actions of several environments as one batch: an array, or dicts and tuples of arrays."""
    return mapped(lambda *leaves: np.stack(leaves), *rows)


def on_device(action: Any, device: Any) -> Any:
    """Returns a batch of actions as torch tensors on a device."""
    import torch

    return mapped(lambda array: torch.from_numpy(array).to(device), action)


# -- frames --------------------------------------------------------------------------------------


def start(pool: Pool, env_ids: Any = None, seed: Any = None) -> Frame:
    """Resets environments; returns the frame of the result."""
    obs, info = host(pool.reset(env_ids, seed=seed))
    return _ordered({**_named("obs", obs), **_infos(pool, info)})


def advance(pool: Pool, action: Any, env_ids: Any = None) -> Frame:
    """Steps environments; returns the frame of the result."""
    return frame(pool, pool.step(action, env_ids))


def frame(pool: Pool, result: Any) -> Frame:
    """Returns the frame of a step's five-tuple; ``final …`` fields are 0 in rows where no episode ended."""
    obs, reward, terminated, truncated, info = host(result)
    fields = {"reward": reward, "terminated": terminated, "truncated": truncated}
    fields |= {**_named("obs", obs), **_infos(pool, info)}
    if pool.autoreset == "same_step":
        ended = info.get("_final_obs", np.zeros(len(terminated), np.bool_))
        fields["final"] = ended
        last = {**_named("obs", info.get("final_obs", obs)), **_infos(pool, info.get("final_info", info))}
        for name, array in last.items():
            mask = ended.reshape(-1, *(1,) * (array.ndim - 1))
            fields[FINAL + name] = np.where(mask, array, np.zeros((), array.dtype))
        fields.pop(FINAL + "env_id", None)
    return _ordered(fields)


def host(result: Any) -> Any:
    """Returns a result as NumPy arrays; copies tensors, which the next step overwrites."""
    return mapped(lambda leaf: leaf.cpu().numpy().copy() if hasattr(leaf, "cpu") else leaf, result)


def merged(parts: Sequence[Frame]) -> Frame:
    """Returns one frame with the rows of several frames."""
    return _ordered({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def rows_of(frames: Sequence[Frame], rows: Any) -> list[Frame]:
    """Returns the rows ``rows`` of all frames, with new env_ids from 0."""
    chosen = [{name: array[rows] for name, array in one.items()} for one in frames]
    return [one | {"env_id": np.arange(len(one["env_id"]), dtype=np.int32)} for one in chosen]


def play(pool: Pool, actions: Actions, seed: Any = None) -> list[Frame]:
    """Resets a pool and takes all actions; returns the frames of the reset and of each step."""
    return [start(pool, seed=seed), *(advance(pool, action) for action in actions)]


def typed_as(frames: Sequence[Frame], others: Sequence[Frame]) -> list[Frame]:
    """Returns ``others`` in the dtypes of ``frames``, since torch returns most unsigned integers as signed ones."""
    return [
        {name: array.astype(one[name].dtype) if name in one else array for name, array in other.items()}
        for one, other in zip(frames, others, strict=True)
    ]


def observations(one: Frame, *, final: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the observation's arrays of a frame with their keys, such as ``"arm:left"``, or ``""``."""
    prefix = f"{FINAL if final else ''}obs"
    for name, array in one.items():
        if name == prefix or name.startswith(prefix + ":"):
            yield name[len(prefix) + 1 :], array


def _named(name: str, obs: Any) -> Frame:
    if not isinstance(obs, dict | tuple):
        return {name: obs}
    parts = obs.items() if isinstance(obs, dict) else enumerate(obs)
    return {full: array for key, part in parts for full, array in _named(f"{name}:{key}", part).items()}


def _infos(pool: Pool, info: Mapping[str, Any]) -> Frame:
    """Returns a task's info fields by name, and further info of single environments as text."""
    fields = {"env_id": info["env_id"], "elapsed_step": info["elapsed_step"]}
    fields |= {f"info {f.name}": info[f.name] for f in pool.spec.info}
    said = np.full(len(info["env_id"]), "", object)
    for row in np.flatnonzero(sum(info[f"_{key}"] for key in _told(info))).tolist():
        said[row] = repr(_said(info, row))
    return fields | {"infos": said}


def _told(info: Mapping[str, Any]) -> list[str]:
    """Returns the keys of info that single environments set, which have a mask."""
    return sorted((key for key in info if f"_{key}" in info and key not in OF_THE_BATCH), key=str)


def _said(info: Mapping[str, Any], row: int) -> dict[str, Any]:
    """Returns one environment's own info, without the fields that all environments have."""
    values = {key: info[key] for key in _told(info) if info[f"_{key}"][row]}
    return {
        key: _said(value, row) if isinstance(value, dict) else np.asarray(value[row]).tolist()
        for key, value in values.items()
    }


def _ordered(fields: Frame) -> Frame:
    order = np.argsort(fields["env_id"], kind="stable")
    return {name: array[order] for name, array in fields.items()}


# -- comparison ----------------------------------------------------------------------------------


def same(expected: Sequence[Frame], seen: Sequence[Frame], claim: str, tolerance: float = 0.0) -> None:
    """Raises `Mismatch` at the first difference; floats may differ by ``tolerance``. ``claim`` begins the message."""
    for step, (one, other) in enumerate(zip(expected, seen, strict=True)):
        if one.keys() != other.keys():
            raise Mismatch(f"{claim}: fields {sorted(one)} were expected, {sorted(other)} came")
        for name in one:
            if (env_id := difference(one[name], other[name], tolerance)) is not None:
                wanted, got = text(one[name][env_id]), text(other[name][env_id])
                raise Mismatch(
                    f"{claim}. After {step} steps, environment {env_id}: {name} should be {wanted}, but is {got}"
                )


def differ(one: Sequence[Frame], other: Sequence[Frame]) -> bool:
    """Returns whether two runs differ in observations or rewards."""
    return any(
        difference(a[name], b[name]) is not None
        for a, b in zip(one, other, strict=True)
        for name in a
        if name.startswith(("obs", "reward"))
    )


def difference(one: np.ndarray, other: np.ndarray, tolerance: float = 0.0) -> int | None:
    """Returns the index of the first row that differs, or None; 0 if shapes or dtypes differ."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return 0
    equal = one == other
    if one.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            equal = equal | (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= tolerance)
    wrong = np.flatnonzero(~equal.reshape(len(one), -1).all(axis=1))
    return int(wrong[0]) if wrong.size else None


def text(value: Any) -> str:
    return np.array2string(np.asarray(value), threshold=8, edgeitems=3, precision=9, separator=", ").replace("\n", "")

"""Fields of a model that are drawn anew for each episode: masses, friction, gains.

What is drawn for a number is ``base + slope * u``, where u is uniform: a factor of the model's value, something added
to it, or a value in its place. One function therefore draws all fields of all tasks, from tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from headrace.errors import KernelError
from headrace.pool.executors.mujoco.fields import MjModel

NAMED = "body geom site cam light jnt actuator tendon sensor eq pair mat".split()
"""the beginnings of names of fields that have a row for each object of a kind"""


@dataclass(frozen=True)
class Draw:
    """How a field of the model is drawn at each reset; `scale`, `add` and `draw` make one.

    Attributes:
        kind: ``"scale"``, ``"add"`` or ``"draw"``.
        low, high: between which a number is drawn, uniformly.
        together: whether one number is drawn for the whole field. Otherwise each row has a factor of its own, or each
            number has its own addition or value.
        only: names of bodies, geoms, joints, actuators, … that are drawn, in which ``*`` stands for anything; by
            default all but the world's body.
        column: the column that is drawn, of a field that has several; by default all.
    """

    kind: str
    low: float
    high: float
    together: bool = False
    only: tuple[str, ...] = ()
    column: int | None = None


def scale(
    low: float, high: float, *, together: bool = False, only: Sequence[str] = (), column: int | None = None
) -> Draw:
    """Returns the draw of factors of the model's values; see `Draw`."""
    return Draw("scale", low, high, together, tuple(only), column)


def add(
    low: float, high: float, *, together: bool = False, only: Sequence[str] = (), column: int | None = None
) -> Draw:
    """Returns the draw of numbers that are added to the model's values; see `Draw`."""
    return Draw("add", low, high, together, tuple(only), column)


def draw(
    low: float, high: float, *, together: bool = False, only: Sequence[str] = (), column: int | None = None
) -> Draw:
    """Returns the draw of values in place of the model's; see `Draw`."""
    return Draw("draw", low, high, together, tuple(only), column)


def fields_of(randomise: Mapping[Any, Draw]) -> list[str]:
    """Returns the names of all fields that are drawn; a key is a name, or a tuple of fields that share their draws."""
    return [name for key in randomise for name in ((key,) if isinstance(key, str) else key)]


def tables_of(task: str, randomise: Mapping[Any, Draw], model: MjModel, num_envs: int) -> dict[str, np.ndarray]:
    """Returns the tables of all numbers that are drawn, in the order of their draws, arrays [K] by name.

    ``first`` and ``step`` are the places of a number in memory that has the fields one after the other, [N, …] each:
    that of the first environment, and how far the next one's is. Where ``anew`` is false, the number before it counts
    for this one as well. The others are ``low``, ``high``, ``base`` and ``slope``.

    Raises:
        KernelError: a field or a draw is not valid; the message says why.
    """
    begins, at = {}, 0
    for name in fields_of(randomise):
        array = getattr(model, name, None)
        if not (isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim in (1, 2)):
            raise KernelError(f"{task}: randomise names {name!r}, which is no field of numbers of mjModel")
        if name in begins:
            raise KernelError(f"{task}: randomise names {name!r} twice")
        begins[name], at = at * num_envs, at + array.size
    rows = []
    for key, how in randomise.items():
        names, groups = (key,) if isinstance(key, str) else key, {}
        _check(task, key, how)
        for name in names:
            array = getattr(model, name)
            grid = array.reshape(len(array), -1)
            columns = range(grid.shape[1]) if how.column is None else (how.column,)
            if how.column is not None and not 0 <= how.column < grid.shape[1]:
                raise KernelError(
                    f"{task}: randomise: {name} has {grid.shape[1]} columns, and none of number {how.column}"
                )
            for i in _rows(task, model, name, len(grid), how.only):
                for j in columns:
                    nominal = grid[i, j]
                    base, slope = {"scale": (0.0, nominal), "add": (nominal, 1.0), "draw": (0.0, 1.0)}[how.kind]
                    group = () if how.together else (i,) if how.kind == "scale" else (i, j)
                    if slope:  # a factor of zero changes nothing
                        place = (begins[name] + i * grid.shape[1] + j, array.size)
                        groups.setdefault(group, []).append((*place, base, slope))
        for members in groups.values():
            rows += [(*member, how.low, how.high, member is members[0]) for member in members]
    columns = {"first": int, "step": int, "base": float, "slope": float, "low": float, "high": float, "anew": bool}
    kinds = {int: np.int32, float: np.float64, bool: np.bool_}
    return {name: np.array([row[i] for row in rows], kinds[kind]) for i, (name, kind) in enumerate(columns.items())}


def _check(task: str, key: Any, how: Any) -> None:
    if not isinstance(how, Draw):
        raise KernelError(f"{task}: randomise: {key!r} needs scale(…), add(…) or draw(…), not {how!r}")
    if not (np.isfinite([how.low, how.high]).all() and how.low <= how.high):
        raise KernelError(
            f"{task}: randomise: {key!r} is drawn from {how.low} to {how.high}: the lower bound comes first"
        )


def _rows(task: str, model: MjModel, field: str, count: int, only: tuple[str, ...]) -> list[int]:
    """Returns the rows of a field that are drawn: those of objects with these names, by default all."""
    kind = field.partition("_")[0]
    if not only:
        return [*range(1 if kind == "body" else 0, count)]
    if kind in NAMED:
        owners = [getattr(model, kind)(i).name for i in range(count)]
    elif kind == "dof":
        owners = [model.jnt(i).name for i in model.dof_jntid]
    elif field in ("qpos0", "qpos_spring"):
        owners = [model.jnt(np.searchsorted(model.jnt_qposadr, i, "right") - 1).name for i in range(count)]
    else:
        raise KernelError(f"{task}: randomise: the rows of {field} have no names: leave only=(…) out")
    for name in only:
        if not any(fnmatchcase(owner, name) for owner in owners):
            there = ", ".join(dict.fromkeys(filter(None, owners))) or "none"
            raise KernelError(f"{task}: randomise: {field} has nothing called {name!r}; there is {there}")
    return [i for i, owner in enumerate(owners) if any(fnmatchcase(owner, name) for name in only)]

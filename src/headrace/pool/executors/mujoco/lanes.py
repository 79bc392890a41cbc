"""The physics of a MuJoCo task on threads: several simulations at once, in lanes of vector registers, or libmujoco's.

Both start from equal states and agree but for rounding; saved states pass between them. What the lanes cannot step is
named, and libmujoco steps it.
"""

from __future__ import annotations

import os
from typing import Any

from headrace.errors import OptionError
from headrace.native_modules import MUJOCO as NATIVE
from headrace.pool.executors.mujoco.comparison import UNCHECKED, verdict_of
from headrace.pool.executors.mujoco.fields import MjModel, library, native_module
from headrace.pool.executors.mujoco.program import MujocoEnv, wanted
from headrace.pool.options import Checked

PHYSICS = "physics"
LANES, LANES32, MUJOCO = "lanes", "lanes32", "mujoco"
CHOICES = (LANES, LANES32, MUJOCO)
PREFERRED = LANES
"""the physics of a task that lanes can step and that names none"""
MOST_NAMED = 5  # of what lanes leave to libmujoco


def _known(value: Any) -> str:
    if value not in ("", *CHOICES):
        raise ValueError
    return value


OPTION = Checked("", check=_known, wanted=f"one of {', '.join(CHOICES)}")
"""the option `PHYSICS`; empty until `physics_of` has chosen"""


def physics_of(task: str, asked: str, env: MujocoEnv, model: MjModel, ours: bool = True) -> str:
    """Returns the physics of a task: the one asked for, or by default lanes where `why_not_lanes` has no reason.

    Args:
        task: its name, for messages.
        asked: one of `CHOICES`, or empty for the default.
        env, model: the task and its model.
        ours: whether Headrace comes with both; if not, lanes are compared with MuJoCo at their first use.

    Raises:
        OptionError: lanes are asked for, and cannot step the model, or differ from MuJoCo.
    """
    if asked == MUJOCO or (not asked and PREFERRED == MUJOCO):
        return MUJOCO
    remedy = f"leave physics out, or ask for {MUJOCO!r}"
    if asked:
        if why := _unsupported(env, model):
            raise OptionError(f"{task} cannot have physics={asked!r}: {why}; {remedy}")
        if not ours and UNCHECKED not in os.environ and (why := verdict_of(task, env, model).differs):
            or_not = f"{UNCHECKED}=1 in the environment steps it so all the same"
            raise OptionError(f"{task} cannot have physics={asked!r}: {why}; {remedy}; {or_not}")
        return asked
    return MUJOCO if why_not_lanes(env, model) or (not ours and verdict_of(task, env, model).differs) else PREFERRED


def why_not_lanes(env: MujocoEnv, model: MjModel) -> str:
    """Returns what of a task keeps it from lanes by default; empty if nothing does.

    The constraint solvers Newton and CG converge to the optimum, which lanes compute, too; PGS stops before.
    """
    if model.opt.solver == library().mjtSolver.mjSOL_PGS:
        return "the solver is PGS"
    return _unsupported(env, model)


def _unsupported(env: MujocoEnv, model: MjModel) -> str:
    """Returns why lanes cannot step a task; empty if they can."""
    try:
        native = native_module()
    except OptionError as error:
        return str(error)
    if not native.lane_widths():
        return "this processor has no registers for them"
    reads, varies = list(env.reads), list(env.varies)
    return native.why_not_in_lanes(model=model._address, reads=reads, varies=varies, **wanted(env))


def remark(task: str, physics: str, env: MujocoEnv, model: MjModel, ours: bool = True) -> str:
    """Returns which physics steps a task, why lanes do not, and what of it they leave to libmujoco.

    It says nothing more than the physics where the compiled module is not there to say.
    """
    if not NATIVE.installed():
        return f"physics {physics}" if physics != MUJOCO else ""
    if physics == MUJOCO:
        why = why_not_lanes(env, model) or ("" if ours else verdict_of(task, env, model).differs)
        return f"physics {physics}" + (f", not {LANES}: {why}" if why else f"; {LANES} can step it, too")
    left = native_module().left_to_mujoco(model=model._address, reads=list(env.reads), **wanted(env))
    slow = f"libmujoco computes {_listed(left)}, one environment at a time" if left else ""
    stops = "" if ours else verdict_of(task, env, model).stops
    return "; ".join(filter(None, (f"physics {physics}", slow, stops)))


def _listed(names: list[str]) -> str:
    """Returns names in words, a few of many."""
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))

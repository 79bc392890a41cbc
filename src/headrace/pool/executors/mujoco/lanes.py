"""The physics of a MuJoCo task on threads: several simulations at once, in lanes of vector registers, or libmujoco's.

Both start from equal states and agree but for rounding; saved states pass between them. What the lanes cannot step is
named, and libmujoco steps it.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import OptionError
from headrace.native_modules import MUJOCO as NATIVE
from headrace.pool.executors.mujoco.fields import MjModel, library, native_module
from headrace.pool.executors.mujoco.program import MujocoEnv, wanted
from headrace.pool.options import Checked

PHYSICS = "physics"
LANES, LANES32, MUJOCO = "lanes", "lanes32", "mujoco"
CHOICES = (LANES, LANES32, MUJOCO)
PREFERRED = LANES
"""the physics of a task that lanes can step and that names none"""


def _known(value: Any) -> str:
    if value not in ("", *CHOICES):
        raise ValueError
    return value


OPTION = Checked("", check=_known, wanted=f"one of {', '.join(CHOICES)}")
"""the option `PHYSICS`; empty until `physics_of` has chosen"""


def physics_of(task: str, asked: str, env: MujocoEnv, model: MjModel) -> str:
    """Returns the physics of a task: the one asked for, or by default lanes where `why_not_lanes` has no reason.

    Raises:
        OptionError: lanes are asked for, and cannot step the model.
    """
    if asked in (LANES, LANES32) and (why := _unsupported(env, model)):
        remedy = f"leave physics out, or ask for {MUJOCO!r}"
        raise OptionError(f"{task} cannot have physics={asked!r}: {why}; {remedy}")
    if asked:
        return asked
    return PREFERRED if PREFERRED == MUJOCO or not why_not_lanes(env, model) else MUJOCO


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


def remark(physics: str, env: MujocoEnv, model: MjModel) -> str:
    """Returns which physics steps a task, and why lanes do not; empty where the compiled module is not there to say."""
    if physics != MUJOCO or not NATIVE.installed():
        return f"physics {physics}" if physics != MUJOCO else ""
    why = why_not_lanes(env, model)
    return f"physics {physics}" + (f", not {LANES}: {why}" if why else f"; {LANES} can step it, too")

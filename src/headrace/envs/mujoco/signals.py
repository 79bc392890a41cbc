"""What observations of Gymnasium's MuJoCo tasks consist of, as an exported policy says it."""

from collections.abc import Callable
from typing import Any

from headrace.envs.mujoco.forward import skipped
from headrace.pool.executors.mujoco import Part, Signals, joint_parts
from headrace.pool.options import Options


def joints(positions: int = 0) -> Callable[[Options, Any], Signals]:
    """Returns what says that a task observes its joints, perhaps without so many first positions."""
    return lambda options, model: Signals(joint_parts(model, skipped(options, positions) if positions else 0))


def of_bodies(model: Any, first: int, name: str, columns: int, unit: str) -> tuple[Part, ...]:
    """Returns the part with so many numbers of each body from the ``first``; none if there are no bodies left."""
    bodies = tuple(model.body(i).name for i in range(first, model.nbody))
    return (Part(name, (len(bodies), columns), unit, bodies),) if bodies else ()


FORCES = "contact torques and forces on bodies"
"""the name of the part with ``cfrc_ext``"""


def inverted_double_pendulum(forces: int, model: Any) -> Signals:
    poles = tuple(model.joint(i).name for i in range(1, model.njnt))
    every = (model.joint(0).name, *poles)
    return Signals(
        (
            Part("position of the cart", unit="m"),
            Part("sines of the poles' angles", (len(poles),), "", poles),
            Part("cosines of the poles' angles", (len(poles),), "", poles),
            Part("velocities, clipped", (len(every),), "m/s, rad/s", every),
            Part("constraint forces, clipped", (forces,), "N, N m", every[:forces]),
        )
    )


def reacher(axes: int, model: Any) -> Signals:
    arm = tuple(model.joint(i).name for i in range(2))
    return Signals(
        (
            Part("cosines of angles", (2,), "", arm),
            Part("sines of angles", (2,), "", arm),
            Part("place of the target", (model.nq - 2,), "m", tuple("xyz"[: model.nq - 2])),
            Part("velocities of joints", (2,), "rad/s", arm),
            Part("from the target to the fingertip", (axes,), "m", tuple("xyz"[:axes])),
        )
    )


def pusher(options: Options, model: Any) -> Signals:
    arm, axes = tuple(model.joint(i).name for i in range(7)), ("x", "y", "z")
    places = [Part(f"place of {what}", (3,), "m", axes) for what in ("the fingertip", "the object", "the goal")]
    return Signals(
        (Part("angles of joints", (7,), "rad", arm), Part("velocities of joints", (7,), "rad/s", arm), *places)
    )

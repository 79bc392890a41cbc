"""What a model must have for its robot to walk: what is missing is named, with what to do.

Those who bring a model of their own forget a part of it; MuJoCo compiles it all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.errors import OptionError
from headrace.pool.executors.mujoco.fields import library

TRUNK = 1  # the body of the free joint
SAME = 1e-9  # of a servo's stiffness, and the factor of the joint's angle


def check_model(robot: Any, model: Any) -> None:
    """Checks that a model fits a `Robot`.

    Raises:
        OptionError: it does not; the message says what is missing, and how to add it.
    """
    for faults in (_trunk, _names, _joints, _servos, _ground):
        for fault in faults(robot, model):
            raise OptionError(f"the model of {robot.name} {fault}")


def _trunk(robot: Any, model: Any) -> Iterator[str]:
    kinds = library().mjtJoint
    if not model.njnt or model.jnt_type[0] != kinds.mjJNT_FREE or model.jnt_bodyid[0] != TRUNK:
        yield "has no free joint: its trunk is the world's first body, and needs <freejoint/> before all other joints"
    for i in range(1, model.njnt):
        if model.jnt_type[i] != kinds.mjJNT_HINGE:
            yield f"has the joint {_named(model, 'joint', i)}, which is no hinge: weld it, or make a hinge of it"


def _names(robot: Any, model: Any) -> Iterator[str]:
    have = [model.key(i).name for i in range(model.nkey)]
    if robot.start not in have:
        yield (
            f"has no keyframe {robot.start!r}, the pose in which the robot stands: add <keyframe><key "
            f'name="{robot.start}" qpos="…"/></keyframe>, with the trunk as high as its feet then touch the ground; '
            f"it has {_listed(have)}"
        )
    sites = [model.site(i).name for i in range(model.nsite)]
    for name, what in (*((foot, "foot") for foot in robot.feet), (robot.imu, "imu"), (robot.torso, "torso")):
        if name not in sites:
            where = "at a foot, in its body" if what == "foot" else "in the trunk, where its sensors are"
            yield f'has no site {name!r}: add <site name="{name}"/> {where}; it has {_listed(sites)}'
    named = {"geom": (*robot.boxes, *robot.capsules), "joint": robot.legs, "sensor": robot.forces}
    for kind, names in named.items():
        have = [getattr(model, kind)(i).name for i in range(getattr(model, {"joint": "njnt"}.get(kind, f"n{kind}")))]
        for name in names:
            if name not in have:
                yield f"has no {kind} {name!r}: it has {_listed(have)}"


def _joints(robot: Any, model: Any) -> Iterator[str]:
    for i in range(1, model.njnt):
        if not model.jnt_limited[i]:
            yield f'has no range of the joint {_named(model, "joint", i)}: add range="… …"'
    if robot.weights and len(robot.weights) != model.njnt - 1:
        yield f"has {model.njnt - 1} joints, and its record has {len(robot.weights)} weights of joints"


def _servos(robot: Any, model: Any) -> Iterator[str]:
    driven = [int(joint) for joint in model.actuator_trnid[:, 0]]
    joints = list(range(1, model.njnt))
    if len(driven) != len(joints):
        missing = [_named(model, "joint", i) for i in joints if i not in driven]
        hint = f": add one for {_listed(missing)}" if missing else ": leave the others out"
        yield f'has {len(driven)} servos for {len(joints)} joints, <position joint="…" kp="…"/>{hint}'
    if driven != joints:
        order = _listed([_named(model, "joint", i) for i in joints], len(joints))
        yield f"has its servos in another order than its joints, which is {order}"
    for i in range(model.nu):
        kp, bias = model.actuator_gainprm[i, 0], model.actuator_biasprm[i]
        if model.actuator_trntype[i] != library().mjtTrn.mjTRN_JOINT or kp <= 0 or abs(kp + bias[1]) > SAME * kp:
            yield (
                f"has the actuator {_named(model, 'actuator', i)}, which is no servo: its target must be an angle; "
                f'take <position joint="{_named(model, "joint", driven[i])}" kp="…" kv="…"/>'
            )


def _ground(robot: Any, model: Any) -> Iterator[str]:
    ground = [i for i in range(model.ngeom) if model.geom_bodyid[i] == 0]
    if not ground:
        yield 'has no ground: add <geom name="floor" type="plane" size="0 0 1"/> to the worldbody'
    for foot in robot.feet:
        body = model.site(foot).bodyid[0]
        geoms = [i for i in range(model.ngeom) if model.geom_bodyid[i] == body]
        if not any(_collide(model, geom, other) for geom in geoms for other in ground):
            yield (
                f"has nothing at the foot {foot} that touches the ground: the body {_named(model, 'body', body)} needs "
                "a geom whose contype and conaffinity fit the ground's"
            )


def _collide(model: Any, geom: int, other: int) -> bool:
    """Returns whether two geoms may touch."""
    pairs = zip(model.pair_geom1, model.pair_geom2, strict=True)
    paired = any({geom, other} == {int(one), int(two)} for one, two in pairs)
    masks = model.geom_contype, model.geom_conaffinity
    return paired or bool(masks[0][geom] & masks[1][other] or masks[0][other] & masks[1][geom])


def _named(model: Any, kind: str, i: int) -> str:
    return getattr(model, kind)(i).name or f"number {i}"


def _listed(names: Iterable[str], most: int = 8) -> str:
    """Returns names in words, a few of many."""
    found = [name for name in names if name]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more or "none"

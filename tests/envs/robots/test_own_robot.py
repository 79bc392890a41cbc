"""A robot that a user brings: what its model lacks is named, and the example's robot is like ours."""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.robots import SCALES, Robot, walking
from headrace.train.recipes.recipes import recipe_of

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
import own_robot


def pup(change: Callable[[mujoco.MjSpec], Any] = lambda spec: None, ground: bool = True, **numbers: Any) -> Any:
    """The task of the example's robot after a change of its model and of its numbers."""

    def changed(options: Any) -> mujoco.MjModel:
        spec = own_robot.robot()
        spec.option.timestep = 0.004
        if ground:
            spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 1), contype=0)
        change(spec)
        return spec.compile()

    return walking(replace(own_robot.PUP, model=changed, **numbers))


def key_without_name(spec: mujoco.MjSpec) -> None:
    spec.key("home").name = "standing"


def unfree(spec: mujoco.MjSpec) -> None:
    spec.delete(next(joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE))
    spec.key("home").qpos = list(own_robot.POSE)


def slide(spec: mujoco.MjSpec) -> None:
    spec.joint("FL_knee").type = mujoco.mjtJoint.mjJNT_SLIDE


def unlimited(spec: mujoco.MjSpec) -> None:
    spec.joint("RR_hip").limited = mujoco.mjtLimited.mjLIMITED_FALSE


def fewer(spec: mujoco.MjSpec) -> None:
    spec.delete(spec.actuator("FR_knee"))
    spec.key("home").ctrl = [0] * 11


def turned(spec: mujoco.MjSpec) -> None:
    spec.actuator("FL_hip").target, spec.actuator("FL_thigh").target = "FL_thigh", "FL_hip"


def motor(spec: mujoco.MjSpec) -> None:
    spec.actuator("RL_hip").set_to_motor()


def untouchable(spec: mujoco.MjSpec) -> None:
    spec.geom("RL").contype = 0


def sideless(spec: mujoco.MjSpec) -> None:
    spec.joint("FR_hip").name = spec.actuator("FR_hip").target = "other_hip"


def askew(spec: mujoco.MjSpec) -> None:
    spec.joint("FR_hip").axis = (0, 0, 1)


WRONG = {
    "free joint": (unfree, {}, "has no free joint: its trunk is the world's first body, and needs <freejoint/>"),
    "hinge": (slide, {}, "has the joint FL_knee, which is no hinge"),
    "keyframe": (key_without_name, {}, "has no keyframe 'home', the pose .* add <keyframe>.*; it has standing"),
    "feet": (None, {"feet": ("FL", "FR", "RL", "paw")}, "has no site 'paw': add <site name=\"paw\"/> at a foot, .* FL"),
    "imu": (None, {"imu": "head"}, "has no site 'head': add .* in the trunk"),
    "sensor": (None, {"forces": ("touch",)}, "has no sensor 'touch': it has none"),
    "range": (unlimited, {}, 'has no range of the joint RR_hip: add range="… …"'),
    "weights": (None, {"weights": (1.0,)}, "has 12 joints, and its record has 1 weights"),
    "servos": (fewer, {}, 'has 11 servos for 12 joints, <position joint="…" kp="…"/>: add one for FR_knee'),
    "order": (turned, {}, "has its servos in another order than its joints, which is FL_hip, FL_thigh, "),
    "motor": (motor, {}, 'has the actuator RL_hip, which is no servo: .*<position joint="RL_hip"'),
    "touch": (untouchable, {}, "has nothing at the foot RL that touches the ground: the body RL_lower needs a geom"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_model_lacks_is_named_with_what_to_do(case: str) -> None:
    change, numbers, said = WRONG[case]
    with pytest.raises(OptionError, match=f"the model of Pup {said}"):
        pup(change or (lambda spec: None), **numbers)("Pup-v0")


def test_ground_is_asked_for() -> None:
    with pytest.raises(OptionError, match='the model of Pup has no ground: add <geom name="floor" type="plane"'):
        pup(ground=False)("Pup-v0")


@pytest.mark.parametrize(("change", "said"), [(sideless, "no FR_hip, which the mirror"), (askew, "FL_hip and FR_hip")])
def test_sides_that_are_no_mirror_images_are_named(change: Callable[[mujoco.MjSpec], Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        pup(change)("Pup-v0")


def test_axes_that_the_makers_turned_round_have_mirror_images() -> None:
    def turn_round(spec: mujoco.MjSpec) -> None:
        spec.joint("FR_hip").axis, spec.joint("FR_hip").range = (-1, 0, 0), (-0.8, 0.8)

    usual, turned_round = pup()("Pup-v0").spec.mirror, pup(turn_round)("Pup-v0").spec.mirror
    assert usual is not None and turned_round is not None
    assert usual.action[0] == turned_round.action[0] == (3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8)
    assert usual.action[1][:6] == (-1, 1, 1, -1, 1, 1) and turned_round.action[1][:6] == (1, 1, 1, 1, 1, 1)


def test_feet_without_sides_have_no_mirror() -> None:
    def rename(spec: mujoco.MjSpec) -> None:
        for i, leg in enumerate(own_robot.LEGS):
            spec.site(leg).name = f"foot{i}"

    assert pup(rename, feet=("foot0", "foot1", "foot2", "foot3"))("Pup-v0").spec.mirror is None


def test_the_examples_robot_stands_walks_in_lanes_and_has_the_recipe_of_four_legs() -> None:
    assert recipe_of("PupFlat-v0", {}) == ("ppo", "fast", "robots on four legs")
    with headrace.make("PupFlat-v0", num_envs=16, seed=1, noise=0.0, hold=True) as pool:
        assert pool.spec.options["physics"] == "lanes" and "xml_file" not in pool.spec.options
        pool.reset()
        for _ in range(50):
            *_, reward, terminated, _, info = pool.step(np.zeros((16, 12)))
        assert not terminated.any() and (info["tracking"] > 0.9).all() and (reward > 0.02).all()


def test_a_file_is_a_robots_model_and_is_compared_with_mujoco_as_a_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pup.xml"
    file.write_text(own_robot.robot_on_ground().to_xml())
    seen = []
    monkeypatch.setattr(
        "headrace.pool.executors.mujoco.task.physics_of", lambda *given: seen.append(given[-1]) or "mujoco"
    )
    for given in (file, str(file), own_robot.model):
        task = walking(replace(own_robot.PUP, model=given))("Pup-v0")
        assert task.spec.options.get("xml_file", str(file)) == str(file)
    headrace.make_spec("Go1Flat-v0")
    assert seen == [False, False, False, True]


def test_factors_of_rewards_are_the_robots_own() -> None:
    rewards = []
    for scales in (SCALES, SCALES | {"pose": 1.5}):
        headrace.register("PupPose-v0", walking(replace(own_robot.PUP, scales=scales), clipped=False), replace=True)
        with headrace.make("PupPose-v0", num_envs=4, seed=1) as pool:
            pool.reset()
            rewards.append(pool.step(np.zeros((4, 12)))[1])
    assert (rewards[1] > rewards[0] + 0.01).all()


def test_headrace_envs_says_which_physics_steps_the_robot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", str(own_robot.__file__)]) == 0
    assert "PupFlat-v0: physics lanes" in " ".join(capsys.readouterr().out.split())


def test_a_robot_needs_a_name_a_model_and_feet() -> None:
    assert [*Robot.__dataclass_fields__][:4] == ["name", "model", "feet", "radius"]
    with pytest.raises(TypeError, match="radius"):
        Robot("Pup", "./pup.xml", ("FL",))  # pyright: ignore[reportCallIssue]

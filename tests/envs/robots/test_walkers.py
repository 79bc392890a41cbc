"""Commands, noise, kicks, ends of episodes and pictures of robots that walk."""

# pyright: reportAttributeAccessIssue=false, reportPossiblyUnboundVariable=false, reportOptionalCall=false

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robot_sources import source_of

import headrace
from headrace.envs.robots import _MODULES, TASKS, build
from headrace.envs.robots.models import FOLDER
from headrace.errors import OptionError

NOISE = {"Go1Mjlab-v0": (0.5, 0.2, 0.05, 0.01, 1.5)}  # of velocity, gyroscope, gravity, angles, speeds
PLAYGROUND = tuple(task for task in TASKS if task.endswith("Flat-v0"))


def pool_of(task: str, num_envs: int = 4, **options: Any) -> headrace.Pool:
    return headrace.make(task, num_envs=num_envs, num_threads=1, seed=1, **options)


def robot_of(task: str) -> Any:
    """The record of the robot of a task."""
    module = import_module(f"headrace.envs.robots.{_MODULES[task]}")
    return getattr(module, _MODULES[task].upper())


def arrays(pool: headrace.Pool) -> dict[str, np.ndarray]:
    return dict(pool._executor.state_arrays())


def rest(pool: headrace.Pool) -> np.ndarray:
    return np.zeros((pool.num_envs, *pool.action_space.shape))


@pytest.mark.parametrize("task", TASKS)
def test_noise_is_of_its_sizes_and_of_sensors_alone(task: str) -> None:
    with pool_of(task, 512, noise=1.0) as noisy, pool_of(task, 512, noise=0.0) as exact:
        (seen, _), (true, _) = noisy.reset(), exact.reset()
        nu = arrays(exact)["ctrl"].shape[1]
        apart = seen - true
        robot = robot_of(task)
        gyro = 3 * robot.sees_velocity
        joints = gyro + 6 + 3 * robot.command_first
        places = (
            (0, gyro),
            (gyro, gyro + 3),
            (gyro + 3, gyro + 6),
            (joints, joints + nu),
            (joints + nu, joints + 2 * nu),
        )
        for (start, end), size in zip(places, NOISE.get(task, (0.1, 0.2, 0.05, 0.03, 1.5)), strict=True):
            if start == end:
                continue
            noise = apart[:, start:end] / size
            assert np.abs(noise).max() <= 1.001 and noise.std() == pytest.approx(3**-0.5, rel=0.05)
            assert abs(noise.mean()) < 0.05
            apart[:, start:end] = 0
        assert not apart.any()  # the action before, the command and the phase


@pytest.mark.parametrize("task", TASKS)
def test_commands_are_new_from_time_to_time_within_their_limits(task: str) -> None:
    robot = robot_of(task)
    with pool_of(task, 256, noise=0.0, speed=0.5, max_episode_steps=0) as pool:
        _, info = pool.reset()
        first = info["command"]
        limits, least = 0.5 * np.array(robot.limits), 0.5 * np.array(robot.lowest())
        assert (first <= limits).all() and (first >= least).all()
        assert (first.max(0) > 0.9 * limits).all() and (first.min(0) < 0.9 * least).all()
        arrays(pool)["until_command"][::2] = 1
        pool.step(rest(pool))  # a command holds for the step before its end
        *_, info = pool.step(rest(pool))
        turns = task == "Go1Mjlab-v0"  # to the direction that it is to face, in every step
        changed = (info["command"] != first)[:, : 2 if turns else 3].any(1)
        assert not changed[1::2].all() and changed[1::2].mean() < 0.1
        assert changed[::2].mean() > 0.7
        assert (info["command"] <= limits).all() and (info["command"] >= least).all()


@pytest.mark.parametrize("task", TASKS)
def test_a_command_that_is_held_is_what_it_was_set_to(task: str) -> None:
    with pool_of(task, hold=True, noise=0.0) as pool:
        _, info = pool.reset()
        assert not info["command"].any()
        arrays(pool)["command"][:] = 0.25
        for _ in range(5):
            obs, *_, info = pool.step(rest(pool))
        assert (info["command"] == 0.25).all()
        assert ((obs == 0.25).sum(1) == 3).all()


@pytest.mark.parametrize("task", TASKS)
def test_kicks_change_the_horizontal_velocity_when_they_are_due(task: str) -> None:
    with pool_of(task, 64, push=0.5) as kicked, pool_of(task, 64, push=0.0) as left:
        for pool in (kicked, left):
            pool.reset()
            arrays(pool)["until_kick"][:32] = 1
            pool.step(rest(pool))
        apart = (arrays(kicked)["qvel"] - arrays(left)["qvel"])[:, :2]
        assert not apart[32:].any()
        assert 0.1 < np.abs(apart[:32]).mean() < 0.5
        assert (arrays(kicked)["until_kick"][:32] >= 50).all()


def kicks_of(task: str, push: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kicks of robots that fly, which nothing else tells apart; and steps to the first and from each to the next."""
    with pool_of(task, 2048, push=push) as kicked, pool_of(task, 2048, push=0.0) as left:
        for pool in (kicked, left):
            pool.reset()
            arrays(pool)["qpos"][:, 2] = 5.0
            first = arrays(pool)["until_kick"].copy()
            arrays(pool)["until_kick"][:] = 1
            pool.step(rest(pool))
        apart = (arrays(kicked)["qvel"] - arrays(left)["qvel"])[:, :2]
        return apart.astype(float), first, arrays(kicked)["until_kick"].copy()


@pytest.mark.parametrize("task", TASKS)
def test_kicks_are_published_ones(task: str) -> None:
    push = 1.5
    kicks, first, then = kicks_of(task, push)
    robot = robot_of(task)
    if robot.kick_least:
        size, angle = np.hypot(*kicks.T), np.arctan2(*kicks.T)
        drawn = [(size, 0.1, push), (angle, -np.pi, np.pi)]
        np.testing.assert_array_equal(then, first)
    else:
        drawn = [(kicks[:, 0], -push, push), (kicks[:, 1], -push, push)]
        assert (then != first).mean() > 0.9
    steps = np.array(robot.kicks) * 50
    for values, low, high in [*drawn, (first, *steps), (then, *steps)]:
        assert values.min() >= low - 1e-9 and values.max() <= high + 1e-9
        parts = np.sort((values - low) / (high - low))  # uniform: Kolmogorov and Smirnov's distance
        assert np.abs(parts - (np.arange(len(parts)) + 0.5) / len(parts)).max() < 0.05


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_ends_when_the_robot_leans_or_sinks_too_far(task: str) -> None:
    with pool_of(task, tilt=60.0, height=1.0, autoreset="disabled") as pool:
        pool.reset()
        state = arrays(pool)
        state["qvel"][:] = 0
        for env, (height, degrees) in enumerate([(2.0, 50), (2.0, 70), (0.9, 0), (2.0, 0)]):
            half = np.radians(degrees) / 2
            state["qpos"][env, 2:7] = height, np.cos(half), np.sin(half), 0, 0
        _, _, terminated, _, info = pool.step(rest(pool))
        assert terminated.tolist() == [False, True, True, False]
        assert info["fell"].tolist() == terminated.tolist()


@pytest.mark.parametrize("task", TASKS)
def test_the_reward_is_the_sum_of_its_terms_of_which_penalties_are_scaled(task: str) -> None:
    rewards = {}
    for penalty in (0.0, 1.0, 2.0):
        with pool_of(task, 16, penalty=penalty, clipped=False, alive=0.0, noise=0.0) as pool:
            pool.reset()
            for _ in range(3):
                _, rewards[penalty], terminated, _, info = pool.step(rest(pool) + 0.3)
            assert not terminated.any()
    np.testing.assert_allclose(rewards[2.0] - rewards[1.0], rewards[1.0] - rewards[0.0], rtol=1e-4, atol=1e-6)
    assert (rewards[1.0] <= rewards[0.0]).all() and (rewards[1.0] < rewards[0.0]).mean() > 0.8  # some are to stand
    scales = np.array([*robot_of(task).scales.values()])
    if task in PLAYGROUND:
        tracked = (info["reward_terms"][:, 0] + 0.5 * info["reward_terms"][:, 1]) / 1.5
        np.testing.assert_allclose(info["tracking"], tracked, rtol=1e-5)
    np.testing.assert_allclose(rewards[1.0], 0.02 * info["reward_terms"] @ scales, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_a_fall_costs_what_the_option_says_of_clipped_rewards_too(task: str) -> None:
    rewards, published = {}, robot_of(task).fall
    for more in (0.0, 100.0):
        with pool_of(task, 2, fall=published + more, clipped=True, autoreset="disabled") as pool:
            pool.reset()
            arrays(pool)["qpos"][1, 2:7] = 2.0, 0, 1, 0, 0  # upside down
            _, rewards[more], terminated, *_ = pool.step(rest(pool))
            assert terminated.tolist() == [False, True]
    np.testing.assert_allclose(rewards[0.0] - rewards[100.0], (0, 100 * 0.02), rtol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_lanes_step_a_robot_and_leave_nothing_to_libmujoco(task: str) -> None:
    with pool_of(task) as pool:
        assert pool.spec.options["physics"] == "lanes"
    assert build(task).remark() == "physics lanes"


def fallen(task: str, steps: int, **options: Any) -> np.ndarray:
    """Positions of robots that are dropped, turned at random, after some steps."""
    options |= {"noise": 0.0, "push": 0.0, "hold": True, "tilt": 180.0, "height": 0.0}
    with pool_of(task, 32, **options) as pool:
        pool.reset()
        chance, state = np.random.default_rng(0), arrays(pool)
        turns = chance.normal(0, 1, (32, 4))
        state["qpos"][:, 3:7] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        state["qpos"][:, 2] = chance.uniform(0.15, 0.5, 32)
        state["qvel"][:] = chance.normal(0, 0.5, state["qvel"].shape)
        for _ in range(steps):
            pool.step(rest(pool))
        return arrays(pool)["qpos"]


@pytest.mark.parametrize("collisions", ["feet", "all"])
@pytest.mark.parametrize("task", TASKS)
def test_fallen_robots_are_stepped_alike_by_lanes_and_mujoco(task: str, collisions: str) -> None:
    places = [fallen(task, 1, physics=physics, collisions=collisions) for physics in ("lanes", "mujoco")]
    # MuJoCo's solver stops before the end where a body lies on many triangles of rough ground, or steps are long
    apart = 1e-5 if task in ("Go1Mjlab-v0", "Go2UniLab-v0") else 1e-6
    apart = 1e-3 if (task, collisions) == ("Go1Rough-v0", "all") else apart
    np.testing.assert_allclose(places[0], places[1], rtol=0, atol=apart)
    assert np.median(np.abs(places[0] - places[1])) < 1e-12


# by UniLab's settings all shapes touch the ground in any case
@pytest.mark.parametrize("task", [task for task in TASKS if task != "Go2UniLab-v0"])
def test_the_whole_body_lies_on_the_ground_or_sinks_but_for_its_feet(task: str) -> None:
    lying, sinking = (fallen(task, 60, collisions=collisions)[:, 2] for collisions in ("all", "feet"))
    assert lying.min() > 0 and sinking.min() < -0.2
    with pytest.raises(OptionError, match=r"collisions of \S+ must be one of feet, all"):
        pool_of(task, collisions="none")


@pytest.mark.parametrize("task", TASKS)
def test_a_picture_shows_the_robot_before_floor_and_sky(task: str) -> None:
    with pool_of(task, 1, render_width=160, render_height=120) as pool:
        pool.reset()
        picture = np.asarray(pool.render())[0].astype(int)
    red, green, blue = np.moveaxis(picture, -1, 0)
    orange = (red > 1.4 * blue) & (red > green + 20)
    white = picture.min(-1) > 200
    sky = (blue > red + 30) & (blue > 180)
    assert 10 < orange.sum() < 0.1 * orange.size and white[30:].sum() > 30 and sky[:20].mean() > 0.9
    rows, columns = np.nonzero(orange)
    assert 30 < columns.mean() < 130 and 20 < rows.mean() < 110


@pytest.mark.parametrize("robot", ["go1", "g1", "t1"])
def test_the_published_file_draws_the_robot_with_its_meshes(robot: str) -> None:
    task, size = f"{robot.upper() if robot != 'go1' else 'Go1'}Flat-v0", {"render_width": 160, "render_height": 120}
    pictures = []
    for file in ({"xml_file": str(source_of(robot))}, {}):
        with pool_of(task, 1, **size, **file) as pool:
            pool.reset()
            pool.step(rest(pool))
            pictures.append(np.asarray(pool.render())[0].astype(int))
    theirs, ours = pictures
    shades = [len(np.unique(picture.reshape(-1, 3), axis=0)) for picture in pictures]
    assert min(shades) > 100 and np.abs(theirs - ours).mean() > 5


def test_rough_ground_is_made_of_its_seed_and_as_high_as_it_is_to_be() -> None:
    from headrace.envs.robots.go1 import on_rough_ground

    options = {"xml_file": "go1.xml", "collisions": "feet", "render_looks": "", "roughness": 0.08, "ground": 3}
    model, other = on_rough_ground(options), on_rough_ground(options | {"ground": 4})
    field = model.hfield_data.reshape(512, 512)
    assert model.hfield_size[0, 2] == 0.08 and field.min() == 0 and field.max() == 1
    assert np.array_equal(model.hfield_data, on_rough_ground(options).hfield_data)
    assert abs(np.corrcoef(model.hfield_data, other.hfield_data)[0, 1]) < 0.1
    assert field.mean() == pytest.approx(0.5, abs=0.01) and field.std() == pytest.approx(12**-0.5, abs=0.01)
    assert model.key("home").qpos[2] == pytest.approx(0.38) and model.geom("floor").friction[0] == 1


def test_a_model_of_ones_own_must_have_what_the_task_reads(tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    file.write_text('<mujoco><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody></mujoco>')
    with pytest.raises(OptionError, match="the model of Go1 has no keyframe 'home'"):
        pool_of("Go1Flat-v0", xml_file=str(file))
    (tmp_path / "scene.xml").write_text((FOLDER / "scene.xml").read_text())
    file.write_text((FOLDER / "go1.xml").read_text().replace('mass="5.204"', 'mass="6.204"'))
    with pool_of("Go1Flat-v0", xml_file=str(file)) as heavy, pool_of("Go1Flat-v0") as usual:
        for pool in (heavy, usual):
            pool.reset()
            for _ in range(20):
                pool.step(rest(pool))
        assert (arrays(heavy)["qpos"][:, 2] < arrays(usual)["qpos"][:, 2]).mean() > 0.7

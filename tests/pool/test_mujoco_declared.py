"""What a robot's task declares: servos and other actions, metrics of an episode."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from dataclasses import replace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import warp as wp

from headrace.errors import KernelError
from headrace.mujoco import Field, Mirror, MujocoEnv, MujocoTask, Servo, Streams, uniform
from pool.mujoco_robot import NUMBER, SEEN, XML, F, State, played, pool_of, same, with_env

MODEL = mujoco.MjModel.from_xml_string(XML)
HOME = MODEL.key("home")


@wp.struct
class View:
    obs: wp.array2d[F]
    control: wp.array2d[F]
    speed: wp.array[F]
    fell: wp.array[wp.bool]
    terms: wp.array2d[wp.float32]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qvel[env, 0] = uniform(streams, env, F(-1.0), F(1.0))
    state.steps[env] = 0
    state.command[env] = F(0.0)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    state.steps[env] = state.steps[env] + 1
    view.speed[env] = physics.qvel[env, 0]
    view.fell[env] = physics.qpos[env, 2] < F(0.2)
    for i in range(2):
        view.control[env, i] = physics.ctrl[env, i]
        view.terms[env, i] = wp.float32(physics.qvel[env, i] * actions[env, 0])
    return wp.float32(view.speed[env]), state.steps[env] % (4 + env) == 0


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]


@wp.func
def act_of_three(physics: Any, state: State, env: int, actions: wp.array2d[F]):
    physics.ctrl[env, 0] = actions[env, 0] + actions[env, 2]
    physics.ctrl[env, 1] = actions[env, 1] - actions[env, 2]


READS = ("qpos", "qvel")
ENV = MujocoEnv(
    "Declares", (*READS, "ctrl"), State, View, reset, step, observe, shapes={"control": (2,), "terms": (2,)}
)
INFO = (
    Field("control", NUMBER, (2,)),
    Field("speed", NUMBER),
    Field("fell", np.dtype(np.bool_)),
    Field("terms", np.dtype(np.float32), (2,)),
)
TASK = MujocoTask(ENV, XML, SEEN, INFO, frame_skip=5, max_episode_steps=30)
ACTIONS = np.random.default_rng(0).uniform(-1.5, 1.5, (6, 3, 3))


def controls_of(env: dict[str, Any], width: int, on_torch: bool = False, **options: Any) -> np.ndarray:
    with pool_of(with_env(TASK, **env), on_torch, num_envs=3, **options) as pool:
        assert pool.action_space.shape == (width,)
        return np.stack([row["control"] for row in played(pool, 4)[1:]])


def sent(width: int) -> np.ndarray:
    """Returns the actions of `played`."""
    random = np.random.default_rng(0)
    return np.stack([random.uniform(-1, 1, (3, width)) for _ in range(4)])


# -- actions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"physics": "mujoco"}, {"physics": "lanes"}, {"on_torch": True}])
def test_actions_are_targets_of_servos_around_home(how: dict[str, Any]) -> None:
    near = 1e-6 if "on_torch" in how else 0
    scale = np.array([0.5, 0.25])
    for servo, home, clip in [
        (Servo(scale=scale), HOME.ctrl, 9),
        (Servo([0.1, -0.2], scale, clip=0.3), [0.1, -0.2], 0.3),
        (Servo(scale=0.5), HOME.ctrl, 9),
    ]:
        expected = np.array(home) + servo.scale * sent(2).clip(-clip, clip)
        np.testing.assert_allclose(controls_of({"actions": servo, "start": "home"}, 2, **how), expected, atol=near)


def test_home_is_the_joints_positions_where_the_keyframe_has_no_controls() -> None:
    np.testing.assert_array_equal(controls_of({"actions": Servo(), "start": "moving"}, 2), 0.4 + sent(2))
    np.testing.assert_array_equal(controls_of({"actions": Servo()}, 2), sent(2))


@pytest.mark.parametrize("how", [{"physics": "mujoco"}, {"physics": "lanes"}, {"on_torch": True}])
def test_a_box_is_the_space_of_actions_that_act_turns_into_controls(how: dict[str, Any]) -> None:
    box = gym.spaces.Box(-1, 1, (3,), np.float32)
    given = sent(3)
    expected = given[..., :2] + given[..., 2:] * [1, -1]
    found = controls_of({"actions": box, "act": act_of_three}, 3, **how)
    np.testing.assert_allclose(found, expected, atol=1e-6 if "on_torch" in how else 0)


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"actions": Servo(), "act": act_of_three}, "so does act: leave one of them out"),
        ({"actions": Servo([0.1])}, r"Servo's home must be 2 numbers, one for each actuator, not \[0.1\]"),
        ({"actions": Servo(scale=[1, 2, 3])}, r"Servo's scale must be a number or 2 numbers"),
        ({"actions": Servo(scale="1")}, "Servo's scale must be"),
        ({"actions": Servo(clip=0)}, "Servo's clip must be a number above 0, not 0"),
        ({"actions": gym.spaces.Box(-1, 1, (3,))}, "needs act, which turns these actions"),
        ({"actions": gym.spaces.Discrete(3), "act": act_of_three}, "must be a Servo, or a Box"),
        ({"actions": gym.spaces.Box(-1, 1, (3, 1)), "act": act_of_three}, "must be a Servo, or a Box"),
    ],
)
def test_actions_that_do_not_fit_are_refused(env: dict[str, Any], told: str) -> None:
    with pytest.raises(KernelError, match=told), pool_of(with_env(TASK, **env), num_envs=1):
        pass


def test_servos_need_actuators_that_are_servos() -> None:
    motors = replace(TASK, model=XML.replace('<position joint="rear"/>', '<motor name="rear" joint="rear"/>'))
    with (
        pytest.raises(KernelError, match="actuator rear is no position servo"),
        pool_of(with_env(motors, actions=Servo()), num_envs=1),
    ):
        pass


# -- metrics -------------------------------------------------------------------------------------

MEASURED = with_env(TASK, metrics={"speed": (), "fell": (), "terms": ("forward", "sideways")})


@pytest.mark.parametrize("how", [{"physics": "mujoco"}, {"physics": "lanes", "num_threads": 2}, {"on_torch": True}])
@pytest.mark.parametrize("repeat", [1, 2])
def test_metrics_are_means_over_the_steps_of_an_episode(how: dict[str, Any], repeat: int) -> None:
    with pool_of(MEASURED, num_envs=3, action_repeat=repeat, **how) as pool:
        rows = played(pool, 14)
    if repeat == 2:  # every second step is not seen
        assert all(np.isfinite(row["episode_speed"]).all() for row in rows)
        return
    for env in range(3):
        counted, sums = 0, dict.fromkeys(("speed", "fell", "forward", "sideways"), 0.0)
        for row in rows:
            began = row["elapsed_step"][env] == 0
            counted = 0 if began else counted + 1
            now = {
                "speed": row["speed"],
                "fell": row["fell"],
                "forward": row["terms"][:, 0],
                "sideways": row["terms"][:, 1],
            }
            for name, values in now.items():
                sums[name] = 0.0 if began else sums[name] + float(values[env])
                mean = row[f"episode_{name}"][env]
                assert mean == pytest.approx(sums[name] / max(counted, 1), abs=1e-12)


def test_metrics_continue_after_a_saved_state() -> None:
    for how in ({}, {"on_torch": True}):
        with pool_of(MEASURED, num_envs=3, **how) as pool:
            played(pool, 2)
            states = pool.save_state()
            then = played_on(pool)
            pool.load_state(None, states)
            same(played_on(pool), then)


def played_on(pool: Any) -> list[dict[str, np.ndarray]]:
    rows = []
    for _ in range(6):
        *_, info = pool.step(np.zeros((3, 2))) if not hasattr(pool, "device") else pool.step(_zeros(pool))
        rows.append({name: np.asarray(info[f"episode_{name}"]).copy() for name in ("speed", "fell", "forward")})
    return rows


def _zeros(pool: Any) -> Any:
    import torch

    return torch.zeros((3, 2), dtype=torch.float64)


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ("speed", "must be a tuple of names, not 'speed'"),
        (("sped",), "names 'sped', which is no info field; there is control, speed"),
        (("terms",), r"one for each: metrics=\{'terms': \(…\)\}"),
        ({"terms": ("a", "b", "c")}, "names 'terms', of shape"),
        ({"terms": ("a", "a")}, "two info fields would have the name 'episode_a'"),
    ],
)
def test_metrics_that_the_task_does_not_have_are_refused(metrics: Any, told: str) -> None:
    with pytest.raises(KernelError, match=told), pool_of(with_env(TASK, metrics=metrics), num_envs=1):
        pass


def test_a_mirror_is_in_the_spec_but_of_pictures() -> None:
    mirror = Mirror(((0,), (-1,)), ((1, 0), (1, 1)))
    told = replace(TASK, mirror=mirror)
    chosen = replace(TASK, mirror=lambda options, model: mirror if model.nu == 2 else None)
    assert told("Mirrored-v0").spec.mirror == chosen("Mirrored-v0").spec.mirror == mirror
    assert TASK("Plain-v0").spec.mirror is None and told("Seen-v0", from_pixels=True).spec.mirror is None

"""The suite's tasks as a family: names, options, interfaces, joints, rewards; the alignment tests play them."""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false

import subprocess
import sys
from typing import Any

import dm_env
import gymnasium as gym
import numpy as np
import pytest
import warp as wp

pytest.importorskip("dm_control")
pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco")

import headrace
from headrace.envs.dm_control import build, common, task_name
from headrace.errors import OptionError
from headrace.mujoco import MujocoEnv, MujocoTask, Streams

official = pytest.importorskip("official")
stats = pytest.importorskip("scipy.stats")


def test_listing_the_tasks_imports_no_simulator():
    code = "import headrace, sys; headrace.list_all_envs(); print({'mujoco', 'dm_control', 'warp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_making_a_spec_prints_nothing():
    code = "import headrace; headrace.make_spec('CheetahRun-v1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("domain", "task", "name"),
    [
        ("ball_in_cup", "catch", "BallInCupCatch-v1"),
        ("swimmer", "swimmer15", "SwimmerSwimmer15-v1"),
        ("humanoid_CMU", "run", "HumanoidCMURun-v1"),
    ],
)
def test_task_names_join_the_domain_and_the_task(domain, task, name):
    assert task_name(domain, task) == name


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("WalkerWalk-v1", {"flat_observation": 1}, "flat_observation of WalkerWalk-v1 must be True or False"),
        ("WalkerWalk-v1", {"frame_skip": 0}, "frame_skip"),
        ("WalkerWalk-v1", {"move_speed": 3.0}, "no option 'move_speed'"),
        ("CartpoleBalance-v1", {"num_poles": 2}, "no option 'num_poles'"),
        ("CartpoleThreePoles-v1", {"num_poles": 0}, "num_poles of CartpoleThreePoles-v1 must be an integer in"),
    ],
)
def test_invalid_options_are_refused_by_name(task, options, told):
    with pytest.raises(OptionError, match=told):
        build(task, **options)


def test_the_error_without_dm_control_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control.suite.pendulum", None)
    with pytest.raises(OptionError, match=r"pip install 'headrace\[dm-control\]'"):
        headrace.make("PendulumSwingup-v1")


@pytest.mark.parametrize("poles", [1, 5])
def test_cartpole_with_any_number_of_poles_equals_dm_control(poles):
    theirs = official.load("CartpoleThreePoles-v1", num_poles=poles, sparse=True)
    options = {"num_poles": poles, "sparse": True, "physics": "mujoco"}
    with headrace.make("CartpoleThreePoles-v1", autoreset="disabled", **options) as pool:
        pool.reset()
        arrays = pool._executor.state_arrays()
        arrays["qpos"][:], arrays["qvel"][:] = 0, 0
        official.begin(theirs, pool)
        for action in np.random.default_rng(0).uniform(-1, 1, (20, 1)):
            obs, reward, *_ = pool.step(action[None])
            step = theirs.step(action)
            np.testing.assert_array_equal(obs["position"][0], step.observation["position"])
            assert reward[0] == step.reward


def test_a_doubled_frame_skip_equals_two_agent_steps_of_dm_control():
    """Twice as many steps of physics are two of dm_control's agent steps with one action, and the last one's reward."""
    theirs = official.load("WalkerWalk-v1")
    with headrace.make("WalkerWalk-v1", frame_skip=20, autoreset="disabled", physics="mujoco") as pool:
        pool.reset()
        official.begin(theirs, pool)
        for action in np.random.default_rng(0).uniform(-1, 1, (20, 6)):
            obs, reward, *_ = pool.step(action[None])
            theirs.step(action)
            step = theirs.step(action)
            np.testing.assert_array_equal(obs["velocity"][0], step.observation["velocity"])
            assert reward[0] == np.float32(step.reward)


def test_make_dm_gives_the_specs_of_dm_control_and_the_step_types_of_dm_env():
    theirs = official.load("ReacherEasy-v1")
    with headrace.make_dm("ReacherEasy-v1", num_envs=2, seed=1, max_episode_steps=5) as env:
        observed = env.observation_spec()
        for key, spec in theirs.observation_spec().items():
            assert getattr(observed, key).shape == spec.shape
        np.testing.assert_array_equal(env.action_spec().maximum, theirs.action_spec().maximum)
        steps = [env.reset(), *(env.step(np.zeros((2, 2))) for _ in range(6))]
    kinds = [dm_env.StepType.FIRST, *[dm_env.StepType.MID] * 4, dm_env.StepType.LAST, dm_env.StepType.FIRST]
    assert [list(step.step_type) for step in steps] == [[kind, kind] for kind in kinds]
    assert all((step.discount == 1).all() for step in steps), "time that is up is no end of the task"
    assert all(step.observation.to_target.shape == (2, 2) for step in steps)


def test_make_vec_gives_observations_in_the_gymnasium_space():
    env = headrace.make_vec("HopperHop-v1", num_envs=3, seed=1)
    assert isinstance(env.single_observation_space, gym.spaces.Dict)
    obs, _ = env.reset()
    assert env.observation_space.contains(obs)
    obs, reward, *_ = env.step(env.action_space.sample())
    assert env.observation_space.contains(obs)
    assert reward.dtype == np.float32
    env.close()


JOINTS = """<mujoco><worldbody>
  <body><geom size=".1"/><freejoint name="free"/></body>
  <body><geom size=".1"/><joint name="ball" type="ball"/></body>
  <body><geom size=".1"/><joint name="limited_ball" type="ball" range="0 .8" limited="true"/></body>
  <body><geom size=".1"/><joint name="hinge"/>
    <body><geom size=".1"/><joint name="limited_hinge" range="-.5 2" limited="true"/></body></body>
  <body><geom size=".1"/><joint name="slide" type="slide"/>
    <body><geom size=".1"/><joint name="limited_slide" type="slide" range="1 3" limited="true"/></body></body>
</worldbody></mujoco>"""


@wp.struct
class JointState:
    njnt: int
    nq: int


@wp.struct
class JointView:
    obs: wp.array2d[wp.float64]


@wp.func
def reset_joints(physics: Any, state: JointState, env: int, streams: Streams):
    common.randomize_joints(physics, env, state.njnt, streams)


@wp.func
def step_joints(physics: Any, state: JointState, env: int, actions: wp.array2d[wp.float64], view: JointView):
    return wp.float32(0.0), wp.bool(False)


@wp.func
def observe_joints(physics: Any, state: JointState, env: int, view: JointView):
    common.copy_row(physics.qpos, env, 0, state.nq, view.obs, 0)


def test_random_joints_of_all_kinds_are_distributed_as_in_dm_control():
    from dm_control import mujoco
    from dm_control.suite.utils import randomizers

    env = MujocoEnv("Joints", common.JOINTS, JointState, JointView, reset_joints, step_joints, observe_joints)
    physics, random, n = mujoco.Physics.from_xml_string(JOINTS), np.random.RandomState(1), 2000
    wanted = []
    for _ in range(n):
        physics.reset()
        randomizers.randomize_limited_and_rotational_joints(physics, random)
        wanted.append(physics.data.qpos.copy())
    space = gym.spaces.Box(-np.inf, np.inf, (physics.model.nq,), np.float64)
    headrace.register("Joints-v0", MujocoTask(env, lambda _: physics.model._model, space), replace=True)
    with headrace.make("Joints-v0", num_envs=n, seed=3) as pool:
        seen, _ = pool.reset()
    for ours, theirs in zip(seen.T, np.stack(wanted).T, strict=True):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-3
        np.testing.assert_allclose([ours.min(), ours.max()], [theirs.min(), theirs.max()], rtol=0, atol=0.05)


@wp.kernel
def every_sigmoid(x: wp.array[wp.float64], value: wp.float64, margin: wp.float64, seen: wp.array2d[wp.float64]):
    i = wp.tid()
    away = common.excess(x[i], wp.float64(-0.5), wp.float64(0.7), margin)
    seen[i, 0] = common.gaussian(away, value)
    seen[i, 1] = common.hyperbolic(away, value)
    seen[i, 2] = common.long_tail(away, value)
    seen[i, 3] = common.reciprocal(away, value)
    seen[i, 4] = common.cosine(away, value)
    seen[i, 5] = common.linear(away, value)
    seen[i, 6] = common.quadratic(away, value)
    seen[i, 7] = common.tanh_squared(away, value)


SIGMOIDS = ("gaussian", "hyperbolic", "long_tail", "reciprocal", "cosine", "linear", "quadratic", "tanh_squared")


@pytest.mark.parametrize("margin", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("value", [0.1, 0.5])
def test_tolerance_rewards_equal_those_of_dm_control(margin, value):
    from dm_control.utils import rewards

    x = np.concatenate([np.linspace(-4, 4, 201), [-0.5, 0.7]])
    seen: Any = wp.zeros((len(x), len(SIGMOIDS)), dtype=wp.float64, device="cpu")
    inputs = [wp.array(x, dtype=wp.float64, device="cpu"), value, margin, seen]
    wp.launch(every_sigmoid, len(x), inputs=inputs, device="cpu")
    for name, ours in zip(SIGMOIDS, seen.numpy().T, strict=True):
        wanted = rewards.tolerance(x, (-0.5, 0.7), margin, name, value)
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-14, err_msg=name)

"""Fields of the model that a robot's task draws at each reset."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from dataclasses import replace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import warp as wp

from headrace.errors import KernelError, OptionError
from headrace.mujoco import Field, MujocoEnv, MujocoTask, Streams, add, draw, scale, uniform
from headrace.pool.executors.mujoco.fields import native_module
from pool.mujoco_robot import NUMBER, SEEN, XML, F, State, played, pool_of, same, with_env

MODEL = mujoco.MjModel.from_xml_string(XML)


@wp.struct
class View:
    obs: wp.array2d[F]
    mass: wp.array2d[F]
    inertia: wp.array2d[F]
    friction: wp.array2d[F]
    damping: wp.array2d[F]
    place: wp.array2d[F]
    after: wp.array[F]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qvel[env, 0] = uniform(streams, env, F(-1.0), F(1.0))
    state.command[env] = physics.body_mass[env, 1]  # what was drawn is known here
    state.steps[env] = 0


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    state.steps[env] = state.steps[env] + 1
    return wp.float32(physics.qvel[env, 0]), state.steps[env] >= 6


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]
        view.damping[env, i] = physics.dof_damping[env, i]
    for i in range(4):
        view.mass[env, i] = physics.body_mass[env, i]
        view.inertia[env, i] = physics.body_inertia[env, i][1]
        view.friction[env, i] = physics.geom_friction[env, i][0]
        view.place[env, i] = physics.body_pos[env, i][2]
    view.after[env] = state.command[env]


WIDTHS = {"mass": 4, "inertia": 4, "friction": 4, "damping": 8, "place": 4}
RANDOM = {
    ("body_mass", "body_inertia"): scale(0.8, 1.2),
    "geom_friction": draw(0.4, 1.0, column=0, together=True, only=("floor", "trunk")),
    "dof_damping": add(0.1, 0.2, only=("fr*",)),
}
ENV = MujocoEnv(
    "Varies",
    ("qpos", "qvel", "body_mass", "body_inertia", "geom_friction", "dof_damping", "body_pos"),
    State,
    View,
    reset,
    step,
    observe,
    shapes={name: (width,) for name, width in WIDTHS.items()},
    start="home",
    randomise=RANDOM,
)
INFO = (*(Field(name, NUMBER, (width,)) for name, width in WIDTHS.items()), Field("after", NUMBER))
TASK = MujocoTask(ENV, XML, SEEN, INFO, frame_skip=5, max_episode_steps=50)
# masses vary in libmujoco, and on a device
HOW = [{"physics": "mujoco", "num_threads": 1}, {"physics": "mujoco", "num_threads": 3}, {"on_torch": True}]


@pytest.mark.parametrize("how", HOW)
def test_fields_are_drawn_at_each_reset_within_their_bounds(how: dict[str, Any]) -> None:
    near = 1e-6 if "on_torch" in how else 1e-15
    with pool_of(TASK, num_envs=7, seed=5, **how) as pool:
        rows = played(pool, 14)
    first, same_episode, second = rows[0], rows[3], rows[7]
    assert second["elapsed_step"].tolist() == [0] * 7
    for name in WIDTHS:
        np.testing.assert_array_equal(first[name], same_episode[name])
    factors = first["mass"][:, 1:] / MODEL.body_mass[1:]
    assert (factors >= 0.8 - near).all() and (factors < 1.2).all() and len(np.unique(factors)) == factors.size
    np.testing.assert_allclose(first["inertia"][:, 1:] / MODEL.body_inertia[1:, 1], factors, atol=near)
    assert not np.isclose(second["mass"][:, 1:], first["mass"][:, 1:]).any()
    np.testing.assert_array_equal(first["friction"][:, 0], first["friction"][:, 1])
    assert (first["friction"][:, 0] >= 0.4).all() and (first["friction"][:, 0] < 1).all()
    np.testing.assert_array_equal(first["friction"][:, 2:], 1.0)
    added = first["damping"] - MODEL.dof_damping
    assert (added[:, 6] >= 0.1 - near).all() and (added[:, 6] < 0.2 + near).all()
    np.testing.assert_allclose(np.delete(added, 6, axis=1), 0, atol=near)
    np.testing.assert_allclose(first["after"], first["mass"][:, 1], atol=near)


def test_draws_are_the_same_on_any_threads_and_device_and_after_a_saved_state() -> None:
    with pool_of(TASK, num_envs=7, seed=5, physics="mujoco", num_threads=1) as pool:
        expected = played(pool, 9)
        states = pool.save_state()
        then = played_on(pool)
        pool.load_state(None, states)
        same(played_on(pool), then)
    with pool_of(TASK, num_envs=7, seed=5, physics="mujoco", num_threads=3) as pool:
        same(played(pool, 9), expected)
    with pool_of(TASK, on_torch=True, num_envs=7, seed=5) as pool:
        near = {"obs": np.inf, "reward": np.inf, "after": 1e-6} | dict.fromkeys(WIDTHS, 1e-6)
        same(played(pool, 9), expected, **near)


def played_on(pool: Any) -> list[dict[str, np.ndarray]]:
    rows = []
    for _ in range(8):
        obs, *_, info = pool.step(np.zeros((7, 2)))
        rows.append({"obs": np.array(obs), "mass": np.array(info["mass"])})
    return rows


def test_physics_is_that_of_the_drawn_model() -> None:
    masses = {("body_mass", "body_inertia"): scale(0.5, 2.0), "dof_damping": add(0.5, 1.5, only=("front", "rear"))}
    with pool_of(with_env(TASK, randomise=masses, start="moving"), num_envs=3, physics="mujoco", seed=1) as pool:
        before, after = played(pool, 1)
    actions = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    for env in range(3):  # in the air, where what MuJoCo computes of masses for contacts has no part
        model = mujoco.MjModel.from_xml_string(XML)
        factors = before["mass"][env, 1:] / MODEL.body_mass[1:]
        model.body_mass[1:] *= factors
        model.body_inertia[1:] *= factors[:, None]
        model.dof_damping[:] = before["damping"][env]
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = before["obs"][env, :9], before["obs"][env, 9:], actions[env]
        mujoco.mj_step(model, data, nstep=5)
        np.testing.assert_allclose(after["obs"][env], np.concatenate([data.qpos, data.qvel]), atol=1e-9)


def test_randomise_is_an_option_that_switches_it_off() -> None:
    with pool_of(TASK, num_envs=2, randomise=False, physics="lanes") as pool:
        assert pool.spec.options["randomise"] is False
        np.testing.assert_array_equal(played(pool, 0)[0]["mass"], np.stack([MODEL.body_mass] * 2))
    with pool_of(TASK, num_envs=2) as pool:
        assert pool.spec.options["randomise"] is True
    plain = with_env(TASK, randomise={})
    with pool_of(plain, num_envs=2) as pool:
        assert "randomise" not in pool.spec.options
    with pytest.raises(OptionError, match="has nothing to randomise"), pool_of(plain, num_envs=2, randomise=True):
        pass


@pytest.mark.parametrize(
    ("randomise", "told"),
    [
        ({"body_mess": scale(0.9, 1.1)}, "names 'body_mess', which is no field of numbers of mjModel"),
        ({"qpos": scale(0.9, 1.1)}, "names 'qpos', which is no field"),
        ({"body_mass": (0.9, 1.1)}, r"'body_mass' needs scale\(…\), add\(…\) or draw\(…\), not \(0.9, 1.1\)"),
        ({"body_mass": scale(1.1, 0.9)}, "drawn from 1.1 to 0.9: the lower bound comes first"),
        ({"body_mass": scale(1.1, np.inf)}, "drawn from 1.1 to inf"),
        (
            {"body_mass": scale(0.9, 1.1, only=("tronk",))},
            "body_mass has nothing called 'tronk'; there is world, trunk",
        ),
        ({"geom_friction": scale(0.9, 1.1, column=3)}, "geom_friction has 3 columns, and none of number 3"),
        ({"body_mass": scale(1, 1), ("body_mass", "body_inertia"): scale(1, 1)}, "names 'body_mass' twice"),
        ({"opt": scale(1, 1)}, "names 'opt'"),
    ],
)
def test_draws_that_do_not_fit_the_model_are_refused(randomise: Any, told: str) -> None:
    with pytest.raises(KernelError, match=told), pool_of(with_env(TASK, randomise=randomise), num_envs=1):
        pass


def test_a_task_whose_ranges_differ_shares_its_kernel_and_draws_its_own() -> None:
    wide = replace(TASK, env=replace(ENV, randomise=RANDOM | {"dof_damping": add(5, 6)}))
    with pool_of(wide, num_envs=2, seed=1, physics="mujoco") as pool:
        assert (played(pool, 0)[0]["damping"] >= 5).all()


SENSED = XML.replace(
    "<sensor>",
    """<sensor><accelerometer name="acc" site="imu"/> <force name="force" site="front_foot"/>
    <subtreelinvel name="linvel" body="trunk"/> <subtreeangmom name="angmom" body="trunk"/>
    <framepos name="com" objtype="body" objname="front" reftype="site" refname="imu"/>
    <framequat name="turn" objtype="body" objname="front"/>""",
)
SENSORS = mujoco.MjModel.from_xml_string(SENSED)


@wp.func
def observe_sensors(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]
    for i in range(view.obs.shape[1] - state.nq - state.nv):
        view.obs[env, state.nq + state.nv + i] = physics.sensordata[env, i]


@pytest.mark.parametrize("fresh", [False, True])
def test_lanes_step_and_sense_what_is_drawn_as_mujoco_does(fresh: bool) -> None:
    if not native_module().lane_widths():
        pytest.skip("nothing is stepped in lanes here")
    drawn = {
        "body_mass": scale(0.9, 1.1),
        ("body_ipos", "body_inertia"): scale(0.8, 1.2, only=("front", "rear")),
        "geom_friction": draw(0.4, 1.0, column=0),
        "dof_frictionloss": draw(0.0, 0.3),
        "actuator_gainprm": scale(0.8, 1.2, column=0),
    }
    env = replace(ENV, reads=(*ENV.reads, "sensordata"), observe=observe_sensors, randomise=drawn, fresh=fresh)
    size = SENSORS.nq + SENSORS.nv + SENSORS.nsensordata
    space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
    task = MujocoTask(env, lambda options: SENSORS, space, frame_skip=1, max_episode_steps=50)
    games = []
    for physics in ("lanes", "mujoco"):
        with pool_of(task, num_envs=13, num_threads=1, physics=physics) as pool:
            games.append([row for seed in range(5) for row in played(pool, 1, seed)])
    same(*games, obs=1e-9)
    assert len(np.unique(games[0][1]["obs"][:, SENSORS.nq])) == 13

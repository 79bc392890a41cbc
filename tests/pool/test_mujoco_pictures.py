"""Pictures of MuJoCo tasks show the current state, whichever thread draws them and however often."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.errors import OptionError, RenderError

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

from headrace.mujoco import MujocoEnv, MujocoTask, Streams, uniform
from headrace.pool.executors.mujoco.executor import MESA_THREADS

# a ball on a rail, whose colour is each environment's own
XML = """
<mujoco>
  <visual><headlight ambient=".5 .5 .5" diffuse=".5 .5 .5" specular="0 0 0"/></visual>
  <worldbody>
    <geom type="plane" size="2 2 .1" rgba=".2 .2 .2 1"/>
    <camera name="above" pos="0 0 3"/> <camera name="near" pos="0 0 1.5"/>
    <body pos="0 0 .2"><joint name="rail" type="slide" axis="1 0 0" range="-1 1"/>
      <geom name="ball" size=".2" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="rail" gear="20" ctrlrange="-1 1"/></actuator>
</mujoco>"""


@wp.struct
class State:
    steps: wp.array[wp.int32]
    length: int


@wp.struct
class View:
    obs: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qpos[env, 0] = uniform(streams, env, wp.float64(-0.8), wp.float64(0.8))
    red = wp.float32(uniform(streams, env, wp.float64(0.0), wp.float64(1.0)))
    colour = physics.geom_rgba[env, 1]
    colour[0] = red
    colour[1] = wp.float32(1.0) - red
    colour[2] = wp.float32(0.0)
    physics.geom_rgba[env, 1] = colour
    state.steps[env] = 0


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    state.steps[env] = state.steps[env] + 1
    return wp.float32(0.0), state.steps[env] >= state.length


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    view.obs[env, 0] = physics.qpos[env, 0]


BALL = MujocoEnv("Ball", ("qpos", "geom_rgba"), State, View, reset, step, observe, varies=("geom_rgba",))
TASK = MujocoTask(BALL, XML, gym.spaces.Box(-np.inf, np.inf, (1,), np.float64), (), {"length": 5}, 10)
SMALL = {"render_width": 48, "render_height": 36, "render_camera_name": "above"}


@pytest.fixture(scope="module")
def _drawing() -> None:
    """Skips the test where there is no OpenGL; any other error is a failure."""
    headrace.register("Ball-v0", TASK, replace=True)
    try:
        headrace.make("Ball-v0", num_envs=1, from_pixels=True, **SMALL).close()
    except RenderError as error:
        if "there is none" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.fixture
def ball(_drawing: None) -> Callable[..., Any]:
    """A function that makes a pool of the task, small pictures from above."""

    def make(**options: Any) -> Any:
        headrace.register("Ball-v0", TASK, replace=True)
        return headrace.make("Ball-v0", **(SMALL | options))

    return make


def place(frame: np.ndarray) -> tuple[float, np.ndarray]:
    """Where the ball is on a picture [H, W, 3] from above, in m along the rail, and its brightest colour."""
    coloured = frame.astype(int)[..., :2].max(-1) - frame[..., 2] > 40
    assert coloured.any()
    columns = np.nonzero(coloured)[1]
    # MuJoCo's cameras see 45 degrees in height, from 3 m above the floor, the ball's rim being 0.2 m higher
    metres = 2 * np.tan(np.pi / 8) * 2.8 / frame.shape[0]
    return (columns.mean() - (frame.shape[1] - 1) / 2) * metres, frame[coloured].max(0)


def play(pool: Any, steps: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Returns the observations of a pool over so many random steps, with the final observations in its info."""
    rng = np.random.default_rng(seed)
    shown = [{"obs": pool.reset()[0].copy()}]
    for _ in range(steps):
        obs, _, terminated, _, info = pool.step(rng.uniform(-1, 1, (pool.num_envs, 1)))
        finals = {"final": info["final_obs"].copy()} if "final_obs" in info else {}
        shown.append({"obs": obs.copy(), "over": terminated.copy(), **finals})
    return shown


def test_pictures_show_the_state_and_the_environments_own_model(ball: Any) -> None:
    with ball(num_envs=6, seed=4, render_width=160, render_height=120) as pool:
        pool.reset()
        for _ in range(3):
            pool.step(np.ones((6, 1)))
        frames = pool.render(range(6))
        assert frames.shape == (6, 120, 160, 3)
        assert frames.dtype == np.uint8
        reds = pool._executor._memory.varying["geom_rgba"][:, 1, 0]
        for frame, x, red in zip(frames, pool.state_arrays()["qpos"][:, 0], reds, strict=True):
            seen, colour = place(frame)
            assert abs(seen - x) < 0.05
            # the headlight gives the ball's top its colour
            assert np.abs(colour[:2] / 255 - (red, 1 - red)).max() < 0.1
        assert np.array_equal(pool.render([4, 1]), frames[[4, 1]])
        assert np.array_equal(pool.render(), frames[:1])


def test_drawing_does_not_change_the_following_steps(ball: Any) -> None:
    with ball(num_envs=3, seed=1) as seen, ball(num_envs=3, seed=1) as unseen:
        rng = np.random.default_rng(2)
        assert np.array_equal(seen.reset()[0], unseen.reset()[0])
        for _ in range(12):
            action = rng.uniform(-1, 1, (3, 1))
            seen.render(range(3))
            assert np.array_equal(seen.step(action)[0], unseen.step(action)[0])


def test_cameras_are_chosen_by_name_or_by_number(ball: Any) -> None:
    frames = {}
    for camera in ({}, {"render_camera_name": "near"}, {"render_camera_id": 1}, {"render_camera_id": 0}, {"free": 1}):
        options = {"render_width": 64, "render_height": 64} | {k: v for k, v in camera.items() if k != "free"}
        named = "render_camera_name" in camera or not camera
        with ball(num_envs=1, seed=1, **({} if named else {"render_camera_name": ""}) | options) as pool:
            pool.reset()
            frames[str(camera)] = pool.render()[0]
    above, near, near_too, above_too, free = frames.values()
    assert np.array_equal(above, above_too)
    assert np.array_equal(near, near_too)
    assert not np.array_equal(above, near)
    assert not np.array_equal(above, free)


def test_wrong_render_options_are_refused(ball: Any) -> None:
    with pytest.raises(OptionError, match=r"no camera 'below'; it has 0 \('above'\), 1 \('near'\)"):
        ball(num_envs=1, render_camera_name="below")
    with pytest.raises(OptionError, match="no camera 2; it has"):
        ball(num_envs=1, render_camera_name="", render_camera_id=2)
    with pytest.raises(OptionError, match="not both"):
        ball(num_envs=1, render_camera_id=1)
    for wrong in ({"render_width": 0}, {"render_height": 10**6}, {"render_camera_name": 3}, {"from_pixels": 1}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            ball(num_envs=1, **wrong)


def test_pictures_in_observations_equal_those_of_render(ball: Any) -> None:
    with ball(num_envs=4, seed=2, from_pixels=True) as pool:
        assert pool.observation_space == gym.spaces.Box(0, 255, (3, 36, 48), np.uint8)
        obs, _ = pool.reset()
        for _ in range(4):
            assert np.array_equal(obs, pool.render(range(4)).transpose(0, 3, 1, 2))
            obs, *_ = pool.step(np.ones((4, 1)))


def test_pictures_have_default_sizes_unless_options_set_them(ball: Any) -> None:
    with ball(num_envs=1, from_pixels=True, frame_stack=4) as pool:
        assert pool.observation_space.shape == (12, 36, 48)
    with headrace.make("Ball-v0", num_envs=1, from_pixels=True) as pool:
        assert pool.observation_space.shape == (3, 84, 84)
    with headrace.make("Ball-v0", num_envs=1) as pool:
        pool.reset()
        assert pool.render().shape == (1, 480, 480, 3)


def test_small_pictures_are_drawn_without_threads_of_mesa_unless_the_variable_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sides = {"render_width": 128, "render_height": 64}
    for given, options, then in (
        (None, {}, None),
        (None, {"from_pixels": True, "render_width": 129}, None),
        (None, {"from_pixels": True, **sides}, "0"),
        ("2", {"from_pixels": True, **sides}, "2"),
    ):
        monkeypatch.setenv(MESA_THREADS, "")  # which the end of the test undoes
        monkeypatch.delenv(MESA_THREADS)
        if given is not None:
            os.environ[MESA_THREADS] = given
        headrace.make("HalfCheetah-v5", num_envs=1, **options).close()
        assert os.environ.get(MESA_THREADS) == then


def test_stacks_hold_the_latest_pictures(ball: Any) -> None:
    with (
        ball(num_envs=3, seed=5, from_pixels=True) as one,
        ball(num_envs=3, seed=5, from_pixels=True, frame_stack=3) as many,
    ):
        single, stacked = play(one, 14), play(many, 14)
    latest = [single[0]["obs"]] * 3
    for turn in range(15):
        begins = turn and single[turn - 1].get("over", np.zeros(3, bool)).all()
        latest = [single[turn]["obs"]] * 3 if begins else [*latest[1:], single[turn]["obs"]]
        assert np.array_equal(stacked[turn]["obs"], np.concatenate(latest, 1))


def test_final_observations_show_the_episode_that_ended(ball: Any) -> None:
    with ball(num_envs=3, seed=6, from_pixels=True, autoreset="same_step", frame_stack=2) as pool:
        same = play(pool, 5)
    with ball(num_envs=3, seed=6, from_pixels=True, frame_stack=2) as pool:
        following = play(pool, 6)
    assert same[5]["over"].all()
    assert np.array_equal(same[5]["final"], following[5]["obs"])
    assert np.array_equal(same[5]["obs"], following[6]["obs"])
    assert not np.array_equal(same[5]["obs"], same[5]["final"])
    assert np.array_equal(same[5]["obs"][:, :3], same[5]["obs"][:, 3:])  # nothing of the last episode


@pytest.mark.parametrize(("num_threads", "batch_size"), [(1, 6), (3, 6), (2, 3)])
def test_pictures_do_not_depend_on_threads_and_batch_sizes(ball: Any, num_threads: int, batch_size: int) -> None:
    with ball(num_envs=6, num_threads=1, seed=8, from_pixels=True) as pool:
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1, 1, (8, 6, 1))
        wanted = [pool.reset()[0].copy(), *(pool.step(action)[0].copy() for action in actions)]
    turns = np.zeros(6, int)
    with ball(num_envs=6, num_threads=num_threads, batch_size=batch_size, seed=8, from_pixels=True) as pool:
        pool.async_reset()
        while turns.min() < 9:
            obs, *_, info = pool.recv()
            ids = info["env_id"]
            for row, i in enumerate(ids):
                assert turns[i] > 8 or np.array_equal(obs[row], wanted[turns[i]][i])
            turns[ids] += 1
            pool.send(actions[np.minimum(turns[ids] - 1, 7), ids], ids)


def test_saved_states_contain_the_stacked_pictures(ball: Any) -> None:
    options = {"num_envs": 2, "from_pixels": True, "frame_stack": 2}
    with ball(seed=1, **options) as pool, ball(seed=2, **options) as other:
        pool.reset()
        other.reset()
        pool.step(np.ones((2, 1)))
        other.load_state(range(2), pool.save_state(range(2)))
        assert np.array_equal(pool.step(np.ones((2, 1)))[0], other.step(np.ones((2, 1)))[0])


def test_the_last_picture_is_observed_again_when_physics_fails(ball: Any) -> None:
    with ball(num_envs=2, seed=3, from_pixels=True) as pool:
        before = pool.reset()[0].copy()
        pool._executor.state_arrays()["qpos"][1] = np.nan
        obs, _, terminated, _, info = pool.step(np.ones((2, 1)))
        assert terminated.tolist() == [False, True]
        assert info["physics_warning"][1] > 0
        assert np.array_equal(obs[1], before[1])
        assert not np.array_equal(obs[0], before[0])


def test_several_threads_draw_pools_of_their_own_at_the_same_time(ball: Any) -> None:
    frames: dict[int, np.ndarray] = {}

    def draw(number: int) -> None:
        with ball(num_envs=2, seed=1, render_width=40 + number) as pool:
            pool.reset()
            frames[number] = pool.render([0, 1])

    threads = [threading.Thread(target=draw, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {i: frame.shape[2] for i, frame in frames.items()} == {i: 40 + i for i in range(4)}


def test_another_thread_draws_the_same_picture_of_a_pool(ball: Any) -> None:
    with ball(num_envs=1, seed=1) as pool:
        pool.reset()
        here, there = pool.render(), []
        thread = threading.Thread(target=lambda: there.append(pool.render()))
        thread.start()
        thread.join()
        assert np.array_equal(here, there[0])


def in_a_new_process(code: str, **environment: str) -> str:
    """What Python code prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mujoco_gl_off_disables_rendering_only() -> None:
    code = """
import headrace
from headrace.errors import RenderError
for options in {}, {"from_pixels": True}:
    try:
        with headrace.make("InvertedPendulum-v5", num_envs=1, **options) as pool:
            pool.reset()
            print("stepped" if pool.step([[0.0]])[0].any() else "")
            pool.render()
    except RenderError as error:
        print(error)
"""
    assert in_a_new_process(code, MUJOCO_GL="off").splitlines() == [
        "stepped",
        "pictures are switched off: MUJOCO_GL=off",
        "pictures are switched off: MUJOCO_GL=off",
    ]


def test_a_missing_opengl_is_an_error_with_the_package_to_install() -> None:
    code = """
import headrace
from headrace.errors import RenderError
try:
    headrace.make("InvertedPendulum-v5", num_envs=1, from_pixels=True)
except RenderError as error:
    print(error)
"""
    said = in_a_new_process(code, MUJOCO_GL="egl", MUJOCO_EGL_DEVICE_ID="99")
    assert "libegl1" in said
    assert "MUJOCO_EGL_DEVICE_ID=99" in said or "there is no libEGL" in said


@pytest.mark.usefixtures("_drawing")
def test_stepping_loads_no_opengl() -> None:
    code = """
import headrace
def drivers():
    return any("libEGL" in line or "OSMesa" in line for line in open("/proc/self/maps"))
with headrace.make("InvertedPendulum-v5", num_envs=1) as pool:
    pool.reset()
    pool.step([[0.0]])
    print(drivers())
    pool.render()
    print(drivers())
"""
    assert in_a_new_process(code).split() == ["False", "True"]


@pytest.mark.usefixtures("_drawing")
def test_rendering_in_a_forked_process_is_a_render_error() -> None:
    code = """
import os, headrace
from headrace.errors import RenderError
with headrace.make("InvertedPendulum-v5", num_envs=1) as pool:
    pool.reset()
    pool.render()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with headrace.make("InvertedPendulum-v5", num_envs=1) as other:
                other.reset()
                other.step([[0.0]])
                other.render()
        except RenderError as error:
            code = 0 if "forked" in str(error) else 2
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), pool.render().shape[0])
"""
    assert in_a_new_process(code).split() == ["0", "1"]

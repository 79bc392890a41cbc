"""MiniGrid's tasks against the package: from equal grids, the same observations, rewards and ends after every step."""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

from typing import Any

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.minigrid import TASKS, WORDS, text
from headrace.envs.minigrid.level import FLAT, FULL
from nightly import rest_nightly

wrappers = pytest.importorskip("minigrid.wrappers")
worlds = pytest.importorskip("minigrid_worlds")

ONE_OF_EACH = (
    "BabyAI-GoToRedBallGrey-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-OpenDoorsOrderN4Debug-v0",
    "BabyAI-PickupDistDebug-v0",
    "BabyAI-PutNextS5N2Carrying-v0",
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-Dynamic-Obstacles-Random-6x6-v0",
    "MiniGrid-Fetch-6x6-N2-v0",
    "MiniGrid-GoToDoor-6x6-v0",
    "MiniGrid-KeyCorridorS3R2-v0",
    "MiniGrid-LavaCrossingS9N2-v0",
    "MiniGrid-MemoryS7-v0",
    "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MiniGrid-PutNear-6x6-N2-v0",
    "MiniGrid-RedBlueDoors-6x6-v0",
    "MiniGrid-Unlock-v0",
)
BIASED = np.array([0.13, 0.13, 0.34, 0.12, 0.08, 0.15, 0.05])  # towards walking and opening


def begun(pool, i, env, seed, rng):
    vars(env).pop("place_obj", None)  # see `follow`
    env.reset(seed=seed)
    if rng.random() < 0.7:
        worlds.scatter(env, rng)
    worlds.synchronise(pool, i, env)


@pytest.mark.parametrize("task", rest_nightly(TASKS, *ONE_OF_EACH))
def test_every_step_from_equal_grids_equals_that_of_the_package(task):
    rng = np.random.default_rng(0)
    n, steps, ended, won = 24, 150, 0, 0
    envs = [worlds.official(task, i) for i in range(n)]
    with headrace.make(task, num_envs=n, seed=1, autoreset="disabled") as pool:
        pool.reset()
        for i, env in enumerate(envs):
            begun(pool, i, env, i, rng)
        chances = BIASED[: pool.action_space.n] / BIASED[: pool.action_space.n].sum()
        for step in range(steps):
            actions = rng.choice(len(chances), n, p=chances)
            obs, reward, terminated, truncated, _ = pool.step(actions)
            arrays = arrays_of(pool)
            for i, env in enumerate(envs):
                if "Dynamic" in task:
                    worlds.follow(env, pool, i)
                seen, earned, over, late, _ = env.step(int(actions[i]))
                np.testing.assert_array_equal(obs["image"][i], seen["image"])
                assert obs["direction"][i] == seen["direction"]
                assert text(obs["mission"][i]) == seen["mission"]
                assert reward[i] == np.float32(earned)
                assert (terminated[i], truncated[i]) == (over, late)
                np.testing.assert_array_equal(arrays["cells"][i], worlds.grid_of(env))
                assert arrays["carrying"][i] == worlds.byte_of(env.carrying)
            ended, won = ended + terminated.sum(), won + (reward > 0).sum()
            done = np.flatnonzero(terminated | truncated | (rng.random(n) < 0.04))
            if done.size:
                pool.reset(done)
                for i in done:
                    begun(pool, i, envs[i], 1000 * step + int(i), rng)
    if "Playground" not in task and "MoveTwo" not in task:  # random play hardly ever solves these
        assert ended >= won > 0


@pytest.mark.parametrize("task", ["BabyAI-GoToRedBall-v0", "MiniGrid-FourRooms-v0", "MiniGrid-PutNear-8x8-N3-v0"])
def test_episodes_are_truncated_after_as_many_steps_as_in_the_package(task):
    env = worlds.official(task, 0)
    with headrace.make(task, num_envs=1, seed=1) as pool:
        pool.reset()
        lengths = []
        for ours in (True, False):
            late, length = False, 0
            while not late:
                length += 1
                late = pool.step([0])[3][0] if ours else env.step(0)[3]
            lengths.append(length)
    assert lengths[0] == lengths[1] == env.max_steps


@pytest.mark.parametrize("task", ["MiniGrid-DoorKey-6x6-v0", "MiniGrid-KeyCorridorS3R3-v0", "BabyAI-MiniBossLevel-v0"])
def test_full_and_flat_observations_equal_those_of_the_packages_wrappers(task):
    n = 8
    envs = [worlds.official(task, i) for i in range(n)]
    for options in ({FULL: True}, {FLAT: True}):
        chosen: dict[str, Any] = {**options}
        with headrace.make(task, num_envs=n, seed=1, autoreset="disabled", **chosen) as pool:
            pool.reset()
            for i, env in enumerate(envs):
                env.reset(seed=i)
                worlds.synchronise(pool, i, env)
            for step in range(30):
                actions = np.random.default_rng(step).integers(0, 3, n)
                obs = pool.step(actions)[0]
                for i, env in enumerate(envs):
                    seen = env.step(int(actions[i]))[0]
                    if FULL in options:
                        whole = wrappers.FullyObsWrapper(env).observation(seen)
                        np.testing.assert_array_equal(obs["image"][i], whole["image"])
                    else:
                        bits = wrappers.OneHotPartialObsWrapper(env).observation(seen)["image"].ravel()
                        np.testing.assert_array_equal(obs[i, : bits.size], bits)
                        told = obs[i, bits.size :]
                        assert told[:4].tolist() == np.eye(4)[seen["direction"]].tolist()
                        words = told[4:].reshape(-1, len(WORDS))
                        assert not words.size or text(words.argmax(1)) == seen["mission"]


@pytest.mark.parametrize("task", rest_nightly(TASKS[::9], *TASKS[::36]))
def test_rendered_frames_equal_those_of_the_package(task):
    rng = np.random.default_rng(3)
    env = worlds.official(task, 4)
    env.render_mode = "rgb_array"
    with headrace.make(task, num_envs=1, seed=1) as pool:
        pool.reset()
        for seed in range(6):
            env.reset(seed=seed)
            worlds.scatter(env, rng)
            worlds.synchronise(pool, 0, env)
            np.testing.assert_array_equal(pool.render([0])[0], env.render())

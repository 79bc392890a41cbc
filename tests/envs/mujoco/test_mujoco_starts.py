"""MuJoCo tasks begin where Gymnasium's do: the same distributions of positions and velocities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium_side import TASKS, official, put_at_its_start
from scipy import stats

from nightly import rest_nightly

N = 400
# Of some 300 comparisons of equal distributions one would fall below by chance in 30 runs; the seeds are fixed.
UNLIKELY = 1e-4


def starts_of(env: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gymnasium's starts: positions [N, nq] and velocities [N, nv]."""
    env.reset(seed=7)
    states = []
    for _ in range(N):
        env.reset()
        states.append((env.data.qpos.copy(), env.data.qvel.copy()))
    qpos, qvel = zip(*states, strict=True)
    return np.stack(qpos), np.stack(qvel)


@pytest.mark.parametrize("task", rest_nightly(TASKS, *TASKS[::4]))
def test_starts_are_distributed_as_in_gymnasium(make: Any, task: str) -> None:
    env, pool = official(task), make(task, num_envs=N, seed=3)
    pool.reset()
    ours = pool.state_arrays()
    for name, theirs in zip(("qpos", "qvel"), starts_of(env), strict=True):
        for i, (mine, its) in enumerate(zip(ours[name].T, theirs.T, strict=True)):
            where = f"{name}[{i}]"
            if np.ptp(its) == 0.0:  # always the same
                assert set(mine) == set(its), where
                continue
            compared: Any = stats.ks_2samp(mine, its)
            assert compared.pvalue > UNLIKELY, where
            spread = its.std()
            assert mine.mean() == pytest.approx(its.mean(), abs=spread / 3), where  # 5 deviations
            assert mine.std() == pytest.approx(spread, rel=0.2), where
            if name == "qpos":  # uniform everywhere
                assert np.ptp(mine) == pytest.approx(np.ptp(its), rel=0.05), where
    assert (ours["time"] == 0.0).all()


NOISY = ["Ant-v5", "HalfCheetah-v4", "Hopper-v5", "Humanoid-v5", "Swimmer-v5"]


@pytest.mark.parametrize("task", rest_nightly(NOISY, "Ant-v5", "Hopper-v5"))
@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_reset_noise_scale_sets_the_noise_of_starts(make: Any, task: str, scale: float) -> None:
    env, pool = official(task), make(task, num_envs=N, seed=3, reset_noise_scale=scale)
    pool.reset()
    away = pool.state_arrays()["qpos"] - env.init_qpos
    assert abs(away).max() <= scale
    assert abs(away).max() >= 0.99 * scale
    speeds = pool.state_arrays()["qvel"]
    normal = task in ("Ant-v5", "HalfCheetah-v4")
    assert speeds.std() == pytest.approx(scale if normal else scale / np.sqrt(3.0), rel=0.05)


def test_dimensions_of_the_initial_state_are_uncorrelated(make: Any) -> None:
    pool = make("Humanoid-v5", num_envs=2000, seed=3)
    pool.reset()
    state = pool.state_arrays()
    drawn = np.hstack([state["qpos"], state["qvel"]])
    related = np.corrcoef(drawn.T) - np.eye(drawn.shape[1])
    assert abs(related).max() < 5.0 / np.sqrt(len(drawn))


def test_the_target_of_reacher_is_in_reach_and_the_object_of_pusher_off_its_goal(make: Any) -> None:
    reacher, pusher = make("Reacher-v5", num_envs=2000, seed=3), make("Pusher-v5", num_envs=2000, seed=3)
    reacher.reset()
    pusher.reset()
    target, thing = reacher.state_arrays()["qpos"][:, -2:], pusher.state_arrays()["qpos"][:, -4:-2]
    radius = np.linalg.norm(target, axis=1)
    assert 0.19 < radius.max() < 0.2
    assert np.mean(radius < 0.1) == pytest.approx(0.25, abs=0.04)  # uniform over the disc
    assert 0.17 < np.linalg.norm(thing, axis=1).min() < 0.175


def test_every_episode_of_an_environment_starts_differently(make: Any) -> None:
    pool = make("InvertedPendulum-v5", num_envs=3, seed=3, autoreset="disabled")
    starts = np.concatenate([pool.reset()[0] for _ in range(50)])
    assert len(np.unique(starts, axis=0)) == 150


@pytest.mark.parametrize(
    ("task", "options"), [("HumanoidStandup-v5", {}), ("Humanoid-v4", {}), ("Ant-v4", {"use_contact_forces": True})]
)
def test_initial_observations_equal_those_of_gymnasium(make: Any, task: str, options: dict[str, Any]) -> None:
    """A body that lies on the ground feels no contact before its first step."""
    env, pool = official(task, **options), make(task, seed=11, autoreset="disabled", **options)
    for _ in range(5):
        np.testing.assert_array_equal(pool.reset()[0][0], put_at_its_start(env, pool))
        pool.step(np.ones((1, *pool.action_space.shape)))

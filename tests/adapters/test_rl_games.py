"""The rl_games adapter: its PPO learns and plays over it, and its steps are the pool's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rl_games", reason="rl_games is not installed")

import torch
from rl_games.common import env_configurations, vecenv
from rl_games.common.algo_observer import AlgoObserver
from rl_games.torch_runner import Runner

import headrace
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.adapters import rl_games
from headrace.adapters.rl_games import HeadraceVecEnv
from headrace.errors import OptionError

MAKERS: dict[str, Callable[..., Any]] = {"pool": headrace.make, "torch pool": headrace.make_torch}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@pytest.fixture(autouse=True)
def _threads_and_tasks() -> Any:
    before = torch.get_num_threads()
    known = dict(env_configurations.configurations)
    yield
    torch.set_num_threads(before)
    torch.set_printoptions(profile="default")  # rl_games changes it
    torch.set_float32_matmul_precision("highest")
    env_configurations.configurations.clear()
    env_configurations.configurations.update(known)


class Lengths(AlgoObserver):
    """Mean lengths of the newest episodes, epoch by epoch."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def after_init(self, algo: Any) -> None:
        self.algo = algo

    def after_print_stats(self, frame: int, epoch_num: int, total_time: float) -> None:
        self.found.append(self.algo.game_lengths.get_mean().item())


def settings(env_name: str, folder: Path, model: str, epochs: int, **config: Any) -> dict[str, Any]:
    """A configuration whose model is ``"discrete"``, ``"multi_discrete"`` or ``"continuous"``."""
    continuous, initial = model == "continuous", {"name": "default"}
    space: Any = {model: None}
    if continuous:
        sigma = {"sigma_activation": "None", "sigma_init": {"name": "const_initializer", "val": 0}, "fixed_sigma": True}
        space = {model: {"mu_activation": "None", "mu_init": initial, **sigma}}
    mlp = {"units": [64, 64], "activation": "elu", "initializer": initial, "regularizer": {"name": "None"}}
    return {
        "params": {
            "seed": 1,
            "torch_threads": 1,
            "algo": {"name": "a2c_continuous" if continuous else "a2c_discrete"},
            "model": {"name": "continuous_a2c_logstd" if continuous else f"{model}_a2c"},
            "network": {"name": "actor_critic", "separate": False, "space": space, "mlp": mlp},
            "config": {
                "env_name": env_name,
                "name": "run",
                "num_actors": 16,
                "horizon_length": 32,
                "minibatch_size": 128,
                "mini_epochs": 4,
                "reward_shaper": {"scale_value": 0.1},
                "normalize_advantage": True,
                "gamma": 0.99,
                "tau": 0.95,
                "learning_rate": 2e-3,
                "score_to_win": 1e6,
                "grad_norm": 0.5,
                "entropy_coef": 0.0,
                "truncate_grads": True,
                "e_clip": 0.2,
                "clip_value": False,
                "critic_coef": 1,
                "bounds_loss_coef": 0.0,
                "lr_schedule": None,
                "kl_threshold": 0.008,
                "normalize_input": False,
                "normalize_value": False,
                "value_bootstrap": True,
                "save_best_after": 10**6,
                "device": "cpu",
                "device_name": "cpu",
                "max_epochs": epochs,
                "torch_compile": False,
                "print_stats": False,
                "train_dir": str(folder),
                "player": {"games_num": 2},
                **config,
            },
        }
    }


def test_ppo_learns_and_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rl_games.register("poles", "CartPole-v1", num_threads=1)
    lengths = Lengths()
    runner = Runner(lengths)
    runner.load(settings("poles", tmp_path, "discrete", 12))
    runner.run({"train": True, "play": False})
    assert lengths.found[0] < 40
    assert lengths.found[-1] > lengths.found[0]
    (checkpoint,) = tmp_path.rglob("*.pth")
    runner.run({"train": False, "play": True, "checkpoint": str(checkpoint)})
    assert capsys.readouterr().out.count("steps:") >= 2


@pytest.mark.parametrize(("task", "options"), [("Pendulum-v1", {}), ("CheetahRun-v1", {"num_threads": 1})])
def test_ppo_of_continuous_actions_runs(task: str, options: dict[str, Any], tmp_path: Path) -> None:
    rl_games.register("robot", task, **options)
    runner = Runner(Lengths())
    runner.load(settings("robot", tmp_path, "continuous", 2))
    runner.run({"train": True, "play": False})


def test_ppo_of_many_agents_runs(tmp_path: Path) -> None:
    rl_games.register("tag", "TagContinuous-v0", num_taggers=2, num_runners=2)
    runner = Runner(Lengths())
    runner.load(settings("tag", tmp_path, "multi_discrete", 2, num_actors=4))
    runner.run({"train": True, "play": False})


def test_the_configuration_takes_precedence_over_registered_options() -> None:
    rl_games.register("poles", "CartPole-v1", seed=1, max_episode_steps=5)
    env = vecenv.create_vec_env("poles", 3, seed=7)
    assert isinstance(env, HeadraceVecEnv)
    with headrace.make("CartPole-v1", num_envs=3, seed=7) as pool:
        np.testing.assert_array_equal(env.reset(), pool.reset()[0])
    for t in range(1, 6):
        *_, done, infos = env.step(np.array([0, 1, 0]))
        assert (done == (t == 5)).all()
        assert (infos["time_outs"] == done).all()
    env.close()


@both
def test_steps_equal_the_steps_of_the_pool(make: Callable[..., Any]) -> None:
    env = HeadraceVecEnv(make("CartPole-v1", num_envs=3, seed=4, autoreset="same_step"))
    pool = headrace.make("CartPole-v1", num_envs=3, seed=4, autoreset="same_step")
    kind = np.ndarray if make is headrace.make else torch.Tensor
    seen = [(env.reset(), pool.reset()[0])]
    for _ in range(60):
        action = (seen[-1][1][:, 2] > 0).astype(np.int64)
        obs, reward, done, infos = env.step(action if kind is np.ndarray else torch.from_numpy(action))
        expected, earned, terminated, truncated, _ = pool.step(action)
        seen.append((obs, expected))
        for found, array in ((reward, earned), (done, terminated | truncated), (infos["time_outs"], truncated)):
            assert isinstance(found, kind)
            np.testing.assert_array_equal(found, array)
    for found, array in seen:  # no step overwrites the results of another
        assert isinstance(found, kind)
        np.testing.assert_array_equal(found, array)
    env.close()
    pool.close()


@pytest.mark.parametrize(
    ("task", "shape"),
    [("Pong-v5", (4, 84, 84)), ("FrozenLake-v1", (16,)), ("CheetahRun-v1", (17,)), ("Ant-v5", (105,))],
)
def test_observations_become_one_array_that_fits_its_space(task: str, shape: tuple[int, ...]) -> None:
    env = HeadraceVecEnv(headrace.make(task, num_envs=2, autoreset="same_step"))
    obs = env.reset()
    assert env.observation_space.shape == shape
    assert obs.shape == (2, *shape)
    assert obs.dtype == env.observation_space.dtype == (np.uint8 if task == "Pong-v5" else np.float32)
    if task == "FrozenLake-v1":
        assert (obs.argmax(1) == 0).all() and (obs.sum(1) == 1).all()
    env.close()


def test_each_agent_of_an_environment_is_one_row() -> None:
    env = HeadraceVecEnv(headrace.make("TestDash-v0", num_envs=3, seed=1, autoreset="same_step"))
    pool = headrace.make("TestDash-v0", num_envs=3, seed=1, autoreset="same_step")
    assert env.get_env_info()["agents"] == 2
    np.testing.assert_array_equal(env.reset(), pool.reset()[0].reshape(6, 2))
    for t in range(30):
        action = np.arange(t, t + 6) % 3
        obs, reward, done, _ = env.step(action)
        expected, earned, terminated, truncated, _ = pool.step(action.reshape(3, 2))
        np.testing.assert_array_equal(obs, expected.reshape(6, 2))
        np.testing.assert_array_equal(reward, earned.reshape(6))
        np.testing.assert_array_equal(done, np.repeat(terminated | truncated, 2))
    env.close()
    pool.close()


@pytest.mark.parametrize(("task", "why"), [("TestHunt-v0", "spaces differ"), ("TestDuel-v0", "actions of Dict")])
def test_spaces_that_rl_games_does_not_support_are_refused(task: str, why: str) -> None:
    with headrace.make(task, autoreset="same_step") as pool, pytest.raises(OptionError, match=why):
        HeadraceVecEnv(pool)

"""The TorchRL adapter: TorchRL's own check, and its rollouts and collectors beside the pool's own steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torchrl", reason="TorchRL is not installed")

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs.utils import check_env_specs

import headrace
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.adapters.torchrl import HeadraceEnv
from headrace.errors import OptionError, SequenceError
from nightly import rest_nightly

MAKERS: dict[str, Callable[..., Any]] = {"pool": headrace.make, "torch pool": headrace.make_torch}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def env_of(make: Callable[..., Any], task: Any, num_envs: int = 4, **options: Any) -> HeadraceEnv:
    return HeadraceEnv(make(task, num_envs=num_envs, seed=3, autoreset="same_step", **options))


pytestmark = pytest.mark.usefixtures("one_thread")


TASKS = [
    ("CartPole-v1", {}),
    ("Pendulum-v1", {}),
    ("FrozenLake-v1", {}),
    ("Blackjack-v1", {}),
    ("HalfCheetah-v5", {}),
    ("CheetahRun-v1", {}),
    ("Pong-v5", {}),
    ("TagGridWorld-v0", {}),
    ("TagContinuous-v0", {}),
    ("TestHunt-v0", {}),
    ("TestDuel-v0", {}),
    ("Taxi-v4", {"executor": "processes"}),
]


@pytest.mark.parametrize(("task", "options"), TASKS, ids=[task for task, _ in TASKS])
def test_torchrls_check_env_specs_passes_for_each_task(task: str, options: dict[str, Any]) -> None:
    env = env_of(headrace.make, task, **options)
    check_env_specs(env)
    env.close()


class Nested(gym.Env):
    """Dicts in dicts, choices that do not begin at 0, and an end every third step."""

    action_space = gym.spaces.Dict(
        push=gym.spaces.Box(-1, 1, (2,)), aim=gym.spaces.Dict(at=gym.spaces.Discrete(3, start=2))
    )
    observation_space = gym.spaces.Dict(seen=action_space, flags=gym.spaces.MultiBinary(3), t=gym.spaces.Discrete(4))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample() | {"t": 0}, {}

    def step(self, action: Any) -> Any:
        self.t += 1
        seen = {"push": action["push"], "aim": {"at": action["aim"]["at"]}}
        return {"seen": seen, "flags": np.ones(3, np.int8), "t": self.t}, 1.0, self.t == 3, False, {}


@pytest.mark.nightly
def test_gymnasium_environments_with_nested_spaces_work() -> None:
    env = HeadraceEnv(headrace.make(Nested, num_envs=2, num_threads=1, seed=0, autoreset="same_step"))
    check_env_specs(env)
    data = env.rollout(6, break_when_any_done=False)
    assert data["t"].tolist() == [[0, 1, 2] * 2] * 2
    assert data["next", "t"].tolist() == [[1, 2, 3] * 2] * 2
    assert (data["next", "seen", "push"] == data["push"]).all()
    assert (data["next", "seen", "aim", "at"] == data["aim", "at"]).all()
    assert data["aim", "at"].min() >= 2
    env.close()


@pytest.mark.parametrize(
    "task", rest_nightly(["CartPole-v1", "HalfCheetah-v5", "TagGridWorld-v0", "TestHunt-v0"], "CartPole-v1")
)
def test_torchrls_check_env_specs_passes_over_a_torch_pool(task: str) -> None:
    env = env_of(headrace.make_torch, task)
    check_env_specs(env)
    env.close()


def pole(tensordict: Any) -> Any:
    """Actions for CartPole that follow from what is observed, so that one wrong observation shows."""
    return (tensordict["observation"][..., 2] > 0).long()


@both
def test_a_rollout_equals_the_steps_of_the_pool(make: Callable[..., Any]) -> None:
    env = env_of(make, "CartPole-v1", max_episode_steps=30)
    data = env.rollout(200, lambda td: td.set("action", pole(td)), break_when_any_done=False)
    pool = headrace.make("CartPole-v1", num_envs=4, seed=3, autoreset="disabled", max_episode_steps=30)
    obs, _ = pool.reset()
    ends = 0
    for t in range(200):
        row = data[:, t]
        np.testing.assert_array_equal(row["observation"], obs)
        obs, reward, terminated, truncated, _ = pool.step((obs[:, 2] > 0).astype(np.int64))
        np.testing.assert_array_equal(row["next", "observation"], obs, "an episode's last observation is its own")
        np.testing.assert_array_equal(row["next", "reward"][:, 0], reward)
        np.testing.assert_array_equal(row["next", "terminated"][:, 0], terminated)
        np.testing.assert_array_equal(row["next", "truncated"][:, 0], truncated)
        np.testing.assert_array_equal(row["next", "done"][:, 0], terminated | truncated)
        if (done := terminated | truncated).any():
            ends += int(done.sum())
            obs = obs.copy()
            obs[done] = pool.reset(np.flatnonzero(done))[0]
    assert ends > 8
    env.close()
    pool.close()


@both
def test_a_collector_continues_episodes_across_batches(make: Callable[..., Any]) -> None:
    env = env_of(make, "CartPole-v1", num_envs=3)
    policy = TensorDictModule(lambda obs: (obs[..., 2] > 0).long(), ["observation"], ["action"])
    collector = Collector(env, policy, frames_per_batch=60, total_frames=600)
    batches: Any = [batch.clone() for batch in collector]
    data: Any = torch.cat(batches, 1)
    assert data.shape == (3, 200)
    over = data["next", "done"][:, :-1, 0]
    assert over.sum() > 5
    assert (data["observation"][:, 1:][~over] == data["next", "observation"][:, :-1][~over]).all()
    assert (data["observation"][:, 1:][over] != data["next", "observation"][:, :-1][over]).any(1).all()
    assert (data["observation"][:, 1:][over].abs() <= 0.05).all(), "a new episode begins near the middle"
    last = data["next", "observation"][data["next", "terminated"][..., 0]]
    assert ((last[:, 0].abs() > 2.4) | (last[:, 2].abs() > 0.2)).all(), "and ends with the fall"
    collector.shutdown()


@both
def test_rollouts_stop_at_the_first_or_the_last_end_of_an_episode(make: Callable[..., Any]) -> None:
    env = env_of(make, "CartPole-v1")
    first = env.rollout(500)
    assert first["next", "done"][:, -1].any() and not first["next", "done"][:, :-1].any()
    last = env.rollout(500, break_when_any_done=False, break_when_all_done=True)
    done = last["next", "done"][..., 0]
    assert done[:, -1].all()
    lengths = done.float().argmax(1)
    assert len(set(lengths.tolist())) > 1
    for env_id, length in enumerate(lengths.tolist()):
        episode = last[env_id]
        assert (episode["next", "observation"][length:] == episode["next", "observation"][length]).all()
        moves = (episode["next", "observation"][:length] != episode["observation"][:length]).any(1)
        assert moves.all(), "until its end an episode goes on"
    again = env.rollout(5)
    assert (again["observation"][:, 0].abs() <= 0.05).all()
    env.close()


@both
def test_a_reset_mask_resets_only_the_chosen_environments(make: Callable[..., Any]) -> None:
    env = env_of(make, "CartPole-v1")
    data = env.reset()
    for _ in range(3):
        data = env.step_mdp(env.step(data.set("action", pole(data))))
    before = data["observation"].clone()
    mask = torch.tensor([True, False, True, False])
    data = env.reset(data.set("_reset", mask[:, None]))
    assert (data["observation"][mask] != before[mask]).any(1).all()
    assert (data["observation"][~mask] == before[~mask]).all()
    following = env.step(data.set("action", pole(data)))["next", "observation"]
    assert torch.allclose(following, data["observation"], atol=0.5)
    env.close()


def test_a_step_after_the_end_of_an_episode_is_an_error() -> None:
    env = env_of(headrace.make, "CartPole-v1", max_episode_steps=2)
    data = env.reset()
    for _ in range(2):
        data = env.step_mdp(env.step(data.set("action", pole(data))))
    with pytest.raises(SequenceError, match="environment 0 cannot be stepped"):
        env.step(data.set("action", pole(data)))
    data = env.maybe_reset(data)
    env.step(data.set("action", pole(data)))
    env.close()


def test_set_seed_gives_the_episodes_of_a_pool_with_that_seed() -> None:
    env, other = env_of(headrace.make, "CartPole-v1"), env_of(headrace.make_torch, "CartPole-v1")
    free = env.reset()["observation"]
    for each in (env, other):
        each.set_seed(11)
    first, second = env.reset()["observation"], env.reset()["observation"]
    assert (first == other.reset()["observation"]).all()
    assert (first != second).any() and (first != free).any()
    with headrace.make("CartPole-v1", num_envs=4, seed=11) as pool:
        np.testing.assert_array_equal(first, pool.reset()[0])
    env.close()
    other.close()


def test_agents_are_grouped_by_their_type() -> None:
    env = env_of(headrace.make, "TestHunt-v0", num_envs=3)
    data = env.rollout(30, break_when_any_done=False)
    assert data["archer", "observation"].shape == (3, 30, 3, 3)
    assert data["dog", "observation"].shape == (3, 30, 2)
    assert data["next", "dog", "reward"].shape == (3, 30, 2, 1)
    assert data["archer", "mask"].all(2).any()
    assert data["next", "done"].any()
    pool = headrace.make("TestHunt-v0", num_envs=3, seed=3, autoreset="same_step")
    pool.reset()
    for t in range(30):
        row = data[:, t]
        action = {name: row[name, "action"].numpy() for name in ("archer", "dog")}
        obs, reward, *_, info = pool.step(action)
        done = row["next", "done"][:, 0].numpy()
        seen = row["next", "archer", "observation"].numpy()
        np.testing.assert_array_equal(seen[~done], obs["archer"][~done])
        if done.any():
            np.testing.assert_array_equal(seen[done], info["final_obs"]["archer"][done])
            np.testing.assert_array_equal(row["next", "dog", "mask"][done], info["final_info"]["alive"][done, 3:])
        np.testing.assert_array_equal(row["next", "archer", "reward"][..., 0], reward[:, :3])
    env.close()
    pool.close()


def test_chosen_info_fields_become_part_of_the_data() -> None:
    env = HeadraceEnv(
        headrace.make("Pong-v5", num_envs=2, seed=0, autoreset="same_step"), info=["lives", "elapsed_step"]
    )
    check_env_specs(env)
    data = env.rollout(4)
    assert data["observation"].dtype == torch.uint8
    assert data["observation"].shape == (2, 4, 4, 84, 84)
    assert data["next", "elapsed_step"].tolist() == [[1, 2, 3, 4]] * 2
    env.close()
    for name, why in (("live", "no info field 'live'"), ("reward", "'reward' names something else")):
        with headrace.make("Pong-v5", autoreset="same_step") as pool, pytest.raises(OptionError, match=why):
            HeadraceEnv(pool, info=[name])


def test_pools_with_unsupported_settings_are_refused() -> None:
    with (
        headrace.make("CartPole-v1") as pool,
        pytest.raises(OptionError, match="autoreset='same_step', not 'next_step'"),
    ):
        HeadraceEnv(pool)
    asynchronous = headrace.make("CartPole-v1", num_envs=4, batch_size=2, autoreset="same_step")
    with asynchronous, pytest.raises(OptionError, match="leave batch_size out"):
        HeadraceEnv(asynchronous)
    with pytest.raises(OptionError, match="needs a pool"):
        HeadraceEnv(gym.make("CartPole-v1"))  # type: ignore[arg-type]


def test_closing_twice_does_no_harm() -> None:
    env = env_of(headrace.make, "CartPole-v1")
    env.close()
    env.close()
    with pytest.raises(headrace.HeadraceError, match="closed"):
        env.reset()

"""Transitions from a replay of steps equal those of the environments, computed from a second pool of the same seed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch

import headrace
from headrace.errors import NotFiniteError, OptionError
from headrace.train.collect.pools import make_pool
from headrace.train.collect.steps import Frames, StepRecorder, make_replay
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.transitions import normalised
from nightly import rest_nightly
from poisoned_env import OBSERVATION_NAN, REWARD_NAN
from python_games import NEWEST_FIRST
from whole_runs import SMALL

GAMMA = 0.9
TASKS: dict[str, dict[str, Any]] = {
    "Pong-v5": {"max_episode_steps": 9, "img_height": 42, "img_width": 42, "stack_num": 4},
    "Breakout-v5": {"episodic_life": True, "use_fire_reset": True, "img_height": 42, "img_width": 42, "stack_num": 3},
    "MinAtar-Breakout-v1": {"max_episode_steps": 12},
    "CartPole-v1": {"max_episode_steps": 15},
}


class Played(NamedTuple):
    """What a pool gave for given actions: observations [T + 1, N, …], and of each step [T, N]."""

    seen: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    resets: np.ndarray


def played(task: str, options: dict[str, Any], seed: int, actions: np.ndarray) -> Played:
    with headrace.make(task, num_envs=actions.shape[1], seed=seed, autoreset="next_step", **options) as pool:
        seen, parts, resets = [np.array(pool.reset()[0])], [], [np.zeros(actions.shape[1], bool)]
        for row in actions:
            observations, *step, _ = pool.step(row)
            seen.append(np.array(observations))
            parts.append([np.array(part) for part in step])
            resets.append(parts[-1][1] | parts[-1][2])
    rewards, terminated, truncated = (np.stack(part) for part in zip(*parts, strict=True))
    return Played(np.stack(seen), rewards, terminated, truncated, np.stack(resets[:-1]))


def a_trainer(tmp_path, task: str, **changes: Any) -> Any:
    settings: dict[str, Any] = SMALL | {"num_envs": 3, "num_steps": 10, "gamma": GAMMA, "replay_size": 600}
    settings |= {"algo": "dqn", "samplers": 0, "learning_starts": 10_000, "torch_threads": 1, "tensorboard": False}
    config = make_config(task, **(settings | changes))
    return make_trainer(config, RunFolder.create(tmp_path / "run", config))


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("task", TASKS)
def test_transitions_equal_those_of_the_recorded_steps(tmp_path, task, n_step):
    if task in ("Pong-v5", "Breakout-v5"):
        pytest.importorskip("headrace_atari._atari")
    options, envs, steps = TASKS[task], 3, 60
    more = {"prioritised": True} if n_step == 1 and task == "CartPole-v1" else {}  # else it is no replay of steps
    trainer = a_trainer(tmp_path, task, n_step=n_step, env_options=options, **more)
    for _ in range(steps // 10):
        trainer.iterate()
    layout, record = trainer.source.replay.layout, trainer.source.replay.arrays["record"]
    actions = record[:steps, 0, :, layout.inputs].view(np.int32)
    there = played(task, trainer.config.env_options, trainer.config.seed, actions)
    assert trainer.step == trainer.learner.collected == int((~there.resets).sum())
    assert there.truncated.any() == (task != "Breakout-v5") and there.terminated.any() == (task != "Pong-v5")
    numbers = trainer.source.replay.draw((400,), torch.Generator().manual_seed(0))
    batch = trainer.source.replay.read(numbers)
    for i, number in enumerate(numbers.tolist()):
        t, env = divmod(number, envs)
        assert not there.resets[t, env], "no transition leads from the last observation of an episode"
        total, discount, u = 0.0, 1.0, t
        while u < t + n_step:
            total, discount, u = total + discount * there.rewards[u, env], discount * GAMMA, u + 1
            if there.terminated[u - 1, env] or there.truncated[u - 1, env]:
                break
        assert batch.rewards[i].item() == pytest.approx(total, abs=1e-6)
        ended = there.terminated[u - 1, env]
        assert batch.discounts[i].item() == pytest.approx(0.0 if ended else discount, abs=1e-6)
        assert batch.actions[i].item() == actions[t, env]
        assert (batch.inputs[i].numpy() == there.seen[t, env]).all()
        assert (batch.next_observations[i].numpy() == there.seen[u, env]).all()
    trainer.close()


STACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "lives": ("Breakout-v5", {"episodic_life": True, "use_fire_reset": True, "img_height": 42, "img_width": 42}),
    "lives in color": (
        "Breakout-v5",
        {"episodic_life": True, "img_height": 42, "img_width": 42, "gray_scale": False, "stack_num": 3},
    ),
    "games": ("Pong-v5", {"max_episode_steps": 9, "img_height": 42, "img_width": 42}),
    "doom": ("D1Basic-v1", {"max_episode_steps": 9, "episodic_life": True, "img_height": 42, "img_width": 42}),
}


@pytest.mark.parametrize("case", rest_nightly(STACKS, "lives", "lives in color"))
def test_stacks_equal_those_of_the_environments_across_ends_of_episodes(case):
    task, options = STACKS[case]
    pytest.importorskip("vizdoom" if task == "D1Basic-v1" else "headrace_atari._atari")
    sizes: dict[str, Any] = {"num_envs": 2, "replay_size": 1000}
    config: Any = make_config(task, algo="dqn", preset="default", env_options=options, samplers=0, **sizes)
    frames, replay = Frames.of(config), make_replay(config)
    assert frames.stack > 1
    chance, policy = np.random.default_rng(0), SimpleNamespace(encoder=SimpleNamespace(image=True))
    mode: Any = {"autoreset": "next_step"}
    with make_pool(config, **mode) as own, make_pool(config, **mode, **frames.options) as pool:
        recorder = StepRecorder(pool, cast(Any, policy), replay.writer(0), frames.stack, lambda: "")
        recorder.begin()
        seen, ends = [own.reset()[0].copy()], 0
        for _ in range(130):
            assert np.array_equal(recorder.observations().numpy(), seen[-1])
            actions = chance.integers(cast(Any, own.action_space).n, size=2)
            recorder.step(torch.from_numpy(actions.astype(np.int32)), actions)
            obs, _, terminated, truncated, _ = own.step(actions)
            seen.append(obs.copy())
            ends += int((terminated | truncated).sum())
    assert ends > 4
    numbers = replay.draw((300,), torch.Generator().manual_seed(0))
    batch = replay.read(numbers)
    for number, inputs, following in zip(
        numbers.tolist(), batch.inputs.numpy(), batch.next_observations.numpy(), strict=True
    ):
        t, env = divmod(number, 2)
        assert np.array_equal(inputs, seen[t][env]) and np.array_equal(following, seen[t + 1][env])


def test_a_stack_in_an_environments_own_order_is_stored_whole():
    config = make_config(NEWEST_FIRST, algo="dqn", env_options={"frame_stack": 3})
    assert Frames.of(config) == Frames({"frame_stack": 3}, 1)


def test_episodes_are_reported_without_the_steps_that_only_begin_them(tmp_path):
    """Lengths and returns are those of the episodes, lost lives and clipped rewards aside."""
    trainer = a_trainer(tmp_path, "CartPole-v1", n_step=2, env_options={"max_episode_steps": 15}, stop_episodes=1000)
    while trainer.tracker.episodes < 30:
        trainer.iterate()
    returns, lengths = trainer.tracker.last()
    assert returns == lengths and max(lengths) <= 15  # a step earns 1
    running = float(trainer.tracker.state()["running"][1].sum())
    assert sum(lengths) + running == trainer.step < trainer.learner.iteration * 30
    trainer.close()


def test_statistics_are_those_of_the_taken_steps_alone(tmp_path):
    options = {"max_episode_steps": 6}
    more: dict[str, Any] = {"algo": "sac", "normalise_observations": True, "normalise_rewards": True, "hidden": (8,)}
    trainer = a_trainer(tmp_path, "Pendulum-v1", n_step=3, env_options=options, **more)
    for _ in range(4):
        trainer.iterate()
    normaliser, scaler = trainer.policies[0].encoder.normaliser, trainer.policies[0].reward_scaler
    assert normaliser is not None and scaler is not None
    record, inputs = trainer.source.replay.arrays["record"][:40, 0], trainer.source.replay.layout.inputs
    taken = np.arange(40) % 7 != 6  # after six steps comes the observation of which the seventh only begins an episode
    torch.testing.assert_close(normaliser.statistics.mean.numpy(), record[taken][..., :inputs].mean((0, 1), np.float64))
    assert int(normaliser.statistics.count) == trainer.step == int(taken.sum()) * 3
    batch = trainer.source.replay.read(trainer.source.replay.draw((50,), torch.Generator().manual_seed(0)))
    seen = normalised(batch, trainer.policies[0].encoder, scaler, 3)
    torch.testing.assert_close(seen.inputs, ((batch.inputs - normaliser.mean) * normaliser.scale).clamp(-10, 10))
    assert torch.equal(seen.discounts, batch.discounts) and not torch.equal(seen.rewards, batch.rewards)
    trainer.close()


def test_a_rollout_that_is_too_large_is_an_error_that_says_what_to_change(tmp_path):
    with pytest.raises(OptionError, match=r"num_steps=10000000000 and num_envs=3 need .*: take fewer steps"):
        a_trainer(tmp_path, "MinAtar-Breakout-v1", num_steps=10_000_000_000)


def test_normalised_sums_of_rewards_are_clipped_as_their_parts_would_be(tmp_path):
    more: dict[str, Any] = {"algo": "sac", "normalise_rewards": True, "hidden": (8,), "minibatch_size": 16}
    trainer = a_trainer(tmp_path, "Pendulum-v1", n_step=3, **more)
    trainer.iterate()
    scaler = trainer.policies[0].reward_scaler
    assert scaler is not None
    scaler.statistics.variance.fill_(0.25)  # a reward is doubled
    trainer.source.replay.arrays["record"][..., trainer.source.replay.layout.inputs + 1] = -4.0
    updater = trainer.learner.updater
    batch = updater.replay.sample(16, updater.generator)
    rewards = normalised(batch, trainer.policies[0].encoder, scaler, updater.replay.n_step).rewards
    torch.testing.assert_close(rewards.max(), torch.tensor(-8 * (1 + GAMMA + GAMMA**2)), rtol=1e-4, atol=0)
    trainer.close()


@pytest.mark.parametrize("what", [REWARD_NAN, OBSERVATION_NAN])
def test_numbers_that_are_not_finite_never_enter_the_replay(tmp_path, what):
    more: dict[str, Any] = {"algo": "sac", "num_envs": 4, "n_step": 2, "hidden": (8,), "env_options": {"what": what}}
    trainer = a_trainer(tmp_path, "Poisoned-v0", **more)
    trainer.iterate()
    trainer.iterate()
    with pytest.raises(NotFiniteError, match=r"environment 3 .* after 20 of each environment"):
        trainer.iterate()
    assert int(trainer.source.replay.arrays["written"][0]) == 20
    assert np.isfinite(trainer.source.replay.arrays["record"][:20]).all()
    trainer.close()

"""What off-policy algorithms have in common: what acts, what is kept, and that nothing waits for the device."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from collecting import collecting
from device_waits import NothingWaits
from headrace.train.algorithms.ddpg.ddpg import DDPG
from headrace.train.algorithms.off_policy import Losses
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.sac.sac import SAC
from headrace.train.algorithms.td3.td3 import TD3
from headrace.train.algorithms.updater import Updater
from headrace.train.collect.policies import make_policy
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runners.turn_learners import RingLearner
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.transitions import Transitions, normalised
from headrace.train.workers.samplers import ReplaySampler
from nightly import rest_nightly
from updates import CPU, a_policy, some_transitions
from whole_runs import SMALL, facts

NUMBERS = """
import gymnasium as gym

class Numbers(gym.Env):
    observation_space = gym.spaces.Discrete(5, start=2)
    action_space = gym.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 2, {}

    def step(self, action):
        return int(self.np_random.integers(2, 7)), 1.0, self.np_random.random() < 0.1, False, {}
"""

train: Any = headrace.train
CONTINUOUS = ["ddpg", "td3", "sac"]
NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
TINY = SMALL | {
    "hidden": (16,), "total_steps": 3000, "learning_starts": 400, "replay_ratio": 0.1, "replay_size": 1000,
    "samplers": 0, "anneal_learning_rate": False, "env_options": {"max_episode_steps": 20},
}  # fmt: skip


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_the_vector_of_actor_parameters_determines_the_actions(algo):
    policy, copy = a_policy(algo), a_policy(algo, frozen=True)
    batch = some_transitions(policy, 32, 1)
    policy.improve(batch, UpdateRates(1e-2, 1e-2, 0.5))
    before = copy.forward(batch.inputs)[0]
    copy.actor_parameters.copy_(policy.actor_parameters)
    assert torch.equal(copy.forward(batch.inputs)[0], policy.forward(batch.inputs)[0])
    assert not torch.equal(copy.forward(batch.inputs)[0], before)


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_a_frozen_policy_has_nothing_to_learn_with(algo):
    policy = a_policy(algo, frozen=True)
    assert not policy.optimisers() and not list(policy.targets.parameters())
    assert sum(parameter.numel() for parameter in policy.network.actor.parameters()) <= len(policy.actor_parameters)


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_equal_seeds_make_equal_updates(algo):
    first, second = a_policy(algo), a_policy(algo)
    ring = first._ring()
    ring.add(some_transitions(first, 32, 1))
    one, other = Updater(first, ring), Updater(second, ring)
    for _ in range(4):
        assert torch.equal(one.update(), other.update())
    assert not torch.equal(first.actor_parameters, a_policy(algo).actor_parameters)
    assert torch.equal(first.actor_parameters, second.actor_parameters)


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_no_iteration_waits_for_the_device(algo):
    sizes = {"num_envs": 6, "num_steps": 12, "hidden": (8,), "replay_size": 300, "minibatch_size": 16}
    config = make_config("Pendulum-v1", algo=algo, **sizes, learning_starts=0, replay_ratio=0.05, **NORMALISED)
    collector, (policy,) = collecting("static", config)
    chance = torch.Generator().manual_seed(1)
    learner = RingLearner(policy, chance)
    for watched in (False, True):
        before = policy.parts["critic"].clone()
        collector.draw(chance)
        with NothingWaits() if watched else contextlib.nullcontext():
            (samples,) = collector.collect()
            learner.learn(samples, 0, chance)
        assert not torch.equal(policy.parts["critic"], before)
    collector.pool.close()


@pytest.mark.parametrize("algo", ["sac", "dqn"])
def test_observations_that_are_numbers_become_vectors(algo):
    """A replay of steps gives them as they are."""
    config, space = make_config("x", algo=algo, defaults=False, hidden=(8,)), gym.spaces.Discrete(5, start=2)
    actions = gym.spaces.Discrete(3) if algo == "dqn" else gym.spaces.Box(-1, 1, (2,), np.float32)
    policy: Any = make_policy("", config, AgentGroup(space, actions), CPU)
    seen = torch.randint(2, 7, (2, 8), generator=torch.Generator().manual_seed(0))
    batch = Transitions(seen[0], torch.zeros(8, 2), torch.zeros(8), torch.ones(8), seen[1])
    normal = normalised(batch, policy.encoder, policy.reward_scaler)
    assert torch.equal(normal.inputs, torch.eye(5)[seen[0] - 2])
    assert torch.equal(normal.next_observations, torch.eye(5)[seen[1] - 2])


@pytest.mark.parametrize(
    "settings", [{"samplers": 0, "n_step": 2}, pytest.param({"samplers": 1}, marks=pytest.mark.nightly)]
)
def test_continuous_actions_are_learnt_from_numbers(tmp_path: Path, settings, monkeypatch) -> None:
    (tmp_path / "categories.py").write_text(NUMBERS)
    monkeypatch.chdir(tmp_path)
    options = {name: value for name, value in TINY.items() if name not in ("num_steps", "env_options")} | settings
    options |= {"total_steps": 1000, "quiet": True, "viewer": False}
    result = train("categories.py:Numbers", "sac", run_dir=tmp_path / "run", **options)
    assert result.reason == "finished" and facts(tmp_path / "run")[-1]["loss"]["critic_loss"] > 0


def assert_uniform(actions: Any) -> None:
    """Actions in units of half their range are spread evenly over it, and few are at a bound."""
    actions = torch.as_tensor(actions).flatten()
    shares = torch.histc(actions, 10, -1, 1) / len(actions)
    torch.testing.assert_close(shares, torch.full((10,), 0.1), atol=0.03, rtol=0)
    assert (actions.abs() == 1).float().mean() < 0.01


@pytest.mark.parametrize(
    ("algo", "kind"),
    rest_nightly(
        [(algo, kind) for algo in CONTINUOUS for kind in ("host", "device", "static")],
        ("ddpg", "host"), ("td3", "static"), ("sac", "device"),
    ),
)  # fmt: skip
def test_actions_are_uniform_until_the_first_update(algo, kind):
    sizes = {"num_envs": 50, "num_steps": 20, "hidden": (8,), "replay_size": 5000, "minibatch_size": 16}
    config = make_config("Pendulum-v1", algo=algo, **sizes, samplers=0, learning_starts=2500, replay_ratio=0.001)
    collector, (policy,) = collecting(kind, config)
    chance = torch.Generator().manual_seed(1)
    learner = RingLearner(policy, chance)
    for _ in range(3):
        collector.draw(chance)
        (samples,) = collector.collect()
        assert policy.updates == 0
        assert_uniform(samples.transitions.actions)
        learner.learn(samples, 0, chance)
    assert policy.updates > 0
    collector.draw(chance)
    collector.collect()
    (experience,) = collector.experiences
    with torch.inference_mode():
        params, _ = policy.forward(experience.inputs[0])
        torch.testing.assert_close(experience.actions[0], policy.distribution.chosen(params, experience.noise[0]))
    collector.pool.close()


def test_samplers_and_a_replay_of_steps_explore_alike(tmp_path: Path):
    options: dict[str, Any] = {"num_envs": 8, "hidden": (8,), "minibatch_size": 16, "learning_starts": 2500}
    options |= {"total_steps": 2400, "tensorboard": False, "video": False, "evaluate_episodes": 0, "replay_ratio": 0.01}
    ways: dict[str, dict[str, Any]] = {
        "sampler": {"samplers": 1},
        "steps": {"samplers": 0, "n_step": 3, "num_steps": 4},
    }
    for name, settings in ways.items():
        config = make_config("Pendulum-v1", algo="sac", **(options | settings))
        run = RunFolder.create(tmp_path / name, config)
        trainer: Any = make_trainer(config, run)
        try:
            if config.samplers:
                arguments = trainer.learner.memory.writer(0), trainer.source.weights, trainer.source.counters
                sampler = ReplaySampler(config, 0, 0, *arguments)
                for _ in range(300):
                    sampler.step()
                sampler.close()
            else:
                for _ in range(75):
                    trainer.iterate()
            replay = trainer.learner.memory if config.samplers else trainer.source.replay
            assert_uniform(replay.arrays["record"][:290, 0, :, 3])
        finally:
            trainer.close()


@pytest.mark.parametrize("settings", [{}, {"n_step": 3}])
def test_a_policy_that_has_learnt_fills_an_empty_replay_itself(tmp_path: Path, settings):
    options = TINY | settings | {"save_replay": False, "num_envs": 8, "num_steps": 10}
    train("Pendulum-v1", "td3", run_dir=tmp_path, quiet=True, **(options | {"total_steps": 800}))
    run, config = RunFolder.read(tmp_path)
    kept = checkpoints.newest(run.checkpoints)
    assert kept is not None
    config = config.replace(total_steps=2000)
    trainer: Any = make_trainer(config, run, checkpoints.load(kept))
    try:
        trainer.iterate()
        assert not trainer.policies[0].distribution.widely
    finally:
        trainer.close()


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_products_have_the_requested_precision(precision):
    config = make_config("Pendulum-v1", algo="sac", matmul_precision=precision, replay_size=2000)
    collector, _ = collecting("device", config)
    collector.pool.close()
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize("algorithm", [SAC, TD3, DDPG])
def test_a_subclass_learns_by_its_own_losses(algorithm):
    class Still(algorithm):
        def critic_losses(self, batch: Transitions) -> Losses:
            found = super().critic_losses(batch)
            return found._replace(parts={name: 0 * loss for name, loss in found.parts.items()})

    policy = a_policy(algorithm.__name__.lower())
    still = Still("", policy.config, policy.agent_group, CPU)
    part = next(iter(still.critic_losses(some_transitions(still, 8, 0)).parts))
    before = still.parts[part].clone()
    still.improve(some_transitions(still, 8, 0), UpdateRates(1e-2, 1e-2, 0.5), actor=False)
    assert torch.equal(still.parts[part], before)

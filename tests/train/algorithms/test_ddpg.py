"""DDPG: gradients equal those of autograd, the replay equals that of a plain loop, runs learn and resume."""

from __future__ import annotations

import contextlib
import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import headrace
import multi_agent_games  # noqa: F401  (registers the test tasks)
from collecting import collecting, recorded_actions
from device_waits import NothingWaits
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.algorithms.ddpg.ddpg import DDPG
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.collect.pools import make_pool
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runners.turn_learners import RingLearner
from headrace.train.runs.checkpoint import load, newest
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.storage.transition_replay import TransitionReplay
from headrace.train.storage.transitions import Transitions, normalised
from whole_runs import SMALL, assert_same_run, facts

train: Any = headrace.train
CPU = torch.device("cpu")
HUNT: dict[str, Any] = {
    "policies": {"archer": {"algo": "ddpg", "minibatch_size": 16}, "dog": {}},
    "env_options": {"max_episode_steps": 7},
}
TASKS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"algo": "ddpg", "env_options": {"max_episode_steps": 20}},
    "MountainCarContinuous-v0": {"algo": "ddpg", "env_options": {"max_episode_steps": 9}},
    "TestHunt-v0": HUNT,
}
NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
TINY = SMALL | {
    "samplers": 0,
    "hidden": (16,),
    "total_steps": 1500,
    "learning_starts": 400,
    "replay_ratio": 0.1,
    "replay_size": 1000,
}


# -- the update -------------------------------------------------------------------------------------


def pendulum_policy(**settings: Any) -> DDPG:
    config = make_config("Pendulum-v1", algo="ddpg", **({"hidden": (16, 12), "replay_size": 64} | settings))
    spec = headrace.make_spec("Pendulum-v1")
    torch.manual_seed(5)
    policy = DDPG("", config, AgentGroup(spec.observation_space, spec.action_space), CPU)
    for module in (policy.network, policy.targets):  # the last layers begin near nothing, and targets as the networks
        for parameter in module.parameters():
            parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return policy


def some_transitions(count: int, seed: int) -> Transitions:
    chance = torch.Generator().manual_seed(seed)
    inputs, following = torch.randn(2, count, 3, generator=chance)
    discounts = (torch.rand(count, generator=chance) < 0.7) * 0.9
    actions = torch.rand(count, 1, generator=chance) * 2 - 1
    return Transitions(inputs, actions, torch.randn(count, generator=chance), discounts, following)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("compiled", [True, False])
def test_updates_equal_those_of_plain_torch(activation, compiled):
    policy = pendulum_policy(activation=activation, target_rate=0.1)
    policy.compiled = policy.compiled if compiled else None
    network, targets = copy.deepcopy(policy.network), copy.deepcopy(policy.targets)
    epsilon = policy.config.adam_epsilon
    critic_optimiser = torch.optim.Adam(network.critic.parameters(), 2e-2, eps=epsilon)
    actor_optimiser = torch.optim.Adam(network.actor.parameters(), 1e-2, eps=epsilon)
    nonlinear = {"relu": F.relu, "tanh": torch.tanh}[activation]

    def perceptron(module: Any, x: torch.Tensor) -> torch.Tensor:
        for i, (weight, bias) in enumerate(zip(module.weights, module.biases, strict=True)):
            x = x @ weight.t() + bias
            x = nonlinear(x) if i < len(module.weights) - 1 else x
        return torch.tanh(x) if module is network.actor or module is targets.actor else x

    critic_norm = torch.zeros(())
    for seed in range(4):
        batch = some_transitions(32, seed)
        measured = policy.improve(batch, UpdateRates(1e-2, 2e-2, 0.7))

        with torch.no_grad():
            after = perceptron(targets.actor, batch.next_observations)
            after = perceptron(targets.critic, torch.cat([batch.next_observations, after], 1)).squeeze(1)
            wanted = torch.where(batch.discounts > 0, batch.rewards + 0.9 * after, batch.rewards)
        q = perceptron(network.critic, torch.cat([batch.inputs, batch.actions], 1)).squeeze(1)
        critic_loss = F.mse_loss(q, wanted)
        critic_optimiser.zero_grad()
        critic_loss.backward()
        critic_norm = torch.nn.utils.clip_grad_norm_(network.critic.parameters(), 0.7)
        critic_optimiser.step()
        chosen = perceptron(network.actor, batch.inputs)
        actor_loss = -perceptron(network.critic, torch.cat([batch.inputs, chosen], 1)).mean()
        actor_optimiser.zero_grad()
        actor_loss.backward()
        actor_norm = torch.nn.utils.clip_grad_norm_(network.actor.parameters(), 0.7)
        actor_optimiser.step()
        with torch.no_grad():
            for target, now in zip(targets.parameters(), network.parameters(), strict=True):
                target.mul_(0.9).add_(now, alpha=0.1)

        expected = torch.stack([critic_loss, q.mean(), critic_norm, actor_loss, actor_norm]).detach()
        torch.testing.assert_close(measured, expected, rtol=1e-4, atol=1e-5)
    assert critic_norm > 0.7, "the clipping never acted"
    for mine, plain in ((policy.network, network), (policy.targets, targets)):
        for (name, parameter), other in zip(mine.named_parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(parameter, other, rtol=1e-3, atol=1e-5, msg=name)


def test_updates_are_as_many_as_asked_for():
    config = {"num_envs": 4, "num_steps": 2, "replay_ratio": 0.3, "learning_starts": 20, "minibatch_size": 4}
    config |= {"hidden": (4,), "replay_size": 64}
    collector, policies = build("device", "Pendulum-v1", **config)
    learner, counts = RingLearner(policies[0], generator()), []
    for _ in range(8):
        collector.draw(generator())
        (samples,) = collector.collect()
        learner.learn(samples, 0, generator())
        counts.append(int(policies[0].optimisers()["critic.steps"]))
    # 8 steps a rollout: none before 20 steps, then 0.3 a step
    assert counts == [0, 0, 3, 5, 8, 10, 12, 15]
    collector.pool.close()


# -- the replay -------------------------------------------------------------------------------------


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(kind: str, task: str, **settings: Any) -> tuple[Any, list[Any]]:
    """A started collector: ``host``, ``device``, or ``static`` as on a GPU; and its policies, the first DDPG's."""
    sizes = {"num_envs": 6, "num_steps": 12, "hidden": (8,), "replay_size": 300, "minibatch_size": 16, "seed": 3}
    config = make_config(task, **(sizes | TASKS[task] | {"learning_starts": 0, "replay_ratio": 0.05} | settings))
    return collecting(kind, config)


class PlainLoop:
    """What the first policy's agents live through, agent by agent and step by step, in a twin pool."""

    def __init__(self, collector: Any):
        self.collector, self.twin = collector, make_pool(collector.config)
        self.obs = self._mine(self.twin.reset()[0])
        self.present = np.ones((len(self.obs), self.obs.shape[1]), bool)
        self.rows: list[np.ndarray] = []

    def follow(self) -> None:
        """Take the steps that the collector just took."""
        experience = self.collector.experiences[0]
        for t in range(self.collector.config.num_steps):
            actions = self._recorded(t)
            obs, reward, terminated, truncated, info = self.twin.step(actions)
            done, obs = terminated | truncated, self._mine(obs)
            last = self._mine(info["final_obs"]) if done.any() else obs
            alive = info["alive"] if self.twin.spec.agents else np.ones((len(obs), 1), bool)
            reward = reward.reshape(len(obs), -1)
            stored = experience.actions[t].reshape(*obs.shape[:2], -1).numpy()
            for env, agent in itertools.product(range(len(obs)), range(obs.shape[1])):
                after = info["final_info"]["alive"][env] if done[env] and self.twin.spec.agents else alive[env]
                over = bool(terminated[env]) or not after[agent]
                if self.present[env, agent]:
                    following = None if over else last[env, agent] if truncated[env] else obs[env, agent]
                    self._note(self.obs[env, agent], stored[env, agent], reward[env, agent], over, following)
            self.obs, self.present = obs, alive[:, : obs.shape[1]].copy()

    def _note(self, obs: Any, action: Any, reward: Any, over: bool, following: Any) -> None:
        unknown = np.full_like(obs, np.nan)
        self.rows.append(np.concatenate([obs, action, [reward, not over], unknown if following is None else following]))

    def _mine(self, obs: Any) -> np.ndarray:
        """Observations [N, agents, D] of the first policy's agents: all of the first type, or the only one."""
        return obs["archer"].copy() if isinstance(obs, dict) else obs[:, None].copy()

    def _recorded(self, t: int) -> Any:
        if self.twin.spec.agents:
            return recorded_actions(self.collector, t)
        return self.collector.experiences[0].distribution.to_env(self.collector.experiences[0].actions[t]).numpy()


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("kind", ["host", "device", "static"])
@pytest.mark.parametrize("task", TASKS)
def test_the_replay_holds_the_transitions_of_a_plain_loop(task, kind, normalise):
    """Through truncations and terminations, agents that leave, and several times around the ring."""
    collector, (policy, *_) = build(kind, task, **(NORMALISED if normalise else {}))
    loop = PlainLoop(collector)
    capacity = policy.config.replay_size
    chance, replay = generator(1), policy._ring()
    for _ in range(9):
        collector.draw(chance)
        replay.add(*collector.collect()[0])
        loop.follow()
        assert int(replay.written) == len(loop.rows)
        for number, row in list(enumerate(loop.rows))[-capacity:]:
            known = ~np.isnan(row)
            held = replay.memory[number % capacity].numpy()
            np.testing.assert_allclose(held[known], row[known], rtol=1e-6, atol=1e-6)
    assert len(loop.rows) > 2 * capacity
    assert collector.truncated.any()
    assert any(np.isnan(row).any() for row in loop.rows) == (task == "TestHunt-v0"), "who left, or was terminated"
    loop.twin.close()
    collector.pool.close()


def test_all_held_transitions_are_drawn_equally_often():
    replay = TransitionReplay(10, 1, 1)
    numbers = torch.arange(24.0)

    def write(rows: torch.Tensor, present: torch.Tensor | None = None) -> None:
        column = rows.unsqueeze(1)
        replay.add(Transitions(column, column, rows, torch.zeros_like(rows), column), present)

    write(numbers[:4])
    seen = replay.read(replay.draw((400,), generator())).rewards
    assert torch.bincount(seen.long(), minlength=4).min() > 60
    write(numbers[4:12], numbers[4:12] % 2 == 0)
    write(numbers[12:20])
    seen = replay.read(replay.draw((50, 20), generator()).flatten()).rewards
    assert set(seen.tolist()) == {8, 10, *range(12, 20)}
    other = TransitionReplay(10, 1, 1)
    other.load({name: tensor.clone() for name, tensor in replay.state().items()})
    assert torch.equal(other.memory[:10], replay.memory[:10]) and int(other.written) == 16


def test_large_minibatches_are_read_as_small_ones_are():
    replay = TransitionReplay(2000, 17, 6)
    replay.memory.copy_(torch.rand(replay.memory.shape, generator=generator()))
    rows = torch.randint(2000, (1024,), generator=generator())
    read = replay.read(rows)
    columns = (read.inputs, read.actions, read.rewards[:, None], read.discounts[:, None], read.next_observations)
    assert torch.equal(torch.cat(columns, 1), replay.memory[rows])


@pytest.mark.parametrize("task", TASKS)
def test_no_iteration_waits_for_the_device(task):
    collector, policies = build("static", task, **NORMALISED)
    chance = generator()
    learners = {policy.name: RingLearner(policy, chance) for policy in policies if isinstance(policy, DDPG)}
    before = 0.0
    for watched in (False, True):
        collector.draw(chance)
        with NothingWaits() if watched else contextlib.nullcontext():
            rollouts = collector.collect()
            for policy, samples in zip(policies, rollouts, strict=True):
                if policy.name in learners:
                    learners[policy.name].learn(samples, 0, chance)
        (steps,) = (float(n) for name, n in policies[0].optimisers().items() if name.endswith("critic.steps"))
        assert steps > before
        before = steps
    collector.pool.close()


def test_normalised_runs_learn_from_raw_transitions_by_the_statistics_of_today():
    collector, (policy,) = build("device", "Pendulum-v1", **NORMALISED)
    replay = policy._ring()
    for seed in range(3):
        collector.draw(generator(seed))
        replay.add(*collector.collect()[0])
    raw = replay.read(torch.arange(100))
    batch = normalised(raw, policy.encoder, policy.reward_scaler)
    normaliser, scaler = policy.encoder.normaliser, policy.reward_scaler
    for mine, plain in ((batch.inputs, raw.inputs), (batch.next_observations, raw.next_observations)):
        expected = ((plain - normaliser.mean) * normaliser.scale).clamp(-10, 10)
        torch.testing.assert_close(mine, expected)
    expected = (raw.rewards / scaler.statistics.variance.sqrt().float()).clamp(-10, 10)
    torch.testing.assert_close(batch.rewards, expected, rtol=1e-4, atol=1e-6)
    collector.pool.close()


# -- runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("Pendulum-v1", {"batch_size": 4}),
        pytest.param("TestHunt-v0", NORMALISED, marks=pytest.mark.nightly),
        pytest.param("TestHunt-v0", {}, marks=pytest.mark.nightly),
        pytest.param("TestHunt-v0", {"batch_size": 4}, marks=pytest.mark.nightly),
    ],
)
def test_a_stopped_run_continues_as_if_left_alone(tmp_path: Path, task, settings):
    options = TINY | TASKS[task] | settings | {"anneal_learning_rate": False}
    train(task, run_dir=tmp_path / "alone", quiet=True, **options)
    train(task, run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 750}))
    resume(tmp_path / "stopped", quiet=True, total_steps=1500)
    if "batch_size" not in settings:  # a pool of groups continues at another group
        assert_same_run(tmp_path / "alone", tmp_path / "stopped")
    assert facts(tmp_path / "alone")[-1]["loss"]["critic_loss"] > 0


def test_the_last_losses_are_reported_after_a_resume(tmp_path: Path):
    """Rollouts without an update are reported with the losses of the last one."""
    options = TINY | TASKS["Pendulum-v1"] | {"learning_starts": 128, "replay_ratio": 0.005, "log_steps": 1}
    options |= {"samplers": 0, "anneal_learning_rate": False, "total_steps": 1536}
    train("Pendulum-v1", run_dir=tmp_path / "alone", quiet=True, **options)
    train("Pendulum-v1", run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 1408}))
    resume(tmp_path / "stopped", quiet=True, total_steps=1536)
    before, last = facts(tmp_path / "alone")[-2:]
    assert before["loss"] == last["loss"], "no update was due in the last rollout"
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")


def test_a_run_goes_on_without_its_replay(tmp_path: Path, capsys):
    options = TINY | TASKS["Pendulum-v1"] | {"save_replay": False, "log_steps": 100}
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, **(options | {"total_steps": 1500}))
    path = newest(tmp_path / "checkpoints")
    assert path is not None
    point = load(path)
    assert not any("replay" in name for name in point.state)
    capsys.readouterr()
    resume(tmp_path, total_steps=1800)
    assert "begins with an empty replay" in capsys.readouterr().out
    path = newest(tmp_path / "checkpoints")
    assert path is not None
    assert torch.equal(load(path).optimizer["actor.steps"], point.optimizer["actor.steps"])
    resume(tmp_path, quiet=True, total_steps=2500)
    path = newest(tmp_path / "checkpoints")
    assert path is not None
    assert load(path).optimizer["actor.steps"] > point.optimizer["actor.steps"]


def test_policies_may_have_different_algorithms(tmp_path: Path):
    options = TINY | HUNT | {"total_steps": 1500}
    train("TestHunt-v0", run_dir=tmp_path, quiet=True, **options)
    losses = read_metrics(tmp_path / "metrics.jsonl")[-1]["policies"]
    assert set(losses["archer"]["loss"]) == set(DDPG.statistics)
    assert "clip_fraction" in losses["dog"]["loss"]
    assert len(evaluate(tmp_path, episodes=4).returns) == 4


@pytest.mark.nightly
def test_one_policy_may_play_as_past_versions_of_another(tmp_path: Path):
    policies = {"lone": {"agents": [0], "algo": "ddpg"}, "others": {"agents": [1, 2], "copies": "lone"}, "dog": {}}
    options = (
        TINY | HUNT | {"total_steps": 1500, "copy_every": 300, "policies": policies, "anneal_learning_rate": False}
    )
    train("TestHunt-v0", run_dir=tmp_path / "alone", quiet=True, **options)
    train("TestHunt-v0", run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 1000}))
    resume(tmp_path / "stopped", quiet=True, total_steps=1500)
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")
    losses = read_metrics(tmp_path / "alone" / "metrics.jsonl")[-1]["policies"]
    assert losses["lone"]["loss"] and not losses["others"]["loss"]


def test_an_agent_plays_the_actions_of_its_actor(tmp_path: Path):
    options = TINY | TASKS["Pendulum-v1"] | {"video": True, "total_steps": 1000}
    result = train("Pendulum-v1", run_dir=tmp_path, quiet=True, **options)
    assert result.video is not None and result.video.stat().st_size > 1000
    run, config = RunFolder.open(tmp_path)
    path = newest(run.checkpoints)
    assert path is not None
    point = load(path)
    with make_pool(config) as pool:
        agent, (obs, _) = Agent(config, pool.spec, point), pool.reset()
        chosen = agent.act(obs)
        assert np.array_equal(chosen, agent.act(obs)) and not np.array_equal(chosen, agent.act(obs, False))
    x = torch.from_numpy(obs)
    for layer in range(2):
        x = x @ point.model[f"network.actor.weights.{layer}"].t() + point.model[f"network.actor.biases.{layer}"]
        x = x.relu() if layer == 0 else x.tanh()
    np.testing.assert_allclose(chosen, 2 * x.numpy(), rtol=1e-4, atol=1e-5)


def test_a_network_is_loaded_with_its_targets(tmp_path: Path):
    options = TINY | TASKS["Pendulum-v1"] | {"total_steps": 1000}
    train("Pendulum-v1", run_dir=tmp_path / "first", quiet=True, **options)
    policy = pendulum_policy(hidden=(16,))
    policy.load_model(load(tmp_path / "first" / "checkpoints" / "best").model)
    for target, parameter in zip(policy.targets.parameters(), policy.network.parameters(), strict=True):
        assert torch.equal(target, parameter)
    hardly = options | {"load": str(tmp_path / "first"), "learning_starts": 1000, "replay_ratio": 1e-6}
    train("Pendulum-v1", run_dir=tmp_path / "second", quiet=True, **hardly)
    best, path = load(tmp_path / "first" / "checkpoints" / "best").model, newest(tmp_path / "second" / "checkpoints")
    assert path is not None
    for name, tensor in load(path).model.items():
        assert torch.equal(tensor, best[name]), name


@pytest.mark.nightly
def test_pendulum_is_learnt(tmp_path: Path):
    result = train("Pendulum-v1", "ddpg", run_dir=tmp_path, seed=1, samplers=0, quiet=True, video=False)
    assert result.reason == "solved"
    assert evaluate(tmp_path, 16).mean_return > -250


@pytest.mark.parametrize(
    ("task", "settings", "what"),
    [
        ("CartPole-v1", {}, "Discrete"),
        ("Pendulum-v1", {"network": "gru"}, "mlp"),
        ("Pendulum-v1", {"network": "cnn"}, "needs uint8 images"),
        ("Pendulum-v1", {"replay_size": 100}, "replay_size"),
        ("Pendulum-v1", {"replay_ratio": 0.0}, "replay_ratio"),
        ("Pendulum-v1", {"target_rate": 1.5}, "target_rate"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, task, settings, what):
    with pytest.raises(OptionError, match=what):
        train(task, "ddpg", run_dir=tmp_path, quiet=True, **(TINY | settings))

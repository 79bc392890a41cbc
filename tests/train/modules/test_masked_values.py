"""Action masks where values of actions are learnt: random actions, targets, replays, rollouts and whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
import masked_games
from collecting import collecting
from headrace.train import resume
from headrace.train.algorithms.dqn.dqn import DQN
from headrace.train.modules.action_masks import forbidden, masked_to_draw
from headrace.train.modules.exploration import EpsilonGreedy
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.storage.layout import StepLayout
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transition_replay import TransitionReplay
from headrace.train.storage.transitions import Transitions
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
FEW: dict[str, Any] = {"num_envs": 6, "num_steps": 24, "minibatch_size": 32, "seed": 3, "samplers": 0}
REPLAY: dict[str, Any] = {"learning_starts": 200, "replay_ratio": 0.1, "samplers": 0}


def test_random_actions_are_uniform_over_the_allowed_ones():
    allowed = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]).repeat(20_000, 1)
    distribution = EpsilonGreedy(5, epsilon=1.0, masked=True)
    params = masked_to_draw(torch.randn(60_000, 5), forbidden(allowed, (5,)))
    noise = distribution.draw(torch.empty(60_000, 2), torch.Generator().manual_seed(0))
    drawn = torch.nn.functional.one_hot(distribution.sample(params, noise), 5).view(-1, 3, 5).double().mean(0)
    wanted = torch.tensor([[1 / 3, 0, 1 / 3, 1 / 3, 0], [0, 0, 0, 1, 0], [0.2] * 5], dtype=torch.float64)
    torch.testing.assert_close(drawn, wanted, atol=0.01, rtol=0)
    assert (drawn[wanted == 0] == 0).all()
    last = distribution.sample(params[:3], torch.tensor([[0.0, 1 - 2**-24]] * 3))
    assert last.tolist() == [3, 3, 4]
    free, plain = torch.randn(100, 5), EpsilonGreedy(5, epsilon=0.5)
    assert torch.equal(
        EpsilonGreedy(5, epsilon=0.5, masked=True).sample(free, noise[:100]), plain.sample(free, noise[:100])
    )


@pytest.mark.parametrize("double", [False, True])
def test_targets_of_dqn_use_the_best_allowed_action(double):
    torch.manual_seed(0)
    group = AgentGroup(gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(4), heads=(4,))
    policy = DQN(
        "", make_config("x", defaults=False, algo="dqn", double=double, hidden=(8,)), group, torch.device("cpu")
    )
    for module in (policy.network, policy.targets):
        for parameter in module.parameters():
            parameter.data.add_(torch.randn_like(parameter))
    following, masks = torch.randn(50, 3), (torch.rand(50, 4) < 0.5).to(torch.int8)
    masks[-1] = 0  # where nothing is allowed, everything counts
    batch = Transitions(following, torch.zeros(50), torch.randn(50), torch.full((50,), 0.9), following, masks=masks)
    wanted = []
    with torch.no_grad():
        for reward, after, mask in zip(batch.rewards, following, masks, strict=True):
            online, target = policy.network.q(after[None])[0].tolist(), policy.targets.q(after[None])[0].tolist()
            best = max(mask.nonzero().flatten().tolist() or range(4), key=lambda a: (online if double else target)[a])
            wanted.append(float(reward) + 0.9 * target[best])
    torch.testing.assert_close(policy.target_of(batch), torch.tensor(wanted))


@pytest.mark.parametrize("kind", ["host", "groups", "device", "static"])
@pytest.mark.parametrize("algo", ["pqn", "dqn"])
def test_rollouts_hold_the_masks_of_next_observations(algo, kind):
    """Also of final observations: the gate's episodes are truncated after 5 steps, unless they end by chance."""
    groups: dict[str, Any] = {"batch_size": 3} if kind == "groups" else {}
    options: dict[str, Any] = FEW | groups | {"env_options": {"max_episode_steps": 5}}
    learns: dict[str, Any] = {"samplers": 0} if algo == "dqn" else {"q_lambda": 0.0, "gamma": 0.9}
    config = make_config("TestGate-v0", algo=algo, **(options | learns))
    collector, (policy,) = collecting("host" if kind == "groups" else kind, config)
    collector.draw(torch.Generator().manual_seed(3))
    (found,) = collector.collect()
    assert collector.rewards.min() > masked_games.CRIME and collector.truncated.any()
    (masks,) = collector.masks.values()
    finals = collector._final_observations(policy.agent_group)
    used = finals.t < 24
    t, columns = finals.t[used], finals.columns[used]
    assert len(t) == collector.truncated.sum() and finals.masks[used].any(1).all()
    after, seen = masks[1:].clone(), collector.observations["obs"][1:].clone()
    after[t, columns], seen[t, columns] = finals.masks[used], finals.observations[used]
    assert (after != masks[1:]).any()
    # what is seen tells the wanted way, which is always open
    assert after.gather(2, seen.argmax(2, keepdim=True)).all()
    if algo == "dqn":
        assert torch.equal(found.transitions.masks.view(24, 6, 5), after)
        return
    q = policy.network(seen.flatten(0, 1))[0].view(24, 6, 5).masked_fill(after == 0, -torch.inf).amax(2)
    wanted = collector.rewards + 0.9 * q.where(~collector.terminated, 0.0)
    torch.testing.assert_close(found.returns.view(24, 6), wanted, rtol=1e-4, atol=1e-4)
    collector.pool.close()


def test_agents_of_several_types_learn_values_with_their_masks(tmp_path: Path):
    policies = {"cat": {"algo": "dqn", "learning_starts": 100}, "mouse": {}, "bird": {}}
    result = train(
        "TestZoo-v0", **(SMALL | {"total_steps": 800}), policies=policies, run_dir=tmp_path / "run", quiet=True
    )
    played = evaluate(tmp_path / "run", 8, deterministic=False)
    assert result.steps >= 800 and min(played.returns) >= 0.0  # of the cats, whose crimes cost 10


@pytest.mark.parametrize("n_step", [1, 2])
@pytest.mark.parametrize("images", [False, True])
def test_a_replay_of_steps_returns_the_masks_of_next_observations(n_step, images):
    seen = gym.spaces.Box(0, 255, (1, 2, 2), np.uint8) if images else gym.spaces.Box(0.0, 99.0, (3,), np.float32)
    replay = StepReplay(seen, gym.spaces.Discrete(5), 1, 32, 2, n_step, masks=5)
    writer, random = replay.writer(0), np.random.default_rng(0)
    writer.begin()
    given = random.integers(0, 2, (20, 2, 5), np.uint8)
    for t, masks in enumerate(given):
        row = writer.row
        row.observation[...], row.mask[...] = t, masks
        writer.publish(np.zeros(2, bool), np.full(2, t == 9))
    some = replay.read(replay.draw((64,), torch.Generator().manual_seed(0)))
    following = some.next_observations.flatten(1)[:, 0].to(torch.int64)
    assert some.masks is not None and len(following.unique()) > 10
    rows = torch.from_numpy(given)[following]  # [64, environments, 5]
    assert (rows == some.masks.unsqueeze(1)).all(2).any(1).all()
    again = StepReplay(seen, gym.spaces.Discrete(5), 1, 32, 2, n_step, masks=5).writer(0)
    again.load(writer.state())
    assert np.array_equal(again.row.mask, writer.row.mask)


def test_a_replay_without_masks_keeps_its_earlier_layout():
    """Replays of older runs, whose rows have no masks, fit tasks without them."""
    plain, with_masks = TransitionReplay(8, 3, 1), TransitionReplay(8, 3, 1, masks=4)
    assert plain.memory.shape == (9, 9) and with_masks.memory.shape == (9, 13)
    assert plain.read(torch.tensor([0])).masks is None
    layouts = [
        StepLayout(gym.spaces.Box(0, 1, (3,)), gym.spaces.Discrete(4), 1, 8, 2, masks=k).fields for k in (0, 4, 9)
    ]
    assert [fields["record"][0][-1] for fields in layouts] == [8, 8, 12]


@pytest.mark.parametrize("n_step", rest_nightly([1, 2], 2))
def test_a_resumed_run_of_dqn_is_the_same(n_step, tmp_path: Path):
    options = (
        SMALL | {"quiet": True, "n_step": n_step, "samplers": 0, "epsilon_start": 0.3, "epsilon_end": 0.3} | REPLAY
    )
    train("TestGate-v0", "dqn", run_dir=tmp_path / "whole", **(options | {"total_steps": 1280}))
    train("TestGate-v0", "dqn", run_dir=tmp_path / "parts", **(options | {"total_steps": 640}))
    resume(tmp_path / "parts", total_steps=1280, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_run_saved_without_masks_goes_on():
    collector, _ = collecting("host", make_config("TestGate-v0", **FEW))
    state = {name: tensor.clone() for name, tensor in collector.state().items() if "mask" not in name}
    collector.load_state(state)
    (masks,) = collector.masks.values()
    assert masks[-1].all()
    collector.pool.close()


def test_insight_shows_forbidden_actions(tmp_path: Path):
    few = SMALL | {"total_steps": 256, "samplers": 0}
    agent = headrace.load(train("TestGate-v0", "dqn", **few, run_dir=tmp_path / "run", quiet=True).run_dir)
    assert agent.act(np.zeros(5, np.float32), action_mask=[0, 1, 0, 0, 1]) in (2, 5)
    found = agent.insight()
    assert found.action_values is not None and found.value == max(found.action_values)
    assert np.isfinite(found.action_values).tolist() == [False, True, False, False, True]

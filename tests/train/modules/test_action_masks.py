"""Action masks: a forbidden action is never taken, and learning uses a softmax over the allowed ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

import headrace
import masked_games
import masked_gymnasium_games
from collecting import collecting
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.train import log_episode, resume
from headrace.train.algorithms.ppo.ppo import PPO
from headrace.train.algorithms.rates import Rates
from headrace.train.modules.action_masks import forbidden, masked, masked_to_draw
from headrace.train.modules.distributions import distribution_for
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play import evaluate as evaluation
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import evaluate, playing_pool
from headrace.train.recipes.make import make_config
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.samples import Samples, draw_order, minibatches
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
SPACES = {
    "one head": gym.spaces.Discrete(5),
    "several": gym.spaces.MultiDiscrete([3, 1, 4]),
}
TASKS = ("TestGate-v0", "TestLock-v0", "TestZoo-v0")
FEW: dict[str, Any] = {"num_envs": 6, "num_steps": 24, "minibatch_size": 32, "epochs": 2, "seed": 3}


def draw_masks(rows: int, heads: tuple[int, ...]) -> Tensor:
    """Masks that allow something in every head, int8[rows, sum(heads)], the first row but one action each."""
    allowed = torch.rand(rows, sum(heads)) < 0.5
    for part in allowed.split(heads, 1):
        part[torch.arange(rows), torch.randint(part.shape[1], (rows,))] = True
        part[0] = False
        part[0, -1] = True
    return allowed.to(torch.int8)


def reference(params: Tensor, allowed: Tensor, heads: tuple[int, ...], actions: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy from torch.distributions, forbidden logits at -inf."""
    logits = torch.where(allowed.bool(), params, -torch.inf).split(heads, 1)
    parts = [torch.distributions.Categorical(logits=part) for part in logits]
    columns = actions.view(len(actions), -1).unbind(1)
    log_probs = [part.log_prob(a) for part, a in zip(parts, columns, strict=True)]
    return torch.stack(log_probs).sum(0), torch.stack([part.entropy() for part in parts]).sum(0)


def heads_of(space: gym.Space) -> tuple[int, ...]:
    return (int(space.n),) if isinstance(space, gym.spaces.Discrete) else tuple(map(int, space.nvec))  # type: ignore


@pytest.mark.parametrize("name", SPACES)
def test_the_loss_equals_that_with_logits_at_minus_infinity(name):
    torch.manual_seed(0)
    rows, heads, distribution = 200, heads_of(SPACES[name]), distribution_for(SPACES[name])
    config = make_config("x", defaults=False, algo="ppo", entropy_coef=0.1)
    raw, allowed = 3 * torch.randn(rows, sum(heads)), draw_masks(rows, heads)
    closed = forbidden(allowed, heads)
    assert torch.equal(closed, allowed == 0)
    noise = distribution.draw(torch.empty(rows, distribution.noise_size), torch.Generator().manual_seed(1))
    actions = distribution.sample(masked(raw, closed), noise)
    old, gain, values, returns = torch.randn(rows) - 1, *torch.randn(3, rows)
    batch = Samples(raw, actions, old, gain, returns, values, forbidden=closed)
    policy = PPO("", config, AgentGroup(gym.spaces.Box(-1, 1, (5,)), SPACES[name]), torch.device("cpu"))
    policy.forward = lambda inputs: (inputs, values)
    given = raw.clone().requires_grad_()
    loss, measured = policy.loss(replace(batch, inputs=given), Rates.of(config, 0))
    loss.backward()
    assert given.grad is not None

    params = raw.clone().requires_grad_()
    log_prob, entropy = reference(params, allowed, heads, actions)
    ratio = (log_prob - old).exp()
    policy_loss = torch.max(-gain * ratio, -gain * ratio.clamp(1 - config.clip_range, 1 + config.clip_range)).mean()
    (policy_loss - config.entropy_coef * entropy.mean()).backward()
    assert params.grad is not None
    torch.testing.assert_close(given.grad, params.grad)
    assert torch.equal(given.grad[closed], torch.zeros(int(closed.sum())))
    torch.testing.assert_close(measured[0].detach(), policy_loss.detach())
    torch.testing.assert_close(measured[2].detach(), entropy.mean().detach())
    ours = distribution.evaluate(masked(raw, closed), actions)
    torch.testing.assert_close(ours, (log_prob.detach(), entropy.detach()))


@pytest.mark.parametrize("name", [*SPACES, "many"])
def test_a_forbidden_action_is_never_drawn_nor_likeliest(name):
    spaces = SPACES | {"many": gym.spaces.Discrete(300)}
    heads, distribution = heads_of(spaces[name]), distribution_for(spaces[name])
    torch.manual_seed(0)
    allowed = draw_masks(20_000, heads)
    raw = 5 * torch.randn(allowed.shape)
    raw[allowed == 0] += 100.0  # what the network would do
    params = masked_to_draw(raw, forbidden(allowed, heads))
    noise = distribution.draw(torch.empty(len(raw), len(heads)), torch.Generator())
    for u in (
        torch.zeros_like(noise),
        torch.full_like(noise, 1 - 2**-24),
        noise,
    ):  # the least, the greatest, and others
        drawn = distribution.sample(params, u)
        for actions in (drawn, distribution.mode(params)):
            for part, column in zip(allowed.split(heads, 1), actions.view(len(raw), -1).unbind(1), strict=True):
                assert part.gather(1, column.unsqueeze(1)).all()


def test_a_mask_that_allows_no_action_does_not_count():
    allowed = torch.tensor([[0, 0, 0, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.int8)
    closed = forbidden(allowed, (3, 2))
    assert closed.tolist() == [[False, False, False, False, True], [False, True, True, False, False]]
    assert torch.isfinite(masked(torch.zeros(2, 5), closed)).all()


# -- collecting ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["host", "groups", "device", "static"])
@pytest.mark.parametrize("task", TASKS)
def test_rollouts_keep_to_the_masks(task, kind):
    groups: dict[str, Any] = {"batch_size": 3} if kind == "groups" else {}
    collector, policies = collecting("host" if kind == "groups" else kind, make_config(task, **FEW, **groups))
    (masks,) = collector.masks.values()
    for seed in range(4):
        last = masks[-1].clone()
        collector.draw(torch.Generator().manual_seed(seed))
        samples = collector.collect()
        assert torch.equal(masks[0], last) and not masks.all()
        assert collector.rewards.min() > masked_games.CRIME
        for policy, some in zip(policies, samples, strict=True):
            if policy.name == "bird":
                assert some.forbidden is None
                continue
            heads = heads_of(policy.agent_group.action)
            given = policy.agent_group.of_all(masks[:-1], 1).flatten(0, 1)[:, : sum(heads)]
            assert torch.equal(some.forbidden, forbidden(given, heads))
            alive = given.any(1)  # the dead are allowed nothing
            if some.rows is not None:
                assert torch.equal(alive.nonzero().squeeze(1), some.rows)
            if some.weights is not None:
                assert torch.equal(alive.float(), some.weights)
            check_ratios(policy, some)
    assert (collector.terminated | collector.truncated).any(0).all()
    collector.pool.close()


def check_ratios(policy: Any, samples: Samples) -> None:
    """Minibatches are masked as the actions were: before the first update the policy is still the one that acted."""
    rates = Rates.of(policy.config, 0)
    order = draw_order(samples, policy.config.minibatch_size, torch.Generator())
    for batch in minibatches(samples, order, policy.config.normalise_advantages):
        with torch.no_grad():
            _, (*_, kl, clipped) = policy.loss(batch, rates)
        assert abs(float(kl)) < 1e-5 and float(clipped) == 0.0


@pytest.mark.parametrize("kind", ["host", "device"])
def test_a_policy_without_masks_takes_forbidden_actions(kind):
    collector, _ = collecting(kind, make_config("TestGate-v0", action_masks=False, **FEW))
    collector.draw(torch.Generator().manual_seed(0))
    (samples,) = collector.collect()
    assert collector.rewards.min() == masked_games.CRIME
    assert samples.forbidden is None and not collector.masks
    collector.pool.close()


def test_one_policy_keeps_to_masks_and_another_does_not():
    policies = {"cat": {}, "mouse": {"action_masks": False}, "bird": {}}
    collector, made = collecting("device", make_config("TestZoo-v0", policies=policies, **FEW))
    collector.draw(torch.Generator().manual_seed(0))
    cats, mice, _ = collector.collect()
    lowest = {policy.name: float(policy.agent_group.of_all(collector.rewards).min()) for policy in made}
    assert lowest["cat"] > lowest["mouse"] == masked_games.CRIME
    assert cats.forbidden is not None and mice.forbidden is None
    collector.pool.close()


# -- whole runs ----------------------------------------------------------------------------------------------

RUNS: dict[str, dict[str, Any]] = {
    "ppo": {},
    "a2c": {"algo": "a2c", "total_steps": 30_000},
    "gru": {"network": "gru", "hidden": (32,)},
    "host": {"batch_size": 8, "num_envs": 16},
}


@pytest.mark.parametrize("name", rest_nightly(RUNS, "ppo"))
def test_learning_and_playing_never_take_a_forbidden_action(name, tmp_path: Path, monkeypatch):
    options = SMALL | {"run_dir": tmp_path / "run", "quiet": True, "learning_rate": 5e-3} | RUNS[name]
    if name == "a2c":  # which makes one update of all
        del options["minibatch_size"]
    result = train("TestGate-v0", **options)
    # an episode is (1 - (7/8)^10) · 8 = 5.9 steps long; a step is worth 1 at best, and 0.4 to any open way
    assert result.mean_return > 5.9 * 0.7
    for deterministic in (True, False):
        played = evaluate(tmp_path / "run", 50, deterministic=deterministic)
        assert min(played.returns) >= 0.0
    late = evaluate(tmp_path / "run", 50, max_steps=2)  # those that are stopped begin anew, masks and all
    assert late.stopped > 0 and min(late.returns) >= 0.0
    log = log_episode(tmp_path / "run", ["open"])
    assert ((log["open"][:-1] >> (log["action"] - 1)) % 2 == 1).all()


DOORS = f"{masked_gymnasium_games.__file__}:Doors"
REPLAY: dict[str, Any] = {"learning_starts": 200, "replay_ratio": 0.1}
WAYS: dict[str, dict[str, Any]] = {
    "ppo": {"algo": "ppo"},
    "ppo in groups": {"algo": "ppo", "batch_size": 4},
    "ppo with samplers": {"algo": "ppo", "samplers": 1},
    "a2c": {"algo": "a2c", "minibatch_size": None},
    "pqn": {"algo": "pqn"},
    "dqn": {"algo": "dqn", "samplers": 0} | REPLAY,
    "dqn of images": {"algo": "dqn", "samplers": 0, "hidden": None, "env_options": {"images": True}} | REPLAY,
    "dqn of several steps": {"algo": "dqn", "samplers": 0, "n_step": 3, "prioritised": True} | REPLAY,
    "dqn with samplers": {"algo": "dqn", "samplers": 1, "num_steps": None} | REPLAY,
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", rest_nightly(WAYS, "ppo with samplers", "dqn"))
def test_gymnasiums_environments_never_get_a_forbidden_action(name, tmp_path: Path):
    """The environment raises where a closed door is taken; what is shown is worth twice any other."""
    settings = SMALL | {"total_steps": 2000, "learning_rate": 5e-3, "hidden": (32,)} | WAYS[name]
    settings = {key: value for key, value in settings.items() if value is not None}
    result = train(DOORS, run_dir=tmp_path / "run", quiet=True, seed=1, **settings)
    assert result.mean_return > 13.0
    assert min(evaluate(tmp_path / "run", 8, deterministic=False, trust=True).returns) > 10.0


@pytest.mark.parametrize(("algo", "samplers"), [("ppo", 0), ("dqn", 0)])
def test_masks_that_are_missing_at_the_first_reset_end_a_run(algo, samplers, tmp_path: Path):
    options = {"env_options": {"gives": "later"}, "quiet": True, "samplers": samplers, "run_dir": tmp_path / "run"}
    with pytest.raises(OptionError, match=r"from the first reset on.*action_masks=False"):
        train(DOORS, algo, **(SMALL | {"total_steps": 200}), **options)


def test_videos_show_allowed_actions_only(tmp_path: Path, capsys):
    pytest.importorskip("av")
    train("TestGate-v0", **(SMALL | {"total_steps": 500}), run_dir=tmp_path / "run", quiet=True)
    assert main(["play", str(tmp_path / "run"), "--episodes", "20", "--checkpoint", "newest"]) == 0
    assert "video" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.parametrize("task", TASKS)
def test_a_resumed_run_is_the_same(task, tmp_path: Path):
    options = SMALL | {"quiet": True, "anneal_learning_rate": False, "epochs": 2, "log_steps": 200}
    train(task, run_dir=tmp_path / "whole", **(options | {"total_steps": 1200}))
    train(task, run_dir=tmp_path / "parts", **(options | {"total_steps": 600}))
    resume(tmp_path / "parts", total_steps=1200, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.nightly
def test_past_versions_keep_to_masks(tmp_path: Path):
    policies = {"one": {"agents": [0, 2]}, "past": {"agents": [1], "copies": "one"}, "mouse": {}, "bird": {}}
    train("TestZoo-v0", **(SMALL | {"total_steps": 3000}), policies=policies, run_dir=tmp_path / "run", quiet=True)
    run, config = RunFolder.open(tmp_path / "run")
    with playing_pool(config, num_envs=16, seed=0) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(run))
        obs, info = pool.reset()
        for _ in range(40):
            obs, reward, _, _, info = pool.step(agent.act(obs, False, info["action_mask"]))
            assert reward[:, :5].min() > masked_games.CRIME


# -- mistakes ------------------------------------------------------------------------------------------------


def test_an_agent_that_learnt_with_masks_refuses_to_act_without_them(tmp_path: Path):
    train("TestGate-v0", **(SMALL | {"total_steps": 200}), run_dir=tmp_path / "run", quiet=True)
    run, config = RunFolder.open(tmp_path / "run")
    agent = Agent(config, headrace.make_spec("TestGate-v0"), load_checkpoint(run))
    seen = np.zeros((2, 5), np.float32)
    with pytest.raises(OptionError, match="action masks"):
        agent.act(seen)
    only = np.eye(5, dtype=np.int8)[[3, 1]]
    assert agent.act(seen, action_mask=only).tolist() == [4, 2]
    assert agent.act(seen, deterministic=False, action_mask=only.astype(bool)).tolist() == [4, 2]


@pytest.mark.parametrize(
    ("task", "what"), [("TestNarrowMask-v0", r"\(6,\).*\(5,\)"), ("TestMaskedDrift-v0", "continuous.*action_masks")]
)
def test_masks_that_do_not_fit_end_a_run_before_it_begins(task, what, tmp_path: Path):
    with pytest.raises(OptionError, match=what):
        train(task, run_dir=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()
    few = SMALL | {"total_steps": 200, "action_masks": False}
    assert train(task, run_dir=tmp_path / "run", quiet=True, **few).steps >= 200


def test_taxi_is_trained_with_its_masks_unless_told_otherwise(tmp_path: Path):
    few = {"total_steps": 2000, "num_envs": 8, "num_steps": 50, "quiet": True, "video": False}
    with_masks = train("Taxi-v3", run_dir=tmp_path / "with", **few)
    without = train("Taxi-v3", run_dir=tmp_path / "without", action_masks=False, **few)
    # a masked taxi picks nobody up where nobody is; it may set somebody down anywhere, for 1
    assert with_masks.mean_return >= -200 > without.mean_return
    assert evaluation.evaluate(tmp_path / "with", 8, deterministic=False).mean_return >= -200

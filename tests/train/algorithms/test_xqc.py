"""The example XQC: Bellman's projection, weights of length 1, and returns within the critics' range."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.pool.sources import module_of
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.modules.batch_renorm import Renorm
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.sampled_rewards import SampledRewards
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers.samplers import ReplaySampler
from nightly import rest_nightly
from python_games import PLUS_OR_MINUS
from updates import a_policy, some_transitions
from whole_runs import SMALL, facts

train: Any = headrace.train
FOLDER = Path(__file__).parents[3] / "examples" / "algorithms"
XQC, FLASH_SAC = f"{FOLDER}/xqc.py:XQC", f"{FOLDER}/flash_sac.py:FlashSAC"
xqc: Any = module_of(f"{FOLDER}/xqc.py")


def but(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def critics(atoms: int = 11, bound: float = 5.0) -> Any:
    return xqc.CategoricalCritics([xqc.Perceptron(4, atoms, (8,), "relu", Renorm()) for _ in range(2)], atoms, bound)


def projected(chances: np.ndarray, shift: float, factor: float, values: np.ndarray) -> np.ndarray:
    """Bellemare et al. 2017, algorithm 1, one value after the other."""
    found, step = np.zeros_like(chances), values[1] - values[0]
    for chance, value in zip(chances, values, strict=True):
        place = (np.clip(shift + factor * value, values[0], values[-1]) - values[0]) / step
        below, above = int(np.floor(place)), int(np.ceil(place))
        if below == above:
            found[below] += chance
        else:
            found[below] += chance * (above - place)
            found[above] += chance * (place - below)
    return found


def test_distributions_are_projected_as_published():
    them, chance = critics(), torch.Generator().manual_seed(0)
    some = torch.rand(6, 11, generator=chance).softmax(1)
    shift, factor = torch.tensor([0.0, 1.0, -0.3, 40.0, -40.0, 2.7]), torch.tensor([1.0, 0.0, 0.9, 1.0, 1.0, 0.5])
    found = them.projected(some, shift, factor)
    expected = [
        projected(row.double().numpy(), float(s), float(f), them.values.double().numpy())
        for row, s, f in zip(some, shift, factor, strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(np.array(expected)), check_dtype=False, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.sum(1), torch.ones(6))


@pytest.mark.parametrize("algo", [XQC, FLASH_SAC], ids=["xqc", "flash_sac"])
@pytest.mark.parametrize("settings", [{}, {"n_step": 3, "num_steps": 4}, {"samplers": 1, "num_steps": None}])
def test_returns_fit_the_critics_range_however_steps_are_stored(tmp_path: Path, algo: str, settings: dict[str, Any]):
    """Rewards are 1 in every step of long episodes, or -1: the largest returns are near ± 1 / (1 - γ)."""
    options = SMALL | {"num_steps": 4, "hidden": (8,), "critic_hidden": (8,), "learning_starts": 600, "seed": 2}
    options |= {"samplers": 0, "replay_ratio": 0.01, "gamma": 0.9, "total_steps": 800, "evaluate_episodes": 0}
    config: Any = make_config(PLUS_OR_MINUS, algo=algo, **but(options | settings))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path / "run", config))
    try:
        if config.samplers:
            arguments = trainer.learner.memory.writer(0), trainer.source.weights, trainer.source.counters
            sampler = ReplaySampler(config, 0, 0, *arguments)
            for count in range(100):
                sampler.step()
                if count > 75:
                    trainer.learner._rewards.follow()
                    trainer.learner.updater.update()
            sampler.close()
        else:
            for _ in range(25):
                trainer.iterate()
        policy = trainer.policies[0]
        scaler, updates = policy.reward_scaler, policy.updates
        assert updates > 0
        assert 9 < float(scaler.largest) <= 10
        deviation = float(scaler.statistics.variance) ** 0.5
        assert 5 < deviation < 10
        torch.testing.assert_close(scaler.scaled(torch.ones(1)), torch.full((1,), 1 / deviation), rtol=1e-4, atol=0)
        scaler.statistics.variance.fill_(0.01)
        torch.testing.assert_close(float(scaler.scaled(scaler.largest)), 5.0)
        assert float(policy.in_rewards(torch.tensor(5.0))) == pytest.approx(float(scaler.largest), rel=1e-5)
    finally:
        trainer.close()


def test_returns_are_followed_across_lost_samplers_and_ends_of_episodes():
    space, chance = gym.spaces.Box(-1, 1, (2,)), np.random.default_rng(0)
    replay = StepReplay(space, space, 1, 64, 3)
    writer, expected, running, followed = replay.writer(0), [], np.zeros(3), xqc.ReturnScaler(3, 0.9, 5.0)
    rewards_of, before = SampledRewards(replay, followed), np.zeros(3, np.bool_)
    for t in range(200):
        if t % 50 == 0:  # a new sampler
            writer = replay.writer(0)
            writer.begin()
            running, before = np.zeros(3), np.zeros(3, np.bool_)
        rewards = chance.normal(2, 1, 3).astype(np.float32)
        ends = (chance.random(3) < 0.2) & ~before
        writer.row.reward[:] = rewards
        writer.publish(ends & (t % 2 == 0), ends & (t % 2 == 1))
        running = running + rewards
        expected += running[~before].tolist()
        running = np.where(ends | before, 0.0, running * 0.9)
        before = ends
        if t % 7 == 0 or t == 199:
            rewards_of.follow()
    assert int(followed.statistics.count) == len(expected)
    assert float(followed.statistics.mean) == pytest.approx(np.mean(expected), rel=1e-5)
    assert float(followed.statistics.variance) == pytest.approx(np.var(expected), rel=1e-4)
    assert float(followed.largest) == pytest.approx(np.max(expected), rel=1e-5)


def test_lengths_of_hidden_weights_do_not_change_what_is_answered():
    network = xqc.Perceptron(4, 3, (8, 6), "relu", Renorm(epsilon=1e-9))
    x = torch.randn(64, 4)
    before = network.of_batch(x)
    for layer in list(network.layers)[:-1]:
        assert layer.bias is None
        layer.weight.data.mul_(torch.rand(len(layer.weight), 1) * 5 + 0.1)  # type: ignore[arg-type, operator, union-attr]
    torch.testing.assert_close(network.of_batch(x), before, rtol=1e-4, atol=1e-4)


def test_updates_keep_weights_short_and_descend():
    policy = a_policy(XQC, critic_hidden=(32, 16), policy_delay=1)
    batch = some_transitions(policy, 128, 1)
    losses = [float(policy.improve(batch, UpdateRates(1e-3, 1e-3, 0.5))[0]) for _ in range(60)]
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    network: Any = policy.network
    perceptrons: list[Any] = [each for each in network.modules() if isinstance(each, xqc.Perceptron)]
    assert len(perceptrons) == 3
    for each in perceptrons:
        *hidden, last = each.layers
        for layer in hidden:
            torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(len(layer.weight)))
        assert not torch.allclose(last.weight.norm(dim=1), torch.ones(len(last.weight)))


def test_the_target_is_that_of_the_lower_critic():
    """Of two critics whose means differ everywhere, the lower one's distribution is what both learn."""
    policy = a_policy(XQC, critic_hidden=(8,), atoms=11)
    critic: Any = policy.network.critic
    for number, each in enumerate(critic.critics):
        each.layers[-1].weight.data.zero_()
        each.layers[-1].bias.data = torch.where(critic.values == (2.0, -1.0)[number], 50.0, 0.0)
    batch = some_transitions(policy, 16, 0)
    batch = batch._replace(rewards=torch.zeros(16), discounts=torch.full((16,), 0.5))
    with torch.no_grad():
        policy.network.temperature.log.fill_(-40.0)  # entropy counts for nothing
        loss = policy.critic_losses(batch).parts["critic"].item()
    chances = projected((critic.values == -1.0).double().numpy(), 0.0, 0.5, critic.values.double().numpy())
    logs = torch.stack([each.layers[-1].bias.log_softmax(0) for each in critic.critics]).double()
    torch.testing.assert_close(loss, -(torch.tensor(chances) * logs).sum().item(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("algo", [XQC, FLASH_SAC], ids=["xqc", "flash_sac"])
@pytest.mark.parametrize("samplers", rest_nightly([0, 1], 0))
def test_a_short_run_goes_on_after_a_stop(tmp_path: Path, algo: str, samplers: int):
    options = SMALL | {"hidden": (8,), "critic_hidden": (8,), "learning_starts": 200, "replay_ratio": 0.1}
    options |= {"samplers": samplers, "minibatch_size": 32, "total_steps": 600, "quiet": True}
    train("Pendulum-v1", algo, run_dir=tmp_path, **but(options | {"num_steps": None}))
    assert train.resume(tmp_path, quiet=True, total_steps=1000).steps >= 1000
    last = facts(tmp_path)[-1]
    assert last["loss"]["critic_loss"] > 0 and all(math.isfinite(value) for value in last["loss"].values())


def test_the_names_of_earlier_versions_lead_to_the_files():
    for name, file in (("xqc", "xqc.py:XQC"), ("flashsac", "flash_sac.py:FlashSAC")):
        with pytest.raises(OptionError, match=rf"algo='{name}' is an example.*algo='examples/algorithms/{file}'"):
            train("Pendulum-v1", name)


@pytest.mark.nightly
def test_pendulum_is_learnt(tmp_path):
    settings: dict[str, Any] = {
        "num_envs": 8,
        "replay_ratio": 0.5,
        "learning_starts": 1000,
        "gamma": 0.95,
        "samplers": 0,
    }
    settings |= {"gamma": 0.95, "total_steps": 20_000, "quiet": True, "run_dir": tmp_path / "run"}
    train("Pendulum-v1", algo=XQC, preset="fast", **settings)
    assert evaluate(tmp_path / "run", 20).mean_return > -300

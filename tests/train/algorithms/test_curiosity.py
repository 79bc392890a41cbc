"""The exploration bonus: it equals its definition, it fades for seen observations, and it solves a hard task."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.algorithms.curiosity import Curiosity
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runs.metrics import read_metrics
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
CPU = torch.device("cpu")
VECTORS = gym.spaces.Box(-1, 1, (3,), np.float32)
IMAGES = gym.spaces.Box(0, 255, (2, 12, 10), np.uint8)
pytestmark = pytest.mark.usefixtures("one_thread")


def curiosity(space: gym.Space = VECTORS, **settings: Any) -> Curiosity:
    torch.manual_seed(3)
    config = make_config(
        "x",
        defaults=False,
        algo="ppo",
        **({"curiosity": 0.5, "num_envs": 4, "minibatch_size": 64, "gamma": 0.9} | settings),
    )
    return Curiosity(config, AgentGroup(space, gym.spaces.Discrete(2)), CPU)


def test_a_bonus_is_the_error_over_the_deviation_of_its_discounted_sums():
    mine, (steps, columns) = curiosity(), (6, 4)
    inputs = torch.randn(steps + 1, columns, 3, generator=torch.Generator().manual_seed(1))
    over = torch.zeros(steps, columns, dtype=torch.bool)
    over[2, 1] = over[5, 3] = True
    found = mine.bonus(inputs, over)

    seen = inputs[1:].reshape(-1, 3)
    scaled = ((seen - seen.mean(0)) / (seen.std(0, correction=0) + 1e-8)).clamp(-5, 5)
    errors = ((mine.predictor(scaled) - mine.target(scaled)) ** 2).mean(1).detach().view(steps, columns) / 2
    errors[over] = 0
    sums, running = [], torch.zeros(columns)
    for row in errors:  # a sum goes on behind an episode's end
        running = 0.9 * running + row
        sums.append(running)
    wanted = 0.5 * errors / torch.stack(sums).std(correction=0)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    assert bool((found[over] == 0).all())
    assert float(mine.measured[0]) == pytest.approx(float(found.mean()) / 0.5)


@pytest.mark.parametrize("space", [VECTORS, IMAGES])
def test_the_bonus_of_learnt_observations_decreases(space):
    mine, generator = curiosity(space), torch.Generator().manual_seed(1)
    if space is IMAGES:
        known, new = torch.randint(0, 256, (2, 1, 256, 2, 12, 10), generator=generator).to(torch.uint8)
        known[..., 6:, :] = new[..., :6, :] = 0
    else:
        known, new = torch.randn(2, 1, 256, 3, generator=generator)
        known[..., 0], new[..., 0] = -1, 1
    over = torch.zeros(1, 256, dtype=torch.bool)
    mine = curiosity(space, num_envs=256)
    mine.bonus(torch.cat((known, torch.cat((known[:, :128], new[:, 128:]), 1))), over)  # whose statistics are of both
    frozen = [leaf.clone() for leaf in mine.target.parameters()]
    before, rows = [mine._errors(some[0]).mean().detach() for some in (known, new)], known[0]
    for _ in range(60):
        mine.learn(rows, 1e-3, generator)
    after = [mine._errors(some[0]).mean().detach() for some in (known, new)]
    assert float(after[0]) < 0.3 * float(before[0])
    assert float(after[1]) > 1.5 * float(after[0])
    assert all(torch.equal(one, two) for one, two in zip(frozen, mine.target.parameters(), strict=True))


def test_agents_that_left_earn_nothing():
    mine = curiosity()
    present = torch.tensor([[True, True, False, True]] * 3)
    found = mine.bonus(torch.randn(4, 4, 3), torch.zeros(3, 4, dtype=torch.bool), present)
    assert bool((found[~present] == 0).all()) and bool((found[present] > 0).all())


@pytest.mark.parametrize("algo", ["ppo", pytest.param("a2c", marks=pytest.mark.nightly)])
def test_a_run_goes_on_as_if_undisturbed(tmp_path, algo):
    options = SMALL | {"curiosity": 0.5, "hidden": (16,), "quiet": True, "anneal_learning_rate": False}
    if algo == "a2c":
        del options["minibatch_size"]
    train("CartPole-v1", algo, run_dir=tmp_path / "whole", **(options | {"total_steps": 1024}))
    train("CartPole-v1", algo, run_dir=tmp_path / "broken", **(options | {"total_steps": 512}))
    resume(tmp_path / "broken", total_steps=1024, quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    (*_, last) = read_metrics(tmp_path / "whole" / "metrics.jsonl")
    assert last["loss"]["bonus"] > 0 and last["loss"]["curiosity_loss"] > 0
    train("CartPole-v1", algo, run_dir=tmp_path / "plain", **(options | {"total_steps": 512, "curiosity": 0.0}))
    (*_, last) = read_metrics(tmp_path / "plain" / "metrics.jsonl")
    assert "bonus" not in last["loss"]
    assert evaluate(tmp_path / "whole", episodes=2).mean_return > 1


def test_curiosity_is_refused_by_runs_that_cannot_use_it(tmp_path):
    for settings, words in (
        ({"samplers": 1}, "curiosity=0.1 would not be used by ppo with samplers"),
        ({"devices": ("cpu", "cpu")}, "curiosity=0.1 would not be used"),
        ({"curiosity": -1.0}, "curiosity=-1"),
        ({"algo": "dqn"}, "curiosity=0.1 would not be used by dqn"),
    ):
        with pytest.raises(OptionError, match=words):
            train("CartPole-v1", **({"quiet": True, "run_dir": tmp_path / "never", "curiosity": 0.1} | settings))


@pytest.mark.nightly
def test_a_car_finds_the_hill(tmp_path):
    """Each of 200 steps costs 1 until the hill is reached."""
    options = {"curiosity": 0.1, "total_steps": 500_000, "torch_threads": 1, "quiet": True, "video": False}
    train("MountainCar-v0", run_dir=tmp_path / "run", **options)
    assert evaluate(tmp_path / "run", episodes=50).mean_return > -135

"""Actors and critics of pictures: one CNN for both, which the critics' loss alone teaches; whole runs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.algorithms.updater import Updater
from headrace.train.collect.policies import make_policy
from headrace.train.launch.checks import check_request
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.play.evaluate import evaluate
from headrace.train.play.export import export_policy
from headrace.train.recipes.make import make_config
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transitions import Transitions
from nightly import rest_nightly
from updates import CPU
from whole_runs import SMALL, assert_same_run, facts, stopped_half_way

train: Any = headrace.train  # the module itself, called; a type checker sees a module only

OWN = '''
import gymnasium as gym
import numpy as np


class Side(gym.Env):
    """A dot is left or right; the action says where."""

    action_space = gym.spaces.Box(-2, 2, (1,), np.float32)

    def __init__(self, parts=False, size=16):
        self.parts, self.size = parts, size
        self.observation_space = gym.spaces.Box(0, 255, (size, size, 3), np.uint8)
        if parts:
            speed = gym.spaces.Box(-1, 1, (2,), np.float32)
            self.observation_space = gym.spaces.Dict(speed=speed, camera=self.observation_space)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side, self.left = self.np_random.integers(2), 8
        return self.seen(), {}

    def step(self, action):
        reward = 1 - abs(float(action[0]) - (1 if self.side else -1))
        self.side, self.left = self.np_random.integers(2), self.left - 1
        return self.seen(), reward, False, self.left == 0, {}

    def seen(self):
        camera = np.zeros((self.size, self.size, 3), np.uint8)
        camera[4:12, slice(10, 14) if self.side else slice(2, 6)] = 255
        return {"speed": np.zeros(2, np.float32), "camera": camera} if self.parts else camera
'''
ALGORITHMS = ["sac", "td3", "ddpg"]
BRIEF: dict[str, Any] = SMALL | {
    "quiet": True, "viewer": False, "learning_starts": 64, "replay_size": 4000, "hidden": (16,), "num_envs": 4,
    "num_steps": 4, "minibatch_size": 16, "replay_ratio": 0.25, "total_steps": 192, "log_steps": 48,
}  # fmt: skip
WITH_SAMPLERS = {name: value for name, value in BRIEF.items() if name != "num_steps"} | {"samplers": 1}
RATES = UpdateRates(1e-2, 1e-2, 0.5)
STANDARDISED: dict[str, Any] = {"trunk": "strided", "standardise_pixels": True}


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "side.py").write_text(OWN)
    return str(tmp_path / "side.py")


def a_policy(algo: str, **settings: Any) -> Any:
    config = make_config("x", algo=algo, defaults=False, hidden=(8,), minibatch_size=8, **settings)
    spaces = gym.spaces.Box(0, 255, (3, 40, 40), np.uint8), gym.spaces.Box(-1, 1, (2,), np.float32)
    torch.manual_seed(3)
    return make_policy("", config, AgentGroup(*spaces), CPU)


def some_pictures(seed: int) -> Transitions:
    chance = torch.Generator().manual_seed(seed)
    seen = torch.randint(256, (2, 8, 3, 40, 40), generator=chance).to(torch.uint8)
    actions, rewards = torch.rand(8, 2, generator=chance) * 2 - 1, torch.randn(8, generator=chance)
    return Transitions(seen[0], actions, rewards, torch.full((8,), 0.9), seen[1])


def values_of(*modules: Any) -> torch.Tensor:
    return torch.cat([leaf.detach().flatten() for module in modules for leaf in module.parameters()])


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_loss_of_the_critics_alone_teaches_the_trunk(algo: str) -> None:
    policy, batch = a_policy(algo), some_pictures(1)
    network, trunk = policy.network, values_of(policy.network.trunk)
    actor, critic = values_of(network.actor), values_of(network.critic)
    policy.improve(batch, RATES, actor=False)
    assert not torch.equal(values_of(network.trunk), trunk) and not torch.equal(values_of(network.critic), critic)
    assert torch.equal(values_of(network.actor), actor)
    trunk, critic = values_of(network.trunk), values_of(network.critic)
    policy.improve(batch, RATES, critics=False)
    assert torch.equal(values_of(network.trunk), trunk) and torch.equal(values_of(network.critic), critic)
    assert not torch.equal(values_of(network.actor), actor)


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_targets_follow_the_critics_on_their_newest_features(algo: str) -> None:
    policy = a_policy(algo, target_rate=0.5)
    before = values_of(policy.targets.critic)
    policy.improve(some_pictures(1), RATES)
    middle = (before + values_of(policy.network.critic)) / 2
    torch.testing.assert_close(values_of(policy.targets.critic), middle)
    assert not torch.equal(middle, before)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_vector_of_actor_parameters_has_the_trunk(algo: str) -> None:
    policy, copy, batch = a_policy(algo), a_policy(algo, frozen=True), some_pictures(1)
    policy.improve(batch, RATES)
    copy.actor_parameters.copy_(policy.actor_parameters)
    assert torch.equal(copy.forward(batch.inputs)[0], policy.forward(batch.inputs)[0])
    assert len(copy.actor_parameters) > sum(leaf.numel() for leaf in policy.network.trunk.parameters())


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_an_update_evaluates_the_trunk_once_for_each_picture(algo: str) -> None:
    policy, batch, seen = a_policy(algo), some_pictures(1), []
    policy.network.trunk.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    policy.improve(batch, RATES)
    assert len(seen) == 2 and torch.equal(seen[0], batch.next_observations) and torch.equal(seen[1], batch.inputs)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_pixels_are_standardised_before_the_first_update_alone(algo: str) -> None:
    """By the pictures of the replay; what acts elsewhere gets them with the weights."""
    policy = a_policy(algo, **STANDARDISED, random_shift=0)
    updater = Updater(policy, some_steps(policy.agent_group))
    cnn, *_ = policy.network.trunk
    seen = updater.replay.sample(1024, torch.Generator().manual_seed(7)).inputs.float()
    updater.update()
    fitted = cnn.mean.clone()
    torch.testing.assert_close(fitted, seen.mean(0), atol=12, rtol=0)  # of 2048 draws from 20 pictures
    torch.testing.assert_close(cnn.scale, 1 / seen.std(0), atol=0, rtol=0.2)
    updater.update()
    assert torch.equal(cnn.mean, fitted)
    copy = a_policy(algo, **STANDARDISED, frozen=True)
    copy.actor_parameters.copy_(policy.actor_parameters)
    assert torch.equal(copy.network.trunk[0].mean, fitted) and torch.equal(copy.network.trunk[0].scale, cnn.scale)
    plain = a_policy(algo, trunk="strided")
    Updater(plain, some_steps(plain.agent_group)).update()
    assert not plain.network.trunk[0].mean.any()


def some_steps(group: AgentGroup) -> StepReplay:
    replay = StepReplay(group.observation, group.action, 1, 20, 2)
    writer, chance = replay.writer(0), np.random.default_rng(0)
    writer.row.observation[...] = chance.integers(256, size=(2, 3, 40, 40))
    writer.begin()
    for _ in range(10):
        writer.row.action[...] = writer.row.reward[...] = 0
        writer.following.observation[...] = chance.integers(256, size=(2, 3, 40, 40))
        writer.publish(np.zeros(2, bool), np.zeros(2, bool))
    return replay


@pytest.mark.parametrize("most", [0, 4])
def test_updates_get_shifted_pictures_as_bytes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = a_policy("sac", random_shift=most)
    replay = some_steps(policy.agent_group)
    seen: list[Transitions] = []
    improve = policy.improve
    monkeypatch.setattr(policy, "improve", lambda batch, *rest: seen.append(batch) or improve(batch, *rest))
    updater = Updater(policy, replay)
    updater.update()
    (learnt,), drawn = seen, replay.read(replay.numbers)
    for ours, theirs in ((learnt.inputs, drawn.inputs), (learnt.next_observations, drawn.next_observations)):
        assert ours.dtype == torch.uint8 and not ours.is_inference()
        assert torch.equal(ours, theirs) == (most == 0)


@pytest.mark.parametrize(
    ("algo", "parts", "more"),
    rest_nightly(
        [(algo, parts, more) for algo in ALGORITHMS for parts in (False, True) for more in ({}, STANDARDISED)]
    ),
)
def test_runs_repeat_and_resume_exactly_and_are_exported(
    own: str, tmp_path: Path, algo: str, parts: bool, more: dict[str, Any]
) -> None:
    given = {"parts": parts, "size": 40 if more else 16}
    options = BRIEF | more | {"deterministic": True, "keep_checkpoints": 1000, "env_options": given}
    train(own, algo, run_dir=tmp_path / "one", **options)
    stopped_half_way(tmp_path / "one", tmp_path / "stopped")
    train.resume(tmp_path / "stopped", quiet=True)
    assert facts(tmp_path / "one")[-1]["loss"]
    assert_same_run(tmp_path / "one", tmp_path / "stopped")
    agent = headrace.load(tmp_path / "one", which="newest")
    (seen, _) = runpy.run_path(own)["Side"](**given).reset(seed=0)
    assert agent.act(seen).shape == (1,)
    pytest.importorskip("onnxruntime")
    difference = export_policy(agent, tmp_path / "policy.onnx").difference
    assert difference is not None and difference < 1e-5


@pytest.mark.parametrize(
    ("algo", "actor_device"),
    rest_nightly([(algo, device) for algo in ALGORITHMS for device in ("", "cpu")]),
)
def test_samplers_act_by_the_trunk_that_learns(own: str, tmp_path: Path, algo: str, actor_device: str) -> None:
    options = WITH_SAMPLERS | STANDARDISED | {"actor_device": actor_device, "replay_ratio": 0.5}
    options |= {"env_options": {"size": 40}}
    train(own, algo, run_dir=tmp_path / "run", **options)
    before = headrace.load(tmp_path / "run", which="newest").policy.network.trunk
    assert train.resume(tmp_path / "run", total_steps=300, quiet=True).steps >= 300
    after = headrace.load(tmp_path / "run", which="newest").policy.network.trunk
    assert not torch.equal(values_of(before), values_of(after))
    assert before[0].mean.any() and torch.equal(before[0].mean, after[0].mean)  # pixels are standardised once


@pytest.mark.nightly
def test_sac_learns_the_place_of_a_dot(own: str, tmp_path: Path) -> None:
    more = {"minibatch_size": 64, "learning_rate": 1e-3, "gamma": 0.5, "total_steps": 2000, "checkpoint_seconds": 60.0}
    train(own, "sac", run_dir=tmp_path / "run", samplers=0, **(BRIEF | {"hidden": (32,), "log_steps": 500} | more))
    assert evaluate(tmp_path / "run", episodes=20).mean_return > 6.0, "a blind one earns 0"


def test_actors_of_pictures_learn_with_their_critics_unless_told_otherwise(own: str) -> None:
    assert check_request(own, {"algo": "sac"}).config.actor_device == ""
    assert check_request(own, {"algo": "sac", "actor_device": "cpu"}).config.actor_device == "cpu"

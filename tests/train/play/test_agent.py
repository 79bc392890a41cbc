"""`headrace.load`: three lines from a run folder to actions, for one environment or a batch, whatever the policy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import headrace
import masked_games  # noqa: F401  (registers the test tasks)
import multi_agent_games  # noqa: F401
from headrace.errors import NotFiniteError, OptionError
from headrace.train.play.export import export_policy
from headrace.train.play.observation_batches import batched
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.events import read_events
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.transitions import normalised
from python_games import CLOCK, SCALAR
from whole_runs import SMALL

train: Any = headrace.train
SHORT = SMALL | {"total_steps": 512, "quiet": True}


def run_of(tmp_path: Path, task: str, **settings: Any) -> Path:
    values = {name: value for name, value in (SHORT | settings).items() if value is not None}
    return train(task, run_dir=tmp_path / "run", **values).run_dir


def test_a_loaded_agent_plays_gymnasiums_environment_in_three_lines(tmp_path: Path):
    run = run_of(tmp_path, "CartPole-v1", normalise_observations=True)
    agent = headrace.load(run)
    with gym.make("CartPole-v1") as env:
        obs, _ = env.reset(seed=3)
        for _ in range(20):
            action = agent.act(obs)
            assert env.action_space.contains(action)
            obs, _, terminated, _, _ = env.step(action)
            if terminated:
                obs, _ = env.reset()


def test_continuous_actions_have_the_environments_dtype(tmp_path: Path):
    agent = headrace.load(run_of(tmp_path, "Pendulum-v1"))
    with gym.make("Pendulum-v1") as env:
        obs, _ = env.reset(seed=3)
        action = agent.act(obs)
        assert agent.act(np.stack([obs] * 4)).shape == (4, 1)
        assert env.action_space.contains(action) and action.dtype == np.float32
        env.step(action)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("CartPole-v1", {"normalise_observations": True}),
        ("CartPole-v1", {"algo": "dqn", "samplers": 0, "learning_starts": 64}),
        ("Pendulum-v1", {"algo": "sac", "samplers": 0, "learning_starts": 64}),
        ("Pendulum-v1", {"algo": "td3", "samplers": 0, "learning_starts": 64}),
        ("FrozenLake-v1", {}),
        pytest.param("MinAtar-Breakout-v1", {}, marks=pytest.mark.nightly),
    ],
)
def test_the_module_leads_to_the_agents_actions(tmp_path: Path, task: str, settings: dict[str, Any]):
    """It takes observations as they come, and its parameters lead to the same actions."""
    agent = headrace.load(run_of(tmp_path, task, **settings))
    with headrace.make(task, num_envs=16, seed=5) as pool:
        obs, _ = pool.reset()
        for _ in range(5):
            obs, *_ = pool.step(agent.act(obs))
        acts = agent.act(obs)
    module = agent.policy
    assert isinstance(module, nn.Module) and list(module.parameters())
    params, values = module(torch.from_numpy(obs))
    chosen = module.distribution.to_env(module.distribution.mode(params)).numpy()
    assert np.array_equal(chosen, acts)
    assert values.shape == (16,) and values.dtype == torch.float32 and values.abs().sum() > 0


@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("ppo", {"normalise_observations": True}),
        ("sac", {"learning_starts": 64, "samplers": 0, "num_steps": 4}),
        ("td3", {"learning_starts": 64, "samplers": 0, "num_steps": 4, "n_step": 3}),
        pytest.param("ppo", {"samplers": 1}, marks=pytest.mark.nightly),
        pytest.param("ppo", {"network": "gru"}, marks=pytest.mark.nightly),
        pytest.param("sac", {"learning_starts": 64, "samplers": 1, "num_steps": None}, marks=pytest.mark.nightly),
    ],
)
def test_spaces_of_a_single_number_without_axes_are_learnt_and_played(tmp_path: Path, algo: str, settings: Any):
    run = run_of(tmp_path, SCALAR, algo=algo, hidden=(8,), total_steps=200, **settings)
    agent = headrace.load(run, trust=True)
    assert np.shape(agent.act(np.float32(0.5))) == ()
    for deterministic in (True, False):
        agent.reset()
        acts = agent.act(np.linspace(-1, 1, 5, dtype=np.float32), deterministic)
        assert acts.shape == (5,) and (np.abs(acts) <= 1).all()
    assert np.isfinite(agent.insight().value or np.nan)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("Pendulum-v1", {"normalise_values": True}),
        ("CartPole-v1", {"algo": "dqn", "learning_starts": 64, "samplers": 0}),
        ("Pendulum-v1", {"algo": "td3", "learning_starts": 64, "samplers": 0}),
        pytest.param("Pendulum-v1", {"samplers": 1}, marks=pytest.mark.nightly),
    ],
)
def test_values_are_in_units_of_the_environments_rewards(tmp_path: Path, task: str, settings: dict[str, Any]):
    run = run_of(tmp_path, task, normalise_rewards=True, **settings)
    agent, kept = headrace.load(run, which="newest"), checkpoints.newest(run / "checkpoints")
    assert kept is not None
    point = checkpoints.load(kept)
    deviation = float(point.state["rewards.variance"]) ** 0.5
    assert abs(deviation - 1) > 0.1
    obs = np.full((1, *(agent.spec.observation.shape or ())), 0.1, np.float32)
    action = torch.from_numpy(agent.act(obs))
    inputs = agent.policy.encoder(torch.from_numpy(obs))
    network, found = agent.policy.network, agent.insight()
    if settings.get("algo") == "td3":
        raw = network.critic(inputs, action / 2).amin()  # whose actions are from -2 to 2
    else:
        params, values = network(inputs)
        raw = params.amax() if settings.get("algo") == "dqn" else values
    if "normalise_values" in settings:
        raw = raw * point.model["values.variance"].sqrt() + point.model["values.mean"]
    assert found.value == pytest.approx(float(raw) * deviation, rel=1e-4)
    assert float(agent.policy(torch.from_numpy(obs))[1]) == pytest.approx(found.value, rel=1e-4)
    if found.action_values is not None:
        assert max(found.action_values) == found.value
    without = {name: tensor for name, tensor in point.model.items() if not name.startswith("rewards")}
    agent.load(without)  # as an earlier version wrote it


REPLAYED: dict[str, Any] = {
    "learning_starts": 64,
    "minibatch_size": 16,
    "num_steps": 4,
    "samplers": 0,
    "replay_size": 1000,
}


@pytest.mark.parametrize(
    ("algo", "kind", "settings"),
    [
        ("ppo", "float64", {}),
        ("sac", "int64", REPLAYED),
        ("sac", "float64", REPLAYED | {"n_step": 3}),
        pytest.param("ppo", "int64", {"samplers": 1}, marks=pytest.mark.nightly),
    ],
)
def test_numbers_that_float32_would_round_are_normalised_before_they_are_rounded(
    tmp_path: Path, algo: str, kind: str, settings: Any
):
    """The second number is the first less a constant: as inputs of the network they are equal."""
    options = {"env_options": {"kind": kind}, "normalise_observations": True, "hidden": (8,), "num_envs": 2} | settings
    agent = headrace.load(run_of(tmp_path, CLOCK, algo=algo, total_steps=400, **options), which="newest", trust=True)
    known: Any = agent.policies[0].encoder.normaliser
    mean, deviation = known.statistics.mean.numpy(), known.statistics.variance.sqrt().numpy()
    assert abs(mean[0] - mean[1] - 1.7e9) < 1e-3 and abs(deviation[0] - deviation[1]) < 1e-3
    seconds = np.array([-250, -1, 0, 3, 300])
    obs = np.stack([1_700_000_000 + seconds, seconds], 1).astype(kind)
    acts, distribution = agent.act(obs), agent.policy.distribution
    wanted = ((obs - mean) / deviation).astype(np.float32)
    inputs = agent.policy.encoder(torch.from_numpy(obs))
    assert inputs.dtype == torch.float32 and np.allclose(inputs.numpy(), wanted, atol=1e-5)
    likeliest = distribution.mode(agent.policy.network(torch.from_numpy(wanted))[0])
    assert np.allclose(distribution.to_env(likeliest).numpy(), acts, atol=1e-5)
    exported: Any = torch.jit.load(export_policy(agent, tmp_path / "policy.pt").path)
    assert np.allclose(exported(torch.from_numpy(obs))[0].numpy(), acts, atol=1e-5)


@pytest.mark.parametrize(("algo", "settings"), [("ppo", {}), pytest.param("sac", REPLAYED, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("normalised", [False, True])
def test_observations_that_float32_rounds_are_named_unless_they_are_normalised(
    tmp_path: Path, algo: str, settings: Any, normalised: bool
):
    options = {"normalise_observations": normalised, "hidden": (8,), "num_envs": 2} | settings
    run = run_of(tmp_path, CLOCK, algo=algo, total_steps=120, **options)
    said = [event.text for event in read_events(run / "events.jsonl") if "number 0 of the observations" in event.text]
    assert len(said) == (not normalised) and all("normalise_observations=True" in each for each in said)


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_replay_holds_observations_that_float32_would_round(tmp_path: Path, n_step: int):
    options: dict[str, Any] = {"normalise_observations": True, "hidden": (8,), "num_envs": 2, "n_step": n_step}
    config = make_config(CLOCK, algo="sac", **(SMALL | REPLAYED | options))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path / "run", config))
    try:
        for _ in range(20):
            trainer.iterate()
        (policy,) = trainer.policies
        replay = trainer.learner.learners[0].replay if n_step == 1 else trainer.learner.updater.replay
        sampled = replay.sample(60, torch.Generator().manual_seed(0))
        batch = normalised(sampled, policy.encoder, policy.reward_scaler)
        assert {part.dtype for part in batch if part is not None} == {torch.float32}
        for seen in (batch.inputs, batch.next_observations):
            assert len(seen[:, 0].unique()) > 30
            torch.testing.assert_close(seen[:, 0], seen[:, 1], atol=1e-5, rtol=1e-4)
    finally:
        trainer.close()


def test_sampled_actions_differ_from_the_most_likely_ones(tmp_path: Path):
    agent = headrace.load(run_of(tmp_path, "Pendulum-v1"))
    obs = np.zeros((64, 3), np.float32)
    assert len(np.unique(agent.act(obs))) == 1 < len(np.unique(agent.act(obs, deterministic=False)))


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("gru"), "CartPole-v1", network="gru", hidden=(16,), num_envs=8)


def test_an_agent_accepts_lists_and_wider_floats(trained: Path):
    agent = headrace.load(trained, which="newest")
    assert agent.act([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    assert agent.act(np.zeros((3, 4))).shape == (3,)


@pytest.mark.parametrize(
    ("obs", "words"),
    [
        (np.zeros(3, np.float32), r"shape \(3,\).*\[4\].*\[B, 4\]"),
        (np.zeros((2, 2, 4), np.float32), r"shape \(2, 2, 4\)"),
        (np.zeros(4, np.complex64), r"dtype complex64; the task's is float32"),
        ({"a": np.zeros(4)}, "must be an array of numbers, not dict"),
        (np.zeros((0, 4), np.float32), r"shape \(0, 4\), which is of no environment"),
    ],
)
def test_a_wrong_observation_is_named_with_the_expected_one(trained: Path, obs: Any, words: str):
    with pytest.raises(OptionError, match=words):
        headrace.load(trained).act(obs)


@pytest.mark.parametrize(
    ("obs", "words"),
    [
        (np.array([0, 0, np.nan, 0], np.float32), r"holds nan at \[2\]"),
        (np.array([[0, 0, 0, 0], [0, -np.inf, 0, 0]]), r"holds -inf at \[1, 1\]"),
    ],
)
def test_an_agent_refuses_an_observation_that_is_not_finite(trained: Path, obs: Any, words: str):
    with pytest.raises(NotFiniteError, match=words):
        headrace.load(trained).act(obs)


def test_a_nested_observation_is_told_apart_from_a_batch_of_them():
    space = gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (2,)), "b": gym.spaces.Tuple([gym.spaces.Discrete(3)])})
    batch, single = batched({"a": [0.0, 1.0], "b": (2,)}, space)
    assert single and batch["a"].shape == (1, 2) and batch["b"][0].tolist() == [2]
    batch, single = batched({"a": np.zeros((5, 2)), "b": (np.zeros(5, np.int32),)}, space)
    assert not single and batch["a"].dtype == np.float32 and batch["b"][0].dtype == np.int64
    with pytest.raises(OptionError, match="same number of rows, not none and 5"):
        batched({"a": np.zeros((5, 2)), "b": (1,)}, space)
    with pytest.raises(OptionError, match="no observation:b:0"):
        batched({"a": np.zeros((5, 2))}, space)


def test_pixels_outside_of_uint8_are_refused():
    pixels = gym.spaces.Box(0, 255, (2,), np.uint8)
    assert batched([3, 255], pixels)[0].dtype == np.uint8
    for wrong in ([3, 256], [0.5, 0.5], [-1, 0]):
        with pytest.raises(OptionError, match="the task's is uint8"):
            batched(wrong, pixels)


def test_memory_is_kept_for_each_row_until_reset(recurrent: Path):
    agent, module = headrace.load(recurrent), headrace.load(recurrent).policy
    obs = np.random.default_rng(1).normal(size=(3, 2, 4)).astype(np.float32)
    memory = torch.zeros(2, module.memory_size)
    for step in obs:
        params, _, memory = module(torch.from_numpy(step), memory)
        assert agent.act(step).tolist() == module.distribution.mode(params).tolist()
        assert torch.equal(agent.memories[""], memory)
    agent.reset(np.array([True, False]))
    kept = agent.memories[""]
    assert not kept[0].any() and torch.equal(kept[1], memory[1])
    with pytest.raises(OptionError, match="remembers 2 environments, but sees 3"):
        agent.act(np.zeros((3, 4), np.float32))
    with pytest.raises(OptionError, match="2 rows"):
        agent.reset([True])
    agent.reset()
    assert agent.act(np.zeros(4, np.float32)) in (0, 1)


def test_an_agent_keeps_to_masks_of_one_environment_and_of_several(tmp_path: Path):
    agent = headrace.load(run_of(tmp_path, "TestGate-v0"))
    with headrace.make("TestGate-v0", num_envs=3, seed=1) as pool:
        obs, info = pool.reset()
        several = agent.act(obs, action_mask=info["action_mask"])
        assert agent.act(obs[0], action_mask=info["action_mask"][0]) == several[0]
        assert all(mask[action - 1] for mask, action in zip(info["action_mask"], several, strict=True))
    with pytest.raises(OptionError, match="action_mask has shape"):
        agent.act(obs, action_mask=info["action_mask"][:2])


def test_actions_of_many_agents_have_the_pools_layout(tmp_path: Path):
    agent = headrace.load(run_of(tmp_path, "TagContinuous-v0", env_options={"num_taggers": 3, "num_runners": 2}))
    with headrace.make("TagContinuous-v0", num_envs=4, num_taggers=3, num_runners=2) as pool:
        obs, _ = pool.reset()
        actions = agent.act(obs)
        pool.step(actions)
        one = agent.act({key: part[0] for key, part in obs.items()} if isinstance(obs, dict) else obs[0])
    if isinstance(actions, dict):
        assert all(np.array_equal(one[key], actions[key][0]) for key in actions)
    else:
        assert np.array_equal(one, actions[0])
    assert len({id(agent.policy_named(policy.name)) for policy in agent.policies}) == len(agent.policies)
    with pytest.raises(OptionError, match="no policy 'nobody'"):
        agent.policy_named("nobody")


def test_headrace_itself_imports_no_torch():
    code = "import headrace, sys; assert 'torch' not in sys.modules; headrace.load; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


# -- networks as objects -------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self, space: gym.Space, outputs: int):
        super().__init__()
        self.body = nn.Linear(int(np.prod(space.shape or ())), 8)
        self.policy, self.value = nn.Linear(8, outputs), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.body(x))
        return self.policy(h), self.value(h).squeeze(1)


class Halves(nn.Module):
    def __init__(self, space: gym.Space, outputs: int, actions: int):
        super().__init__()
        inputs = int(np.prod(space.shape or ()))
        self.actor = nn.Linear(inputs, outputs)
        self.critic = Judge(inputs + actions)


class Judge(nn.Module):
    def __init__(self, inputs: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, 1) for _ in range(2))

    def forward(self, x: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.stack([layer(torch.cat((x, actions), 1)).squeeze(1) for layer in self.layers])


REPLAY = {"learning_starts": 64, "samplers": 0}


@pytest.mark.parametrize(
    ("task", "algo", "make", "settings"),
    [
        ("CartPole-v1", "ppo", Net, {}),
        pytest.param("CartPole-v1", "a2c", Net, {"minibatch_size": None}, marks=pytest.mark.nightly),
        pytest.param("CartPole-v1", "dqn", Net, REPLAY, marks=pytest.mark.nightly),
        ("CartPole-v1", "dqn", Net, {"learning_starts": 64, "samplers": 1, "total_steps": 2000, "num_steps": None}),
        ("Pendulum-v1", "sac", Halves, REPLAY),
        pytest.param("Pendulum-v1", "td3", Halves, REPLAY, marks=pytest.mark.nightly),
        ("CartPole-v1", "ppo", Net, {"devices": ("cpu", "cpu")}),
    ],
)
def test_networks_may_be_objects(tmp_path: Path, task: str, algo: str, make: Any, settings: dict[str, Any]):
    run = run_of(tmp_path, task, algo=algo, network=make, **settings)
    assert json.loads((run / "config.json").read_text())["network"] == f"<given>:{make.__name__}"
    with pytest.raises(OptionError, match=f"the object {make.__name__} as network, .* pass it again, network="):
        headrace.load(run)
    agent = headrace.load(run, network=make)
    space = headrace.make_spec(task).observation_space
    assert agent.act(np.zeros((2, *(space.shape or ())), np.float32)).shape[0] == 2


def test_a_module_is_learnt_as_a_copy_and_the_run_resumes_with_it(tmp_path: Path):
    module = Net(gym.spaces.Box(-1, 1, (4,)), 2)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    run = run_of(tmp_path, "CartPole-v1", network=module)
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    learnt = headrace.load(run, network=module, which="newest").policy.network.module.state_dict()
    assert any(not torch.equal(before[name], learnt[name]) for name in before)
    with pytest.raises(OptionError, match="pass it again"):
        headrace.train.resume(run, total_steps=1024, quiet=True)
    assert headrace.train.resume(run, total_steps=1024, quiet=True, network=module).steps >= 1024


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (3, "must be a torch.nn.Module, or a function or class"),
        (lambda space, outputs: "no", "must make a torch.nn.Module, not str"),
        (nn.Linear(7, 2), r"fails on inputs of shape \(2, 4\)"),
        (nn.Linear(4, 2), "must answer"),
    ],
)
def test_an_object_that_is_no_network_is_refused(tmp_path: Path, network: Any, words: str):
    with pytest.raises(OptionError, match=words):
        run_of(tmp_path, "CartPole-v1", network=network)
    assert not (tmp_path / "run" / "config.json").exists()


def test_an_object_for_a_run_without_one_is_refused(trained: Path):
    with pytest.raises(OptionError, match="leave network out"):
        headrace.load(trained, network=Net)

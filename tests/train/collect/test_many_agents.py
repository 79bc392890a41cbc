"""Training many agents: rollouts as a plain loop would collect them, runs that learn and resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace
import multi_agent_games  # noqa: F401  (registers the test tasks)
from collecting import recorded_actions
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.collect.collector import Collector
from headrace.train.collect.policies import make_policies
from headrace.train.collect.pools import make_collector, make_pool, training_pool
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runs.checkpoint import load
from headrace.train.runs.metrics import read_metrics
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run, facts, weights

train: Any = headrace.train
CPU = torch.device("cpu")
GAMES: dict[str, dict[str, Any]] = {
    "TagGridWorld-v0": {
        "env_options": {"num_taggers": 4, "grid_length": 4, "max_episode_steps": 9},
        "normalise_observations": False,
    },
    "TestRing-v0": {"env_options": {"max_episode_steps": 12}},
    "TestHunt-v0": {"env_options": {"max_episode_steps": 7}},
}


def collector_of(task: str, **settings: Any) -> Any:
    config = make_config(task, num_envs=4, num_steps=24, minibatch_size=32, seed=3, **settings)
    pool = training_pool(config)
    collector = make_collector(config, pool, make_policies(config, pool, CPU), CPU)
    collector.start()
    return collector


def collect(collector: Collector, seed: int = 1) -> list[Any]:
    collector.draw(torch.Generator().manual_seed(seed))
    return collector.collect()


def plain_advantages(
    collector: Any, index: int, in_rewards: Any = lambda values: values
) -> tuple[np.ndarray, np.ndarray]:
    """Advantages and who was present, agent by agent and step by step, from a twin pool that takes the same actions."""
    config, experience = collector.config, collector.experiences[index]
    steps, gamma, decay = config.num_steps, config.gamma, config.gae_lambda
    agent_group, envs = experience.agent_group, config.num_envs
    agents = np.arange(collector.spec.num_agents)[agent_group.agents]
    values = in_rewards(experience.values).numpy().reshape(steps + 1, envs, agent_group.width)
    rewards = collector.rewards.numpy()[:, :, agents]
    with make_pool(config.replace(batch_size=0)) as twin:
        twin.reset()
        present = np.ones((envs, twin.spec.num_agents), bool)
        records = []
        for t in range(steps):
            actions = recorded_actions(collector, t)
            _, reward, terminated, truncated, info = twin.step(actions)
            np.testing.assert_array_equal(reward[:, agents], rewards[t])
            done = terminated | truncated
            cut = info.get("truncations", np.zeros_like(info["alive"])) & ~done[:, None]  # while others played on
            after = info["alive"] | cut
            finals = np.zeros((envs, agent_group.width))
            for env in np.flatnonzero(done):
                after[env] = info["final_info"]["alive"][env]
                obs = info["final_obs"] if agent_group.sees.key is None else info["final_obs"][agent_group.sees.key]
                seen = torch.from_numpy(obs[env][agent_group.sees.among])
                out = torch.empty(agent_group.width, *experience.encoder.shape)
                inputs, network = experience.encoder(seen, out), experience.policy.network
                memory = experience.memory
                memory = () if memory is None else (memory.values[t + 1].view(envs, agent_group.width, -1)[env],)
                value = (network.step if memory else network)(inputs, *memory)[1]
                finals[env] = in_rewards(value).detach().numpy()
            finals[cut[:, agents]] = values[t + 1][cut[:, agents]]
            over = truncated[:, None] | cut[:, agents]
            records.append((reward[:, agents], terminated, over, present[:, agents], after[:, agents], finals))
            present = info["alive"].copy()
    result = np.zeros((steps, envs, agent_group.width))
    following = np.zeros((envs, agent_group.width))
    for t in reversed(range(steps)):
        reward, terminated, truncated, _, after, finals = records[t]
        gone = terminated[:, None] | ~after
        bootstrap = np.where(truncated, finals, values[t + 1])
        delta = reward + gamma * np.where(gone, 0.0, bootstrap) - values[t]
        result[t] = delta + gamma * decay * np.where(gone | truncated, 0.0, following)
        following = result[t]
    return result.reshape(steps, -1), np.stack([r[3] for r in records]).reshape(steps, -1)


@pytest.mark.parametrize("task", GAMES)
def test_advantages_equal_those_of_a_plain_loop(task):
    collector = collector_of(task, **GAMES[task])
    samples = collect(collector)
    for index, part in enumerate(samples):
        expected, present = plain_advantages(collector, index)
        rows = np.flatnonzero(present.ravel())
        if part.rows is not None:
            np.testing.assert_array_equal(part.rows, rows)
        np.testing.assert_allclose(part.advantages.numpy()[rows], expected.ravel()[rows], atol=2e-3, rtol=1e-4)
    assert collector.truncated.any() or collector.terminated.any()
    collector.pool.close()


@pytest.mark.parametrize(
    ("batch_size", "settings"),
    [(0, {}), (2, {}), (0, {"normalise_values": True}), (2, {"normalise_values": True, "network": "gru"})],
)
def test_an_agent_truncated_alone_is_credited_with_the_value_of_its_last_state(batch_size, settings):
    """`walker_0` is truncated after two of four steps, the others play on: it goes on as far as its value knows."""
    pytest.importorskip("pettingzoo")
    options = {"batch_size": batch_size, "normalise_rewards": False} | settings
    collector = collector_of("masked_parallel_games:Forbidding", **options)
    index = next(i for i, e in enumerate(collector.experiences) if e.agent_group.width == 2)
    normaliser = collector.experiences[index].policy.value_normaliser
    mean, deviation = 0.0, 1.0
    if normaliser is not None:
        normaliser.update(torch.tensor([40.0, 60.0, 50.0, 90.0]))
        mean, deviation = float(normaliser.mean), 1 / float(normaliser.scale)
    samples = collect(collector)
    expected, present = plain_advantages(collector, index, lambda values: values * deviation + mean)
    rows = np.flatnonzero(present.ravel())
    if settings.get("network") == "gru":
        np.testing.assert_array_equal(samples[index].weights.nonzero().squeeze(1), rows)
    else:
        np.testing.assert_array_equal(samples[index].rows, rows)
    np.testing.assert_allclose(samples[index].advantages.numpy()[rows], expected.ravel()[rows], atol=2e-3, rtol=1e-4)
    collector.pool.close()


def test_policies_do_not_learn_from_agents_that_left():
    collector = collector_of("TestRing-v0", **GAMES["TestRing-v0"])
    (samples,) = collect(collector)
    assert samples.rows is not None and 0 < len(samples.rows) < len(samples.returns)
    collector.pool.close()


@pytest.mark.parametrize("batch_size", [0, 2])
def test_agents_that_left_count_in_no_statistics(batch_size):
    normalised = {
        "normalise_observations": True,
        "normalise_rewards": True,
        "normalise_values": True,
        "batch_size": batch_size,
    }
    collector = collector_of("TestRing-v0", **GAMES["TestRing-v0"], **normalised)
    (samples,), (experience,) = collect(collector), collector.experiences
    policy = experience.policy
    for each in (*policy.normalisers.values(), policy.reward_scaler):
        statistics = each.statistics
        assert 0 < statistics.count == len(samples.rows) < len(samples.returns)
    collector.pool.close()


@pytest.mark.parametrize("task", GAMES)
def test_an_asynchronous_pool_gives_the_same_samples(task):
    together = collector_of(task, **GAMES[task])
    in_turns = collector_of(task, batch_size=2, **GAMES[task])
    for one, other in zip(
        collect(together),
        collect(in_turns),
        strict=True,
    ):
        rows = slice(None) if one.rows is None else one.rows
        torch.testing.assert_close(one.actions[rows], other.actions[rows])
        torch.testing.assert_close(one.advantages[rows], other.advantages[rows], atol=2e-3, rtol=1e-4)
    together.pool.close()
    in_turns.pool.close()


@pytest.mark.parametrize("task", rest_nightly(GAMES, "TestHunt-v0"))
def test_a_stopped_run_continues_as_if_left_alone(tmp_path: Path, task):
    options = SMALL | {"total_steps": 1024, "anneal_learning_rate": False} | GAMES[task]
    train(task, run_dir=tmp_path / "alone", quiet=True, **options)
    train(task, run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 512}))
    resume(tmp_path / "stopped", quiet=True, total_steps=1024)
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")


@pytest.mark.parametrize("algo", rest_nightly(["ppo", "a2c"], "ppo"))
def test_weights_stay_finite_when_all_agents_of_a_policy_have_left(tmp_path: Path, algo: str):
    policies: dict[str, Any] = {"tagger": {}} | {f"runner {i}": {"agents": [2 + i]} for i in range(4)}
    options = {"env_options": {"num_taggers": 2, "num_runners": 4}, "num_envs": 1, "policies": policies}
    result = train(
        "TagContinuous-v0",
        algo,
        run_dir=tmp_path,
        total_steps=800,
        video=False,
        tensorboard=False,
        quiet=True,
        **options,
    )
    assert result.reason == "finished"
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path).values())


def test_normalisers_of_a_replay_stay_finite_without_agents(tmp_path: Path):
    policies: dict[str, Any] = {"archers": {"agents": [0, 1]}, "mortal": {"agents": [2]}, "dog": {"algo": "ppo"}}
    options = SMALL | {"num_envs": 1, "num_steps": 8, "total_steps": 600, "hidden": (8,), "learning_starts": 8}
    options |= {"normalise_observations": True, "normalise_rewards": True, "replay_size": 100, "samplers": 0}
    train(
        "TestHunt-v0", "ddpg", run_dir=tmp_path, quiet=True, policies=policies, replay_ratio=0.1,
        env_options={"limit": 100, "max_episode_steps": 100}, **options,
    )  # fmt: skip
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path).values())


def test_policies_have_settings_and_losses_of_their_own(tmp_path: Path):
    policies = {"chasers": {"agents": ["tagger"], "hidden": [16], "learning_rate": 1e-2}, "prey": {"agents": [4]}}
    options = SMALL | {"total_steps": 2000, "video": True} | GAMES["TagGridWorld-v0"]
    result = train("TagGridWorld-v0", run_dir=tmp_path / "run", policies=policies, **options)
    last = read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]
    assert set(last["policies"]) == {"chasers", "prey"}
    assert last["return"] == last["policies"]["chasers"]["return"] != last["policies"]["prey"]["return"]
    assert last["policies"]["chasers"]["loss"] != last["policies"]["prey"]["loss"]
    assert result.video is not None and result.video.stat().st_size > 1000
    played = evaluate(tmp_path / "run", episodes=4)
    assert len(played.returns) == 4 and max(played.lengths) <= 9


def test_a_setting_shared_by_policies_cannot_be_set_for_one(tmp_path: Path):
    with pytest.raises(OptionError, match=r"'tagger'.*num_steps"):
        train("TagGridWorld-v0", run_dir=tmp_path, policies={"tagger": {"num_steps": 3}, "runner": {}}, **SMALL)


def test_a_frozen_policy_keeps_its_loaded_weights(tmp_path: Path):
    options = SMALL | {"total_steps": 1000} | GAMES["TagGridWorld-v0"]
    train("TagGridWorld-v0", run_dir=tmp_path / "first", quiet=True, **options)
    policies = {
        "tagger": {"load": str(tmp_path / "first")},
        "runner": {"load": str(tmp_path / "first"), "frozen": True},
    }
    train("TagGridWorld-v0", run_dir=tmp_path / "second", quiet=True, policies=policies, **options)
    best = load(tmp_path / "first" / "checkpoints" / "best").model
    for name, tensor in weights(tmp_path / "second").items():
        assert torch.equal(tensor, best[name]) == name.startswith("network.runner"), name
    last = read_metrics(tmp_path / "second" / "metrics.jsonl")[-1]["policies"]
    assert last["runner"]["loss"] == {} and last["tagger"]["loss"]
    with pytest.raises(OptionError, match="is not a run folder"):
        train("CartPole-v1", run_dir=tmp_path / "third", quiet=True, load=str(tmp_path / "nowhere"), **SMALL)


@pytest.mark.nightly
def test_taggers_learn_to_catch(tmp_path: Path):
    options = {"num_taggers": 2, "grid_length": 4, "random_start": True, "max_episode_steps": 30}
    result = train(
        "TagGridWorld-v0", run_dir=tmp_path, total_steps=120_000, num_envs=64, num_steps=16, minibatch_size=1024,
        learning_rate=3e-3, gamma=0.99, normalise_observations=False, normalise_rewards=True, entropy_coef=0.01,
        env_options=options, video=False, quiet=True,
    )  # fmt: skip
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert lines[0]["length"] > 1.5 * lines[-1]["length"]
    assert result.mean_return is not None and result.mean_return > 9.5


def test_a2c_makes_one_update_from_a_whole_rollout(tmp_path: Path):
    # with so large an epsilon Adam's steps follow the gradient, instead of its sign where it is next to nothing
    short = SMALL | {"total_steps": 128, "log_steps": 1, "normalise_advantages": False, "adam_epsilon": 1.0}
    short |= {"learning_rate": 1e-3, "anneal_learning_rate": False}
    del short["minibatch_size"]
    train("CartPole-v1", "a2c", run_dir=tmp_path / "a2c", quiet=True, **short)
    whole = short | {"epochs": 1, "minibatch_size": 128}
    train("CartPole-v1", "ppo", run_dir=tmp_path / "ppo", quiet=True, **whole)
    for name, tensor in weights(tmp_path / "a2c").items():  # in another order, sums round otherwise
        torch.testing.assert_close(tensor, weights(tmp_path / "ppo")[name], atol=1e-7, rtol=1e-5)
    (line,) = facts(tmp_path / "a2c")
    assert line["loss"]["clip_fraction"] == 0 and abs(line["loss"]["approx_kl"]) < 1e-6


def test_ppo_clips_once_the_policy_has_moved(tmp_path: Path):
    options = SMALL | {"total_steps": 512, "epochs": 10, "learning_rate": 1e-2} | GAMES["TagGridWorld-v0"]
    train("TagGridWorld-v0", run_dir=tmp_path, quiet=True, **options)
    clipped = [line["policies"]["tagger"]["loss"]["clip_fraction"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert max(clipped) > 0.05


def test_evaluation_stops_episodes_that_do_not_end(tmp_path: Path):
    options = {"num_taggers": 1, "grid_length": 100, "max_episode_steps": 0}
    train("TagGridWorld-v0", run_dir=tmp_path, quiet=True, env_options=options, **(SMALL | {"total_steps": 128}))
    played = evaluate(tmp_path, episodes=20, max_steps=15)
    assert played.stopped > 0 and max(played.lengths) == 15
    assert len(played.returns) == 20  # of 16 environments four play twice
    assert played.stopped == sum(length == 15 for length in played.lengths)

"""PPO with workers: the same arithmetic as without, whole rollouts whoever is killed, and it learns."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.train import resume, train
from headrace.train.collect.collector import observation_name
from headrace.train.logging.dashboard import Dashboard
from headrace.train.play.evaluate import evaluate
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.start import seed_of
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.settings.config import Config
from headrace.train.storage.rollout_slots import Slot
from headrace.train.workers.samplers import RolloutSampler

SETTINGS: dict[str, Any] = {
    "samplers": 1,
    "num_envs": 4,
    "num_steps": 64,
    "minibatch_size": 128,
    "epochs": 2,
    "hidden": (16, 16),
    "log_steps": 500,
    "evaluate_episodes": 2,
    "evaluate_seconds": 0.2,
    "evaluate_share": 1.0,
    "viewer": False,
    "stop_at_return": None,
    "tensorboard": False,
    "video": False,
}
NORMALISED: dict[str, Any] = {"normalise_observations": True, "normalise_rewards": True, "normalise_values": True}


def begun(tmp_path, task: str = "Pendulum-v1", **settings: Any) -> Any:
    config = make_config(task, **(SETTINGS | settings))
    return make_trainer(config, RunFolder.create(tmp_path, config))


def sampler_of(trainer: Any) -> RolloutSampler:
    learner = trainer.learner
    return RolloutSampler(trainer.config, 0, 0, learner.memory, learner.weights, trainer.source.counters)


def filled(sampler: RolloutSampler) -> Slot:
    slot = sampler.rollouts.free(0)
    assert slot is not None
    assert sampler.fill(slot)
    sampler.rollouts.publish(0)
    return slot


def write_rollout(slot: Slot, trainer: Any, log_probs: torch.Tensor) -> None:
    """A rollout of the synchronous loop, as a sampler would have written it."""
    collector, (experience,) = trainer.source.collector, trainer.source.collector.experiences
    slot.begin(True)
    slot.observations[...] = collector.observations[observation_name(experience.agent_group)].numpy()
    slot.actions[...], slot.log_probs[...] = experience.actions.numpy(), log_probs.view(slot.log_probs.shape).numpy()
    slot.rewards[...], slot.versions[...] = collector.rewards.numpy(), 1
    slot.terminated[...], slot.truncated[...] = collector.terminated.numpy(), collector.truncated.numpy()
    finals = collector._final_observations(experience.agent_group)
    if finals is not None:
        for t, n, last in zip(finals.t.tolist(), finals.columns.tolist(), finals.observations.numpy(), strict=True):
            slot.add_final_observations(t, np.array([n]), last[None])


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("Pendulum-v1", {"num_steps": 256, "gae_lambda": 1.0, **NORMALISED}),
        ("CartPole-v1", {"gae_lambda": 0.9, "value_clip_range": 0.1}),
    ],
)
def test_the_first_update_equals_that_of_the_synchronous_loop(tmp_path, task, settings):
    config = make_config(task, **(SETTINGS | settings | {"samplers": 0}))
    alone: Any = make_trainer(config, RunFolder.create(tmp_path / "0", config))
    apart = begun(tmp_path / "1", task, **settings)
    try:
        assert torch.equal(alone.policies[0].actor_parameters, apart.policies[0].actor_parameters)
        before = apart.policies[0].actor_parameters.clone()
        alone.source.collector.draw(alone.source.generator)
        (samples,) = alone.source.collector.collect()
        slot = apart.learner.memory.free(0)
        assert slot is not None
        write_rollout(slot, alone, samples.log_probs)
        apart.learner.memory.publish(0)
        apart.learner.generator.set_state(alone.source.generator.get_state())
        alone.policies[0].learn(samples, 0, alone.source.generator)
        assert apart.learner.update()
        assert int(slot.ended) == (4 if task == "Pendulum-v1" else 0)
        assert (apart.policies[0].actor_parameters - before).abs().max() > 1e-3
        torch.testing.assert_close(
            apart.policies[0].actor_parameters, alone.policies[0].actor_parameters, rtol=1e-3, atol=2e-5
        )
        assert apart.learner.figures().details["staleness"]["divergence"] == pytest.approx(0.0, abs=1e-6)
        assert apart.policies[0].updates == int(alone.policies[0].optimisers()["steps"])
        if config.normalise_observations:
            known = [normaliser.pack() for normaliser in alone.policies[0].normalisers.values()]
            assert len(known) == 2
            torch.testing.assert_close(apart.source.policy_copy.known(), torch.cat(known))
    finally:
        alone.close()
        apart.close()


def test_a_sampler_writes_the_steps_that_it_played(tmp_path):
    trainer = begun(tmp_path, num_steps=256, **NORMALISED)
    try:
        sampler = sampler_of(trainer)
        observations, values = [0.1, -0.2, 0.5, 0.4, 0.7, 9.0, 50.0], [-20.0, 100.0, 50.0]  # means, variances, count
        copy = trainer.source.policy_copy
        copy.take(copy.vector, torch.tensor([*observations, *values]).double())
        trainer.learner.publish()
        slot = filled(sampler)
        assert (slot.versions == trainer.source.weights.version).all()
        assert bool(slot.fresh)
        inputs = torch.empty(256 * 4, 3)
        trainer.policies[0].encoder(torch.from_numpy(slot.observations[:-1]).flatten(0, 1), inputs)
        params, _ = trainer.policies[0].forward(inputs)
        actions = torch.from_numpy(slot.actions).flatten(0, 1)
        log_probs = trainer.policies[0].distribution.evaluate(params, actions)[0]
        torch.testing.assert_close(torch.from_numpy(slot.log_probs).flatten(), log_probs, rtol=1e-4, atol=1e-4)
        assert len(np.unique(slot.actions)) > 1000
        # the same actions in another pool of the same seed
        taken = trainer.policies[0].distribution.to_env(torch.from_numpy(slot.actions)).numpy()
        with headrace.make(
            "Pendulum-v1", num_envs=4, seed=seed_of(trainer.config, 0, 0), autoreset="same_step"
        ) as pool:
            seen, _ = pool.reset()
            np.testing.assert_array_equal(slot.observations[0], seen)
            for t in range(256):
                seen, reward, terminated, truncated, info = pool.step(taken[t])
                np.testing.assert_array_equal(slot.observations[t + 1], seen)
                np.testing.assert_array_equal(slot.rewards[t], reward)
                np.testing.assert_array_equal(slot.terminated[t], terminated)
                np.testing.assert_array_equal(slot.truncated[t], truncated)
                if truncated.any():
                    np.testing.assert_array_equal(slot.final_observations[: int(slot.ended)], info["final_obs"])
                    assert slot.places[: int(slot.ended)].tolist() == [4 * t + n for n in range(4)]
        assert int(slot.ended) == 4
        last = slot.observations[-1].copy()
        assert trainer.learner.update()
        slot = filled(sampler)
        np.testing.assert_array_equal(slot.observations[0], last)
        assert not bool(slot.fresh)
        assert (slot.versions == 3).all()
        sampler.close()
    finally:
        trainer.close()


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("MinAtar-Breakout-v1", {"num_steps": 16}),
        ("FrozenLake-v1", {}),
        ("MountainCarContinuous-v0", NORMALISED),
        ("Pong-v5", {"num_steps": 4, "num_envs": 2}),
    ],
)
def test_all_kinds_of_observations_are_learnt_from(tmp_path, task, settings):
    trainer = begun(tmp_path, task, algo="ppo", **settings)
    try:
        sampler = sampler_of(trainer)
        for _ in range(2):
            before = trainer.policies[0].actor_parameters.clone()
            filled(sampler)
            assert trainer.learner.update()
            assert not torch.equal(trainer.policies[0].actor_parameters, before)
            assert torch.isfinite(trainer.policies[0].actor_parameters).all()
            assert abs(trainer.learner.figures().details["staleness"]["divergence"]) < 1e-5
        sampler.close()
    finally:
        trainer.close()


def test_a_sampler_without_a_free_slot_waits_and_drops_nothing(tmp_path):
    trainer = begun(tmp_path, "CartPole-v1", rollout_slots=2)
    sampler = sampler_of(trainer)
    thread = threading.Thread(target=sampler.run)
    thread.start()
    try:
        for learnt in range(4):
            until = time.monotonic() + 30
            while trainer.learner.memory.waiting < 2:
                assert time.monotonic() < until
                time.sleep(0.001)
            time.sleep(0.02)
            assert trainer.source.counters.total_steps() == (learnt + 2) * 64 * 4
            assert trainer.learner.update()
        assert trainer.learner.steps == 4 * 64 * 4
        assert trainer.learner.figures().details["staleness"]["versions"] >= 1
    finally:
        trainer.source.counters.stop()
        thread.join()
        sampler.close()
        trainer.close()


def test_ctrl_c_leaves_out_the_epochs_that_have_not_begun(tmp_path):
    trainer = begun(tmp_path, "CartPole-v1", epochs=10_000)
    try:
        sampler = sampler_of(trainer)
        filled(sampler)
        steps = trainer.learner.policy.optimiser.steps

        def press_once_it_learns() -> None:
            while not steps.item():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        with Interrupt() as interrupt:
            trainer.learner.begin(interrupt)
            threading.Thread(target=press_once_it_learns, daemon=True).start()
            assert trainer.learner.update()
        assert 0 < trainer.policies[0].updates < 10_000 * 2
        sampler.close()
    finally:
        trainer.close()


def test_cartpole_is_learnt(tmp_path):
    few: dict[str, Any] = {"total_steps": 400_000, "stop_at_return": 150.0, "tensorboard": False, "video": False}
    result = train("CartPole-v1", run_dir=tmp_path, quiet=True, samplers=1, **few)
    assert result.reason == "solved"
    last = read_metrics(tmp_path / "metrics.jsonl")[-1]
    assert 0 < last["staleness"]["versions"] <= 2
    assert last["updates"] > 0
    assert last["updates"] % 32 == 0  # 8 epochs of 4 minibatches
    assert evaluate(tmp_path, 8).mean_return > 100


def test_a_resumed_run_of_rollout_workers_goes_on_at_its_step(tmp_path):
    train("Pendulum-v1", run_dir=tmp_path, quiet=True, total_steps=4000, **SETTINGS, **NORMALISED)
    before = read_metrics(tmp_path / "metrics.jsonl")
    assert before[-1]["evaluation"]["length"] == 200
    assert len(evaluate(tmp_path, 2, which="best").returns) == 2
    learnt = -(-4000 // 256) * 256

    def saved() -> checkpoints.Checkpoint:
        path = checkpoints.newest(tmp_path / "checkpoints")
        assert path is not None
        return checkpoints.load(path)

    point = saved()
    assert point.counters["learnt"] == learnt
    assert point.counters["updates"] == learnt // 256 * 4
    assert float(point.model["normaliser.count"]) == learnt
    assert float(point.state["rewards.count"]) == learnt
    config = Config.from_json((tmp_path / "config.json").read_text())
    again: Any = make_trainer(config, RunFolder(tmp_path), point)
    assert again.learner.steps == learnt
    assert float(again.source.policy_copy.known()[-1]) == learnt
    assert torch.equal(again.policies[0].model()["network.log_std"], point.model["network.log_std"])
    again.close()
    result = resume(tmp_path, quiet=True, total_steps=6000)
    assert result.steps >= 6000
    assert float(saved().model["normaliser.count"]) == -(-6000 // 256) * 256
    assert read_metrics(tmp_path / "metrics.jsonl")[: len(before)] == before


def test_killed_samplers_are_replaced_and_every_step_asked_for_is_learnt(tmp_path):
    trainer = begun(tmp_path, "CartPole-v1", samplers=2, total_steps=30_000, epochs=8)
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 2:
            time.sleep(0.2)
            for name, pid in trainer.source.supervisor.pids().items():
                if name.startswith("sampler") and trainer.source.counters.total_steps() > 0 and len(killed) < 2:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    try:
        thread.start()
        assert trainer.train(Dashboard(quiet=True)) == "finished"
        assert trainer.source.restarts >= 1
        assert trainer.learner.steps == -(-30_000 // 256) * 256
        assert (trainer.source.counters.steps > 0).all()
        assert torch.isfinite(trainer.policies[0].actor_parameters).all()
    finally:
        trainer.close()


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("CartPole-v1", {"network": "gru"}, "recurrent"),
        ("CartPole-v1", {"algo": "a2c"}, "a2c"),
        ("CartPole-v1", {"batch_size": 2}, r"batch_size=2 would not .* samplers=0"),
        ("CartPole-v1", {"rho_clip": 0.0}, "rho_clip"),
        ("CartPole-v1", {"rollout_slots": 0}, "rollout_slots"),
        ("TagContinuous-v0", {}, "several agents"),
    ],
)
def test_mistakes_are_named(tmp_path, task, settings, words):
    with pytest.raises(OptionError, match=words):
        train(task, run_dir=tmp_path, quiet=True, **(SETTINGS | settings))

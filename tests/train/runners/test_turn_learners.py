"""Runs in turn from a replay of steps: they learn, and go on as if nothing had been, with any number of processes."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from learners import both, go_on, run

import headrace
from headrace.train import resume
from headrace.train.collect.steps import replays_steps
from headrace.train.launch.checks import resolved
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.events import read_events
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run, facts, start, wait_for_lines

train: Any = headrace.train
REPLAY: dict[str, Any] = SMALL | {
    "algo": "dqn",
    "samplers": 0,
    "num_envs": 4,
    "num_steps": 8,
    "minibatch_size": 16,
    "learning_starts": 150,
    "replay_ratio": 0.1,
    "replay_size": 480,
    "total_steps": 800,
    "log_steps": 1,
    "torch_threads": 1,
    "viewer": False,
    "epsilon_start": 0.5,
    "epsilon_end": 0.5,  # it would fall with the steps to come, which differ between runs
}
IMAGES: dict[str, Any] = REPLAY | {"env_options": {"max_episode_steps": 30}}
SMALL_PONG = {"img_height": 42, "img_width": 42, "max_episode_steps": 60}
PRIORITIES = {"prioritised": True, "importance_exponent": 1.0}  # of others than 1, it would rise as epsilon falls
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "images": ("MinAtar-Breakout-v1", IMAGES | {"n_step": 1}),
    "images, several steps, by priority": ("MinAtar-Breakout-v1", IMAGES | PRIORITIES | {"n_step": 3}),
    "stacks": ("Pong-v5", REPLAY | PRIORITIES | {"env_options": SMALL_PONG, "n_step": 3}),
    "vectors": ("CartPole-v1", REPLAY | {"n_step": 3, "hidden": (16,)}),
    "continuous": (
        "Pendulum-v1",
        {k: v for k, v in REPLAY.items() if not k.startswith("epsilon")}
        | {"algo": "sac", "n_step": 2, "hidden": (16,), "normalise_observations": True, "normalise_rewards": True}
        | {"env_options": {"max_episode_steps": 30}},
    ),
}


def newest(run_dir: Path) -> checkpoints.Checkpoint:
    path = checkpoints.newest(run_dir / "checkpoints")
    assert path is not None
    return checkpoints.load(path)


@pytest.mark.parametrize("name", rest_nightly(RUNS, "images, several steps, by priority", "continuous"))
def test_a_stopped_run_continues_as_if_left_alone(tmp_path, name):
    """Bit for bit, also where it repeats itself: the ring has been full for long, and is saved in pieces."""
    task, options = RUNS[name]
    if task == "Pong-v5":
        pytest.importorskip("headrace_atari._atari")
    options = options | {"anneal_learning_rate": False, "deterministic": True, "quiet": True}
    train(task, run_dir=tmp_path / "alone", **options)
    train(task, run_dir=tmp_path / "stopped", **(options | {"total_steps": 600}))
    resume(tmp_path / "stopped", quiet=True, total_steps=800)
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")
    last = facts(tmp_path / "alone")[-1]
    assert last["step"] >= 800 and last["loss"]["critic_loss"] > 0 and last["episodes"] > 5
    assert sum(newest(tmp_path / "alone").counters["replay"][0]) > 480 / 4, "the ring must have been full"


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_continues_as_if_left_alone(tmp_path, how):
    task, options = RUNS["images, several steps, by priority"]
    options = options | {"anneal_learning_rate": False}
    process = start(task, tmp_path / "stopped", options | {"total_steps": 100_000_000})
    wait_for_lines(tmp_path / "stopped", 25)
    os.kill(process.pid, how)
    process.wait(60)
    total_steps = facts(tmp_path / "stopped")[-1]["step"] + 300
    assert resume(tmp_path / "stopped", quiet=True, total_steps=total_steps).reason == "finished"
    train(task, run_dir=tmp_path / "alone", quiet=True, **(options | {"total_steps": total_steps}))
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")


@pytest.mark.parametrize("lost", ["it was not saved", "it is gone"])
def test_a_lost_replay_is_filled_anew_in_new_episodes(tmp_path, lost):
    task, options = RUNS["images, several steps, by priority"]
    options = options | {"total_steps": 400, "save_replay": lost == "it is gone", "quiet": True}
    train(task, run_dir=tmp_path, **options)
    if lost == "it is gone":
        shutil.rmtree(tmp_path / "replay")
    stopped = newest(tmp_path).counters["step"]
    resume(tmp_path, quiet=True, total_steps=700)
    (told,) = (event.text for event in read_events(tmp_path / "events.jsonl") if event.kind == "warning")
    assert told.startswith("the run continues with an empty replay") and "150 steps come before its next update" in told
    point, lines = newest(tmp_path), facts(tmp_path)
    assert point.counters["collected"] == point.counters["step"] - stopped
    waiting = {line["loss"]["critic_loss"] for line in lines if stopped <= line["step"] < stopped + 150}
    learning = {line["loss"]["critic_loss"] for line in lines if line["step"] >= stopped + 150}
    assert len(waiting) == 1 and len(learning) > 2


def test_a_ring_of_an_earlier_version_is_neither_restored_nor_written_again(tmp_path):
    """Runs of these kinds had transitions on the policy's device then, in the checkpoint."""
    task, options = RUNS["vectors"]
    train(task, run_dir=tmp_path, quiet=True, **(options | {"total_steps": 400}))
    point, step = newest(tmp_path), newest(tmp_path).counters["step"]
    ring = {"memory": torch.zeros(400, 11), "written": torch.tensor(400), "collected": torch.tensor(400)}
    kept = {name: tensor for name, tensor in point.state.items() if not name.startswith(("steps.", "learner."))}
    counters = {name: value for name, value in point.counters.items() if name not in ("replay", "collected")}
    kept |= checkpoints.prefixed("replay", ring)
    name = checkpoints.step_name(step)
    checkpoints.save(tmp_path / "checkpoints", name, dataclasses.replace(point, state=kept, counters=counters))
    resume(tmp_path, quiet=True, total_steps=700)
    (told,) = (event.text for event in read_events(tmp_path / "events.jsonl") if event.kind == "warning")
    assert "empty replay (the checkpoint has none" in told
    point = newest(tmp_path)
    assert not checkpoints.group("replay", point.state)
    assert point.counters["collected"] == point.counters["step"] - step > 150


@pytest.mark.nightly
@pytest.mark.parametrize("more", [{}, {"prioritised": True, "n_step": 1}])
def test_dqn_without_samplers_learns_from_images(tmp_path, more):
    """A random player of Breakout earns 0.3 to 0.5."""
    options = {"samplers": 0, "preset": "fast", "replay_ratio": 1 / 8, "total_steps": 24_000, "seed": 2, "video": False}
    options |= {"tensorboard": False, "viewer": False, "quiet": True, "minibatch_size": 64, "epsilon_fraction": 0.3}
    result = train("MinAtar-Breakout-v1", "dqn", run_dir=tmp_path / "run", **(options | more))
    assert result.mean_return > 1.5
    assert evaluate(tmp_path / "run", episodes=10).mean_return > 2


def test_a_replay_of_steps_is_chosen_for_images_several_steps_and_priorities(monkeypatch):
    def has(task: str, **settings: Any) -> bool:
        return replays_steps(resolved(make_config(task, **settings)))

    assert has("MinAtar-Breakout-v1", algo="dqn", samplers=0)
    assert has("MinAtar-Breakout-v1", algo="dqn", deterministic=True)
    assert has(
        "MinAtar-Breakout-v1", algo="dqn", samplers=0, network="mlp", n_step=1
    )  # a byte for each value, not four
    assert has("CartPole-v1", algo="dqn", prioritised=True, samplers=0)
    assert has("Pendulum-v1", algo="td3", n_step=2, devices=("cpu", "cpu"))
    assert not has("CartPole-v1", algo="dqn", samplers=0)
    assert not has("MinAtar-Breakout-v1", algo="ppo") and not has("TagGridWorld-v0", algo="dqn", n_step=3)
    told = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "a", "MASTER_PORT": 1}
    for name, value in told.items():
        monkeypatch.setenv(name, str(value))
    config = resolved(make_config("MinAtar-Breakout-v1", algo="dqn", preset="fast"))
    assert config.samplers == 0 and replays_steps(config)


@pytest.mark.nightly
def test_each_of_two_processes_saves_and_restores_its_replay(tmp_path):
    """A run of two goes on as two, exactly; then as one; then as two again, of which both have what there is."""
    task, options = RUNS["images, several steps, by priority"]
    options = options | {"anneal_learning_rate": False, "log_steps": 1}
    folder = tmp_path / "run"
    both(run, folder, task, options)
    assert sorted(path.name for path in folder.glob("replay*")) == ["replay", "replay-1"]
    point = newest(folder)
    one, two = point.counters["replay"]
    assert one == two and point.counters["collected"] == point.counters["step"] >= 800
    resume(folder, quiet=True, total_steps=1000)
    assert [path.name for path in folder.glob("replay*")] == ["replay"]
    alone = newest(folder)
    assert len(alone.counters["replay"]) == 1 and alone.counters["replay"][0] > one
    both(go_on, folder, {"total_steps": 1400})
    point = newest(folder)
    one, two = point.counters["replay"]
    assert one == two > alone.counters["replay"][0]
    warnings = [event.text for event in read_events(folder / "events.jsonl") if event.kind == "warning"]
    assert warnings == [] and facts(folder)[-1]["step"] >= 1400


@pytest.mark.nightly
def test_a_process_without_its_part_of_the_replay_says_so(tmp_path):
    """As on another machine; all then wait together for as many steps as at the start."""
    task, options = RUNS["images, several steps, by priority"]
    both(run, tmp_path / "run", task, options)
    stopped = newest(tmp_path / "run").counters["step"]
    shutil.rmtree(tmp_path / "run" / "replay-1")
    both(go_on, tmp_path / "run", {"total_steps": 1600})
    (told,) = (event.text for event in read_events(tmp_path / "run" / "events.jsonl") if event.kind == "warning")
    assert told.startswith("rank 1: the run continues with an empty replay") and "replay-1" in told
    point = newest(tmp_path / "run")
    assert point.counters["collected"] == point.counters["step"] - stopped
    waiting = {line["loss"]["critic_loss"] for line in facts(tmp_path / "run") if 0 <= line["step"] - stopped < 300}
    assert len(waiting) == 1 and len({line["loss"]["critic_loss"] for line in facts(tmp_path / "run")[-5:]}) > 1


@pytest.mark.nightly
def test_all_processes_wait_for_one_without_transitions(tmp_path):
    """Without learning_starts: the one that lost its part has nothing to learn from after a step."""
    task, options = RUNS["vectors"]
    folder, options = tmp_path / "run", options | {"learning_starts": 0, "num_steps": 1, "replay_ratio": 1.0}
    both(run, folder, task, options | {"total_steps": 160})
    shutil.rmtree(folder / "replay-1")
    stopped = newest(folder).counters["step"]
    both(go_on, folder, {"total_steps": stopped + 160})
    assert facts(folder)[-1]["step"] >= stopped + 160
    assert len({line["loss"]["critic_loss"] for line in facts(folder) if line["step"] > stopped}) > 2


def test_more_processes_go_on_learning_from_copies(tmp_path):
    """The copies are as much as each had to collect before its first update, though together they collected less."""
    task, options = RUNS["vectors"]
    folder, options = tmp_path / "run", options | {"total_steps": 200, "num_steps": 4, "replay_ratio": 0.25}
    train(task, run_dir=folder, quiet=True, **options)
    alone = newest(folder).counters
    both(go_on, folder, {"total_steps": 260})
    point, lines = newest(folder), facts(folder)
    assert point.counters["collected"] == 2 * alone["collected"] + point.counters["step"] - alone["step"]
    later = {line["loss"]["critic_loss"] for line in lines if line["step"] > alone["step"]}
    assert point.counters["step"] < 300 and len(later) > 1
    resume(folder, quiet=True, total_steps=320)
    again = newest(folder).counters
    assert again["collected"] == point.counters["collected"] // 2 + again["step"] - point.counters["step"]


@pytest.mark.nightly
def test_two_processes_continue_as_if_left_alone(tmp_path):
    task, options = RUNS["images, several steps, by priority"]
    options = options | {"anneal_learning_rate": False}
    both(run, tmp_path / "whole", task, options | {"total_steps": 1600})
    both(run, tmp_path / "parts", task, options | {"total_steps": 1000})
    both(go_on, tmp_path / "parts", {"total_steps": 1600})
    assert_same_run(tmp_path / "whole", tmp_path / "parts")

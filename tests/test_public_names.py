"""The package's names as editors, type checkers and help() see them."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import headrace

ROOT = Path(__file__).parents[1]
PROGRAM = """
import headrace
import headrace.train.runners.callbacks
from headrace.train import resume

result = headrace.train("CartPole-v1", total_steps=10)
reveal_type(result.steps)
reveal_type(headrace.train.load("x"))
reveal_type(headrace.load("x"))
headrace.train.runners.callbacks.Callback
headrace.train(3)
"""
USER = """
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch

import headrace
from headrace.studies import train_seeds

with headrace.make("CartPole-v1", num_envs=64, seed=1) as pool:
    obs, info = pool.reset()
    actions = np.random.randint(0, pool.action_space.n, 64)
    obs, reward, terminated, truncated, info = pool.step(actions)
    width = pool.observation_space.shape[0]
for env in (headrace.make_gym("Pong-v5", frame_skip=2), headrace.make_vec("Pong-v5", device="cpu")):
    print(env.action_space.n, env.single_action_space.n)
torch_pool = headrace.make_torch("Pendulum-v1", num_envs=4, device=torch.device("cpu"))
print(torch_pool.action_space.low, headrace.make_spec("CartPole-v1").action_space.n)

settings: dict[str, object] = {}
headrace.train("CartPole-v1", "ppo", total_steps=10, seed=3, device=torch.device("cpu"), run_dir=Path("runs/x"))
headrace.train("Pong-v5", hidden=[64, 64], log="wandb", load=Path("runs/x"), env_options={"frame_skip": 2})
headrace.train("Pong-v5", "sac", schedules={"learning_rate": [(0, 1e-3), (100, 1e-4)]}, target_entropy=None)
headrace.train("Hunt", policies={"cat": {"agents": ["cat"]}}, network=torch.nn.Linear, reward=lambda step: 0)
headrace.train.resume("runs/x", total_steps=20)
train_seeds("CartPole-v1", seeds=3, total_steps=20, learning_rate=1)
"""
MISTAKES = """
import headrace
from headrace.studies import train_seeds

headrace.train("CartPole-v1", learning_rat=1e-3)
headrace.train("CartPole-v1", hidden=64)
headrace.train.resume("runs/x", learning_rate=1e-3)
train_seeds("CartPole-v1", totl_steps=3)
headrace.train("CartPole-v1", frame_skip=3)
headrace.make("CartPole-v1", num_envs="many")
"""


def test_a_type_checker_knows_the_call_of_train_and_the_names_of_its_module(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    for name, text in (("program", PROGRAM), ("user", USER), ("mistakes", MISTAKES)):
        (tmp_path / f"{name}.py").write_text(text)
    settings = f'{{"extraPaths": ["{ROOT / "src"}"]}}'
    (tmp_path / "pyrightconfig.json").write_text(settings)
    command = [sys.executable, "-m", "pyright", "--project", tmp_path, "--pythonpath", sys.executable]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert said.count('is "Agent"') == 2 and 'is "int"' in said, said
    wrong = re.findall(r"/(\w+)\.py:(\d+):\d+ - error: (.*)", said)
    assert [(file, text) for file, _, text in wrong if file == "program"] == [("program", mock.ANY)], said  # train(3)
    assert not [text for file, _, text in wrong if file == "user"], said
    lines = MISTAKES.splitlines()
    found = {lines[int(line) - 1] for file, line, _ in wrong if file == "mistakes"}
    assert found == {line for line in lines if line.startswith(("headrace", "train_seeds"))}, said


def test_dir_lists_public_names_before_they_are_loaded() -> None:
    listed = {name for name in dir(headrace) if not name.startswith("__")}
    assert listed == {*headrace.__all__} and "__version__" in dir(headrace)


def test_names_that_moved_to_studies_are_answered_with_their_place() -> None:
    for name in ("train_seeds", "resume_seeds"):
        with pytest.raises(AttributeError, match=f"{name} is in headrace.studies"):
            getattr(headrace.train, name)


def test_help_tells_how_train_is_called() -> None:
    assert list(inspect.signature(headrace.train).parameters)[:2] == ["task", "algo"]
    beginning = pydoc.plain(pydoc.render_doc(headrace.train)).partition("PACKAGE CONTENTS")[0]
    assert "total_steps, seed, device:" in beginning

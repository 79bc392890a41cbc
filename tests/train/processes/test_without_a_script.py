"""Training where there is no script that other processes could import: from standard input, and in a notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

QUICK = "video=False, tensorboard=False, evaluate_episodes=1, viewer=False, quiet=True"
WORKERS = f'"CartPole-v1", "dqn", samplers=1, learning_starts=200, total_steps=1000, {QUICK}'
TASK = """
import headrace
from headrace.pool.registry import build_task

def build(task, **options):
    return build_task("CartPole-v1", **options)

headrace.register("Mine-v0", build)
"""
NETWORK = """
import headrace, torch

class Net(torch.nn.Module):
    def __init__(self, space, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(space.shape[0], outputs)

    def forward(self, x):
        return self.layer(x), x[:, 0]
"""


def piped(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, cwd=folder, timeout=280)


@pytest.mark.nightly
def test_a_script_from_standard_input_trains_with_workers(tmp_path: Path):
    """Its networks and rewards reach them."""
    done = piped(
        f"{NETWORK}\nprint(headrace.train({WORKERS}, network=Net, reward=lambda s: s.reward).reason)\n", tmp_path
    )
    assert done.stdout.strip() == "finished", done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_a_piped_script_trains_on_several_devices(tmp_path: Path):
    quick = QUICK.replace("evaluate_episodes=1", "log_steps=99")
    call = f'"CartPole-v1", devices=("cpu", "cpu"), total_steps=512, {quick}'
    done = piped(f"import headrace\nprint(headrace.train({call}).reason)\n", tmp_path)
    assert done.stdout.strip() == "finished", done.stderr


@pytest.mark.nightly
def test_a_task_that_only_this_program_knows_is_trained_in_turn(tmp_path: Path):
    call = '"Mine-v0", "dqn", learning_starts=100, total_steps=300, video=False, tensorboard=False'
    done = piped(f"{TASK}\nprint(headrace.train({call}).reason)\n", tmp_path)
    assert done.stdout.strip().splitlines()[-1] == "finished", done.stderr
    assert "no other process can import it" in done.stdout
    done = piped(f"{TASK}\nheadrace.train({call}, samplers=1)\n", tmp_path)
    assert done.returncode == 1 and "put it into a file, my_env.py:NAME" in done.stderr


def test_a_piped_script_steps_its_python_environments(tmp_path: Path):
    code = """
import gymnasium as gym, headrace

class Mine(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}
    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}

with headrace.make(Mine, num_envs=4) as pool:
    pool.reset()
    print(pool.step([0, 1, 0, 1])[1].sum())
"""
    assert piped(code, tmp_path).stdout.strip() == "4.0"


def run_notebook(folder: Path, *cells: str) -> list[str]:
    """What each cell prints."""
    client: Any = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(  # of this Python, wherever kernels are installed
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client.NotebookClient(book, km=manager, timeout=None, resources={"metadata": {"path": str(folder)}}).execute()
    return ["".join(out.get("text", "") for out in cell.outputs) for cell in book.cells]


def test_a_notebook_trains_and_shows_plain_lines(tmp_path: Path):
    shown, acted, own = run_notebook(
        tmp_path,
        'import headrace\nresult = headrace.train("CartPole-v1", total_steps=4000, run_dir="run", video=False)\n'
        "print(result.reason)",
        'agent = headrace.load("run")\nprint(agent.act([0.0, 0.0, 0.0, 0.0]) in (0, 1))',
        f"{NETWORK}\nprint(headrace.train({WORKERS}, network=Net).reason)",
    )
    assert shown.strip().endswith("finished") and "\x1b" not in shown
    assert "CartPole-v1" in shown and "return" in shown
    assert acted.strip() == "True"
    assert own.strip() == "finished"

"""Scripts that train with processes: plain ones, and the few that need ``if __name__ == "__main__":``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nightly import rest_nightly

SETTINGS = "total_steps=64, quiet=True, video=False, tensorboard=False, evaluate_episodes=0, viewer=False"
MINE = """
import gymnasium as gym
import headrace


class Mine(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


def build(task, **options):
    return headrace.pool.registry.build_task("Pendulum-v1", **options)


gym.register("Mine-v0", entry_point=Mine, max_episode_steps=20)
gym.register("Mine-v1", entry_point="__main__:Mine", max_episode_steps=20)
headrace.register("Own-v0", build)
"""
TASKS = ("Mine-v0", "Mine-v1", "Own-v0")
SAMPLERS = 'algo="sac", samplers=1, actor_device="", learning_starts=10'
KERNELS = Path(__file__).parents[3] / "examples" / "kernel_environment.py"
TRAIN = f'headrace.train("TargetCart-v0", "dqn", samplers=1, learning_starts=10, {SETTINGS})'


def run(script: Path, text: str) -> subprocess.CompletedProcess[str]:
    script.write_text(text)
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=script.parent)


@pytest.mark.parametrize(
    "how", rest_nightly([SAMPLERS, 'devices=("cpu", "cpu")'], SAMPLERS), ids=["workers", "devices"]
)
def test_a_plain_script_trains_on_its_own_tasks(tmp_path: Path, how: str) -> None:
    """Without a guard: workers receive the tasks by value, and none imports the script."""
    tasks = TASKS if how == SAMPLERS else TASKS[:1]
    calls = [f'print("reason", headrace.train("{task}", {how}, {SETTINGS}).reason)\n' for task in tasks]
    done = run(tmp_path / "script.py", MINE + "".join(calls))
    assert done.stdout == "reason finished\n" * len(tasks), done.stderr
    assert done.returncode == 0


@pytest.mark.nightly
def test_a_script_whose_kernels_workers_import_is_told_in_one_sentence(tmp_path: Path) -> None:
    kernels = KERNELS.read_text().partition("if __name__")[0]
    script = tmp_path / "script.py"
    done = run(script, f"{kernels}\n{TRAIN}\n")
    assert done.returncode == 1
    assert 'if __name__ == "__main__":' in done.stderr and str(script) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "runs").iterdir())  # no worker began a run of its own, and that of this one never began


@pytest.mark.nightly
def test_a_folder_is_free_again_for_the_mended_script(tmp_path: Path) -> None:
    script, call = tmp_path / "script.py", TRAIN.replace("samplers", 'run_dir="here", samplers')
    kernels = KERNELS.read_text().partition("if __name__")[0]
    assert run(script, f"{kernels}\n{call}\n").returncode == 1
    done = run(script, f'{kernels}\nif __name__ == "__main__":\n    print({call}.reason)\n')
    assert done.stdout.strip().endswith("finished"), done.stderr

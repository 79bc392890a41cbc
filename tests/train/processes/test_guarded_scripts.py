"""Scripts that train with processes: plain ones, and the few that need ``if __name__ == "__main__":``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.errors import ScriptError
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
ENV = MINE.partition("def build")[0]
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


CHILD = """
def child():
    with headrace.make(Mine, num_envs=2) as pool:
        pool.reset()
        pool.step([[0.0], [0.0]])
    print("reason", headrace.train("Own-v1", {how}).reason)
    print("reason", headrace.train("Mine-v2", {how}).reason)


gym.register("Mine-v2", entry_point=f"{{__name__}}:Mine", max_episode_steps=20)
headrace.register("Own-v1", build)
if __name__ == "__main__":
    from multiprocessing import get_context

    process = get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""


def test_workers_that_import_a_script_step_its_environments(tmp_path: Path) -> None:
    """They know it as ``__mp_main__``, and start processes for its environments, which have not imported it."""
    call = f'headrace.train(f"{{__file__}}:Mine", {SAMPLERS}, env_options={{"max_episode_steps": 20}}, {SETTINGS})'
    done = run(tmp_path / "script.py", f'{MINE}\nif __name__ == "__main__":\n    print("reason", {call}.reason)\n')
    assert done.stdout == "reason finished\n", done.stderr


@pytest.mark.nightly
def test_a_process_of_a_script_trains_on_the_tasks_that_the_script_registers(tmp_path: Path) -> None:
    how = f"{SAMPLERS}, {SETTINGS}"
    done = run(tmp_path / "script.py", MINE + CHILD.format(how=how))
    assert done.stdout == "reason finished\n" * 2, done.stderr


def test_a_file_that_trains_when_it_is_imported_for_its_task_is_refused(tmp_path: Path) -> None:
    """Each run of it would begin another one."""
    file = tmp_path / "mine_that_trains.py"
    file.write_text(f'{ENV}\nheadrace.train(f"{{__file__}}:Mine", {SETTINGS})\n')
    with pytest.raises(ScriptError, match=r"mine_that_trains\.py trains when it is imported.*__name__"):
        headrace.make(f"{file}:Mine", num_envs=1)


@pytest.mark.nightly
def test_seeds_of_a_plain_script_fail_and_begin_no_further_runs(tmp_path: Path) -> None:
    call = f'train_seeds(f"{{__file__}}:Mine", "ppo", seeds=[1], run_dir="here", {SETTINGS})'
    text = f"{ENV}\nfrom headrace.studies import train_seeds\nprint({call}[0].error)\n"
    done = run(tmp_path / "script.py", text)
    assert "put what it does under" in done.stdout, done.stderr
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["here"]


def test_a_script_behind_a_link_is_the_script_and_not_imported(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    script = tmp_path / "link" / "script.py"
    done = run(script, f'{MINE}\nprint(headrace.make_spec(f"{{__file__}}:Mine").observation_space.shape)\n')
    assert done.stdout == "(2,)\n", done.stderr


@pytest.mark.nightly
def test_an_unguarded_script_with_kernels_for_workers_gets_one_sentence(tmp_path: Path) -> None:
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

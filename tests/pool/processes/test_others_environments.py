"""Environments of other packages: in processes each gives the results of Gymnasium's own vector environment."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import headrace
import wrapped_games
from headrace.train import train
from nightly import rest_nightly

N = 2
WRAPPED = Path(wrapped_games.__file__)
# name → the package that brings it, and the environment's options
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gymnasium:LunarLander-v3": ("Box2D", {"max_episode_steps": 25}),
    "gymnasium:BipedalWalker-v3": ("Box2D", {"max_episode_steps": 25}),
    "gymnasium:CarRacing-v3": ("Box2D", {"max_episode_steps": 10}),
    "Acrobot-v1": ("pygame", {"max_episode_steps": 25}),
    "MountainCarContinuous-v0": ("pygame", {"max_episode_steps": 25}),
    "minigrid:MiniGrid-Empty-5x5-v0": ("minigrid", {"max_episode_steps": 25}),
    f"{WRAPPED}:pixels": ("minigrid", {}),
    f"{WRAPPED}:flat": ("minigrid", {}),
    "highway_env:highway-fast-v0": ("highway_env", {"config": {"vehicles_count": 3, "duration": 3}}),
    # Fetch and Shadow Hand are made by gymnasium-robotics for an older MuJoCo, and fail in themselves
    "gymnasium_robotics:PointMaze_UMaze-v3": ("gymnasium_robotics", {"max_episode_steps": 25}),
    f"{WRAPPED}:maze": ("gymnasium_robotics", {}),
    "ale_py:ALE/Pong-v5": ("ale_py", {"max_episode_steps": 25}),
    f"{WRAPPED}:screen": ("ale_py", {}),
}
NOT_VECTORS = {"minigrid:MiniGrid-Empty-5x5-v0", "gymnasium_robotics:PointMaze_UMaze-v3"}  # dicts; wrapped above
VECTORS = [task for task in OTHERS if task not in NOT_VECTORS]
SLOW = {"gymnasium:CarRacing-v3", "highway_env:highway-fast-v0", "ale_py:ALE/Pong-v5", f"{WRAPPED}:screen"}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """These packages warn of many things of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def cases(tasks: Any) -> Any:
    return pytest.mark.parametrize("task", tasks, ids=[task.rpartition(":")[2] for task in tasks])


def by_gymnasium(task: str, options: dict[str, Any]) -> Callable[[], gym.Env]:
    source, _, name = task.rpartition(":")
    return getattr(wrapped_games, name) if source == str(WRAPPED) else partial(gym.make, task, **options)


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            same(ours[key], value)
    elif isinstance(ours, np.ndarray) and ours.dtype == object:
        assert list(ours) == list(theirs)
    else:
        np.testing.assert_array_equal(ours, theirs)


@cases(OTHERS)
def test_results_equal_those_of_gymnasiums_vector_environment(task: str) -> None:
    package, options = OTHERS[task]
    pytest.importorskip(package, reason=f"{package} is not installed")
    theirs = SyncVectorEnv([by_gymnasium(task, options)] * N, autoreset_mode=AutoresetMode.SAME_STEP)
    settings: dict[str, Any] = {"num_envs": N, "num_threads": N, "seed": 3, "autoreset": "same_step"}
    with headrace.make(task, executor="processes", **settings, **options) as pool:
        same(pool.reset()[0], theirs.reset(seed=3)[0])
        theirs.action_space.seed(0)
        for _ in range(12 if task in SLOW else 40):
            action = theirs.action_space.sample()
            (obs, reward, terminated, truncated, info), expected = pool.step(action), theirs.step(action)
            same(obs, expected[0])
            np.testing.assert_array_equal(reward, expected[1].astype(np.float32))
            same((terminated, truncated), expected[2:4])
            for key, value in expected[4].items():
                if "final" not in key and key != "action":  # highway-env draws it without a seed
                    same(info[key], value)
    theirs.close()


@pytest.mark.parametrize("task", rest_nightly(VECTORS, "gymnasium:BipedalWalker-v3", "Acrobot-v1", f"{WRAPPED}:maze"))
def test_training_runs_in_environments_of_other_packages(task: str, tmp_path: Path) -> None:
    package, options = OTHERS[task]
    pytest.importorskip(package, reason=f"{package} is not installed")
    steps = 8 if task in SLOW else 16
    settings: dict[str, Any] = {"num_envs": N, "num_steps": steps, "minibatch_size": steps, "env_options": options}
    total = 3 * N * steps
    result = train(task, run_dir=tmp_path, quiet=True, total_steps=total, video=False, **settings)
    assert result.steps == total


def test_a_maze_whose_inner_environment_renders_has_frames() -> None:
    pytest.importorskip("gymnasium_robotics", reason="gymnasium_robotics is not installed")
    with headrace.make("gymnasium_robotics:PointMaze_UMaze-v3", num_envs=1, seed=1) as pool:
        pool.reset()
        try:
            frames = pool.render()
        except headrace.errors.RenderError as error:
            pytest.skip(f"no OpenGL here: {error}")
        assert frames.shape == (1, 480, 480, 3) and frames.std() > 10


@pytest.mark.nightly
@pytest.mark.parametrize(
    "command", ["check gymnasium:LunarLander-v3", "train gymnasium:CarRacing-v3", "bench gymnasium:CarRacing-v3"]
)
def test_a_missing_package_is_named_in_one_line(command: str) -> None:
    code = "import sys; sys.modules['Box2D'] = None; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    ran = subprocess.run([sys.executable, "-c", code, *command.split()], capture_output=True, text=True, check=False)
    assert ran.stderr == f"headrace: {command.split()[1]} needs Box2D: pip install 'gymnasium[box2d]'\n"
    assert ran.returncode == 2


def test_the_error_keeps_the_own_message_of_an_environment_on_missing_packages() -> None:
    code = "import sys; sys.modules['mujoco'] = None; import headrace\n"
    code += "try: headrace.make('gymnasium:Ant-v5')\nexcept headrace.HeadraceError as error: print(error)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    assert said.startswith("gymnasium:Ant-v5 cannot be made: MuJoCo is not installed, run `pip install")
    assert said.count("\n") == 1

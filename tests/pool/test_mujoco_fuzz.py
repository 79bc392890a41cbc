"""Any model with any numbers gives a clear error or the end of an episode, and affects no other environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

from mujoco_fuzz import exotic, model_of, shipped, task_over

import headrace
from headrace.errors import EnvironmentFailure, OptionError
from nightly import rest_nightly

mujoco: Any = pytest.importorskip("mujoco")
CHUNKS = 3  # parts of the list of models, each run in a process of its own
ENDED = "episodes ended"
# models that are refused, and a word of the reason
REFUSED = {"sleep": "sleep", "own contact memory": "ipc"}


def fuzzed(names: list[str], seed: int) -> dict[str, str]:
    """Returns the outcome of each model; the message about a crash, a hang or a failed check names the model."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::RuntimeWarning",
            str(Path(__file__).with_name("mujoco_fuzz.py")),
            str(seed),
            *names,
        ],
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert done.returncode == 0, f"at {list(told)[-1:]}: {done.returncode}\n{done.stderr[-3000:]}"
    assert set(names) <= set(told)
    return {name: told[name] for name in names}


@pytest.mark.nightly
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_shipped_models_survive_invalid_states(chunk: int) -> None:
    results = fuzzed(list(shipped())[chunk::CHUNKS], seed=1)
    models = [result for result in results.values() if result != "no model"]
    assert len(models) > 10
    assert all(ENDED in result for result in models), results


def test_models_with_unusual_parts_run_or_are_refused() -> None:
    results = fuzzed(list(exotic()), seed=1)
    for name, result in results.items():
        if name in REFUSED:
            assert result.startswith("OptionError: ")
            assert REFUSED[name] in result
        elif name == "little memory":
            assert "0 episodes ended, 12 failed" in result
        else:
            assert ENDED in result, name


SHARED = [name for name in exotic() if name not in REFUSED and name != "little memory"]


@pytest.mark.parametrize("name", rest_nightly(SHARED, *SHARED[::4]))
def test_environments_sharing_a_thread_step_like_separate_simulations(name: str) -> None:
    """They are equal bit for bit, also if the model has plugins, delays or memory of its own."""
    model: Any = model_of(name)
    headrace.register("Fuzzed-v0", task_over(model), replace=True)
    rng = np.random.default_rng(0)
    settings = {"num_envs": 3, "num_threads": 1, "seed": 2, "max_episode_steps": 0, "physics": "mujoco"}
    with headrace.make("Fuzzed-v0", **settings) as pool:
        obs, _ = pool.reset()
        alone = [mujoco.MjData(model) for _ in range(3)]
        for data, start in zip(alone, obs, strict=True):
            data.qpos[:], data.qvel[:] = start[: model.nq], start[model.nq :]
            mujoco.mj_forward(model, data)
        for _ in range(20):
            actions = rng.uniform(-1, 1, (3, model.nu))
            obs, _, _, _, info = pool.step(actions)
            for data, action, seen, warning in zip(alone, actions, obs, info["physics_warning"], strict=True):
                data.ctrl[:] = action
                mujoco.mj_step(model, data, nstep=2)
                assert warning == 0
                assert np.array_equal(seen, np.concatenate([data.qpos, data.qvel]))


def test_a_model_with_too_little_memory_is_an_environment_failure() -> None:
    headrace.register("Fuzzed-v0", task_over(model_of("little memory")), replace=True)
    with headrace.make("Fuzzed-v0", num_envs=2) as pool:
        actions = np.zeros((2, *(pool.action_space.shape or ())))
        with pytest.raises(EnvironmentFailure, match="increase <size memory"):  # noqa: PT012
            pool.reset()
            pool.step(actions)


def test_a_model_with_sleep_is_refused_with_the_flag_to_remove() -> None:
    headrace.register("Fuzzed-v0", task_over(model_of("sleep")), replace=True)
    with pytest.raises(OptionError, match='remove <flag sleep="enable"/>'):
        headrace.make("Fuzzed-v0", num_envs=1)

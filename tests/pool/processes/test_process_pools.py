"""Pools of Gymnasium environments in processes give the results of Gymnasium's own vector environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from simple_envs import Counter, Sleeper, actions, same

import headrace
from headrace.errors import RecvTimeoutError, SequenceError, StateError

N, W = 6, 2


MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "Taxi-v4"])
def test_results_equal_those_of_gymnasiums_sync_vector_env(task: str, autoreset: Any) -> None:
    theirs = SyncVectorEnv([lambda: gym.make(task)] * N, autoreset_mode=MODES[autoreset])
    with headrace.make(
        task, executor="processes", num_envs=N, num_threads=W, seed=7, autoreset=autoreset, max_episode_steps=None
    ) as pool:
        same(pool.reset(), theirs.reset(seed=7))
        theirs.action_space.seed(1)
        for _ in range(120):
            action = theirs.action_space.sample()
            result, expected = pool.step(action), theirs.step(action)
            np.testing.assert_allclose(result[1], expected[1], rtol=1e-6)
            same(result[0], expected[0])
            same(result[2:4], expected[2:4])
            infos = {k: v for k, v in expected[4].items() if k not in ("final_obs", "final_info", "_final_info")}
            same(result[4], infos)
            over = result[2] | result[3]
            if autoreset == "same_step":
                for i in np.flatnonzero(over):
                    np.testing.assert_array_equal(result[4]["final_obs"][i], expected[4]["final_obs"][i])
            if autoreset == "disabled" and over.any():
                reset = pool.reset(options={"reset_mask": over})
                expected = theirs.reset(options={"reset_mask": over})
                same(reset[0], expected[0][over])


def test_nested_observations_actions_and_infos_have_the_layout_of_gymnasium() -> None:
    with headrace.make(Counter, num_envs=N, num_threads=W, seed=3, autoreset="same_step", length=3) as pool:
        obs, info = pool.reset()
        assert obs["count"].tolist() == [[0, 3]] * N and obs["inner"][0].tolist() == [0] * N
        assert obs["name"].tolist() == ["n0"] * N
        singles = [Counter(3) for _ in range(N)]
        assert info["drawn"].tolist() == [env.reset(seed=3 + i)[1]["drawn"] for i, env in enumerate(singles)]
        kept = [pool.step(actions(N)) for _ in range(3)]
        (o1, r1, te1, tr1, i1), (_, _, _, _, i2), (o3, r3, te3, _, i3) = kept
        assert "even" not in i1 and o1["name"].tolist() == ["n1"] * N and r1.tolist() == [1] * N
        assert i2["even"].tolist() == [True] * N and i2["_even"].all() and i2["nested"]["count"].tolist() == [2] * N
        assert te3.all() and r3.tolist() == [3] * N and not te1.any() and not tr1.any()
        assert o3["count"].tolist() == [[0, 3]] * N and o3["name"].tolist() == ["n0"] * N
        assert i3["final_obs"]["count"].tolist() == [[3, 3]] * N and i3["final_obs"]["name"].tolist() == ["n3"] * N
        assert i3["final_obs"]["inner"][1].tolist() == [[1, 1, 0]] * N
        assert i3["final_info"]["nested"]["count"].tolist() == [3] * N
        assert i3["elapsed_step"].tolist() == [0] * N and i3["final_info"]["elapsed_step"].tolist() == [3] * N
        assert pool.call("length") == [3] * N
        acted = pool.call("acted")
        assert acted[1][0]["b"].tolist() == actions(N)["b"][1].tolist()


def test_results_of_partial_steps_come_in_the_order_of_env_ids() -> None:
    with headrace.make(Counter, num_envs=N, num_threads=W, seed=0, length=50) as pool:
        pool.reset()
        for count in range(1, 5):
            obs, _, _, _, info = pool.step(actions(3), [4, 1, 2])
            assert info["env_id"].tolist() == [4, 1, 2] and obs["inner"][0].tolist() == [count] * 3
        pool.reset([1])
        obs, _, _, _, info = pool.step(actions(N))
        assert obs["inner"][0].tolist() == [1, 1, 5, 1, 5, 1]
        pool.send(actions(2), [5, 0])
        pool.send(actions(1), [3])
        obs, _, _, _, info = pool.recv()
        assert info["env_id"].tolist() == [5, 0, 3] and obs["inner"][0].tolist() == [2, 2, 2]


def test_asynchronous_results_come_in_the_order_they_finish() -> None:
    with headrace.make(Sleeper, num_envs=4, batch_size=2, num_threads=4, seed=0) as pool:
        pool.async_reset()
        first = [set(pool.recv()[4]["env_id"].tolist()) for _ in range(2)]
        assert first[0] | first[1] == {0, 1, 2, 3}
        pool.send(np.array([600, 0, 600, 0]), np.arange(4))
        assert set(pool.recv()[4]["env_id"].tolist()) == {1, 3}
        with pytest.raises(RecvTimeoutError):
            pool.recv(timeout=0.05)
        assert set(pool.recv()[4]["env_id"].tolist()) == {0, 2}
        with pytest.raises(SequenceError):
            pool.recv()
        for _ in range(40):  # every result belongs to the step that was sent
            pool.send(np.zeros(2, np.int64), [0, 1])
            obs, reward, _, _, info = pool.recv()
            assert reward.tolist() == [1, 1] and sorted(info["env_id"]) == [0, 1] and obs.tolist() == [[1], [1]]


def test_kept_results_are_never_overwritten() -> None:
    with headrace.make(Counter, num_envs=N, num_threads=W, seed=0, length=1000) as pool:
        pool.reset()
        kept = [pool.step(actions(N)) for _ in range(60)]
        views = [result[0]["count"][2:4] for result in kept]
        del kept[10:]
    for count, (obs, reward, *_) in enumerate(kept, 1):
        assert reward.tolist() == [count] * N and obs["inner"][0].tolist() == [count] * N
    assert [view[0, 0] for view in views] == list(range(1, 61))


def test_states_are_saved_and_loaded() -> None:
    with headrace.make("CartPole-v1", executor="processes", num_envs=4, num_threads=2, seed=5) as pool:
        pool.reset()
        act = np.array([0, 1, 1, 0])
        for _ in range(9):
            pool.step(act)
        saved = pool.save_state()
        first = [pool.step(act) for _ in range(40)]
        pool.load_state(None, saved)
        again = [pool.step(act) for _ in range(40)]
        for a, b in zip(first, again, strict=True):
            same(a[:4], b[:4])


def test_saving_an_environment_that_cannot_be_pickled_raises_an_error() -> None:
    class Held(Sleeper):
        def __init__(self) -> None:
            self.lock = __import__("threading").Lock()

    with headrace.make(Held, num_envs=2, seed=0) as pool:
        pool.reset()
        with pytest.raises(StateError, match="cannot be pickled"):
            pool.save_state()
        pool.step(np.zeros(2, np.int64))


WALK = Path(__file__).parents[2] / "train" / "runners" / "unsaved_env.py"


SCRIPT = """
import dataclasses, multiprocessing, os, sys
import gymnasium as gym, numpy as np
import headrace

@dataclasses.dataclass
class Settings:
    size: int = 3

class Mine(gym.Env):
    action_space = gym.spaces.Discrete(2)
    def __init__(self, settings):
        self.observation_space = gym.spaces.Box(0, 1, (settings.size,), np.float32)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.float32), {}
    def step(self, action):
        return np.ones(self.observation_space.shape, np.float32), 1.0, False, False, {}

with headrace.make(Mine, num_envs=2, settings=Settings(4)) as pool:
    assert pool.reset()[0].shape == (2, 4)
    pool.load_state(None, pool.save_state())
    if os.fork() == 0:  # the child needs a fork server of its own
        with headrace.make(Mine, num_envs=2, settings=Settings(5)) as another:
            assert another.reset()[0].shape == (2, 5)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
with headrace.make(f"{sys.argv[1]}:Walk", num_envs=2) as pool:
    assert pool.reset()[0].shape == (2, 2)
print("fine")
"""


def test_classes_of_a_script_and_environments_in_other_files_work(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", os.path.relpath(WALK, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr

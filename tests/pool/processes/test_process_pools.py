"""Pools of Gymnasium environments in processes: what comes back is what Gymnasium's own vector environment gives."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import headrace
from headrace.errors import (
    EnvironmentFailure,
    OptionError,
    RecvTimeoutError,
    RenderError,
    SequenceError,
    StateError,
)
from headrace.pool.executors.processes.task import process_task

MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}
N, W = 6, 2


class Reporter(gym.Env):
    """Says in its info which number it has and how many steps it took, and at times something else."""

    observation_space = gym.spaces.Discrete(100)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, number: int):
        self.number, self.count = number, 0

    def _said(self) -> tuple[int, dict[str, Any]]:
        info = {"number": self.number, "counts": np.array([self.count, -self.count])}
        return self.count, info | ({"odd": True} if self.count % 2 else {})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.count = 0
        return self._said()

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.count += 1
        obs, info = self._said()
        return obs, 0.0, self.count == 3, False, info


class Counter(gym.Env):
    """Counts its steps; episodes last as long as the first action says. What it shows is everything at once."""

    observation_space = gym.spaces.Dict(
        {
            "count": gym.spaces.Box(0, 1000, (2,), np.float32),
            "inner": gym.spaces.Tuple((gym.spaces.Discrete(1000), gym.spaces.MultiBinary(3))),
            "name": gym.spaces.Text(8),
        }
    )
    action_space = gym.spaces.Dict({"a": gym.spaces.Discrete(5), "b": gym.spaces.Box(-1, 1, (2,), np.float64)})

    def __init__(self, length: int = 4):
        self.length, self.count = length, 0
        self.acted: list[Any] = []

    def _seen(self) -> dict[str, Any]:
        count = self.count
        return {
            "count": np.array([count, self.length], np.float32),
            "inner": (count, np.array([count & 1, count >> 1 & 1, count >> 2 & 1], np.int8)),
            "name": f"n{count}",
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._seen(), {"drawn": int(self.np_random.integers(1000))}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        if action["a"] == 4 and self.count == 2:
            raise ZeroDivisionError("this one was asked to fail")
        self.count += 1
        self.acted.append(action)
        over = self.count >= self.length
        info = {"even": self.count % 2 == 0, "nested": {"count": self.count}}
        return self._seen(), float(self.count), over, False, info if self.count > 1 else {}


class Sleeper(gym.Env):
    """Sleeps for as many milliseconds as the action says."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(100_000)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == 99_999:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(int(action) / 1000)
        return np.ones(1, np.float32), 1.0, False, False, {}


def same(ours: Any, theirs: Any) -> None:
    """That two results are equal; theirs may have wider numbers."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        for key, value in theirs.items():
            same(ours[key], value)
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "Taxi-v4"])
def test_it_does_what_gymnasium_does(task: str, autoreset: Any) -> None:
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


def actions(rows: int, a: int = 0) -> dict[str, np.ndarray]:
    return {"a": np.full(rows, a), "b": np.linspace(-1, 1, 2 * rows).reshape(rows, 2)}


def test_nested_observations_actions_and_infos_are_gymnasiums() -> None:
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


def test_partial_steps_come_in_the_order_named() -> None:
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


def test_asynchronous_results_come_as_they_are_done() -> None:
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


def test_results_that_are_kept_stay_as_they_are() -> None:
    with headrace.make(Counter, num_envs=N, num_threads=W, seed=0, length=1000) as pool:
        pool.reset()
        kept = [pool.step(actions(N)) for _ in range(60)]
        views = [result[0]["count"][2:4] for result in kept]
        del kept[10:]
    for count, (obs, reward, *_) in enumerate(kept, 1):
        assert reward.tolist() == [count] * N and obs["inner"][0].tolist() == [count] * N
    assert [view[0, 0] for view in views] == list(range(1, 61))


def test_an_environment_that_raises_is_named_and_the_others_go_on() -> None:
    with headrace.make(Counter, num_envs=N, num_threads=W, seed=0, length=9) as pool:
        pool.reset()
        for _ in range(2):
            pool.step(actions(N))
        wrong = actions(N)
        wrong["a"][3] = 4
        with pytest.raises(EnvironmentFailure, match=r"environment 3 raised(.|\n)*asked to fail") as failure:
            pool.step(wrong)
        assert isinstance(failure.value.__cause__, ZeroDivisionError)
        assert "worker.py" not in str(failure.value)
        with pytest.raises(EnvironmentFailure, match=r"environment 3(.|\n)*reset"):
            pool.step(actions(N))
        pool.reset([3])
        obs, *_ = pool.step(actions(N))
        assert obs["inner"][0].tolist() == [5, 5, 5, 1, 5, 5]


def test_a_killed_worker_is_an_error_that_names_its_environments() -> None:
    with headrace.make(Sleeper, num_envs=4, num_threads=2, seed=0) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=r"SIGKILL.*environments 2 to 3"):
            pool.step(np.array([0, 0, 99_999, 0]))
        obs, *_ = pool.step(np.zeros(2, np.int64), [0, 1])
        assert obs.tolist() == [[1], [1]]
        pool.reset([2, 3])
        assert pool.step(np.zeros(4, np.int64))[1].tolist() == [1] * 4


@pytest.mark.parametrize("batch_size", [4, 2])
def test_lost_environments_begin_anew_truncated(batch_size: int) -> None:
    settings: dict[str, Any] = {"num_envs": 4, "batch_size": batch_size, "num_threads": 2, "on_failure": "restart"}
    with headrace.make(Sleeper, seed=0, autoreset="same_step", **settings) as pool:
        pool.async_reset() if batch_size < 4 else pool.reset()
        for _ in range(4 // batch_size if batch_size < 4 else 0):
            pool.recv()
        pool.send(np.array([0, 0, 99_999, 0]), np.arange(4))
        rows = {}
        for _ in range(4 // batch_size):
            obs, reward, terminated, truncated, info = pool.recv()
            assert not terminated.any()
            rows |= dict(zip(info["env_id"].tolist(), zip(truncated, reward, obs, strict=True), strict=True))
        assert [bool(rows[i][0]) for i in range(4)] == [False, False, True, True]
        assert [float(rows[i][1]) for i in range(4)] == [1, 1, 0, 0]
        pool.send(np.zeros(4, np.int64), np.arange(4))
        for _ in range(4 // batch_size):
            assert not pool.recv()[3].any()


def test_a_worker_that_hangs_is_ended() -> None:
    with headrace.make(Sleeper, num_envs=2, num_threads=2, seed=0, worker_timeout=3) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=r"got nothing done for 3 s.*environment 1 was in it"):
            pool.step(np.array([0, 60_000]))
        pool.reset([1])
        pool.step(np.array([0, 0]))


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


def test_an_environment_that_cannot_be_pickled_says_so() -> None:
    class Held(Sleeper):
        def __init__(self) -> None:
            self.lock = __import__("threading").Lock()

    with headrace.make(Held, num_envs=2, seed=0) as pool:
        pool.reset()
        with pytest.raises(StateError, match="cannot be pickled"):
            pool.save_state()
        pool.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_failure": "ignore"}, "on_failure must be one of raise, restart"),
        ({"worker_timeout": 0}, "worker_timeout must be"),
        ({"executor": "threads"}, "executor must be"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(Sleeper, **options)


class Drawn(Sleeper):
    """Draws its number of steps, if it was told that somebody looks."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (Gymnasium's own convention)
    render_mode = None
    steps = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return super().step(action)

    def render(self) -> Any:
        return np.full((2, 4, 3), self.steps, np.uint8) if self.render_mode == "rgb_array" else None


class Fatal(Sleeper):
    """Ends its process as soon as it is made there."""

    def __init__(self) -> None:
        if multiprocessing.parent_process() is not None:
            os._exit(3)


def test_a_worker_that_ends_whenever_it_is_started_is_given_up() -> None:
    pool = headrace.make(Fatal, num_envs=2, num_threads=1, on_failure="restart")
    with pytest.raises(EnvironmentFailure, match="exit status 3"):
        pool.reset()
    pool.close()


class Odd(Sleeper):
    """Gives back what it was made with."""

    def __init__(self, given: Any = None):
        self.given = given

    def step(self, action: Any) -> Any:
        obs, *_ = super().step(0)
        return obs, *(self.given[int(action)] if isinstance(self.given, list) else self.given)


def test_infos_of_several_sends_come_together() -> None:
    with headrace.make(Counter, num_envs=3, num_threads=2, length=3, autoreset="same_step", seed=0) as pool:
        pool.reset()
        for _ in range(2):
            pool.step(actions(3))
        pool.send(actions(1), [1])
        pool.send(actions(2), [2, 0])
        info = pool.recv()[-1]
        assert info["env_id"].tolist() == [1, 2, 0] and info["_drawn"].all()
        assert info["final_info"]["nested"]["count"].tolist() == [3] * 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((None, False, False, {}), "reward=None"),
        ((1.0, False, False, [1]), r"info must be a dict, not \[1\]"),
    ],
)
def test_what_no_step_gives_is_an_environments_failure(given: Any, words: str) -> None:
    with headrace.make(Odd, num_envs=2, given=given) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure, match=f"environment 0 raised(.|\n)*{words}"):
            pool.step(np.zeros(2, np.int64))


def test_infos_that_do_not_fit_an_array_are_objects() -> None:
    given = [(0.0, False, False, {"x": np.arange(5.0), "n": 1}), (0.0, False, False, {"x": np.arange(1.0), "n": 2**70})]
    with headrace.make(Odd, num_envs=2, given=given) as pool:
        pool.reset()
        info = pool.step(np.array([0, 1]))[-1]
        assert [len(x) for x in info["x"]] == [5, 1] and info["n"].tolist() == [1, 2**70]


def test_a_call_that_finds_its_worker_gone_says_so() -> None:
    with headrace.make(Sleeper, num_envs=2, num_threads=1, on_failure="restart") as pool:
        pool.set_attr("name", ["a", "b"])  # before the first reset
        pool.reset()
        (worker,) = pool._executor._dispatch._crew._processes  # type: ignore[attr-defined]
        worker.kill()
        worker.join()
        with pytest.raises(EnvironmentFailure, match="not answered"):
            pool.get_attr("name")
        assert pool.step(np.zeros(2, np.int64))[3].all()


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
    if os.fork() == 0:  # which needs a server of its own
        with headrace.make(Mine, num_envs=2, settings=Settings(5)) as another:
            assert another.reset()[0].shape == (2, 5)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
with headrace.make(f"{sys.argv[1]}:Walk", num_envs=2) as pool:
    assert pool.reset()[0].shape == (2, 2)
print("fine")
"""


def test_what_a_script_makes_itself_and_files_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", os.path.relpath(WALK, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_pictures_are_drawn_for_who_asks() -> None:
    with headrace.make(Drawn, num_envs=3, num_threads=2) as pool:
        pool.reset()
        pool.step(np.zeros(2, np.int64), [0, 2])
        pool.step(np.zeros(1, np.int64), [2])
        frames = pool.render([2, 1, 0])
        assert frames.shape == (3, 2, 4, 3) and frames[:, 0, 0, 0].tolist() == [2, 0, 1]
    with headrace.make(Sleeper, num_envs=1) as pool:
        pool.reset()
        with pytest.raises(RenderError, match="draws no frames"):
            pool.render()


class Undrawn(Sleeper):
    """Could draw, had it been made for it."""

    def render(self) -> Any:
        raise AttributeError("Unexpected mode: None")


def test_what_render_raises_says_why_there_are_no_frames_and_harms_nothing() -> None:
    with headrace.make(Undrawn, num_envs=2, num_threads=1) as pool:
        pool.reset()
        with pytest.raises(RenderError, match="draws no frames: its render raised AttributeError: Unexpected mode"):
            pool.render()
        pool.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("given", "meant"), [("num_thread", "num_threads"), ("batchsize", "batch_size"), ("on_failures", "on_failure")]
)
def test_a_misspelt_option_names_the_nearest_and_what_the_environment_says(given: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        headrace.make("gymnasium:CartPole-v1", num_envs=2, **{given: 2})  # type: ignore[call-overload]
    assert f"has no option {given!r}, did you mean {meant!r}?" in str(caught.value)
    assert f"CartPoleEnv.__init__() got an unexpected keyword argument {given!r}" in str(caught.value)


def test_what_else_a_constructor_raises_is_its_own() -> None:
    def maker() -> gym.Env:
        raise TypeError("broken in itself")

    with pytest.raises(TypeError, match="broken in itself"):
        headrace.make(maker, num_envs=1)


def test_infos_that_a_task_declares_are_plain_arrays() -> None:
    info = (headrace.Field("number", np.dtype(np.int32)), headrace.Field("counts", np.dtype(np.float64), (2,)))
    spec = headrace.TaskSpec("Reporter-v0", Reporter.observation_space, Reporter.action_space, info)
    headrace.register("Reporter-v0", lambda task, **options: process_task(spec, Reporter, options), replace=True)
    with headrace.make("Reporter-v0", num_envs=5, num_threads=2, autoreset="same_step") as pool:
        _, info = pool.reset()
        assert info["number"].tolist() == [0, 1, 2, 3, 4] and info["number"].dtype == np.int32
        assert "_number" not in info and not info["counts"].any()
        for count in (1, 2):
            *_, info = pool.step(np.zeros(5, np.int64))
            assert info["counts"].tolist() == [[count, -count]] * 5
            assert ("odd" in info) == (count == 1)
        *_, terminated, _, info = pool.step(np.zeros(5, np.int64))
        assert terminated.all() and not info["counts"].any()
        assert info["final_info"]["counts"].tolist() == [[3, -3]] * 5
        assert info["final_info"]["number"].tolist() == [0, 1, 2, 3, 4]
        assert info["final_info"]["odd"].all()
    with headrace.make("Reporter-v0", num_envs=4, batch_size=2, num_threads=2) as pool:
        pool.async_reset()
        *_, info = pool.recv()
        assert np.array_equal(info["number"], info["env_id"])


class Blind(Sleeper):
    """Observes nothing that is a space."""

    observation_space = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("made_by", "words"),
    [
        (lambda: Sleeper, "makes the class Sleeper, not an environment"),
        (lambda: gym.make_vec("CartPole-v1", 2), "steps several environments together"),
        (lambda: headrace.make("CartPole-v1"), "makes a Pool, which steps several environments together"),
        (lambda: None, "makes a NoneType, which is no gymnasium.Env"),
        (Blind, "has None for a gymnasium.Space"),
    ],
)
def test_what_is_no_environment_is_refused_before_anything_is_stepped(made_by: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(made_by)

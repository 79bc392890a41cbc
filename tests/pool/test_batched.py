"""Classes that step all environments of a pool at once keep to what every pool promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from batched_walks import LENGTH, JaxWalk, OneWalk, TorchWalk, Walk

import headrace
import headrace.testing
from headrace.errors import OptionError, RenderError, SimulatorError, StateError, UnsupportedError
from headrace.train import train

FILE = Path(__file__).with_name("batched_walks.py")


def kept_numbers(pool: headrace.Pool, steps: int = 60) -> list[Any]:
    """All results of a run of random actions."""
    rng, seen = np.random.default_rng(3), [pool.reset()[0].copy()]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = pool.step(rng.integers(2, size=pool.num_envs))
        seen += [obs, reward, terminated, truncated, info["elapsed_step"], info["is_success"]]
    return seen


@pytest.mark.parametrize(
    ("kind", "library"),
    [
        (Walk, "numpy"),
        pytest.param(TorchWalk, "torch", marks=pytest.mark.nightly),
        pytest.param(JaxWalk, "jax", marks=pytest.mark.nightly),
    ],
)
def test_a_batched_class_passes_all_checks_of_a_task(kind: Any, library: str) -> None:
    pytest.importorskip(library)
    report = headrace.testing.check(kind)
    assert {"partial_steps", "asynchronous", "saved_states", "kept_results"} <= set(str(report).split())
    assert "rendering" in str(report)


def test_numpy_jax_and_torch_give_the_same_numbers(make: Any) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    first, *others = (kept_numbers(make(kind, num_envs=5, seed=7)) for kind in (Walk, TorchWalk, JaxWalk))
    for other in others:
        for one, two in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_batched_steps_equal_the_steps_of_single_environments(make: Any) -> None:
    """From the same initial states and with the same actions, until every episode has ended."""
    batched = make(Walk, num_envs=6, seed=2, autoreset="disabled", max_episode_steps=0)
    single = make(OneWalk, num_envs=6, seed=2, num_threads=1, autoreset="disabled")
    begun, _ = batched.reset()
    for env in range(6):
        single.reset(env_id=[env], options={"place": int(begun[env, 0])})
    running = np.arange(6)
    for _ in range(40):
        mine, theirs = (pool.step(np.ones(len(running), np.int64), running) for pool in (batched, single))
        for one, two in zip(mine[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(one, two)
        assert (mine[4]["is_success"] == (mine[0][:, 0] >= LENGTH)).all()
        running = running[~mine[2]]
        if not len(running):
            return
    pytest.fail("no walker has arrived")


def test_a_batched_class_takes_its_options_and_is_found_by_its_file(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(Walk, num_envs=1, length=3, max_episode_steps=4).spec.max_episode_steps == 4
    pool = make(f"{FILE}:Walk", num_envs=2, length=3, seed=1)
    pool.reset()
    ends = [pool.step(np.ones(2, np.int64))[2] for _ in range(3)]
    assert np.any(ends)
    with pytest.raises(OptionError, match="no option 'lenth'; it has length, max_episode_steps"):
        make(Walk, lenth=3)
    with pytest.raises(OptionError, match="no device 'cuda:0'"):
        make(Walk, device="cuda:0")


def test_wrong_results_of_a_batched_class_are_named_and_a_reset_recovers(make: Any) -> None:
    class Wrong(Walk):
        fault = ""

        def step(self, actions: np.ndarray) -> Any:
            reward, over = super().step(actions)
            wrong = {"scalar": (1.0, over), "ends": (reward, over.astype(np.int64)), "one": reward}
            return wrong.get(self.fault, (reward, over))

        def observe(self) -> np.ndarray:
            return super().observe()[:, 0] if self.fault == "shape" else super().observe()

        def info(self) -> dict[str, np.ndarray]:
            return {} if self.fault == "info" else super().info()

    for fault, words in {
        "scalar": r"rewards of .*Wrong's step must be float32\[3\], not float64\[\]",
        "ends": r"ends of .*Wrong's step must be bool\[3\], not int64\[3\]",
        "one": "must return rewards and ends",
        "shape": r"obs of .*Wrong must be float32\[3, 1\], not float32\[3\]",
        "info": "info has no 'is_success'",
    }.items():
        Wrong.fault = ""
        pool = make(Wrong, num_envs=3)
        pool.reset()
        Wrong.fault = fault
        with pytest.raises(SimulatorError, match=words):
            pool.step(np.ones(3, np.int64))
        Wrong.fault = ""
        with pytest.raises(headrace.HeadraceError, match="reset"):  # as nobody knows what was stepped
            pool.step(np.ones(3, np.int64))
        pool.reset()
        pool.step(np.ones(3, np.int64))

    class Spaceless(headrace.BatchedEnv):
        action_space = gym.spaces.Discrete(2)

    with pytest.raises(OptionError, match="Spaceless needs an observation_space"):
        make(Spaceless)


def test_a_class_without_state_steps_only_all_environments_at_once(make: Any) -> None:
    class Hidden(Walk):
        def __init__(self, num_envs: int):
            super().__init__(num_envs)
            self.own, self.state = self.state, {}

        def reset(self, mask: np.ndarray, seeds: np.ndarray) -> None:
            self.own["place"][mask] = 0

        def step(self, actions: np.ndarray) -> Any:
            self.own["place"] += 1
            return np.zeros(self.num_envs), np.zeros(self.num_envs, bool)

        def observe(self) -> np.ndarray:
            return self.own["place"][:, None].astype(np.float32)

        def info(self) -> dict[str, np.ndarray]:
            return {"is_success": np.zeros(self.num_envs, bool)}

    pool = make(Hidden, num_envs=3)
    pool.reset()
    assert pool.step(np.ones(3, np.int64))[0].ravel().tolist() == [1, 1, 1]
    with pytest.raises(UnsupportedError, match=r"keeps nothing in self\.state: its environments cannot be saved"):
        pool.save_state([0])
    for call in (pool.step, pool.send):
        with pytest.raises(UnsupportedError, match=r"Hidden keeps nothing in self\.state: some of its environments"):
            call(np.ones(1, np.int64), [0])
    assert pool.step(np.ones(3, np.int64))[0].ravel().tolist() == [2, 2, 2]  # nothing was stepped


def test_a_class_may_keep_its_actions_and_a_caller_reuse_theirs(make: Any) -> None:
    class Last(Walk):
        """Its rewards are the actions of the step before."""

        def __init__(self, num_envs: int):
            super().__init__(num_envs)
            self.state["last"] = np.zeros(num_envs, np.int64)

        def reset(self, mask: np.ndarray, seeds: np.ndarray) -> None:
            super().reset(mask, seeds)
            self.state["last"][mask] = 0

        def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            before, self.state["last"] = self.state["last"].astype(np.float32), actions
            return before, np.zeros(self.num_envs, bool)

    pool = make(Last, num_envs=2)
    pool.reset()
    actions = np.array([0, 1])
    pool.step(actions)
    actions[:] = [1, 0]
    assert pool.step(actions)[1].tolist() == [0, 1]
    pool.reset([0])
    assert actions.tolist() == [1, 0]


def test_a_class_that_takes_no_number_of_environments_is_refused(make: Any) -> None:
    class Few(Walk):
        def __init__(self, n: int = 3):
            super().__init__(n)

    with pytest.raises(OptionError, match=r"Few\.__init__ must have an argument num_envs"):
        make(Few, num_envs=3)


def test_states_of_a_class_that_keeps_other_arrays_are_refused(make: Any) -> None:
    class Renamed(Walk):
        kind: Any = np.int64

        def __init__(self, num_envs: int):
            super().__init__(num_envs)
            self.state["place"] = self.state["place"].astype(self.kind)

    pool = make(Renamed, num_envs=2, seed=1)
    pool.reset()
    blobs = pool.save_state([0, 1])
    Renamed.kind = np.uint64
    other = make(Renamed, num_envs=2, seed=1)
    other.reset()
    mine = other.save_state([0, 1])
    with pytest.raises(StateError, match="or one of another version of it"):
        other.load_state([0, 1], [mine[0], blobs[1]])
    assert other.save_state([0, 1]) == mine


def test_an_exception_of_a_batched_class_is_passed_on_unchanged(make: Any) -> None:
    class Broken(Walk):
        def step(self, actions: np.ndarray) -> Any:
            raise ZeroDivisionError("in my step")

    pool = make(Broken, num_envs=2)
    pool.reset()
    with pytest.raises(ZeroDivisionError, match="in my step"):
        pool.step(np.ones(2, np.int64))


def test_a_batched_class_renders_only_if_it_defines_render(make: Any) -> None:
    pool = make(Walk, num_envs=2)
    pool.reset()
    assert pool.render([1]).shape == (1, 8, 24, 3)

    class Blind(Walk):
        render = headrace.BatchedEnv.render

    blind = make(Blind, num_envs=1)
    blind.reset()
    with pytest.raises(RenderError, match="define its render"):
        blind.render([0])


@pytest.mark.parametrize("samplers", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_ppo_solves_a_batched_class(samplers: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    how = {"total_steps": 30_000, "num_envs": 16, "num_steps": 32, "video": False, "quiet": True, "viewer": False}
    result = train(
        f"{FILE}:Walk", "ppo", run_dir=tmp_path / "run", stop_at_return=0.9, stop_episodes=50, samplers=samplers, **how
    )
    assert result.reason == "solved"

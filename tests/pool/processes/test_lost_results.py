"""Rows without a result are marked, pools of any function can be pickled, and unusual spaces work."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.errors import ActionError, EnvironmentFailure, StateError, UnknownTaskError

RAISE, DIE = 8, 9


class Fragile(gym.Env):
    """Counts; raises, or ends its process, when it is told to."""

    observation_space = gym.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gym.spaces.Discrete(10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == RAISE:
            raise ZeroDivisionError("told to")
        self.count += 1
        return np.array([self.count], np.float32), 1.0, False, False, {}


def received(pool: Any, batches: int) -> tuple[dict[int, tuple[float, bool]], list[str]]:
    """Environment → its reward and whether its row is marked as failed; and the errors on the way."""
    rows: dict[int, tuple[float, bool]] = {}
    errors: list[str] = []
    while len(rows) < batches * pool.batch_size:
        try:
            _, reward, _, _, info = pool.recv(timeout=60)
        except EnvironmentFailure as error:
            errors.append(str(error))
            continue
        failed = info.get("failed", np.zeros(len(reward), bool))
        assert "_failed" not in info or (info["_failed"] == failed).all()
        rows |= dict(zip(info["env_id"].tolist(), zip(reward.tolist(), failed.tolist(), strict=True), strict=True))
    return rows, errors


@pytest.mark.parametrize(("what", "hit", "words"), [(RAISE, {2}, "told to"), (DIE, {2, 3}, "SIGKILL")])
def test_rows_without_a_result_are_marked_as_failed(what: int, hit: set[int], words: str) -> None:
    with headrace.make(Fragile, num_envs=4, batch_size=2, num_threads=2) as pool:
        pool.async_reset()
        received(pool, 2)
        pool.send([1, 1, 1, 1], range(4))
        received(pool, 2)
        pool.send([1, 1, what, 1], range(4))
        rows, errors = received(pool, 2)
        assert len(errors) == 1 and words in errors[0]
        assert {i for i, (_, failed) in rows.items() if failed} == hit
        assert [rows[i][0] for i in range(4)] == [0.0 if i in hit else 1.0 for i in range(4)]
        pool.reset(sorted(hit)) if len(hit) == 2 else pool.reset()
        if len(hit) == 1:
            pool.recv()
        pool.send([1, 1, 1, 1], range(4))
        assert received(pool, 2) == (dict.fromkeys(range(4), (1.0, False)), [])


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_restarted_environments_are_marked_in_info(autoreset: Any) -> None:
    with headrace.make(Fragile, num_envs=4, num_threads=2, on_failure="restart", autoreset=autoreset) as pool:
        pool.reset()
        for _ in range(3):
            assert "restarted" not in pool.step([1] * 4)[-1]
        obs, reward, terminated, truncated, info = pool.step([1, 1, DIE, 1])
        assert info["restarted"].tolist() == info["_restarted"].tolist() == truncated.tolist()
        assert truncated.tolist() == [False, False, True, True] and not terminated.any()
        assert obs.tolist() == [[4], [4], [0], [0]] and reward.tolist() == [1, 1, 0, 0]
        if autoreset == "disabled":
            pool.reset([2, 3])
        assert "restarted" not in pool.step([1] * 4)[-1]


def kill_workers(pool: Any) -> None:
    for worker in pool._executor._dispatch._workers._processes:
        worker.kill()
        worker.join()


def each_call(pool: Any) -> list[Any]:
    return [
        lambda: pool.get_attr("count"),
        lambda: pool.set_attr("count", 7),
        lambda: pool.call("reset"),
        lambda: pool.save_state(),
        lambda: pool.render(),
    ]


def test_a_new_environment_never_answers_for_a_lost_one() -> None:
    with headrace.make(Fragile, num_envs=2, num_threads=1, on_failure="restart") as pool:
        pool.reset()
        saved = pool.save_state()
        pool.step([1, 1])
        kill_workers(pool)
        with pytest.raises(EnvironmentFailure, match="not answered"):
            pool.get_attr("count")
        for call in each_call(pool):
            with pytest.raises(EnvironmentFailure, match=r"environment 0 was lost with its process.*step or reset"):
                call()
        *_, truncated, info = pool.step([1, 1])
        assert truncated.all() and info["restarted"].all() and pool.get_attr("count") == [0, 0]
        kill_workers(pool)
        with pytest.raises(EnvironmentFailure, match="not answered"):
            pool.get_attr("count")
        pool.load_state(None, saved)
        assert pool.get_attr("count") == [0, 0]
        obs, _, _, truncated, _ = pool.step([1, 1])
        assert obs.tolist() == [[1], [1]] and not truncated.any()


@pytest.mark.parametrize(("what", "words"), [(DIE, "lost with its process: reset"), (RAISE, "has raised since")])
def test_a_new_environment_never_answers_for_one_that_failed(what: int, words: str) -> None:
    with headrace.make(Fragile, num_envs=2, num_threads=2) as pool:
        pool.reset()
        with pytest.raises(EnvironmentFailure):
            pool.step([what, 1])
        for call in each_call(pool):
            with pytest.raises(EnvironmentFailure, match=f"environment 0 .*{words}"):
                call()
        assert pool.get_attr("count", [1]) == [1]
        pool.reset([0])
        assert pool.get_attr("count") == [0, 1]


def test_a_pool_of_a_local_function_can_be_pickled() -> None:
    limit = 3
    make = lambda: gym.wrappers.TimeLimit(Fragile(), limit)  # noqa: E731
    with headrace.make(make, num_envs=2) as pool:
        pool.reset()
        pool.step([1, 1])
        with pickle.loads(pickle.dumps(pool)) as twin:
            obs, *_ = twin.step([1, 1])
            assert obs.tolist() == [[2], [2]] and twin.step([1, 1])[3].all()


def test_a_function_that_holds_a_lock_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(headrace.errors.OptionError, match="what pickle can write down"):
        headrace.make(lambda: lock and Fragile(), num_envs=2)


class Empty(gym.Env):
    """Shows nothing, and takes half-precision actions."""

    action_space = gym.spaces.Box(-1, 1, (2,), np.float16)

    def __init__(self, space: gym.Space):
        self.observation_space, self.nothing = space, {} if isinstance(space, gym.spaces.Dict) else ()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.nothing, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.nothing, float(action.sum()), bool(action[0] > 0.75), False, {}


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize(("space", "nothing"), [(gym.spaces.Dict({}), {}), (gym.spaces.Tuple(()), ())])
def test_empty_observations_and_half_precision_actions_are_supported(
    space: gym.Space, nothing: Any, autoreset: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with headrace.make(Empty, num_envs=2, space=space, autoreset=autoreset) as pool:
            assert pool.reset()[0] == nothing
            obs, reward, terminated, *_ = pool.step(np.array([[0.5, 0.25], [1, -1]], np.float16))
            assert obs == nothing and reward.tolist() == [0.75, 0.0] and terminated.tolist() == [False, True]
            assert pool.reset([1])[0] == nothing
            for wrong in (np.float16("inf"), np.float32(1e10), np.nan):
                with pytest.raises(ActionError, match="not finite"):
                    pool.step(np.full((2, 2), wrong))


def test_the_error_of_an_unknown_name_lists_the_environments_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "games_of_mine.py"
    path.write_text("import gymnasium as gym\n\nclass Climb(gym.Env):\n    pass\n\nclass Fall(gym.Env):\n    pass\n")
    with pytest.raises(UnknownTaskError, match=rf"say {path}:Climb$"):
        headrace.make(f"{path}:Clim")
    with pytest.raises(UnknownTaskError, match=rf"say {path}:Climb, {path}:Fall$"):
        headrace.make(str(path))


def test_pickling_a_pool_of_environments_that_cannot_be_pickled_raises_an_error() -> None:
    class Held(Fragile):
        def reset(self, **options: Any) -> Any:
            self.lock = threading.Lock()
            return super().reset(**options)

    with headrace.make(Held, num_envs=2) as pool:
        pool.reset()
        with pytest.raises(StateError, match="cannot be pickled"):
            pickle.dumps(pool)

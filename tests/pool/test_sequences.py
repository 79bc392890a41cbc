"""Random sequences of valid and invalid calls, compared with a simple model.

The model of a pool of N environments is N pools of one: whatever the order in which the big
pool is stepped, sent to, received from, reset, saved and loaded, each environment must go
through exactly what its lone twin goes through. Wrong calls must be refused by name.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import headrace
from headrace.errors import EnvIdError, SequenceError
from headrace.testing.trial import host
from nightly import rest_nightly

N = 5
subsets = st.lists(st.integers(0, N - 1), min_size=1, max_size=N, unique=True)


class HostPool:
    """Those calls of a pool that a `TorchPool` has, with results copied to NumPy arrays."""

    is_async, can_send = False, False

    def __init__(self, task: str, **options: Any):
        self.pool = headrace.make_torch(task, **options)
        self.save_state, self.load_state, self.close = self.pool.save_state, self.pool.load_state, self.pool.close

    def reset(self, env_id: Any = None, *, seed: Any = None) -> Any:
        return host(self.pool.reset(env_id, seed=seed))

    def step(self, action: Any, env_id: Any = None) -> Any:
        return host(self.pool.step(torch.as_tensor(action), env_id))


class PoolMachine(RuleBasedStateMachine):
    task = ""
    batch_sizes: tuple[int, ...] = (N,)
    options: ClassVar[dict[str, Any]] = {}
    make: Any = staticmethod(headrace.make)

    @initialize(
        data=st.data(),
        num_threads=st.sampled_from([1, 3]),
        autoreset=st.sampled_from(["next_step", "same_step", "disabled"]),
    )
    def begin(self, data: st.DataObject, num_threads: int, autoreset: str) -> None:
        options: dict[str, Any] = {"autoreset": autoreset, "max_episode_steps": 4, **self.options}
        size = data.draw(st.sampled_from(self.batch_sizes))
        more = {} if size == N else {"batch_size": size}
        self.pool = self.make(self.task, num_envs=N, num_threads=num_threads, seed=0, **options, **more)
        self.can_send = getattr(self.pool, "can_send", True)
        self.twins = [headrace.make(self.task, seed=i, **options) for i in range(N)]
        self.manual = autoreset == "disabled"
        self.expected: dict[int, Any] = {}  # in flight
        self.started, self.over = set[int](), set[int]()
        self.kept: list[tuple[Any, list[Any]]] = []

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            for pool in (self.pool, *self.twins):
                pool.close()

    # -- what may be called --

    def steppable(self, ids: list[int]) -> bool:
        return all(i in self.started and i not in self.expected and i not in self.over for i in ids)

    def advance(self, i: int, action: int) -> Any:
        result = self.twins[i].step([action])
        if self.manual and (result[2][0] or result[3][0]):
            self.over.add(i)
        return plain(result, 0)

    def restart(self, i: int, seed: int | None) -> Any:
        obs, info = self.twins[i].reset(seed=None if seed is None else [seed + i])
        self.started.add(i)
        self.over.discard(i)
        return plain((obs, np.zeros(1, np.float32), np.zeros(1, bool), np.zeros(1, bool), info), 0)

    def check(self, result: Any, expected: dict[int, Any]) -> None:
        ids = result[4]["env_id"].tolist()
        assert set(ids) <= expected.keys()
        for row, i in enumerate(ids):
            assert plain(result, row) == expected.pop(i)
        self.kept.append((result, [plain(result, row) for row in range(len(ids))]))

    @rule(ids=subsets, seed=st.none() | st.integers(0, 1000))
    def reset(self, ids: list[int], seed: int | None) -> None:
        mixed = self.pool.is_async and (self.expected or len(ids) < self.pool.batch_size)
        if mixed or any(i in self.expected for i in ids):
            with pytest.raises(SequenceError):
                self.pool.reset(ids, seed=seed)
            return
        obs, info = self.pool.reset(ids, seed=seed)
        expected = {i: self.restart(i, seed) for i in ids}
        zeros = np.zeros(len(obs), np.float32)
        self.check((obs, zeros, zeros != 0, zeros != 0, info), expected)
        self.expected |= expected

    @rule(seed=st.none() | st.integers(0, 1000))
    def reset_all(self, seed: int | None) -> None:
        self.expected.clear()
        obs, info = self.pool.reset(seed=seed)
        self.expected = {i: self.restart(i, seed) for i in range(N)}
        zeros = np.zeros(len(obs), np.float32)
        self.check((obs, zeros, zeros != 0, zeros != 0, info), self.expected)

    @precondition(lambda self: self.can_send)
    @rule()
    def async_reset(self) -> None:
        self.pool.async_reset()
        self.expected = {i: self.restart(i, None) for i in range(N)}

    @precondition(lambda self: self.can_send)
    @rule(ids=subsets, seed=st.none() | st.integers(0, 1000))
    def async_reset_of_some(self, ids: list[int], seed: int | None) -> None:
        if any(i in self.expected for i in ids):
            with pytest.raises(SequenceError):
                self.pool.async_reset(ids, seed=seed)
            return
        self.pool.async_reset(ids, seed=seed)
        self.expected |= {i: self.restart(i, seed) for i in ids}

    @rule(ids=subsets, action=st.integers(0, 1))
    def step(self, ids: list[int], action: int) -> None:
        if self.pool.is_async:
            return
        if not self.steppable(ids):
            with pytest.raises(SequenceError):
                self.pool.step([action] * len(ids), ids)
            return
        result = self.pool.step([action] * len(ids), ids)
        assert result[4]["env_id"].tolist() == ids
        self.check(result, {i: self.advance(i, action) for i in ids})

    @rule(action=st.integers(0, 1), mine=st.booleans())
    def step_all(self, action: int, mine: bool) -> None:
        if self.pool.is_async:
            return
        if not self.steppable(list(range(N))) or self.expected:
            with pytest.raises(SequenceError):
                self.pool.step([action] * N)
            return
        mine = mine and self.can_send
        out = {"out": self.pool.make_batch(reward=np.full(N, 7, np.float32))} if mine else {}
        self.check(self.pool.step([action] * N, **out), {i: self.advance(i, action) for i in range(N)})

    @precondition(lambda self: not self.pool.is_async and self.can_send)
    @rule(ids=subsets, first=st.integers(0, 1), action=st.integers(0, 1), reset=st.booleans())
    def send_some_and_go_on_with_the_others(self, ids: list[int], first: int, action: int, reset: bool) -> None:
        """While some are on their way, others are stepped or reset."""
        if not self.steppable(ids):
            return
        self.pool.send([first] * len(ids), ids)
        self.expected |= {i: self.advance(i, first) for i in ids}
        others = [i for i in reversed(range(N)) if i not in self.expected]
        if others and reset:
            obs, info = self.pool.reset(others, seed=action)
            zeros = np.zeros(len(others), np.float32)
            self.check((obs, zeros, zeros != 0, zeros != 0, info), {i: self.restart(i, action) for i in others})
        elif others and self.steppable(others):
            self.check(self.pool.step([action] * len(others), others), {i: self.advance(i, action) for i in others})

    @precondition(lambda self: self.can_send)
    @rule(ids=subsets, action=st.integers(0, 1))
    def send(self, ids: list[int], action: int) -> None:
        if not self.steppable(ids):
            with pytest.raises(SequenceError):
                self.pool.send([action] * len(ids), ids)
            return
        self.pool.send([action] * len(ids), ids)
        self.expected |= {i: self.advance(i, action) for i in ids}

    @precondition(lambda self: self.can_send)
    @rule()
    def recv(self) -> None:
        enough = self.pool.batch_size if self.pool.is_async else 1
        if len(self.expected) < enough:
            with pytest.raises(SequenceError):
                self.pool.recv()
            return
        count = self.pool.batch_size if self.pool.is_async else len(self.expected)
        result = self.pool.recv(timeout=60)
        assert len(result[1]) == count
        self.check(result, self.expected)

    @rule(source=st.integers(0, N - 1), place=st.integers(0, N - 1))
    def move_state(self, source: int, place: int) -> None:
        if source in self.expected or place in self.expected:
            for call in (
                lambda: self.pool.save_state([source, place] if source != place else [place]),
                lambda: self.pool.load_state([source, place], 2 * self.twins[min(self.started)].save_state()),
            ):
                if source != place:
                    with pytest.raises(SequenceError, match="in flight"):
                        call()
            return
        if source not in self.started:
            with pytest.raises(SequenceError):
                self.pool.save_state([source])
            return
        blobs = self.pool.save_state([source])
        assert blobs == self.twins[source].save_state()
        self.pool.load_state([place], blobs)
        self.twins[place].load_state(None, blobs)
        over = source in self.over
        self.started.add(place)
        self.over.discard(place)
        if over:
            self.over.add(place)

    @rule(ids=st.lists(st.integers(-2, N + 1), min_size=1, max_size=3))
    def nonsense(self, ids: list[int]) -> None:
        if len(set(ids)) == len(ids) and all(0 <= i < N for i in ids):
            return
        with pytest.raises(EnvIdError):
            self.pool.reset(ids)
        if self.can_send:
            with pytest.raises(EnvIdError):
                self.pool.send([0] * len(ids), ids)

    @invariant()
    def results_stay_as_they_were(self) -> None:
        """Arrays that a caller keeps are never written again."""
        for result, before in getattr(self, "kept", []):
            assert [plain(result, row) for row in range(len(before))] == before
        if hasattr(self, "kept"):
            del self.kept[:-3]


def plain(result: Any, row: int) -> Any:
    """One row of a result as comparable values; env_id is left out, as the twins have their own."""
    obs, reward, terminated, truncated, info = result
    final = None
    if "final_obs" in info and info["_final_obs"][row]:
        final = info["final_obs"][row].tobytes(), int(info["final_info"]["elapsed_step"][row])
    return (
        obs[row].tobytes(),
        reward[row],
        bool(terminated[row]),
        bool(truncated[row]),
        int(info["elapsed_step"][row]),
        final,
    )


MACHINES: dict[str, dict[str, Any]] = {
    "threads": {"task": "Counter-v0", "options": {"delay_us": 20}},
    "threads, asynchronous": {"task": "Counter-v0", "batch_sizes": (1, 2, 3)},
    "kernels": {"task": "CartPole-v1"},
    "kernels, asynchronous": {"task": "CartPole-v1", "batch_sizes": (1, 2, 3)},
    "debug": {"task": "CartPole-v1", "options": {"debug": True}},
    "debug, asynchronous": {"task": "CartPole-v1", "options": {"debug": True}, "batch_sizes": (1, 2, 3)},
    "processes": {"task": "CartPole-v1", "options": {"executor": "processes"}},
    "processes, asynchronous": {
        "task": "CartPole-v1",
        "options": {"executor": "processes"},
        "batch_sizes": (1, 2, 3),
    },
    "torch": {"task": "CartPole-v1", "make": staticmethod(HostPool)},
}


@pytest.mark.parametrize("times", rest_nightly([1, 10], 1))
@pytest.mark.parametrize("kind", rest_nightly(MACHINES, "threads, asynchronous", "kernels", "processes"))
def test_random_sequences_of_calls_agree_with_pools_of_one_environment(
    kind: str, times: int, request: pytest.FixtureRequest
) -> None:
    if kind.startswith("threads"):
        request.getfixturevalue("counter")
    machine = type("Machine", (PoolMachine,), MACHINES[kind])
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=times * (5 if kind.startswith(("debug", "processes")) else 12),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )

"""The threads executor, driven through the pool with a simulator whose every result is known."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import (
    ClosedError,
    EnvironmentFailure,
    OptionError,
    RecvTimeoutError,
    SequenceError,
    StateError,
)


def test_rows_come_in_the_order_sent(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=4, num_threads=3, seed=0)
    pool.reset()
    obs, reward, _, _, info = pool.step([30, 10, 20], [3, 1, 2])
    assert info["env_id"].tolist() == [3, 1, 2]
    assert reward.tolist() == [30, 10, 20]
    assert obs[:, 0].tolist() == [3, 1, 2]


def test_sync_send_overlaps_and_recv_joins_in_order(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=6, num_threads=2, seed=0)
    pool.reset()
    actions = np.array([5, 4])
    pool.send(actions, [5, 4])
    actions[:] = 0  # the caller's array is its own again
    pool.send([1, 2, 3], [1, 2, 3])
    _, reward, _, _, info = pool.recv()
    assert info["env_id"].tolist() == [5, 4, 1, 2, 3]
    assert reward.tolist() == [5, 4, 1, 2, 3]
    assert info["elapsed_step"].tolist() == [1] * 5


def test_recv_returns_the_environments_that_finish_first(make: Any, counter: str) -> None:
    """Environment i works i × 2 ms, so the quick half is served many times before the slow ones."""
    pool = make(counter, num_envs=8, batch_size=2, num_threads=8, delay_us=2000, length=10**6)
    pool.async_reset()
    seen = np.zeros(8, int)
    for _ in range(100):
        *_, info = pool.recv()
        seen[info["env_id"]] += 1
        pool.send(np.ones(2, np.int64), info["env_id"])
    assert seen.sum() == 200
    assert seen[0] > 3 * seen[7] > 0


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_results_of_an_environment_depend_only_on_its_actions(
    make: Any, counter: str, autoreset: str, batch_size: int
) -> None:
    """Every environment gets its own action sequence, under any batching; its history is always the same."""
    histories = []
    for num_threads in (1, 3):
        pool = make(
            counter,
            num_envs=8,
            batch_size=batch_size,
            num_threads=num_threads,
            seed=5,
            autoreset=autoreset,
            max_episode_steps=7,
        )
        histories.append(history_of(pool, steps=40))
    assert histories[0] == histories[1]


def history_of(pool: Any, steps: int) -> list[list[Any]]:
    """What each environment reported in its first so many steps; finished ones are reset by hand if need be."""
    histories: list[list[Any]] = [[] for _ in range(pool.num_envs)]
    pool.async_reset()
    while min(map(len, histories)) < steps:
        obs, reward, terminated, truncated, info = pool.recv()
        ids = info["env_id"]
        for row, i in enumerate(ids):
            final = info["final_obs"][row].tolist() if "final_obs" in info and info["_final_obs"][row] else None
            histories[i].append(
                (obs[row].tolist(), reward[row], terminated[row], truncated[row], info["elapsed_step"][row], final)
            )
        over = (terminated | truncated) if pool.autoreset == "disabled" else np.zeros(len(ids), bool)
        if over.any():
            pool.async_reset(ids[over])
        going = ids[~over]
        if going.size:
            pool.send([(len(histories[i]) * 7 + i) % 100 for i in going], going)
    return [history[:steps] for history in histories]


def test_same_step_autoreset_returns_the_final_observation_and_info(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=2, seed=3, autoreset="same_step", length=4, max_episode_steps=4)
    pool.reset()
    for _ in range(3):
        pool.step([8, 9])
    obs, _, terminated, truncated, info = pool.step([8, 9])
    assert terminated.all()
    assert truncated.all()
    assert info["final_obs"].tolist() == [[3, 1, 4, 8], [4, 1, 4, 9]]
    assert info["final_info"]["elapsed_step"].tolist() == [4, 4]
    assert obs.tolist() == [[3, 2, 0, 0], [4, 2, 0, 0]]
    assert info["elapsed_step"].tolist() == [0, 0]


def test_a_failing_environment_is_named_and_can_be_reset(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=4, num_threads=2, fail_on=99)
    pool.reset()
    with pytest.raises(EnvironmentFailure, match="environment 2: action 99"):
        pool.step([1, 1, 99, 1])
    with pytest.raises(EnvironmentFailure, match="environment 2: it failed before"):
        pool.step([1, 1, 1, 1])
    pool.reset([2])
    _, _, _, _, info = pool.step([1, 1, 1, 1])
    assert info["elapsed_step"].tolist() == [3, 3, 1, 3]


def test_a_failure_in_flight_loses_no_results(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=4, batch_size=2, num_threads=2, fail_on=99)
    pool.async_reset()
    pool.recv()
    *_, info = pool.recv()
    pool.send([99, 1], info["env_id"])
    with pytest.raises(EnvironmentFailure, match=f"environment {info['env_id'][0]}"):
        pool.recv()
    *_, again = pool.recv()
    assert sorted(again["env_id"]) == sorted(info["env_id"])
    with pytest.raises(SequenceError, match="0 are in flight"):
        pool.recv()
    pool.reset()
    pool.recv()


def test_recv_after_a_failed_sync_send_returns_the_other_results(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=3, fail_on=99)
    pool.reset()
    pool.send([99], [0])
    pool.send([1], [1])
    with pytest.raises(EnvironmentFailure, match="environment 0"):
        pool.recv()
    *_, info = pool.recv()
    assert info["env_id"].tolist() == [1]


def test_make_names_an_environment_that_cannot_be_made(make: Any, counter: str) -> None:
    with pytest.raises(EnvironmentFailure, match="environment 3: asked not to be made"):
        make(counter, num_envs=8, cannot_make=3)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_results_in_flight_can_be_received_after_a_timeout(make: Any, counter: str, batch_size: int) -> None:
    pool = make(counter, num_envs=2, batch_size=batch_size, num_threads=2, delay_us=3_000_000)
    pool.async_reset()
    for _ in range(2 // batch_size):
        pool.recv()
    pool.send([1], [1])
    with pytest.raises(RecvTimeoutError, match="another recv waits for them"):
        pool.recv(timeout=0.01)
    *_, info = pool.recv(timeout=30)
    assert info["env_id"].tolist() == [1]
    assert info["elapsed_step"].tolist() == [1]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_sync_send_is_processed_while_helper_threads_are_asleep(make: Any, counter: str, num_threads: int) -> None:
    pool = make(counter, num_envs=2, num_threads=num_threads)
    pool.reset()
    for timeout in (None, 30):
        time.sleep(0.05)  # helpers have gone to sleep
        pool.send([7], [1])
        _, reward, *_ = pool.recv(timeout=timeout)
        assert reward.tolist() == [7]


def test_a_reset_discards_results_in_flight(make: Any, counter: str) -> None:
    for batch_size in (2, 6):
        pool = make(counter, num_envs=6, batch_size=batch_size, num_threads=3, seed=0, delay_us=1000)
        pool.reset()
        pool.async_reset()
        obs, info = pool.reset(seed=50)
        assert (obs[:, 0] == 50 + info["env_id"]).all()
        assert (obs[:, 1:] == [1, 0, 0]).all()


def test_close_ends_a_recv_that_waits_in_another_thread(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=2, batch_size=1, num_threads=2, delay_us=500_000)
    pool.async_reset()
    pool.recv()
    pool.recv()
    pool.send([1], [1])
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            pool.recv()
        except BaseException as error:
            caught.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.1)
    pool.close()
    waiter.join(30)
    assert not waiter.is_alive()
    assert [type(error) for error in caught] == [ClosedError]


def test_states_move_between_environments_and_pools(make: Any, counter: str) -> None:
    first = make(counter, num_envs=3, seed=7)
    first.reset()
    first.step([1, 2, 3])
    blobs = first.save_state()
    second = make(counter, num_envs=3, seed=0, num_threads=2)
    second.load_state([2, 1, 0], blobs)
    ours, theirs = first.step([4, 4, 4]), second.step([4, 4, 4])
    assert ours[0].tolist() == theirs[0][::-1].tolist()
    payload = bytearray(blobs[0])
    payload[-1] ^= 1
    for wrong in (b"", b"nonsense" * 10, bytes(payload), blobs[0][:-1], blobs[0] + b"x"):
        with pytest.raises(StateError, match="environment 1"):
            second.load_state([1], [wrong])
    other = make(counter, num_envs=1, length=3)
    with pytest.raises(StateError, match="another task or with other options"):
        other.load_state(None, blobs[:1])


def test_threads_are_pinned_to_one_core_each_from_the_offset_on(make: Any, counter: str) -> None:
    """Threads are pinned one core each, from the offset on; the caller's own stays free."""

    def cores_of_threads() -> dict[str, str]:
        tasks = Path("/proc/self/task").iterdir()
        return {t.name: re.findall(r"Cpus_allowed_list:\s*(\S+)", (t / "status").read_text())[0] for t in tasks}

    usable = sorted(os.sched_getaffinity(0))
    before = cores_of_threads()
    pool = make(counter, num_envs=4, batch_size=2, num_threads=2, thread_affinity_offset=1)
    pool.async_reset()
    pool.recv()
    time.sleep(0.05)
    new = [cores for thread, cores in cores_of_threads().items() if thread not in before]
    assert sorted(new) == sorted(str(usable[(1 + i) % len(usable)]) for i in range(2))


def test_render_draws_the_current_state_of_the_named_environments(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=3)
    pool.reset()
    pool.step([1, 1], [2, 1])
    frames = pool.render([0, 2])
    assert frames.shape == (2, 4, 6, 3)
    assert frames[0].max() == 0
    assert frames[1].min() == 1


def test_state_arrays_of_a_compiled_simulator_are_refused(make: Any, counter: str) -> None:
    pool = make(counter, num_envs=2)
    pool.reset()
    with pytest.raises(OptionError, match="only kernel environments"):
        pool.state_arrays()

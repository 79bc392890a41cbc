"""Saved states that were damaged are refused; those that were changed and sealed again are refused or played."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_plays import COUNTER

import headrace
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.errors import EnvironmentFailure, HeadraceError, KernelError, StateError
from headrace.kernels import KernelTask
from headrace.pool.state import EARLIER, HEADER, seal
from nightly import rest_nightly
from python_games import COUNT

KERNELS = [
    "Acrobot-v1",
    "Blackjack-v1",
    "CartPole-v1",
    "Catch-v0",
    "CliffWalking-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "MinAtar-Breakout-v1",
    "MinAtar-SpaceInvaders-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "NChain-v0",
    "Pendulum-v0",
    "Pendulum-v1",
    "TagContinuous-v0",
    "TagGridWorld-v0",
    "Taxi-v3",
    "Taxi-v4",
]
SPOILT = [b"\xff", b"\x80", b"\x01", *(np.int32(x).tobytes() for x in (-1, 1000, 2**31 - 1, -(2**31)))]
SPOILT += [np.float64(x).tobytes() for x in (np.nan, np.inf, 1e300, -1e18)]
SPOILT += [np.float32(x).tobytes() for x in (np.nan, -np.inf, 1e38)]


def played(pool: headrace.Pool, steps: int, rng: np.random.Generator) -> Any:
    space = pool.action_space
    space.seed(int(rng.integers(1 << 30)))
    return [pool.step(np.stack([space.sample() for _ in range(pool.num_envs)])) for _ in range(steps)][-1]


def changed(payload: bytes, rng: np.random.Generator) -> bytes:
    """Returns the bytes with one or three values overwritten."""
    spoilt = bytearray(payload)
    for _ in range(rng.choice([1, 3])):
        value = SPOILT[rng.integers(len(SPOILT))]
        at = rng.integers(len(spoilt)) // len(value) * len(value)
        spoilt[at : at + len(value)] = value
    return bytes(spoilt[: len(payload)])


def refusal(pool: Any, env_ids: list[int], blobs: list[bytes]) -> str:
    """Loads the states; why they were refused, or nothing."""
    try:
        pool.load_state(env_ids, blobs)
    except StateError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("task", KERNELS)
def test_modified_kernel_states_are_refused_or_can_be_stepped(task: str) -> None:
    rng = np.random.default_rng(0)
    options: Any = {"num_runners": 9, "num_taggers": 2} if task == "TagContinuous-v0" else {}
    with headrace.make(task, num_envs=2, seed=4, num_threads=1, **options) as pool:
        pool.reset()
        refused = 0
        for number in range(120):
            blobs = pool.save_state()
            spoilt = seal(changed(blobs[1][HEADER.size :], rng), pool._key, False)
            if told := refusal(pool, [0, 1], [blobs[1], spoilt]):
                assert "environment 1" in told
                assert pool.save_state() == blobs, "no environment has changed"
                refused += 1
            played(pool, 2, rng)
            if number % 20 == 0:
                pool.render([0, 1])
        assert refused > 5


@pytest.mark.parametrize("autoreset", rest_nightly(["next_step", "same_step", "disabled"], "same_step"))
@pytest.mark.parametrize("task", KERNELS)
def test_every_state_that_a_game_reaches_can_be_loaded(task: str, autoreset: Any) -> None:
    rng = np.random.default_rng(1)
    with headrace.make(task, num_envs=32, seed=3, autoreset=autoreset) as pool:
        pool.reset()
        for _ in range(40):
            pool.load_state(None, pool.save_state())
            over = played(pool, 1, rng)
            pool.load_state(None, pool.save_state())
            if autoreset == "disabled" and (done := np.flatnonzero(over[2] | over[3])).size:
                pool.reset(done)


NATIVE = ["Hopper-v5", "ManipulatorBringBall-v1", "QuadrupedEscape-v1", "QuadrupedFetch-v1", "FingerTurnEasy-v1"]


def sealed_natively(body: bytes) -> bytes:
    """The state with the engine's checksum behind it."""
    mask, total = 2**64 - 1, len(body)
    for i in range(0, len(body), 8):
        total = (total ^ int.from_bytes(body[i : i + 8], "little")) * 0x9E3779B97F4A7C15 & mask
        total ^= total >> 32
    return body + total.to_bytes(8, "little")


@pytest.mark.parametrize("task", rest_nightly(NATIVE, "Hopper-v5", "FingerTurnEasy-v1"))
def test_modified_simulation_states_are_refused_or_can_be_stepped(task: str) -> None:
    pytest.importorskip("mujoco")  # its library must be there first
    pytest.importorskip("headrace_mujoco._mujoco")
    if task != "Hopper-v5":
        pytest.importorskip("dm_control")
    rng = np.random.default_rng(0)
    with headrace.make(task, num_envs=2, seed=4, num_threads=1) as pool:
        pool.reset()
        sound = pool.save_state()
        for _ in range(30):
            spoilt = sealed_natively(changed(sound[0][HEADER.size : -8], rng))
            told = refusal(pool, [0], [seal(spoilt, pool._key, False)])
            assert not told or "environment 0" in told
            with suppress(EnvironmentFailure):  # no start of an episode is acceptable where a body is far away
                played(pool, 2, rng)
            pool.load_state(None, sound)
        played(pool, 2, rng)


def test_a_state_with_a_model_field_that_is_not_finite_is_refused() -> None:
    pytest.importorskip("mujoco")  # its library must be there first
    pytest.importorskip("headrace_mujoco._mujoco")
    pytest.importorskip("dm_control")
    with headrace.make("FingerTurnEasy-v1", num_envs=1, seed=0) as pool:
        pool.reset()
        places = pool.state_arrays("site_pos")["site_pos"][0]
        payload, spoilt = pool.save_state()[0][HEADER.size : -8], places.copy()
        spoilt[1, 2] = np.nan
        assert payload.count(places.tobytes()) == 1
        changed = sealed_natively(payload.replace(places.tobytes(), spoilt.tobytes()))
        with pytest.raises(StateError, match=r"environment 0 is not valid: site_pos\[1\]\[2\] is nan"):
            pool.load_state([0], [seal(changed, pool._key, False)])


def test_the_error_for_a_state_names_the_field_that_is_out_of_bounds() -> None:
    with headrace.make("FrozenLake-v1", num_envs=2, seed=0) as pool:
        pool.reset()
        payload = bytearray(pool.save_state([0])[0][HEADER.size :])
        payload[:4] = np.int32(99).tobytes()
        with pytest.raises(StateError, match=r"environment 1 .* s is 99; it must be finite, and 0 to 15"):
            pool.load_state([1], [seal(bytes(payload), pool._key, False)])
        played(pool, 3, np.random.default_rng(0))


@pytest.mark.parametrize("task", ["Taxi-v3", "Acrobot-v1", "TagGridWorld-v0"])
def test_a_torch_pool_refuses_the_same_states_as_a_pool(task: str) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    with headrace.make(task, num_envs=1, seed=4) as host, headrace.make_torch(task, num_envs=1, device="cpu") as other:
        host.reset()
        other.reset()
        for _ in range(80):
            blob = seal(changed(host.save_state()[0][HEADER.size :], rng), host._key, False)
            told = [refusal(pool, [0], [blob]) for pool in (host, other)]
            assert told[0] == told[1]
            if not told[0]:
                assert host.save_state() == other.save_state()


def test_bounds_of_an_unknown_state_field_are_refused() -> None:
    with headrace.make("KernelTestCounter-v0", num_envs=1) as pool:
        like = pool.spec
    wrong = replace(COUNTER, bounds={"total": (0, 1)})
    task = KernelTask(wrong, like.observation, like.action, like.info, {"goal": 6})
    headrace.register("WrongBounds-v0", task, replace=True)
    with pytest.raises(KernelError, match="no array field for the bounds of 'total'; it has"):
        headrace.make("WrongBounds-v0", num_envs=1)


@pytest.fixture(params=["CartPole-v1", "players", "counter", COUNT])
def pool(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Pools of kernels, of players, of a simulator in C++, and of Python objects."""
    task: str = request.param
    options: Any = {}
    if task == "players":
        task, options = "TestRing-v0", {"max_num_players": 5}
    elif task == "counter":
        task = request.getfixturevalue("counter")
    with headrace.make(task, num_envs=2, seed=1, **options) as made:
        made.reset()
        yield made


def test_a_changed_bit_in_any_byte_of_a_state_is_detected(pool: Any) -> None:
    blob = pool.save_state([0])[0]
    for at in range(len(blob)):
        with pytest.raises(StateError):
            pool.load_state([1], [blob[:at] + bytes([blob[at] ^ 1 << at % 8]) + blob[at + 1 :]])
    pool.load_state([1], [blob])
    assert pool.save_state([1])[0] == blob or pool.of_objects


@pytest.mark.parametrize("wrong", [None, 7, "text", b"", bytes(40), [b"x"], {}, np.zeros(3), np.zeros(())])
def test_values_that_are_no_saved_state_are_refused(pool: Any, wrong: Any) -> None:
    before = pool.save_state()
    with pytest.raises(HeadraceError, match=r"environment 1|states must be a list"):
        pool.load_state([0, 1], [before[0], wrong])
    with pytest.raises(HeadraceError):
        pool.load_state([0, 1], wrong)
    assert pool.save_state() == before


def test_a_state_of_an_earlier_version_is_loaded() -> None:
    with headrace.make("CartPole-v1", num_envs=2, seed=1) as pool:
        pool.reset()
        one, other = pool.save_state()
        body = one[HEADER.size :]
        earlier = HEADER.pack(EARLIER, pool._key, False, zlib.crc32(body)) + body
        pool.load_state([1], [earlier])
        assert pool.save_state([1]) == [one]
        with pytest.raises(StateError, match="is damaged"):
            pool.load_state([1], [EARLIER + other[4:]])


def test_states_of_players_and_of_a_plain_pool_are_not_exchanged() -> None:
    with (
        headrace.make("TestRing-v0", num_envs=1) as plain,
        headrace.make("TestRing-v0", num_envs=1, max_num_players=5) as players,
    ):
        plain.reset()
        players.reset()
        for one, other in ((plain, players), (players, plain)):
            with pytest.raises(StateError, match="saved by another task or with other options"):
                one.load_state([0], other.save_state())


def test_a_wrong_state_leaves_all_python_environments_unchanged() -> None:
    with headrace.make(COUNT, num_envs=2, seed=1) as pool:
        pool.reset()
        old = pool.save_state()
        pool.step([3, 4])
        obs, *_ = pool.step([3, 4])
        for wrong in (b"no pickle", pickle.dumps(17), pickle.dumps((object(), 1, False, True))):
            with pytest.raises(StateError, match="environment 1"):
                pool.load_state([0, 1], [old[0], seal(wrong, pool._key, False)])
        assert pool.step([0, 0])[0][:, 1].tolist() == obs[:, 1].tolist()
        pool.load_state(None, old)
        assert pool.step([5, 5])[0][:, 1].tolist() == [5, 5]

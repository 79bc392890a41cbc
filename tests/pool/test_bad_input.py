"""Everything a caller can get wrong is a named exception, and leaves the pool usable.

Each case is tried on every executor, on a synchronous and an asynchronous pool. After it, the
pool must still step; nothing may have been stepped by the refused call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import headrace
from headrace.errors import (
    ActionError,
    ClosedError,
    EnvIdError,
    HeadraceError,
    OptionError,
    RecvTimeoutError,
    SequenceError,
    StateError,
    UnknownTaskError,
)
from headrace.pool.actions import action_check
from python_games import COUNT

N = 4
Case = tuple[str, type[HeadraceError], Callable[[Any], Any]]


@pytest.fixture(params=["threads", "kernels", "processes"])
def task(request: pytest.FixtureRequest) -> str:
    tasks = {"kernels": "CartPole-v1", "processes": COUNT}
    return tasks.get(request.param) or request.getfixturevalue("counter")


# calls of a synchronous pool of four environments that was reset
SYNC: list[Case] = [
    ("action: too few rows", ActionError, lambda p: p.step([0, 1, 0])),
    ("action: too many rows", ActionError, lambda p: p.step([0, 1, 0, 1, 0])),
    ("action: no rows", ActionError, lambda p: p.step([])),
    ("action: a scalar", ActionError, lambda p: p.step(1)),
    ("action: two dimensions", ActionError, lambda p: p.step([[0], [1], [0], [1]])),
    ("action: ragged", ActionError, lambda p: p.step([[0], [1, 2], 0, 0])),
    ("action: None", ActionError, lambda p: p.step(None)),
    ("action: a string", ActionError, lambda p: p.step("left")),
    ("action: strings", ActionError, lambda p: p.step(["a", "b", "c", "d"])),
    ("action: objects", ActionError, lambda p: p.step([object()] * N)),
    ("action: floats", ActionError, lambda p: p.step([0.0, 1.0, 0.0, 1.0])),
    ("action: NaN", ActionError, lambda p: p.step([np.nan] * N)),
    ("action: complex", ActionError, lambda p: p.step([1j] * N)),
    ("action: negative", ActionError, lambda p: p.step([0, -1, 0, 0])),
    ("action: too large", ActionError, lambda p: p.step([0, 0, 0, 1000])),
    ("action: far too large", ActionError, lambda p: p.step([0, 0, 0, 2**62])),
    ("action: beyond int64", ActionError, lambda p: p.step([0, 0, 0, 2**64])),
    ("action: most negative", ActionError, lambda p: p.step(np.full(N, -(2**63)))),
    ("action: huge unsigned", ActionError, lambda p: p.step(np.full(N, 2**64 - 1, np.uint64))),
    ("action: dict without one", ActionError, lambda p: p.step({"env_id": [0]})),
    ("action: dict with two", ActionError, lambda p: p.step({"a": [0], "b": [0], "env_id": [0]})),
    ("env_id: fewer than actions", ActionError, lambda p: p.step([0, 0], [1])),
    ("env_id: more than actions", ActionError, lambda p: p.step([0], [1, 2])),
    ("env_id: negative", EnvIdError, lambda p: p.step([0], [-1])),
    ("env_id: too large", EnvIdError, lambda p: p.step([0], [N])),
    ("env_id: far too large", EnvIdError, lambda p: p.step([0], [2**40])),
    ("env_id: beyond int64", EnvIdError, lambda p: p.step([0], [2**70])),
    ("env_id: repeated", EnvIdError, lambda p: p.step([0, 0], [2, 2])),
    ("env_id: none", EnvIdError, lambda p: p.step([], [])),
    ("env_id: floats", EnvIdError, lambda p: p.step([0], [1.0])),
    ("env_id: booleans", EnvIdError, lambda p: p.step([0] * N, [True] * N)),
    ("env_id: two dimensions", EnvIdError, lambda p: p.step([0], [[1]])),
    ("env_id: strings", EnvIdError, lambda p: p.step([0], ["1"])),
    ("env_id: ragged", EnvIdError, lambda p: p.step([0], [[1], [2, 3]])),
    ("env_id: in a dict, repeated", EnvIdError, lambda p: p.step({"action": [0, 0], "env_id": [1, 1]})),
    ("send: bad action", ActionError, lambda p: p.send([0, -1, 0, 0])),
    ("send: bad env_id", EnvIdError, lambda p: p.send([0], [N])),
    ("recv: nothing sent", SequenceError, lambda p: p.recv()),
    ("recv: negative timeout", OptionError, lambda p: p.recv(timeout=-1)),
    ("recv: NaN timeout", OptionError, lambda p: p.recv(timeout=float("nan"))),
    ("recv: a string as timeout", OptionError, lambda p: p.recv(timeout="1")),
    ("recv: a list as timeout", OptionError, lambda p: p.recv(timeout=[1])),
    ("load: a number", OptionError, lambda p: p.load_state(None, 5)),
    ("load: nothing", OptionError, lambda p: p.load_state(None, None)),
    ("load: one state as it is", OptionError, lambda p: p.load_state([0], p.save_state([0])[0])),
    ("reset: bad env_id", EnvIdError, lambda p: p.reset([N])),
    ("reset: repeated env_id", EnvIdError, lambda p: p.reset([1, 1])),
    ("reset: negative seed", OptionError, lambda p: p.reset(seed=-1)),
    ("reset: seed too large", OptionError, lambda p: p.reset(seed=2**64)),
    ("reset: a float seed", OptionError, lambda p: p.reset(seed=1.5)),
    ("reset: a string seed", OptionError, lambda p: p.reset(seed="lucky")),
    ("reset: too few seeds", OptionError, lambda p: p.reset(seed=[1, 2, 3])),
    ("reset: a list with a float", OptionError, lambda p: p.reset(seed=[1, 2, 3, 4.5])),
    ("reset: unknown option", OptionError, lambda p: p.reset(options={"colour": "red"})),
    ("reset: mask of integers", OptionError, lambda p: p.reset(options={"reset_mask": np.ones(N, int)})),
    ("reset: mask too short", OptionError, lambda p: p.reset(options={"reset_mask": np.ones(N - 1, bool)})),
    ("reset: mask of nothing", OptionError, lambda p: p.reset(options={"reset_mask": np.zeros(N, bool)})),
    ("reset: mask and env_id", OptionError, lambda p: p.reset([0], options={"reset_mask": np.ones(N, bool)})),
    ("out: unknown field", OptionError, lambda p: p.make_batch(colour=np.zeros(N))),
    ("out: wrong dtype", OptionError, lambda p: p.make_batch(reward=np.zeros(N))),
    ("out: wrong shape", OptionError, lambda p: p.make_batch(reward=np.zeros((N, 1), np.float32))),
    (
        "out: unequal rows",
        OptionError,
        lambda p: p.make_batch(reward=np.zeros(2, np.float32), env_id=np.zeros(3, "i4")),
    ),
    ("out: too many rows", OptionError, lambda p: p.make_batch(reward=np.zeros(N + 1, np.float32))),
    ("out: strided", OptionError, lambda p: p.make_batch(reward=np.zeros(2 * N, np.float32)[::2])),
    ("out: read-only", OptionError, lambda p: p.make_batch(reward=np.frombuffer(bytes(4 * N), np.float32))),
    (
        "out: fewer rows than the step",
        OptionError,
        lambda p: p.step([0] * N, out=p.make_batch(reward=np.zeros(2, "f4"))),
    ),
    ("render: bad env_id", EnvIdError, lambda p: p.render([N])),
    ("save: bad env_id", EnvIdError, lambda p: p.save_state([-1])),
    ("load: too few states", OptionError, lambda p: p.load_state([0, 1], p.save_state([0]))),
    ("load: not a state", StateError, lambda p: p.load_state([0], [b"nonsense"])),
    ("load: not bytes", StateError, lambda p: p.load_state([0], [17])),
    ("load: cut short", StateError, lambda p: p.load_state([0], [p.save_state([0])[0][:-1]])),
    ("load: one bit flipped", StateError, lambda p: p.load_state([0], [flip(p.save_state([0])[0])])),
]

# calls of an asynchronous pool, four environments in batches of two, with environments 2 and 3 in flight
ASYNC: list[Case] = [
    ("step one in flight", SequenceError, lambda p: p.send([0], [2])),
    ("step some in flight", SequenceError, lambda p: p.send([0, 0], [0, 3])),
    ("step all", SequenceError, lambda p: p.send([0] * N)),
    ("reset one in flight", SequenceError, lambda p: p.reset([3])),
    ("repeated", EnvIdError, lambda p: p.send([0, 0], [0, 0])),
    ("out of range", EnvIdError, lambda p: p.send([0], [7])),
    ("bad action", ActionError, lambda p: p.send([5000], [0])),
    ("out=", OptionError, lambda p: p.step([0, 0], [0, 1], out=p.make_batch(reward=np.zeros(2, "f4")))),
    ("render one in flight", SequenceError, lambda p: p.render([2])),
    ("save one in flight", SequenceError, lambda p: p.save_state([2])),
    ("save all", SequenceError, lambda p: p.save_state()),
    ("load one in flight", SequenceError, lambda p: p.load_state([2], p.save_state([0]))),
    ("negative timeout", OptionError, lambda p: p.recv(timeout=-0.5)),
]

# arguments of make
MAKE: list[tuple[str, type[HeadraceError], dict[str, Any]]] = [
    ("no environments", OptionError, {"num_envs": 0}),
    ("a negative number", OptionError, {"num_envs": -3}),
    ("a fraction", OptionError, {"num_envs": 1.5}),
    ("a boolean", OptionError, {"num_envs": True}),
    ("a string", OptionError, {"num_envs": "4"}),
    ("batch too large", OptionError, {"num_envs": 2, "batch_size": 3}),
    ("batch negative", OptionError, {"num_envs": 2, "batch_size": -1}),
    ("threads negative", OptionError, {"num_threads": -1}),
    ("seed negative", OptionError, {"seed": -5}),
    ("seeds too few", OptionError, {"num_envs": 3, "seed": [1, 2]}),
    ("seed near the end", OptionError, {"num_envs": 3, "seed": 2**64 - 2}),
    ("autoreset unknown", OptionError, {"autoreset": "sometimes"}),
    ("affinity", OptionError, {"thread_affinity_offset": -2}),
    ("affinity of no core", OptionError, {"thread_affinity_offset": 10**10}),
    ("threads beyond int32", OptionError, {"num_threads": 2**31}),
    ("threads that no machine has", OptionError, {"num_threads": 100_000}),
    ("environments beyond int32", OptionError, {"num_envs": 2**31}),
    ("environments beyond int64", OptionError, {"num_envs": 2**70}),
    ("two players", OptionError, {"max_num_players": 2}),
    ("env_type unknown", OptionError, {"env_type": "gymnasiun"}),
    ("render_mode unknown", OptionError, {"render_mode": "hologram"}),
]


def flip(blob: bytes) -> bytes:
    return blob[:-1] + bytes([blob[-1] ^ 4])


def named(cases: list[Any]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case[0] for case in cases])


@named(SYNC)
def test_a_bad_call_of_a_synchronous_pool_raises_and_steps_nothing(make: Any, task: str, case: Case) -> None:
    name, error, call = case
    if task == COUNT and name == "reset: unknown option":
        pytest.skip("which options there are is for the environment to say")
    pool = make(task, num_envs=N, seed=1)
    pool.reset()
    with pytest.raises(error):
        call(pool)
    *_, info = pool.step([0] * N)
    assert info["elapsed_step"].tolist() == [1] * N


@named(ASYNC)
def test_a_bad_call_of_an_asynchronous_pool_raises_and_steps_nothing(make: Any, task: str, case: Case) -> None:
    _, error, call = case
    pool = make(task, num_envs=N, batch_size=2, num_threads=2, seed=1)
    pool.async_reset()
    for _ in range(2):
        pool.recv()
    pool.send([0, 0], [2, 3])
    with pytest.raises(error):
        call(pool)
    *_, info = pool.recv()
    assert sorted(info["env_id"]) == [2, 3]
    pool.send([0, 0], [0, 1])
    *_, info = pool.recv()
    assert info["elapsed_step"].tolist() == [1, 1]


@named(MAKE)
def test_make_refuses_bad_arguments(task: str, case: tuple[str, type[HeadraceError], dict[str, Any]]) -> None:
    _, error, options = case
    with pytest.raises(error):
        headrace.make(task, **options).close()


def test_environments_that_were_never_reset_cannot_be_used(make: Any, task: str) -> None:
    pool = make(task, num_envs=N)
    for call in (
        lambda: pool.step([0] * N),
        lambda: pool.step([0], [2]),
        lambda: pool.send([0] * N),
        lambda: pool.save_state(),
        lambda: pool.render(),
    ):
        with pytest.raises(SequenceError, match="never reset"):
            call()
    pool.reset([2])
    pool.step([0], [2])
    with pytest.raises(SequenceError, match="environment 0 was never reset"):
        pool.step([0] * N)


def test_a_step_is_refused_while_results_are_in_flight(make: Any, task: str) -> None:
    pool = make(task, num_envs=N)
    pool.reset()
    pool.send([0] * N)
    with pytest.raises(SequenceError, match="in flight"):
        pool.step([0] * N)
    *_, info = pool.recv(timeout=30)
    assert info["elapsed_step"].tolist() == [1] * N


def test_recv_is_refused_when_less_than_a_batch_is_in_flight(make: Any, task: str) -> None:
    pool = make(task, num_envs=N, batch_size=3)
    pool.async_reset()
    pool.recv()
    with pytest.raises(SequenceError, match="returns 3 results but 1 are in flight"):
        pool.recv()


def test_a_reset_is_refused_if_it_would_return_the_result_of_a_step(make: Any, task: str) -> None:
    pool = make(task, num_envs=N, batch_size=2, seed=1)
    pool.reset()
    pool.recv()
    pool.send([0, 0], [0, 1])
    with pytest.raises(SequenceError, match=r"environment 0 is in flight.*async_reset"):
        pool.reset([2, 3])
    pool.async_reset([2, 3], seed=[8, 9])
    results = [pool.recv(timeout=30)[4] for _ in range(2)]
    elapsed = {i: count for info in results for i, count in zip(info["env_id"], info["elapsed_step"], strict=True)}
    assert elapsed == {0: 1, 1: 1, 2: 0, 3: 0}
    with pytest.raises(SequenceError, match=r"reset returns 2 rows, but names 1 environments.*async_reset"):
        pool.reset([0])
    obs, info = pool.reset([3, 0], seed=[8, 9])
    twins = make(task, num_envs=2, seed=[8, 9])
    expected = twins.reset()[0]
    np.testing.assert_array_equal(obs, expected[[[3, 0].index(i) for i in info["env_id"]]])


def test_every_call_of_a_closed_pool_raises_closed_error(task: str) -> None:
    pool = headrace.make(task, num_envs=N)
    pool.reset()
    pool.close()
    pool.close()
    for call in (
        lambda: pool.reset(),
        lambda: pool.step([0] * N),
        lambda: pool.send([0] * N),
        lambda: pool.recv(),
        lambda: pool.async_reset(),
        lambda: pool.render(),
        lambda: pool.save_state(),
        lambda: pool.load_state(None, []),
        lambda: pool.make_batch(),
        lambda: pool.__enter__(),
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_finished_environment_needs_a_reset_when_autoreset_is_disabled(make: Any, task: str) -> None:
    pool = make(task, num_envs=2, autoreset="disabled", max_episode_steps=3)
    pool.reset()
    for _ in range(3):
        pool.step([0, 1])
    with pytest.raises(SequenceError, match="environment 0 has finished"):
        pool.step([0, 1])
    pool.reset(options={"reset_mask": np.array([True, False])})
    pool.step([0], [0])
    with pytest.raises(SequenceError, match="environment 1 has finished"):
        pool.step([0, 1])


def test_a_step_refuses_a_batch_of_another_pool(make: Any, task: str) -> None:
    ours, theirs = make(task, num_envs=N), make(task, num_envs=N)
    ours.reset()
    with pytest.raises(OptionError, match="another pool"):
        ours.step([0] * N, out=theirs.make_batch())


@pytest.mark.parametrize("out", [5, [], "x", np.zeros(3), {"obs": 5}, {"reward": np.zeros(N)}])
def test_unsuitable_out_arguments_are_refused_and_step_nothing(make: Any, task: str, out: Any) -> None:
    pool = make(task, num_envs=N)
    pool.reset()
    before = pool.save_state()
    for call in (lambda: pool.step([0] * N, out=out), lambda: pool.make_batch(out)):
        with pytest.raises(OptionError, match=r"must be a dict, name of a|must be an array with a row|must be float32"):
            call()
    assert pool.save_state() == before


@pytest.mark.parametrize("make", [headrace.make, headrace.make_vec, headrace.make_spec])
def test_make_refuses_an_environment_object_and_names_what_to_give_instead(make: Any) -> None:
    env = gym.make("CartPole-v1")
    with pytest.raises(UnknownTaskError, match=r"the name 'CartPole-v1', or .*lambda: gymnasium.make\('CartPole-v1'\)"):
        make(env)
    with pytest.raises(UnknownTaskError, match="the class CartPoleEnv, or a function"):
        make(CartPoleEnv())
    with pytest.raises(OptionError, match=r"is a name, not .*: give 'CartPole-v1', or put what makes it into a file"):
        headrace.train(env)  # type: ignore[arg-type]


def test_make_takes_one_number_as_env_seed() -> None:
    with headrace.make("CartPole-v1", num_envs=2, env_seed=5) as pool:
        assert pool.config["seed"] == [5, 6]
    with pytest.raises(OptionError, match="seed must be an integer"):
        headrace.make("CartPole-v1", env_seed=0.5)


def test_an_unknown_option_without_a_near_match_lists_all_options() -> None:
    with pytest.raises(OptionError, match=r"it has debug, max_episode_steps, sutton_barto_reward$"):
        headrace.make("CartPole-v1", zzzz=3)
    with pytest.raises(OptionError, match=r"no option 'zzzz', it has flat_observation, max_episode_steps, .*, sutton_"):
        headrace.make("gymnasium:CartPole-v1", zzzz=3)


def test_unknown_task_names_are_refused() -> None:
    with pytest.raises(UnknownTaskError, match="CartPole-v1"):
        headrace.make("Cartpol-v1")
    with pytest.raises(UnknownTaskError, match="list_all_envs"):
        headrace.make("Zzz")
    with pytest.raises(UnknownTaskError):
        headrace.make_spec(17)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", ["CartPole-v1", "Pong-v5", "HalfCheetah-v5", "gymnasium:CartPole-v1"])
@pytest.mark.parametrize(("wrong", "meant"), [("num_env", "num_envs"), ("batchsize", "batch_size"), ("seeds", "seed")])
def test_a_misspelt_option_of_pools_is_refused_with_the_nearest_name(task: str, wrong: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"no option {wrong!r}.* did you mean '?{meant}\\b"):
        headrace.make(task, **{wrong: 3})  # type: ignore[call-overload]


def test_env_options_of_a_run_refuse_options_of_pools() -> None:
    with pytest.raises(OptionError, match="num_envs is an option of pools and runs, not of Pong-v5"):
        headrace.train("Pong-v5", env_options={"num_envs": 8}, total_steps=1)


def test_recv_takes_infinite_and_very_long_timeouts(make: Any, task: str) -> None:
    pool = make(task, num_envs=N, batch_size=2, num_threads=2)
    pool.async_reset()
    for timeout in (float("inf"), np.float32(1e30), 10**12, None):
        ids = pool.recv(timeout=timeout)[4]["env_id"]
        pool.send([0, 0], ids)


@pytest.mark.parametrize("task", ["Pendulum-v1", "MountainCarContinuous-v0", "HalfCheetah-v5"])
def test_floats_outside_of_their_box_pass_up_to_a_limit_and_nan_is_refused(make: Any, task: str) -> None:
    """Large actions are clipped or cost reward; those that would make the reward infinite are refused."""
    if task == "HalfCheetah-v5":
        pytest.importorskip("mujoco")
    pool = make(task, num_envs=2, seed=0)
    pool.reset()
    one = np.ones((2, *pool.action_space.shape), np.float32)
    for far in (3, 1e4, 1e9, -1e9):
        pool.reset()
        assert np.isfinite(pool.step(far * one)[1]).all()
    pool.reset()
    for wrong in (1e10, 1e30, -1e30, np.finfo(np.float32).max):
        with pytest.raises(ActionError, match=r"at \(0, 0\) is too far outside of .* at most ±1e\+09"):
            pool.step(wrong * one)
    action = one.copy()
    action[1, 0] = np.nan
    with pytest.raises(ActionError, match=r"nan at \(1, 0\) is not finite"):
        pool.step(action)
    assert pool.step(one)[4]["elapsed_step"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("space", "dtype", "wrong", "good"),
    [
        (gym.spaces.Discrete(2, dtype=np.int32), np.int64, 2**32 + 1, 1),
        (gym.spaces.Discrete(2, dtype=np.int32), np.uint64, 2**32, 1),
        (gym.spaces.MultiBinary(3), np.int64, 256, 1),
        (gym.spaces.MultiDiscrete([2, 2], dtype=np.int32), np.int64, -(2**32), 0),
        (gym.spaces.Box(0, 255, (2,), np.uint8), np.uint16, 511, 255),
    ],
)
def test_an_integer_that_would_wrap_is_refused(space: gym.Space, dtype: type, wrong: int, good: int) -> None:
    check, shape = action_check(space), (4, *(space.shape or ()))
    assert np.all(check(np.full(shape, good, dtype), 4) == good)
    with pytest.raises(ActionError, match=f"action {wrong} does not fit into {space.dtype}"):
        check(np.full(shape, wrong, dtype), 4)


def test_a_large_bound_of_a_box_extends_the_limit_for_its_actions() -> None:
    check = action_check(gym.spaces.Box(-1e12, np.inf, (1,), np.float64))
    check(np.array([[1e12]]), 1)
    with pytest.raises(ActionError, match="too far outside of"):
        check(np.array([[2e12]]), 1)


def test_errors_derive_from_built_in_exceptions() -> None:
    assert issubclass(ActionError, ValueError)
    assert issubclass(RecvTimeoutError, TimeoutError)
    assert issubclass(ClosedError, RuntimeError)
    assert issubclass(OptionError, ValueError)

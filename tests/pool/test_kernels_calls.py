"""The kernels executor: how calls reach the compiled code, where results go, and what is refused."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import warp as wp
from kernel_plays import COUNTER, assert_equal, build_counter, play

import headrace
from headrace.errors import ClosedError, EnvIdError, OptionError, SequenceError
from headrace.pool.executors.kernels.executor import KernelExecutor


def test_asynchronous_results_come_in_the_order_sent():
    with headrace.make("CartPole-v1", num_envs=5, batch_size=2, seed=0) as pool:
        pool.async_reset()
        assert pool.recv()[4]["env_id"].tolist() == [0, 1]
        pool.send([1, 0], [1, 0])
        assert [pool.recv()[4]["env_id"].tolist() for _ in range(2)] == [[2, 3], [4, 1]]
        pool.send([0, 1, 1], [3, 4, 2])
        assert pool.recv()[4]["env_id"].tolist() == [0, 3]
        assert pool.recv(timeout=0)[4]["env_id"].tolist() == [4, 2]
        with pytest.raises(SequenceError):
            pool.recv()


def test_asynchronous_actions_are_copied_when_sent():
    with headrace.make("KernelTestCounter-v0", num_envs=2, batch_size=1, seed=0, max_episode_steps=0) as pool:
        pool.async_reset()
        count = int(pool.recv()[0]["count"][0])
        pool.recv()
        action = np.array([[2, 0]])
        pool.send(action, [0])
        action[:] = 0
        assert pool.recv()[0]["count"][0] == count + 2


def test_results_are_written_into_the_arrays_of_the_caller():
    with (
        headrace.make("CartPole-v1", num_envs=4, seed=0) as pool,
        headrace.make("CartPole-v1", num_envs=4, seed=0) as twin,
    ):
        pool.reset()
        twin.reset()
        obs, reward = np.zeros((10, 4, 4), np.float32), np.zeros((10, 4), np.float32)
        batches = [pool.make_batch(obs=obs[t], reward=reward[t]) for t in range(10)]
        for t, batch in enumerate(batches):
            pool.step(np.full(4, t % 2), out=batch)
            np.testing.assert_array_equal(obs[t], twin.step(np.full(4, t % 2))[0])
        assert (reward == 1).all()


def test_strided_views_of_actions_are_read_correctly():
    with (
        headrace.make("CartPole-v1", num_envs=4, seed=0) as pool,
        headrace.make("CartPole-v1", num_envs=4, seed=0) as twin,
    ):
        pool.reset()
        twin.reset()
        actions = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
        np.testing.assert_array_equal(pool.step(actions[:, 0])[0], twin.step([0, 1, 0, 1])[0])


def test_the_recorded_launch_gives_the_results_of_the_direct_call(monkeypatch):
    from headrace.pool.executors.kernels import launch

    direct = play("CartPole-v1")
    monkeypatch.setattr(launch, "_direct_call", lambda recorded: None)
    assert_equal(direct, play("CartPole-v1"))


def test_the_installed_warp_offers_the_direct_call():
    with headrace.make("CartPole-v1", num_envs=2, seed=0) as pool:
        run = pool.make_batch().binding.everyone
    assert isinstance(run, partial), "Warp's private interface has changed: steps fall back to slower launches"


def test_closing_frees_the_arrays_and_can_be_repeated():
    pool = headrace.make("CartPole-v1", num_envs=4, seed=0)
    pool.reset()
    inner = pool._executor
    pool.close()
    assert not vars(inner)
    inner.close()


def test_another_device_is_refused_by_name():
    with pytest.raises(OptionError, match="cuda:7"):
        headrace.make("CartPole-v1", device="cuda:7")


def test_render_of_a_task_without_pictures_is_refused():
    with headrace.make("KernelTestCounter-v0", seed=0) as pool:
        pool.reset()
        with pytest.raises(OptionError, match="Counter"):
            pool.render()


@wp.struct
class WrongView:
    obs_count: wp.array[wp.int32]
    obs_board: wp.array3d[wp.uint8]
    noise: wp.array[wp.float64]


@wp.struct
class LongView:
    obs_count: wp.array[wp.int64]
    obs_board: wp.array3d[wp.uint8]
    noise: wp.array[wp.float64]
    more: wp.array[wp.float64]


@wp.struct
class ShortView:
    obs_count: wp.array[wp.int64]
    noise: wp.array[wp.float64]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"view": WrongView}, r"Counter: .*WrongView\.obs_count must be an array of int64 with 1 dimension"),
        ({"view": LongView}, r"LongView\.more is neither observation nor info"),
        ({"view": ShortView}, r"ShortView lacks the field 'obs_board', an array of uint8 with 3 dimensions"),
        ({"name": "My-Counter"}, r"must be an identifier, not 'My-Counter'"),
        ({"constants": {}}, r"CounterState\.bonus is neither an option of KernelTestCounter-v0 nor a constant"),
        ({"constants": {"bonus": 1, "boni": 2}}, r"no scalar field for the constant 'boni'"),
        ({"shapes": {"board": (2,)}}, r"CounterState\.board has 3 dimensions"),
    ],
)
def test_structs_that_do_not_fit_the_task_are_named(changes, told):
    task = build_counter("KernelTestCounter-v0")
    broken = headrace.Task(task.spec, partial(KernelExecutor, replace(COUNTER, **changes)))
    headrace.register("KernelTestBroken-v0", lambda task: broken, replace=True)
    with pytest.raises(TypeError, match=told):
        headrace.make("KernelTestBroken-v0")


def test_a_kernel_pool_prints_nothing_and_imports_warp_only_when_made():
    headrace.make("CartPole-v1").close()  # compiles the kernel, as compiling may print a message
    code = (
        "import sys, headrace, headrace.envs.classic_control;"
        "assert 'warp' not in sys.modules and 'torch' not in sys.modules;"
        "pool = headrace.make('CartPole-v1', num_envs=2); pool.reset(); pool.step([0, 1]); pool.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- named arrays ------------------------------------------------------------------------------------------


def test_state_arrays_are_copies_of_the_states_of_environments():
    with headrace.make("CartPole-v1", num_envs=4, seed=0) as pool:
        obs, _ = pool.reset()
        state = pool.state_arrays()
        columns = [state[name] for name in ("x", "x_dot", "theta", "theta_dot")]
        np.testing.assert_array_equal(np.stack(columns, 1).astype(np.float32), obs)
        before = state["x"].copy()
        state["x"][:] = 7
        np.testing.assert_array_equal(pool.state_arrays(["x"], [2, 0])["x"], before[[2, 0]])
        assert list(pool.state_arrays("theta")) == ["theta"]
        assert pool.state_arrays([]) == {}
        pool.step(np.ones(4, np.int64))
        assert (pool.state_arrays(["x_dot"])["x_dot"] > state["x_dot"]).all()


def test_state_arrays_refuse_wrong_moments_names_and_environments():
    pool = headrace.make("CartPole-v1", num_envs=4, seed=0)
    pool.reset([0])
    with pytest.raises(SequenceError, match="environment 1"):
        pool.state_arrays(env_ids=[0, 1])
    pool.reset()
    with pytest.raises(OptionError, match=r"no state array 'y'; it has x, "):
        pool.state_arrays(["x", "y"])
    with pytest.raises(EnvIdError):
        pool.state_arrays(env_ids=[4])
    pool.send(np.ones(4, np.int64))
    with pytest.raises(SequenceError, match="in flight"):
        pool.state_arrays()
    pool.close()
    with pytest.raises(ClosedError):
        pool.state_arrays()

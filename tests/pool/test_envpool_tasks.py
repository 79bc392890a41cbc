"""EnvPool's tasks in a pool take the same steps as in EnvPool itself, and pass the conformance checks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
import headrace.testing
from headrace.cli.main import main
from headrace.errors import (
    ActionError,
    ClosedError,
    OptionError,
    RecvTimeoutError,
    RenderError,
    SequenceError,
    StateError,
    UnknownTaskError,
    UnsupportedError,
)
from headrace.pool.executors.envpool.package import why_no_pictures
from headrace.pool.pool import Pool
from headrace.train.recipes.recipes import recipe_of
from nightly import rest_nightly

envpool = pytest.importorskip("envpool")

CARTPOLE = "envpool:CartPole-v1"
TASKS = ("CartPole-v1", "Pong-v5", "HalfCheetah-v4", "MiniGrid-Empty-Random-5x5-v0", "BigfishEasy-v0")
QUICK = TASKS[0]


def pool_of(name: str, **options: Any) -> Pool:
    """Returns a pool of EnvPool's task, unless the system lacks what it needs."""
    try:
        return headrace.make(f"envpool:{name}", **options)
    except OptionError as error:
        pytest.skip(str(error)) if "system" in str(error) else None
        raise


def flat(value: Any) -> list[np.ndarray]:
    return [part for each in value.values() for part in flat(each)] if isinstance(value, dict) else [value]


@pytest.mark.parametrize("name", TASKS)
def test_steps_of_a_pool_equal_envpools_own_steps(name: str) -> None:
    with pool_of(name, num_envs=3, seed=5) as pool:
        theirs = envpool.make_gymnasium(name, num_envs=3, seed=[5, 6, 7])
        pool.action_space.seed(0)
        seen, known = pool.reset()[0], theirs.reset()[0]
        for _ in range(60):
            assert all(map(np.array_equal, flat(seen), flat(known)))
            action = np.stack([pool.action_space.sample() for _ in range(3)])
            seen, *mine, info = pool.step(action)
            known, *own, told = theirs.step(action.astype(theirs.spec._action_spec[-1][0]))
            assert all(map(np.array_equal, mine, own))
            assert all(np.array_equal(info[f.name], told[f.name].reshape(info[f.name].shape)) for f in pool.spec.info)
            assert np.array_equal(info["elapsed_step"], told["elapsed_step"])


@pytest.mark.parametrize("name", rest_nightly(TASKS, QUICK))
def test_envpools_tasks_pass_the_conformance_checks(name: str) -> None:
    pool_of(name).close()
    report = headrace.testing.check(f"envpool:{name}", num_envs=3, steps=30)
    skipped = {result.name for result in report.results if result.verdict == "skipped"}
    assert {"saved_states", "resets"} <= skipped
    if name == QUICK:
        assert skipped == {"saved_states", "resets", "devices", "order_of_agents"}


def test_a_reset_with_seeds_must_name_all_environments() -> None:
    with headrace.make(CARTPOLE, num_envs=3, seed=1) as pool, headrace.make(CARTPOLE, num_envs=3, seed=8) as other:
        pool.reset()
        with pytest.raises(UnsupportedError, match="all environments at once"):
            pool.reset([1], seed=[3])
        pool.step([0, 1, 0])  # nothing was reset, nor lost
        assert np.array_equal(pool.reset([2, 1, 0], seed=[10, 9, 8])[0], other.reset()[0][::-1])
        assert np.array_equal(pool.reset(seed=8)[0], pool.reset(seed=8 + 2**31)[0])


@pytest.mark.parametrize("name", ["CartPole-v1", "HalfCheetah-v4"])
def test_wrong_actions_do_not_reach_envpool(name: str) -> None:
    with headrace.make(f"envpool:{name}", num_envs=2, seed=1) as pool:
        pool.reset()
        right = np.stack([pool.action_space.sample()] * 2)
        wrong = [right[:1], right[None], right.astype(complex), right + np.inf, "no", None, right + np.nan]
        wrong += [] if right.ndim > 1 else [right + 2, right - 2, right + 0.5]
        for action in wrong:
            with pytest.raises(ActionError), np.errstate(invalid="ignore"):
                pool.step(action)
        assert pool.step(right)[4]["elapsed_step"].tolist() == [1, 1]


def test_saving_and_loading_states_of_envpools_tasks_is_refused() -> None:
    with headrace.make(CARTPOLE, num_envs=2) as pool:
        with pytest.raises(SequenceError):
            pool.step([0, 0])
        pool.reset()
        for error in (StateError, OptionError):
            with pytest.raises(error, match="cannot save the states of envpool:CartPole-v1"):
                pool.save_state()
        with pytest.raises(StateError):
            pool.load_state([0], [b""])
        assert pool.render([1, 0]).shape == (2, 400, 600, 3)
    pool.close()
    with pytest.raises(ClosedError):
        pool.reset()


def test_mujoco_tasks_are_drawn_or_the_error_gives_the_reason() -> None:
    with headrace.make("envpool:HalfCheetah-v4", render_width=64, render_height=48) as pool:
        pool.reset()
        if not why_no_pictures("HalfCheetah-v4"):
            assert pool.render().shape == (1, 48, 64, 3)
            return
        with pytest.raises(RenderError, match="EnvPool cannot draw envpool:HalfCheetah-v4 here: "):
            pool.render()
        with pytest.raises(OptionError, match="cannot draw"):
            headrace.make("envpool:HalfCheetah-v4", from_pixels=True)


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_a_recv_that_times_out_loses_no_batch(autoreset: Any) -> None:
    with headrace.make("envpool:Pong-v5", num_envs=5, batch_size=4, autoreset=autoreset, num_threads=2) as pool:
        pool.async_reset()
        with pytest.raises(RecvTimeoutError):
            pool.recv(timeout=0.0)
        ids = pool.recv(timeout=60)[4]["env_id"]  # all results are still in flight
        assert len(ids) == 4
        obs, info = pool.reset()  # drops the fifth result, as one is less than a batch
        assert len(obs) == 4 and not info["elapsed_step"].any()
        ids = info["env_id"]
        pool.send(np.zeros(4, int), ids)
        assert pool.recv()[4]["elapsed_step"].max() == 1


def test_recv_of_a_synchronous_pool_returns_results_in_the_order_sent() -> None:
    with headrace.make(CARTPOLE, num_envs=4, seed=1) as pool:
        pool.reset()
        pool.send([1, 1], [3, 0])
        pool.send([0], [2])
        assert pool.step([1], [1])[4]["env_id"].tolist() == [1]
        assert pool.recv()[4]["env_id"].tolist() == [3, 0, 2]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("CartPole-v1", {"lives": 3}, "has no option 'lives'"),
        ("CartPole-v1", {"max_episode_steps": -1}, "max_episode_steps"),
        ("CartPole-v1", {"from_pixels": 1}, "from_pixels of envpool:CartPole-v1 must be True or False, not 1"),
        ("Pong-v5", {"stack_num": 2.0}, "stack_num of envpool:Pong-v5 must be an integer, not 2.0"),
        ("Highway-v0", {"max_episode_steps": 5}, "has no option 'max_episode_steps'"),
        ("ConnectFour-v1", {}, "is for 2 players"),
        ("VizdoomCustom-v1", {}, "does not exist"),
    ],
)
def test_invalid_options_are_refused_with_a_reason(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        headrace.make(f"envpool:{name}", **options)


def test_options_reach_envpool_and_appear_in_the_config() -> None:
    with headrace.make("envpool:Pong-v5", stack_num=2, max_episode_steps=3, gray_scale=False) as pool:
        assert pool.observation_space.shape == (6, 84, 84)
        assert pool.config["stack_num"] == 2 and pool.config["max_episode_steps"] == pool.spec.max_episode_steps == 3
        pool.reset()
        assert [pool.step([0])[3].item() for _ in range(3)] == [False, False, True]
    with headrace.make(CARTPOLE, max_episode_steps=0) as pool:
        assert pool.spec.max_episode_steps == 0


def test_the_description_of_a_task_names_headraces_own_faster_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert recipe_of(CARTPOLE, {}).describe(CARTPOLE).endswith("; Headrace's own CartPole-v1 is faster")
    assert "own" not in recipe_of("envpool:Snake-v1", {}).describe("envpool:Snake-v1")
    assert main(["envs", "envpool:Pong-v5"]) == 0
    assert "; Headrace's own Pong-v5 is faster" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_task_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownTaskError, match="did you mean envpool:BigfishEasy-v0"):
        headrace.make("envpool:BigFish-v0")


def test_a_missing_or_old_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "envpool-0.8.4.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: envpool\nVersion: 0.8.4\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(OptionError, match=r"EnvPool 0.8.4, which is too old: pip install 'envpool>=1.2.5'"):
        headrace.make(CARTPOLE)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(OptionError, match=r"not installed: pip install 'envpool>=1.2.5'"):
        headrace.make(CARTPOLE)

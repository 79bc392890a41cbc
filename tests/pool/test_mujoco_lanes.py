"""The physics of MuJoCo tasks: which one is chosen, the reasons against lanes, and how well both agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.mujoco import MujocoEnv
from headrace.pool.executors.mujoco import lanes
from headrace.pool.executors.mujoco.fields import library, native_module
from headrace.pool.registry import build_task
from headrace.pool.state import task_key
from nightly import rest_nightly

TASK, PGS = "HalfCheetah-v5", "Humanoid-v5"
needs_lanes = pytest.mark.skipif(not native_module().lane_widths(), reason="nothing is stepped in lanes here")

XML = """
<mujoco>
  <worldbody><body><joint axis="0 1 0"/><geom size=".1"/></body></worldbody>
</mujoco>"""


def model_of(**options: Any) -> Any:
    model = library().MjModel.from_xml_string(XML)
    for name, value in options.items():
        setattr(model.opt, name, value)
    return model


ENV = MujocoEnv("Unused", ("qpos", "geom_size"), None, None, print, print, print)


@pytest.fixture
def preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes lanes the default; where they are not built, they are taken to step every task without `varies`."""
    monkeypatch.setattr(lanes, "PREFERRED", lanes.LANES)
    if not native_module().lane_widths():
        monkeypatch.setattr(lanes, "_unsupported", lambda env, model: "it differs" if env.varies else "")


# -- the choice of physics -----------------------------------------------------------------------


def test_the_physics_is_an_option_of_a_spec() -> None:
    spec = headrace.make_spec(TASK, physics="mujoco")
    assert spec.options["physics"] == spec.config.physics == "mujoco"
    assert headrace.make_spec(TASK).options["physics"] in ("lanes", "mujoco")
    again = headrace.make_spec(TASK, **headrace.make_spec(TASK).options)
    assert again.options == headrace.make_spec(TASK).options


@pytest.mark.parametrize("value", ["lanes64", "warp", 1, None, True])
def test_unknown_physics_are_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="physics of HalfCheetah-v5 must be one of lanes, lanes32, mujoco"):
        headrace.make_spec(TASK, physics=value)


@pytest.mark.usefixtures("preferred")
def test_the_default_physics_is_lanes_if_they_support_the_task() -> None:
    solver = library().mjtSolver
    assert lanes.physics_of("x", "", ENV, model_of()) == "lanes"
    assert lanes.physics_of("x", "", ENV, model_of(solver=solver.mjSOL_CG)) == "lanes"
    assert lanes.physics_of("x", "mujoco", ENV, model_of()) == "mujoco"
    for env, model in (
        (ENV, model_of(solver=solver.mjSOL_PGS)),
        (replace(ENV, varies=("geom_size",)), model_of()),
    ):
        assert lanes.physics_of("x", "", env, model) == "mujoco"


def test_an_error_names_the_part_that_lanes_cannot_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lanes.why_not_lanes(ENV, model_of(solver=library().mjtSolver.mjSOL_PGS)) == "the solver is PGS"
    monkeypatch.setattr(lanes, "_unsupported", lambda env, model: "geom 7 'table': mesh collisions")
    for physics in ("lanes", "lanes32"):
        said = f"HalfCheetah-v5 cannot have physics='{physics}': geom 7 'table': mesh collisions; leave physics out"
        with pytest.raises(OptionError, match=said):
            headrace.make(TASK, num_envs=1, physics=physics)


@pytest.mark.usefixtures("preferred")
def test_the_default_physics_is_mujoco_without_the_compiled_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise OptionError("headrace-mujoco is not installed")

    monkeypatch.undo()
    monkeypatch.setattr(lanes, "PREFERRED", lanes.LANES)
    monkeypatch.setattr(lanes, "native_module", missing)
    assert headrace.make_spec(TASK).options["physics"] == "mujoco"
    with pytest.raises(OptionError, match="headrace-mujoco is not installed"):
        headrace.make_spec(TASK, physics="lanes")


@needs_lanes
def test_why_not_lanes_names_varied_fields_noslip_and_callbacks() -> None:
    mujoco, model = library(), model_of()
    assert "geom_size" in lanes.why_not_lanes(replace(ENV, varies=("geom_size",)), model)
    assert "noslip" in lanes.why_not_lanes(ENV, model_of(noslip_iterations=3))
    mujoco.set_mjcb_control(lambda model, data: None)
    try:
        assert "callback" in lanes.why_not_lanes(ENV, model)
    finally:
        mujoco.set_mjcb_control(None)
    assert lanes.why_not_lanes(ENV, model) == ""


def test_headrace_envs_and_doctor_report_the_physics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", PGS]) == 0
    assert "Humanoid-v5: physics mujoco, not lanes: the solver is PGS" in " ".join(capsys.readouterr().out.split())
    main(["doctor"])
    said = capsys.readouterr().out
    assert "robots at once" in said or "libmujoco steps robots" in said


def test_the_key_of_saved_states_does_not_depend_on_the_physics() -> None:
    spec = build_task(TASK, physics="mujoco").spec
    others = {**spec.options, "physics": "lanes"}, {n: v for n, v in spec.options.items() if n != "physics"}
    key = task_key(spec, "next_step")
    for options in others:  # the last as in versions without this option
        assert task_key(replace(spec, options=options), "next_step") == key
    assert task_key(replace(spec, options={**spec.options, "frame_skip": 2}), "next_step") != key


NEAR = {"lanes": 1e-7, "lanes32": 1e-3}
"""tolerance of results of a few agent steps against libmujoco's, by physics"""


# -- agreement with MuJoCo -----------------------------------------------------------------------


def actions_of(pool: Any, steps: int) -> np.ndarray:
    space: gym.spaces.Box = pool.action_space
    low, high = np.where(space.bounded_below, space.low, -1), np.where(space.bounded_above, space.high, 1)
    return np.random.default_rng(0).uniform(low, high, (steps, pool.num_envs, *space.shape))


SIZES = [("lanes", 1, 11), ("lanes", 3, 11), ("lanes", 2, 5), ("lanes32", 1, 11), ("lanes32", 2, 5)]


@needs_lanes
@pytest.mark.parametrize("task", [TASK, "Hopper-v5", "WalkerWalk-v1", "ReacherEasy-v1", "HopperStand-v1"])
@pytest.mark.parametrize(
    ("physics", "num_threads", "batch_size"),
    rest_nightly(SIZES, ("lanes", 2, 5), ("lanes32", 1, 11)),
)
def test_lanes_agree_with_mujoco(task: str, physics: str, num_threads: int, batch_size: int) -> None:
    more: dict[str, Any] = {}
    if task.endswith("-v1"):
        pytest.importorskip("dm_control")
        more["flat_observation"] = True
    rows: list[dict[tuple[int, int], np.ndarray]] = []
    for each, threads, batch in (("mujoco", 1, 11), (physics, num_threads, batch_size)):
        seen: dict[tuple[int, int], np.ndarray] = {}
        with headrace.make(
            task, num_envs=11, batch_size=batch, num_threads=threads, seed=2, physics=each, **more
        ) as pool:
            actions = actions_of(pool, 6)
            pool.async_reset()
            while len([key for key in seen if key[1] == 5]) < 11:
                obs, *_, info = pool.recv()
                ids, steps = info["env_id"], info["elapsed_step"]
                new = {(i, s): row.copy() for i, s, row in zip(ids.tolist(), steps.tolist(), obs, strict=True)}
                seen = new | seen  # keeps rows of first episodes: some environments are faster than others
                pool.send(actions[np.minimum(steps, 5), ids], ids)
        rows.append({key: row for key, row in seen.items() if key[1] <= 5})
    assert rows[0].keys() == rows[1].keys()
    for key, row in rows[0].items():
        np.testing.assert_allclose(rows[1][key], row, rtol=NEAR[physics], atol=NEAR[physics], err_msg=str(key))


@needs_lanes
@pytest.mark.parametrize("physics", ["lanes", "lanes32"])
def test_results_in_lanes_do_not_depend_on_the_other_environments(physics: str) -> None:
    with (
        headrace.make(TASK, num_envs=11, seed=4, physics=physics, num_threads=1) as together,
        headrace.make(TASK, num_envs=11, seed=4, physics=physics, num_threads=2) as alone,
    ):
        together.reset()
        alone.reset()
        for action in actions_of(together, 30):
            obs = together.step(action)[0]
            each = [alone.step(action[[i]], np.array([i], np.int32))[0][0].copy() for i in range(11)]
            assert np.array_equal(obs, np.stack(each))


@needs_lanes
@pytest.mark.parametrize("ours", ["lanes", "lanes32"])
def test_saved_states_can_be_exchanged_between_lanes_and_mujoco(ours: str) -> None:
    pools = [headrace.make(TASK, num_envs=6, seed=5, physics=physics) for physics in (ours, "mujoco")]
    with pools[0] as one, pools[1] as other:
        one.reset()
        actions = actions_of(one, 20)
        for action in actions:
            one.step(action)
        states = one.save_state()
        for to in (other, one):
            to.load_state(None, states)
        assert states == other.save_state()
        np.testing.assert_allclose(one.step(actions[0])[0], other.step(actions[0])[0], rtol=NEAR[ours], atol=NEAR[ours])


@needs_lanes
@pytest.mark.parametrize("physics", ["lanes", "lanes32"])
def test_diverged_physics_in_lanes_terminates_the_episode(physics: str) -> None:
    with headrace.make(TASK, num_envs=5, seed=1, physics=physics) as pool:
        pool.reset()
        pool._executor.state_arrays()["qvel"][3] = 1e200  # beyond what floats hold
        _, reward, terminated, _, info = pool.step(np.zeros((5, 6)))
        assert terminated.tolist() == [False, False, False, True, False]
        assert reward[3] == 0 and (info["physics_warning"] > 0).tolist() == terminated.tolist()


@needs_lanes
def test_bare_seconds_measures_the_physics_of_each_lane_width() -> None:
    with headrace.make(TASK, num_envs=9, seed=1, physics="lanes") as pool:
        pool.reset()
        actions = actions_of(pool, 3)
        executor: Any = pool._executor
        states = np.stack([executor.record() for _ in actions])
        for physics in ("lanes", "mujoco"):
            assert executor.bare_seconds(states, actions, 2, physics) > 0
        for width in native_module().lane_widths():
            assert executor.bare_seconds(states, actions, 1, "lanes", width) > 0
        for width in native_module().lane_widths("lanes32"):
            assert executor.bare_seconds(states, actions, 1, "lanes32", width) > 0
        with pytest.raises(OptionError, match="no registers of that width"):
            executor.bare_seconds(states, actions, 1, "lanes", 3)


def in_lanes() -> list[str]:
    """Names of all tasks that are stepped in lanes by default, one of each robot."""
    if not native_module().lane_widths():
        return []
    robots: dict[str, str] = {}
    for task in headrace.list_all_envs():
        robot = task.split("-v")[0]
        if robot in robots or task.startswith(("Dog", "Humanoid")) or not has_physics(task):
            continue
        if headrace.make_spec(task).options["physics"] == lanes.LANES:
            robots[robot] = task
    return list(robots.values())


def has_physics(task: str) -> bool:
    try:
        return "physics" in headrace.make_spec(task).options
    except OptionError:  # its package is not installed
        return False


@needs_lanes
@pytest.mark.nightly
def test_steps_of_every_robot_in_lanes_agree_with_mujoco() -> None:
    """Compares one agent step from equal states; they differ as MuJoCo's solver stops a little before the optimum.

    In floats only positions are compared: forces of stiff contacts, which some robots observe, amplify rounding.
    """
    tasks = in_lanes()
    assert len(tasks) >= 30
    for task in tasks:
        settings: dict[str, Any] = {"num_envs": 5, "num_threads": 1, "seed": 3, "autoreset": "disabled"}
        if task.endswith("-v1"):
            settings["flat_observation"] = True
        with (
            headrace.make(task, **settings, physics="mujoco") as theirs,
            headrace.make(task, **settings, physics="lanes") as lanes,
            headrace.make(task, **settings, physics="lanes32") as floats,
        ):
            start = theirs.reset()[0]
            assert all(np.array_equal(pool.reset()[0], start) for pool in (lanes, floats))
            for action in actions_of(theirs, 12):
                before = theirs.save_state()
                obs, rewards, *ends, _ = theirs.step(action)
                qpos = theirs._executor.state_arrays()["qpos"]
                for pool, near in ((lanes, 1e-5), (floats, 1e-3)):
                    pool.load_state(None, before)
                    our_obs, our_rewards, *our_ends, _ = pool.step(action)
                    positions = our_obs, obs
                    if pool is floats:
                        positions = floats._executor.state_arrays()["qpos"], qpos
                    assert np.abs(np.subtract(*positions)).max() <= near * (1 + np.abs(positions[1]).max()), task
                    np.testing.assert_allclose(our_rewards, rewards, rtol=10 * near, atol=10 * near, err_msg=task)
                    assert (np.stack(ends) == np.stack(our_ends)).all(), task
                if np.stack(ends).any():
                    break

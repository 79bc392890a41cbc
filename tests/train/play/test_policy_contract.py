"""The contract beside an exported policy says what its numbers are, in plain JSON."""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.errors import OptionError
from headrace.train.play.export import export_policy
from headrace.train.play.export.contract import plain
from untrained_agents import CASES, untrained
from whole_runs import SMALL

PAGE = Path(__file__).parents[3] / "docs" / "export.md"


def contract(agent: Any, path: Path) -> dict[str, Any]:
    export_policy(agent, path)

    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(path.with_suffix(".json").read_text(), parse_constant=refused)


def keys(value: Any) -> set[str]:
    """All keys of dictionaries in some JSON but those of the user's options and files."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    if not isinstance(value, dict):
        return set()
    free = ("env_options", "files")
    own = {*value} | set().union(*(keys(each) for name, each in value.items() if name not in free))
    return own | set().union(*map(keys, value.get("files", {}).values()))


def test_a_robots_contract_names_its_joints(tmp_path: Path):
    agent = untrained("Go1Flat-v0", env_options={"critic": True, "flat_observation": True})
    found = contract(agent, tmp_path / "go1.c")
    seen, done = found["observation"], found["action"]
    assert (found["task"], found["rate_hz"]) == ("Go1Flat-v0", 50.0)
    assert seen["shape"] == [48] and seen["left_out"] == 73 and seen["parts"][-1]["to"] == 48
    assert [part["from"] for part in seen["parts"][1:]] == [part["to"] for part in seen["parts"][:-1]]
    angles = seen["parts"][3]
    assert angles["unit"] == "rad" and angles["elements"][2] == "FR_calf_joint" == done["elements"][2]["name"]
    assert len(seen["normalisation"]["mean"]) == 48
    calf = done["elements"][2]
    assert (calf["unit"], calf["scale"], calf["offset"]) == ("rad", 0.5, -1.8) and (calf["low"], calf["high"]) == (
        -1,
        1,
    )


def test_an_action_asks_for_what_the_contract_says():
    """The targets that a robot's servos get are ``offset + scale * action``."""
    with headrace.make("Go1Flat-v0", num_envs=1, seed=0) as pool:
        pool.reset()
        action = np.random.default_rng(0).uniform(-1, 1, (1, 12))
        pool.step(action)
        controls = pool.spec.signals.action
        asked = [control.offset + control.scale * x for control, x in zip(controls, action[0], strict=True)]
        assert np.allclose(pool._executor.state_arrays()["ctrl"][0], asked)


@pytest.mark.parametrize(("task", "newest"), [("Go1Flat-v0", False), ("Go1Mjlab-v0", True), ("Go2UniLab-v0", True)])
def test_what_a_robot_sees_of_its_actions_is_the_one_that_the_contract_names(task: str, newest: bool):
    with headrace.make(task, num_envs=1, seed=0, noise=0.0) as pool:
        (place,) = (i for i, part in enumerate(pool.spec.signals.observation) if "action" in part.name)
        parts = pool.spec.signals.observation
        start = sum(part.size for part in parts[:place])
        assert ("before" not in parts[place].name) == newest
        pool.reset()
        actions = np.random.default_rng(0).uniform(-0.2, 0.2, (3, 1, 12))
        seen = [np.array(pool.step(action)[0])[0, start : start + 12] for action in actions]
        assert np.allclose(seen[-1], actions[-1 if newest else -2][0], atol=1e-6)


@pytest.mark.parametrize("task", ["Ant-v5", "Humanoid-v5", "Pusher-v5", "Reacher-v4", "InvertedDoublePendulum-v5",
                                  "HalfCheetah-v5", "Swimmer-v5", "T1Flat-v0", "G1Nano-v0", "CartPole-v1",
                                  "Pendulum-v1", "Acrobot-v1", "LunarLander-v3", "BipedalWalker-v3",
                                  "Crazyflie-v0", "CrazyflieCurve-v0"])  # fmt: skip
def test_the_parts_are_the_whole_observation(task: str):
    spec = headrace.make_spec(task)
    assert sum(part.size for part in spec.signals.observation) == math.prod(spec.observation.shape or ())
    assert spec.signals.rate_hz > 0
    if isinstance(spec.action, gym.spaces.Box):
        assert len(spec.signals.action) == spec.action.shape[0]


def test_what_accelerates_a_car_is_in_the_contracts_units():
    """Beside gravity on the track; without a time of its own, the world has no rate."""
    with headrace.make("MountainCarContinuous-v0", num_envs=1, seed=0) as pool:
        (place, before), action = pool.reset()[0][0], np.float32(0.7)
        (_, velocity), *_ = np.array(pool.step(np.array([[action]]))[0])
        (control,) = pool.spec.signals.action
        gained = velocity - before + 0.0025 * math.cos(3 * place)
        assert gained == pytest.approx(control.scale * action, abs=1e-7) and control.unit == "1/step²"
        assert pool.spec.signals.rate_hz == 0
    names = [(part.name, part.unit) for part in headrace.make_spec("MountainCar-v0").signals.observation]
    assert names == [("position", ""), ("velocity", "1/step")]


def test_positions_and_velocities_are_where_the_contract_has_them():
    """Ant's joints by name, against MuJoCo's own state."""
    with headrace.make("Ant-v5", num_envs=1, seed=1) as pool:
        obs, _ = pool.reset()
        state, start = pool._executor.state_arrays(), 0
        for part in pool.spec.signals.observation[:6]:
            values, start = np.array(obs)[0, start : start + part.size], start + part.size
            if part.name == "angles of joints":
                assert np.allclose(values, state["qpos"][0, 7:])
            if part.name == "velocities of joints":
                assert np.allclose(values, state["qvel"][0, 6:])


def test_hashes_are_of_the_files_and_files_of_one_policy_stay_together(tmp_path: Path):
    agent = untrained("CartPole-v1", hidden=(8,))
    contract(agent, tmp_path / "policy.pt")
    found = contract(agent, tmp_path / "policy.c")
    assert [*found["files"]] == ["policy.pt", "policy.c", "policy.h"]
    for name, facts in found["files"].items():
        content = (tmp_path / name).read_bytes()
        assert facts["sha256"] == hashlib.sha256(content).hexdigest() and facts["bytes"] == len(content)
    assert found["files"]["policy.c"]["multiply_adds"] == 4 * 8 + 8 * 2
    other = contract(untrained("CartPole-v1", hidden=(16,), seed=5), tmp_path / "policy.c")
    assert [*other["files"]] == ["policy.c", "policy.h"]  # policy.pt is another policy's


def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OptionError, match=r"config\.json exists and is no policy's contract"):
        export_policy(untrained("CartPole-v1"), tmp_path / "config.c")
    assert not (tmp_path / "config.c").exists()


def test_the_contract_of_another_policys_file_stays(tmp_path: Path):
    agent = untrained("CartPole-v1")
    export_policy(agent, tmp_path / "policy.c")
    before = (tmp_path / "policy.json").read_bytes()
    with pytest.raises(OptionError, match=r"policy\.json says what policy\.c is, the policy of CartPole-v1"):
        export_policy(untrained("Acrobot-v1"), tmp_path / "policy.pt")
    assert (tmp_path / "policy.json").read_bytes() == before and not (tmp_path / "policy.pt").exists()
    export_policy(untrained("Acrobot-v1"), tmp_path / "policy.c")  # in place of the other
    (tmp_path / "policy.c").unlink()
    (tmp_path / "policy.h").unlink()
    export_policy(agent, tmp_path / "policy.pt")


def test_the_returns_are_those_of_the_checkpoint(tmp_path: Path):
    settings: Any = SMALL | {"total_steps": 1024, "evaluate_episodes": 3}
    run = headrace.train("CartPole-v1", **settings, run_dir=tmp_path / "mine", quiet=True).run_dir
    found = contract(headrace.load(run), tmp_path / "policy.pt")
    assert found["run"]["name"] == "mine" and found["run"]["step"] > 0
    assert found["returns"]["by"] == "evaluation" and found["returns"]["episodes"] == 3
    assert str(tmp_path) not in (tmp_path / "policy.json").read_text()


@pytest.mark.parametrize("case", ["gru", "masks", "one-hot", "small images", "sac"])
def test_every_key_is_explained_on_the_page(tmp_path: Path, case: str):
    task, settings = CASES[case]
    found = contract(untrained(task, **settings), tmp_path / "policy.c")
    explained = {*re.findall(r"`(\w+)`", PAGE.read_text())}
    assert keys(found) <= explained, keys(found) - explained


def test_what_is_no_json_becomes_text_or_null():
    odd = {"a": np.float32("inf"), 1: (np.arange(2), {"b": float("nan")}), "c": Path("x"), "d": np.bool_(True)}
    assert plain(odd) == {"a": None, "1": [[0, 1], {"b": None}], "c": "x", "d": True}

"""``headrace envs`` shows the tasks asked for, with their spaces."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from headrace.cli.envs import run
from headrace.cli.main import main
from headrace.envs import FAMILIES
from headrace.errors import UnknownTaskError
from headrace.pool.structure import space_text

SPACES = [
    (gym.spaces.Discrete(3), "3 choices"),
    (gym.spaces.Discrete(3, start=1), "3 choices from 1"),
    (gym.spaces.MultiDiscrete([2, 3]), "2 x 3 choices"),
    (gym.spaces.Box(-2, 2, (1,), np.float32), "float32[1] in [-2, 2]"),
    (gym.spaces.Box(0, 255, (4, 84, 84), np.uint8), "uint8[4, 84, 84]"),
    (gym.spaces.Box(-np.inf, np.inf, (4,), np.float64), "float64[4]"),
    (gym.spaces.Dict({"a": gym.spaces.Discrete(2)}), "a: 2 choices"),
]


@pytest.mark.parametrize(("space", "text"), SPACES, ids=[text for _, text in SPACES])
def test_a_space_is_written_in_short(space: gym.Space, text: str) -> None:
    assert space_text(space) == text


@pytest.mark.parametrize("words", ["cartpole", "CartPole-v1", "Cart*", "classic_control"])
def test_envs_lists_the_matching_tasks_alone(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", words]) == 0
    out = capsys.readouterr().out
    assert "CartPole-v1" in out
    assert "Pong-v5" not in out
    assert ("Pendulum-v1" in out) == (words == "classic_control")


def test_agents_are_described_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "TagGrid"]) == 0
    out = capsys.readouterr().out
    assert "10 taggers + 1 runner:" in out and "float32[6]" in out and "5 choices" in out


def test_long_observations_leave_room_for_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dm_control")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["envs", "HumanoidWalk"]) == 0
    out = capsys.readouterr().out
    assert "HumanoidWalk-v1" in out and "velocity:" in out and "float64[27]" in out


def test_a_star_lists_tasks_of_all_families(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "*"]) == 0
    out = capsys.readouterr().out
    assert all(task in out for task in ("Pong-v5", "CartPole-v1", "Pendulum-v1"))


def test_every_family_names_its_device_and_its_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["envs"]) == 0
    rows = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert rows.keys() >= {*FAMILIES, "envpool:"} - {"envpool"}
    assert "104" in rows["atari"] and "C++ on threads" in rows["atari"] and "headrace[atari]" in rows["atari"]
    assert "Warp kernels, on CPUs and GPUs" in rows["tag"]


@pytest.mark.parametrize("wanted", ["Swimmer-v5", "mujoco"])
def test_a_family_without_its_simulator_names_the_command_to_install_it(wanted: str) -> None:
    program = (
        f"import sys; sys.modules['mujoco'] = None; from headrace.cli.main import main; main(['envs', '{wanted}'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "needs what is not installed here: pip install 'headrace[mujoco]'" in done.stdout


def test_tasks_of_envpool_are_listed_by_their_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("envpool")
    assert main(["envs", "envpool:Bigfish*"]) == 0
    assert "envpool:BigfishEasy-v0" in capsys.readouterr().out
    with pytest.raises(UnknownTaskError, match="did you mean envpool:BigfishEasy-v0"):
        run(["envpool:BigFishEsy"])

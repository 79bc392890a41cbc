"""The contract of pools, kept by every family: results follow from seeds and actions, however they are played."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.envs import FAMILIES
from headrace.errors import ConformanceError, OptionError
from headrace.testing import CHECKS, NotApplicable
from headrace.testing.trial import Trial, play, same
from nightly import rest_nightly

SHORT: dict[str, Any] = {"num_envs": 3, "steps": 30}
SMALL: dict[str, Any] = {"num_envs": 2, "steps": 6, "img_height": 24, "img_width": 32, "max_episode_steps": 4}
ROBOT: dict[str, Any] = {"num_envs": 3, "steps": 20, "max_episode_steps": 8, "render_width": 64, "render_height": 48}
# Options with which a few steps exercise much of a task; of each family the first task always runs.
PLAYED: dict[str, dict[str, dict[str, Any]]] = {
    "classic_control": {"CartPole-v1": SHORT, "Pendulum-v1": SHORT, "Acrobot-v1": SHORT},
    "toy_text": {
        "FrozenLake-v1": {"max_episode_steps": 30},
        "Blackjack-v1": {"max_episode_steps": 30, "natural": True},
        "Taxi-v4": {"max_episode_steps": 30, "is_rainy": True, "fickle_passenger": True, "fickle_probability": 1.0},
        "CliffWalking-v1": {"max_episode_steps": 30, "is_slippery": True},
    },
    "minatar": {f"MinAtar-{name}-v1": {} for name in ("SpaceInvaders", "Breakout", "Asterix", "Seaquest", "Freeway")},
    "craftax": {
        "Craftax-Classic-Symbolic-v1": SHORT | {"steps": 12, "max_episode_steps": 5},
        "Craftax-Classic-Pixels-v1": SHORT,
    },
    "minigrid": {
        "MiniGrid-DoorKey-8x8-v0": SHORT,
        "BabyAI-MiniBossLevel-v0": {},
        "MiniGrid-Dynamic-Obstacles-8x8-v0": {},
        "MiniGrid-KeyCorridorS3R3-v0": {},
        "MiniGrid-ObstructedMaze-Full-v1": {},
        "MiniGrid-PutNear-8x8-N3-v0": {},
        "MiniGrid-LavaGapS7-v0": {"from_pixels": True, "tile_size": 2},
        "BabyAI-GoToRedBallGrey-v0": {"from_pixels": True, "tile_size": 2, "flat_observation": "pictures"},
    },
    "boards": {"ConnectFour-v0": SHORT, "Chess-v1": SHORT, "Go9x9-v0": SHORT, "LeducPoker-v0": {}, "Game2048-v0": {}},
    "crazyflie": {
        "Crazyflie-v0": SHORT | {"action_history": 3, "mass_spread": 0.2, "force": 0.01},
        "CrazyflieCurve-v0": {"period": 2.0, "max_episode_steps": 4},
    },
    "mpe": {"SimpleTag-v3": SHORT, "SimpleSpeakerListener-v4": SHORT, "SimpleAdversary-v3": SHORT},
    "tag": {"TagGridWorld-v0": SHORT, "TagContinuous-v0": SHORT},
    "box2d": {"LunarLander-v3": SHORT, "BipedalWalker-v3": SHORT, "CarRacing-v3": SHORT},
    "mujoco": {
        "Hopper-v5": ROBOT,
        **{f"{name}-v5": ROBOT for name in ("Ant", "HalfCheetah", "Humanoid", "InvertedPendulum", "Pusher", "Swimmer")},
    },
    "gymnasium_robotics": {
        **dict.fromkeys(("FetchPush-v4", "FetchPickAndPlace-v4", "AntMaze_UMaze-v5"), ROBOT),
        "PointMaze_Large_Diverse_GR-v3": ROBOT | {"reset_target": True},
    },
    "robots": {
        f"{name}-v0": ROBOT
        for name in ("Go1Flat", "Go1Mjlab", "Go1Rough", "Go2Flat", "Go2UniLab", "G1Flat", "G1Nano", "T1Flat")
    },
    "dm_control": {
        "WalkerRun-v1": ROBOT,
        **dict.fromkeys(("FingerTurnHard-v1", "ManipulatorInsertPeg-v1", "QuadrupedFetch-v1"), ROBOT),
    },
    "atari": {"Breakout-v5": SHORT | {"episodic_life": True}, "MontezumaRevenge-v5": SHORT, "Pitfall2-v5": SHORT},
    "vizdoom": {"D1Basic-v1": SMALL, "Basic-v1": SMALL},
}
EVERY = [(task, options) for tasks in PLAYED.values() for task, options in tasks.items()]
ALWAYS = [next(iter(tasks.items())) for tasks in PLAYED.values()]
KERNELS = ("classic_control", "toy_text", "minatar", "craftax", "minigrid", "boards")
INTERPRETED = [case for family in KERNELS for case in PLAYED[family].items() if "Pixels" not in case[0]]
QUICK = [case for case in ALWAYS if case in INTERPRETED and "Craftax" not in case[0]]  # whose worlds take half a minute


def named(value: Any) -> str | None:
    return value if isinstance(value, str) else getattr(value, "__name__", "")


def test_every_family_with_tasks_has_cases_here() -> None:
    assert PLAYED.keys() == {name for name, family in FAMILIES.items() if family.tasks}, "all but EnvPool's own"


@pytest.mark.parametrize("check", CHECKS, ids=named)
@pytest.mark.parametrize(("task", "options"), rest_nightly(EVERY, *ALWAYS), ids=named)
def test_tasks_of_each_family_pass_each_conformance_check(task: str, options: dict[str, Any], check: Any) -> None:
    try:
        check(task, **options)
    except NotApplicable as reason:
        pytest.skip(str(reason))
    except (ConformanceError, OptionError) as error:
        if "which is not installed" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize(("task", "options"), rest_nightly(INTERPRETED, *QUICK), ids=named)
def test_debug_mode_gives_the_results_of_compiled_kernels(task: str, options: dict[str, Any]) -> None:
    """Debug mode checks every index, to whose row it points, and every observation."""
    own = {name: value for name, value in options.items() if name not in SHORT}
    trial = Trial(task, own, num_envs=2, steps=10)
    with trial.make() as compiled, trial.make(debug=True) as interpreted:
        same(play(compiled, trial.actions()), play(interpreted, trial.actions()), "in Python as compiled")

"""Every MuJoCo task does what Gymnasium's does: from an equal state, with equal actions, everything is equal."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium_side import TASKS, official, play_both

import headrace
from nightly import rest_nightly

DRAWING = {"self", "kwargs", "default_camera_config"}  # parameters that are no options of the task


@pytest.mark.parametrize(
    "task", rest_nightly(TASKS, *(task for task in TASKS if task.endswith("v5") and "Standup" not in task))
)
def test_three_episodes_equal_those_of_gymnasium(task: str) -> None:
    played = play_both(task, episodes=3, seed=TASKS.index(task))
    assert played.terminated + played.truncated == 3


@pytest.mark.parametrize("task", TASKS)
def test_spaces_limits_and_defaults_equal_those_of_gymnasium(task: str) -> None:
    env, spec, registered = official(task), headrace.make_spec(task), gym.spec(task)
    assert spec.observation == env.observation_space
    assert isinstance(spec.action, gym.spaces.Box)
    assert spec.action.dtype == np.float64
    np.testing.assert_array_equal(spec.action.low, env.model.actuator_ctrlrange[:, 0])
    np.testing.assert_array_equal(spec.action.high, env.model.actuator_ctrlrange[:, 1])
    assert spec.max_episode_steps == registered.max_episode_steps
    assert spec.frame_skip == env.frame_skip
    for name, parameter in inspect.signature(type(env).__init__).parameters.items():
        if name not in DRAWING:
            assert spec.options[name] == parameter.default, name


NEVER_ENDING = {"terminate_when_unhealthy": False, "max_episode_steps": 150}
WITH_PLACES = {"exclude_current_positions_from_observation": False, "reset_noise_scale": 0.05}
SEEN = [f"include_{name}_in_observation" for name in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")]
WEIGHTS = {"forward_reward_weight": 2.5, "ctrl_cost_weight": 0.25}
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("Ant-v4", {"use_contact_forces": True, "contact_cost_weight": 0.01, "contact_force_range": (-0.5, 2.0)}),
    (
        "Ant-v4",
        {**NEVER_ENDING, **WITH_PLACES, "ctrl_cost_weight": 0.1, "healthy_reward": 3.0, "healthy_z_range": (0.5, 0.8)},
    ),
    ("Ant-v5", {**WEIGHTS, **WITH_PLACES, "main_body": "front_left_leg", "healthy_reward": 0.25}),
    ("Ant-v5", {"main_body": 3, "contact_cost_weight": 0.0, "include_cfrc_ext_in_observation": False}),
    ("Ant-v5", {**NEVER_ENDING, "frame_skip": 2, "healthy_z_range": (0.7, float("inf"))}),
    ("Ant-v5", {**NEVER_ENDING, "contact_force_range": (-3.0, 0.5), "contact_cost_weight": 0.01}),
    ("HalfCheetah-v4", {**WEIGHTS, **WITH_PLACES, "max_episode_steps": 100}),
    ("HalfCheetah-v5", {**WEIGHTS, **WITH_PLACES, "max_episode_steps": 100, "frame_skip": 1}),
    ("Hopper-v4", {**WEIGHTS, **WITH_PLACES, **NEVER_ENDING, "healthy_angle_range": (-0.01, 0.01)}),
    ("Hopper-v5", {**WEIGHTS, **WITH_PLACES, **NEVER_ENDING, "frame_skip": 3, "healthy_state_range": (-1.0, 1.0)}),
    ("Hopper-v5", {"healthy_z_range": (1.1, 1.4), "healthy_reward": 7.0, "healthy_angle_range": (-1.0, 1.0)}),
    ("Humanoid-v4", {**WEIGHTS, **WITH_PLACES, **NEVER_ENDING, "healthy_z_range": (1.3, 1.5)}),
    ("Humanoid-v5", {**WEIGHTS, **WITH_PLACES, **NEVER_ENDING, "healthy_reward": 2.0, "frame_skip": 3}),
    ("Humanoid-v5", {**dict.fromkeys(SEEN, False), "contact_cost_weight": 1e-4, "contact_cost_range": (0.5, 3.0)}),
    ("Humanoid-v5", {SEEN[0]: False, SEEN[2]: False, "contact_cost_weight": 0.0, "healthy_z_range": (0.5, 3.0)}),
    ("Humanoid-v5", {SEEN[1]: False, SEEN[3]: False, "contact_cost_weight": 0.0}),
    ("HumanoidStandup-v5", {**WITH_PLACES, "max_episode_steps": 60, "ctrl_cost_weight": 0.5, "frame_skip": 4}),
    ("HumanoidStandup-v5", {**dict.fromkeys(SEEN, False), "max_episode_steps": 60, "impact_cost_weight": 1e-4}),
    ("HumanoidStandup-v5", {SEEN[1]: False, "max_episode_steps": 60, "impact_cost_range": (1e-3, 2e-3)}),
    ("InvertedDoublePendulum-v5", {"healthy_reward": 2.0, "reset_noise_scale": 0.02, "frame_skip": 3}),
    ("InvertedPendulum-v5", {"reset_noise_scale": 0.1, "frame_skip": 1}),
    ("Pusher-v5", {"reward_near_weight": 2.0, "reward_dist_weight": 3.0, "reward_control_weight": 4.0}),
    ("Pusher-v5", {"frame_skip": 2, "max_episode_steps": 30}),
    ("Reacher-v5", {"reward_dist_weight": 3.0, "reward_control_weight": 4.0, "frame_skip": 3}),
    ("Swimmer-v4", {**WEIGHTS, **WITH_PLACES, "max_episode_steps": 100}),
    ("Swimmer-v5", {**WEIGHTS, **WITH_PLACES, "max_episode_steps": 100, "frame_skip": 2}),
    ("Walker2d-v4", {**WEIGHTS, **WITH_PLACES, **NEVER_ENDING, "healthy_z_range": (1.2, 1.3)}),
    ("Walker2d-v5", {**WEIGHTS, **WITH_PLACES, **NEVER_ENDING, "frame_skip": 3, "healthy_reward": 4.0}),
    ("Walker2d-v5", {"healthy_angle_range": (-0.1, 0.1), "healthy_z_range": (1.0, 1.4), "healthy_reward": 0.5}),
]


@pytest.mark.parametrize(("task", "options"), rest_nightly(OPTIONS, *OPTIONS[::3]))
def test_episodes_with_options_equal_those_of_gymnasium(task: str, options: dict[str, Any]) -> None:
    play_both(task, 2, 3, **options)


def test_the_option_cases_cover_every_keyword_of_gymnasium() -> None:
    """Except xml_file, which has its own tests, and uph_cost_weight, which Gymnasium documents but does not use."""
    left = {task: set(inspect.signature(type(official(task)).__init__).parameters) - DRAWING for task in TASKS}
    for task, options in OPTIONS:
        name = task.partition("-")[0]
        left[f"{name}-v4"] -= set(options)  # a task's versions have one table of options
        left[f"{name}-v5"] -= set(options)
    assert set.union(*left.values()) == {"xml_file", "uph_cost_weight"}


def test_uph_cost_weight_scales_the_reward_for_standing_up(make: Any) -> None:
    rewards = []
    for weight in (1.0, 3.0):
        pool = make("HumanoidStandup-v5", seed=1, uph_cost_weight=weight)
        pool.reset()
        _, reward, _, _, info = pool.step(np.zeros((1, 17)))
        rewards.append((reward[0], info["reward_linup"][0]))
    (less, up), (more, three_times) = rewards
    assert three_times == 3.0 * up
    assert more - less == pytest.approx(2.0 * up, rel=1e-6)


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Humanoid-v5", "Pusher-v4", "Swimmer-v4"])
def test_actions_beyond_their_range_give_the_results_of_gymnasium(task: str) -> None:
    """MuJoCo clips the control, and the cost is that of the action as it was given."""
    play_both(task, 1, 2, scale=3.0, max_episode_steps=60)

"""Parts of presets that several algorithms have."""

from __future__ import annotations

from headrace.train.settings.algorithm import Settings

CARTPOLE = {"CartPole-v0": {"stop_at_return": 195.0}, "CartPole-v1": {"stop_at_return": 475.0}}
PENDULUM = ("Pendulum-v0", "Pendulum-v1")
CLIPPED: Settings = {"env_options": {"episodic_life": True, "reward_clip": True}}
COMBINED: Settings = {"env_options": {"use_combined_action": True}}
LIMITED: Settings = {"env_options": {"max_episode_steps": 5000}}


def until(earned: float) -> Settings:
    """Returns the settings of a run that ends when the mean of 20 episodes is at a return."""
    return {"stop_at_return": earned, "stop_episodes": 20}

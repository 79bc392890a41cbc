"""The algorithm and the preset of a run that names no algorithm, by task, family or kind: the best that are known."""

from __future__ import annotations

from headrace.envs import atari, boards, craftax, dm_control, minatar, minigrid, mpe, mujoco, vizdoom
from headrace.train.settings.algorithm import DEFAULT_PRESET

RECIPES = {
    "atari": ("dqn", "fast"),
    "minatar": ("pqn", "fast"),
    "mujoco": ("ppo", "fast"),
    "dm_control": ("ppo", "fast"),
    "": ("ppo", DEFAULT_PRESET),
}
"""key, as in presets → the best algorithm, and the preset of it with the best settings"""
KINDS = (
    "several agents",
    "pictures",
    "observations of a category",
    "slow steps, continuous actions",
    "slow steps, discrete actions",
    "continuous actions",
    "discrete actions",
)
"""kinds of tasks, by their spaces and by the time that a step takes"""
FAMILIES = {
    "atari": atari,
    "boards": boards,
    "craftax": craftax,
    "dm_control": dm_control,
    "minatar": minatar,
    "minigrid": minigrid,
    "mpe": mpe,
    "mujoco": mujoco,
    "vizdoom": vizdoom,
}

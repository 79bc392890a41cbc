"""PPO's presets: settings under which tasks are known to learn."""

from __future__ import annotations

from typing import Any

from headrace.envs import atari, dm_control, mujoco, vizdoom


def ppo_presets(task: str, network: str, preset: str) -> dict[str, Any]:
    """Returns the settings with which a run of this task and network begins, name → value."""
    fast = FAST_MUJOCO if preset == "fast" and task in (*mujoco.TASKS, *dm_control.TASKS) else {}
    return _of_task(task) | fast | (GRU if network == "gru" else {})


def _of_task(task: str) -> dict[str, Any]:
    if task in PRESETS:
        return PRESETS[task]
    if task in atari.TASKS:
        return ATARI
    if task in vizdoom.TASKS:
        return VIZDOOM
    if task in dm_control.TASKS:
        return MUJOCO | {"env_options": {"flat_observation": True}}
    return MUJOCO if task in mujoco.TASKS else {}


# Settings of CleanRL's ppo_atari_envpool.py, for 8 environments.
ATARI: dict[str, Any] = {
    "total_steps": 10_000_000,
    "num_envs": 8,
    "num_steps": 128,
    "epochs": 4,
    "minibatch_size": 256,
    "learning_rate": 2.5e-4,
    "clip_range": 0.1,
    "value_clip_range": 0.1,
    "value_coef": 0.5,
    "entropy_coef": 0.01,
    "env_options": {"episodic_life": True, "reward_clip": True},
}

# Fewer, larger steps than CleanRL's: more learning a second where the network's arithmetic is the limit.
_PONG: dict[str, Any] = {
    **ATARI,
    "total_steps": 5_000_000,
    "stop_at_return": 18.0,
    "stop_episodes": 20,
    "num_envs": 16,
    "num_steps": 64,
    "epochs": 3,
    "learning_rate": 4e-4,
    "value_clip_range": None,
}

# As for Pong, with normalised rewards, as scenarios have different scales. Found on D1Basic-v1
# (`benchmarks/learning.py doom`).
VIZDOOM: dict[str, Any] = {
    **{name: value for name, value in _PONG.items() if not name.startswith("stop_")},
    "total_steps": 1_000_000,
    "normalise_rewards": True,
    "env_options": {"use_combined_action": True},
}

# Found by search for the least time until the task counts as solved.
_SPARSE: dict[str, Any] = {
    "normalise_observations": True,
    "normalise_rewards": True,
    "num_steps": 64,
    "epochs": 10,
    "minibatch_size": 512,
    "learning_rate": 1e-3,
}
_CARTPOLE: dict[str, Any] = {"total_steps": 1_000_000, "epochs": 8, "minibatch_size": 512, "learning_rate": 2e-3}
_PENDULUM: dict[str, Any] = {
    "total_steps": 400_000,
    "stop_at_return": -200.0,
    "gamma": 0.9,
    **_SPARSE,
    "gae_lambda": 0.9,
}
# Found by search for the highest return in a few minutes. Episodes of a perfect player end by the limit alone.
_MINATAR: dict[str, Any] = {
    "total_steps": 5_000_000,
    "num_envs": 128,
    "num_steps": 64,
    "minibatch_size": 1024,
    "learning_rate": 2.5e-3,
    "value_coef": 0.5,
    "entropy_coef": 0.01,
    "env_options": {"max_episode_steps": 5000},
}
# Found by search on HalfCheetah-v5 and Ant-v5 for the highest return after a million steps.
MUJOCO: dict[str, Any] = {
    "total_steps": 1_000_000,
    "num_envs": 16,
    "num_steps": 128,
    "epochs": 10,
    "minibatch_size": 512,
    "learning_rate": 5e-4,
    "gamma": 0.98,
    "gae_lambda": 0.92,
    "log_std_init": -1.0,
    "normalise_observations": True,
    "normalise_rewards": True,
}
# For the most return in the fewest seconds: half of MUJOCO's epochs leave time for more steps, and returns are from
# further ahead. More environments, larger minibatches and networks than in MUJOCO take robots further that fall, or
# have many joints, but each step costs more.
FAST_MUJOCO: dict[str, Any] = {
    "total_steps": 4_000_000,
    "num_envs": 32,
    "hidden": (128, 128),
    "epochs": 5,
    "minibatch_size": 1024,
    "deviation_floor": 0.1,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "normalise_rewards": False,
    "normalise_values": True,
}
# Found by search: 4 taggers in 101 x 101 cells with random starts; 5 taggers and 20 runners in the plane.
_TAG_GRID: dict[str, Any] = {
    "total_steps": 3_000_000,
    "num_envs": 256,
    "num_steps": 50,
    "minibatch_size": 5120,
    "gamma": 0.98,
    "entropy_coef": 0.01,
    "normalise_observations": True,
}
_TAG_PLANE: dict[str, Any] = {
    "total_steps": 600_000,
    "num_envs": 32,
    "num_steps": 20,
    "minibatch_size": 640,
    "epochs": 1,
    "learning_rate": 2e-3,
    "gamma": 0.98,
    "entropy_coef": 0.005,
    "normalise_observations": True,
}
PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v0": {**_CARTPOLE, "stop_at_return": 195.0},
    "CartPole-v1": {**_CARTPOLE, "stop_at_return": 475.0},
    "Acrobot-v1": {**_CARTPOLE, "stop_at_return": -100.0},
    "MinAtar-Breakout-v0": _MINATAR,
    "MinAtar-Breakout-v1": _MINATAR,
    "MinAtar-SpaceInvaders-v0": _MINATAR,
    "MinAtar-SpaceInvaders-v1": _MINATAR,
    "Pong-v5": _PONG,
    "Pendulum-v0": _PENDULUM,
    "Pendulum-v1": _PENDULUM,
    "TagContinuous-v0": _TAG_PLANE,
    "TagGridWorld-v0": _TAG_GRID,
    "MountainCar-v0": {**_SPARSE, "total_steps": 3_000_000, "stop_at_return": -110.0, "entropy_coef": 0.01},
    # a wide policy pushes at full force for long enough to reach the hill by chance
    "MountainCarContinuous-v0": {
        **_SPARSE,
        "total_steps": 1_000_000,
        "stop_at_return": 90.0,
        "gamma": 0.999,
        "log_std_init": 1.0,
    },
}

# Actor and critic share a recurrent network: where returns are large, its gradient is the critic's alone. Found by
# `benchmarks/learning.py cartpole-gru acrobot-gru`, steps and seeds; without: `--set normalise_rewards=False`:
#   CartPole-v1              solved after 75,000 to 81,000, three of three; without at 132 after 200,000
#   Acrobot-v1               solved after 32,000 to 43,000, three of three; without at -500 after 300,000
# Half the weight of the critic, rollouts or minibatches twice as large, and half the rate are no better on CartPole;
# normalised observations are worse.
GRU: dict[str, Any] = {"normalise_rewards": True}

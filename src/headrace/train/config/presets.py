"""Settings under which we have seen tasks learn, so that nobody begins with a guess."""

from __future__ import annotations

from typing import Any

from headrace.envs import atari, dm_control, mujoco, vizdoom


def tuned(task: str, algo: str = "ppo", network: str = "auto") -> dict[str, Any]:
    """Settings under which we have seen a task learn by an algorithm; for tasks we do not know, what suits most.

    Some networks, too, bring settings with them.
    """
    if algo in OFF_POLICY_TUNED:
        flat = {"env_options": {"flat_observation": True}} if task in dm_control.TASKS else {}
        return OFF_POLICY_TUNED[algo] | flat | TUNED_OFF_POLICY.get(task, {})
    if algo == "dqn":
        return DQN | _dqn_of_family(task) | TUNED_DQN.get(task, {})
    own = A2C | TUNED_A2C.get(task, {}) if algo == "a2c" else {}
    return _tuned_ppo(task) | own | (GRU if network == "gru" else {})


def _tuned_ppo(task: str) -> dict[str, Any]:
    if task in TUNED:
        return TUNED[task]
    if is_atari(task):
        return ATARI
    if task in vizdoom.TASKS:
        return VIZDOOM
    if task in dm_control.TASKS:
        return MUJOCO | {"env_options": {"flat_observation": True}}
    return MUJOCO if task in mujoco.TASKS else {}


def _dqn_of_family(task: str) -> dict[str, Any]:
    if task in vizdoom.TASKS:
        return VIZDOOM_DQN
    return ATARI_DQN if is_atari(task) else {}


def is_atari(task: str) -> bool:
    """Whether a task is one of the Atari games."""
    return task in atari.TASKS


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

# As for Pong, but for rewards, whose scale is each scenario's own. Found here on D1Basic-v1 (benchmarks/learn_doom.py).
VIZDOOM: dict[str, Any] = {
    **{name: value for name, value in _PONG.items() if not name.startswith("stop_")},
    "total_steps": 1_000_000,
    "normalise_rewards": True,
    "env_options": {"use_combined_action": True},
}

# Found here, for the least time to the task's usual criterion of being solved.
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
# Found here, for the most return in a few minutes. A perfect player never ends an episode: the limit does.
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
# Found here on HalfCheetah-v5 and Ant-v5, for the most return after a million steps.
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
# Found here on 4 taggers in 101 x 101 cells with random starts, and on 5 taggers and 20 runners in the plane.
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
TUNED: dict[str, dict[str, Any]] = {
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

# One update from a rollout wants short rollouts, often; what is not here is as for PPO. Found by
# benchmarks/learning_settings.py (the first two tasks) and here, steps and seeds:
#   CartPole-v1              solved after 133,000 to 305,000, six of six; with PPO's settings at 126 after 200,000
#   Acrobot-v1               solved after 16,000 to 51,000, three of three; with PPO's at -124 after 300,000
#   Pendulum-v1              at -305 and -884 after 400,000, so not solved; with PPO's at -1,113
#   MinAtar-Breakout-v1      at 1.5 and 1.6 after 500,000; with PPO's at 1.0
# On CartPole twice the rate ruins what was learnt; for tasks that are not here it is a cautious one.
A2C: dict[str, Any] = {"num_envs": 16, "num_steps": 8, "learning_rate": 1e-3, "anneal_learning_rate": False}
TUNED_A2C: dict[str, dict[str, Any]] = {
    **{task: {"learning_rate": 3e-3} for task in ("CartPole-v0", "CartPole-v1", "Acrobot-v1")},
    **{task: {"learning_rate": 2e-3} for task in ("Pendulum-v0", "Pendulum-v1")},
    **{task: {"num_envs": 32, "num_steps": 5} for task in TUNED if task.startswith("MinAtar-")},
    # as for PPO: every agent gives samples
    "TagContinuous-v0": {"num_envs": 32, "num_steps": 20, "learning_rate": 2e-3, "anneal_learning_rate": True},
    "TagGridWorld-v0": {"num_envs": 256, "num_steps": 50, "anneal_learning_rate": True},
}

# Actor and critic share a recurrent network: where returns are large, its gradient is the critic's alone. Found by
# benchmarks/learning_settings.py, steps and seeds:
#   CartPole-v1              solved after 75,000 to 81,000, three of three; without at 132 after 200,000
#   Acrobot-v1               solved after 32,000 to 43,000, three of three; without at -500 after 300,000
# Half the weight of the critic, rollouts or minibatches twice as large, and half the rate are no better on CartPole;
# normalised observations are worse.
GRU: dict[str, Any] = {"normalise_rewards": True}

# What the papers and the libraries of the field have in common; of MuJoCo's tasks, and for all that we do not know.
OFF_POLICY: dict[str, Any] = {
    "num_envs": 8,
    "num_steps": 8,
    "hidden": (256, 256),
    "activation": "relu",
    "minibatch_size": 256,
    "learning_rate": 3e-4,
    "critic_learning_rate": 1e-3,
    "anneal_learning_rate": False,
    "max_grad_norm": 10.0,
    "adam_epsilon": 1e-8,  # gradients of mean losses are small: PPO's 1e-5 holds them back
    "matmul_precision": "medium",
    "publish_every": 4,  # weights lie in the cache of the core that changes them: other cores wait long for each copy
}
SAC: dict[str, Any] = OFF_POLICY | {"learning_starts": 5000}
TD3: dict[str, Any] = OFF_POLICY | {"learning_rate": 1e-3, "learning_starts": 10_000}
# Found here, for the least time to the usual criterion.
_PENDULUM_OFF_POLICY: dict[str, Any] = {
    "total_steps": 40_000,
    "stop_at_return": -200.0,
    "stop_episodes": 20,
    "hidden": (64, 64),
    "minibatch_size": 128,
    "learning_rate": 1e-3,
    "critic_learning_rate": 2e-3,
    "learning_starts": 1000,
    "gamma": 0.95,
    "target_rate": 0.02,
    "exploration_noise": 0.2,
    "replay_size": 100_000,
    "matmul_precision": "highest",  # products this small gain nothing from another
}
OFF_POLICY_TUNED: dict[str, dict[str, Any]] = {"ddpg": OFF_POLICY, "td3": TD3, "sac": SAC}
"""algorithm → settings"""
TUNED_OFF_POLICY = {"Pendulum-v0": _PENDULUM_OFF_POLICY, "Pendulum-v1": _PENDULUM_OFF_POLICY}
"""task → settings of its own, whichever of them learns it"""

# For vectors of observations, learnt from by perceptrons.
DQN: dict[str, Any] = {
    "num_envs": 8,
    "num_steps": 4,
    "hidden": (128, 128),
    "activation": "relu",
    "minibatch_size": 128,
    "learning_rate": 1e-3,
    "anneal_learning_rate": False,
    "max_grad_norm": 10.0,
    "matmul_precision": "medium",
    "loss": "squared",
    "target_rate": 0.02,
    "replay_size": 100_000,
    "replay_ratio": 0.25,
    "action_masks": False,
}
# Settings of CleanRL's dqn_atari.py, but for double targets, Huber's loss and clipped gradients. The replay takes
# 7.1 GB: a frame of 84 x 84 is held once.
ATARI_DQN: dict[str, Any] = {
    "total_steps": 10_000_000,
    "minibatch_size": 32,
    "learning_rate": 1e-4,
    "adam_epsilon": 1e-8,
    "loss": "huber",
    "bf16": True,
    "replay_size": 1_000_000,
    "learning_starts": 80_000,
    "target_update": 250,
    "publish_every": 10,
    "epsilon_end": 0.01,
    "env_options": {"episodic_life": True, "reward_clip": True},
}
# Atari's, with a replay that takes 2.1 GB where pictures are in colour.
VIZDOOM_DQN: dict[str, Any] = ATARI_DQN | {
    "total_steps": 1_000_000,
    "replay_size": 100_000,
    "learning_starts": 10_000,
    "env_options": VIZDOOM["env_options"],
}
# Larger batches, less often: more learning a second on a CPU. The replay takes 1.4 GB.
_PONG_DQN: dict[str, Any] = {
    "total_steps": 2_000_000,
    "stop_at_return": 18.0,
    "stop_episodes": 20,
    "minibatch_size": 64,
    "learning_rate": 2.5e-4,
    "replay_size": 200_000,
    "replay_ratio": 0.125,
    "learning_starts": 10_000,
    "n_step": 3,
    "epsilon_fraction": 0.05,
}
_CARTPOLE_DQN: dict[str, Any] = {
    "total_steps": 100_000,
    "stop_episodes": 20,
    "epsilon_end": 0.01,
    "epsilon_fraction": 0.2,
}
# Found here on MinAtar-Breakout-v1: a mean return of 7 within 80,000 steps.
_MINATAR_DQN: dict[str, Any] = {
    "total_steps": 500_000,
    "minibatch_size": 64,
    "learning_rate": 5e-4,
    "loss": "huber",
    "target_rate": 0.01,
    "n_step": 3,
    "epsilon_end": 0.02,
    "epsilon_fraction": 0.05,
    "env_options": {"max_episode_steps": 5000},
}
TUNED_DQN: dict[str, dict[str, Any]] = {
    **dict.fromkeys((task for task in TUNED if task.startswith("MinAtar-")), _MINATAR_DQN),
    "Pong-v5": _PONG_DQN,
    "CartPole-v0": {**_CARTPOLE_DQN, "stop_at_return": 195.0},
    "CartPole-v1": {**_CARTPOLE_DQN, "stop_at_return": 475.0},
}

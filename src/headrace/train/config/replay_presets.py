"""Presets of the algorithms that learn from a replay, in the form that `headrace.train.config.presets` describes."""

from __future__ import annotations

from headrace.train.config.presets import (
    CARTPOLE,
    CLIPPED,
    COMBINED,
    DEFAULT_PRESET,
    LIMITED,
    PENDULUM,
    Presets,
    Settings,
    until,
)

# fmt: off
# -- DQN -----------------------------------------------------------------------------------------

# For observations that are vectors, with perceptrons.
_DQN: Settings = {
    "num_envs": 8, "num_steps": 4, "hidden": (128, 128), "activation": "relu", "minibatch_size": 128,
    "learning_rate": 1e-3, "anneal_learning_rate": False, "max_grad_norm": 10.0, "matmul_precision": "medium",
    "loss": "squared", "target_rate": 0.02, "replay_size": 100_000, "replay_ratio": 0.25,
}
# Settings of CleanRL's dqn_atari.py, but for double targets, Huber's loss and clipped gradients. The replay takes
# 7.1 GB: a frame of 84 x 84 is held once.
_DQN_ATARI: Settings = _DQN | CLIPPED | {
    "total_steps": 10_000_000, "minibatch_size": 32, "learning_rate": 1e-4, "adam_epsilon": 1e-8, "loss": "huber",
    "bf16": True, "replay_size": 1_000_000, "learning_starts": 80_000, "target_update": 250, "publish_every": 10,
    "epsilon_end": 0.01,
}
# Found by search on MinAtar-Breakout-v1: a mean return of 7 within 80,000 steps.
_DQN_MINATAR: Settings = _DQN | LIMITED | {
    "total_steps": 500_000, "minibatch_size": 64, "learning_rate": 5e-4, "loss": "huber", "target_rate": 0.01,
    "n_step": 3, "epsilon_end": 0.02, "epsilon_fraction": 0.05,
}
# For few seconds: images of a quarter of the size, a CNN that is cheap for them, one large batch for 64 steps, and
# targets of 5 steps. Pixels are standardised, as small objects such as a ball would otherwise have little influence.
# The replay takes 0.8 GB. With twice the updates per step and half the replay, less is learnt from each step of
# Breakout, at half the speed.
_DQN_ATARI_FAST: Settings = _DQN | {
    "total_steps": 1_000_000, "stop_episodes": 20, "num_envs": 32, "torch_threads": 1, "trunk": "strided",
    "standardise_pixels": True, "dueling": True, "double": False, "loss": "huber", "bf16": True,
    "minibatch_size": 128, "learning_rate": 5e-4, "replay_size": 400_000, "replay_ratio": 1 / 64,
    "learning_starts": 8000, "n_step": 5, "target_update": 150, "publish_every": 4, "epsilon_end": 0.01,
    "epsilon_fraction": 0.08,
    "env_options": {"img_height": 42, "img_width": 42, "episodic_life": True, "reward_clip": True},
}
DQN: Presets = {
    DEFAULT_PRESET: {
        "": _DQN,
        "atari": _DQN_ATARI,
        # As for Atari, with a replay that takes 2.1 GB for colour images.
        "vizdoom": _DQN_ATARI | COMBINED | {
            "total_steps": 1_000_000, "replay_size": 100_000, "learning_starts": 10_000,
        },
        "minatar": _DQN_MINATAR,
        # Larger and fewer batches, with which learning takes less time on a CPU. The replay takes 1.4 GB.
        "Pong-v5": _DQN_ATARI | {
            "total_steps": 2_000_000, "stop_at_return": 18.0, "stop_episodes": 20, "minibatch_size": 64,
            "learning_rate": 2.5e-4, "replay_size": 200_000, "replay_ratio": 0.125, "learning_starts": 10_000,
            "n_step": 3, "epsilon_fraction": 0.05,
        },
        **{
            task: _DQN | goal | {
                "total_steps": 100_000, "stop_episodes": 20, "epsilon_end": 0.01, "epsilon_fraction": 0.2,
            }
            for task, goal in CARTPOLE.items()
        },
    },
    "fast": {
        "atari": _DQN_ATARI_FAST,
        # More updates a step are the sooner at 18 here.
        "Pong-v5": _DQN_ATARI_FAST | until(18.0) | {
            "total_steps": 2_000_000, "replay_ratio": 1 / 32, "replay_size": 200_000,
        },
        # Runs that ended at a first mean of 100, after 2 to 3 million steps, left agents that earned 43 to 84.
        "Breakout-v5": _DQN_ATARI_FAST | until(200.0) | {
            "total_steps": 4_000_000, "anneal_learning_rate": True, "epsilon_fraction": 0.03, "save_replay": False,
        },
        "minatar": _DQN_MINATAR | {
            "num_envs": 32, "torch_threads": 1, "dueling": True, "double": False, "minibatch_size": 256,
            "learning_rate": 1e-3, "replay_ratio": 1 / 32, "target_update": 100, "publish_every": 4,
            "epsilon_fraction": 0.1,
        },
    },
}

# -- DDPG, TD3, SAC ------------------------------------------------------------------------------

# Values that papers and libraries of the field share for MuJoCo's tasks; also for tasks without presets.
_CONTINUOUS: Settings = {
    "num_envs": 8, "num_steps": 8, "hidden": (256, 256), "activation": "relu", "minibatch_size": 256,
    "learning_rate": 3e-4, "critic_learning_rate": 1e-3, "anneal_learning_rate": False,
    "adam_epsilon": 1e-8,  # gradients of mean losses are small: PPO's 1e-5 would slow updates down
    "matmul_precision": "medium",
    "publish_every": 4,  # copying the weights to another core's cache takes long
}
# Pictures of 84 x 84 in three colours take 2.1 GB.
_PIXELS: Settings = {"replay_size": 100_000, "minibatch_size": 128, "learning_starts": 1000}
# Found by search for the least time to the task's usual criterion.
_PENDULUM: Settings = {
    "total_steps": 40_000, "stop_at_return": -200.0, "stop_episodes": 20, "hidden": (64, 64), "minibatch_size": 128,
    "learning_rate": 1e-3, "critic_learning_rate": 2e-3, "learning_starts": 1000, "gamma": 0.95, "target_rate": 0.02,
    "replay_size": 100_000,
    "matmul_precision": "highest",  # products this small are not faster in a lower precision
}


def _continuous(own: Settings, pendulum: Settings) -> Presets:
    values = _CONTINUOUS | own
    on_pendulum = dict.fromkeys(PENDULUM, values | _PENDULUM | pendulum)
    return {DEFAULT_PRESET: {"": values, "pictures": values | _PIXELS} | on_pendulum}


DDPG: Presets = _continuous({"max_grad_norm": 10.0}, {"exploration_noise": 0.2})
TD3: Presets = _continuous({"learning_rate": 1e-3, "learning_starts": 10_000}, {"exploration_noise": 0.2})
SAC: Presets = _continuous({"learning_starts": 5000}, {})

# -- CrossQ --------------------------------------------------------------------------------------

# The settings of the paper's experiments: critics of 2,048 units, an update for every step.
_CROSSQ: Settings = {
    "total_steps": 1_000_000, "num_envs": 1, "num_steps": 1, "hidden": (256, 256), "critic_hidden": (2048, 2048),
    "activation": "relu", "minibatch_size": 256, "learning_rate": 1e-3, "critic_learning_rate": 1e-3,
    "anneal_learning_rate": False, "adam_epsilon": 1e-8, "learning_starts": 5000, "replay_ratio": 1.0,
    "actor_device": "",
}
CROSSQ: Presets = {
    # For few steps: narrower critics and several environments, both of which save time.
    DEFAULT_PRESET: {"": _CROSSQ | {"num_envs": 8, "num_steps": 8, "critic_hidden": (512, 512)}},
    # For few seconds, most of which are updates: few updates, targets of three steps, and a learning rate that ends
    # at 0.
    "fast": {"": _CROSSQ | {
        "total_steps": 300_000, "num_envs": 32, "num_steps": 8, "critic_hidden": (), "anneal_learning_rate": True,
        "replay_ratio": 1 / 32, "n_step": 3, "torch_threads": 1,
    }},
    "published": {"": _CROSSQ},
}

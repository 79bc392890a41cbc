"""Settings with which runs of DQN begin, by preset and task."""

from __future__ import annotations

from headrace.train.algorithms.presets import CARTPOLE, CLIPPED, COMBINED, LIMITED, until
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings

# fmt: off
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

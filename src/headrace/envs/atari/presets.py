"""Settings with which training on Atari begins."""

from headrace.envs.presets import until
from headrace.pool.family import Presets, Settings

# fmt: off
CLIPPED: Settings = {"env_options": {"episodic_life": True, "reward_clip": True}}
# Settings of CleanRL's ppo_atari_envpool.py, for 8 environments, but for products of bfloat16.
_PPO: Settings = CLIPPED | {
    "total_steps": 10_000_000, "num_envs": 8, "num_steps": 128, "epochs": 4, "minibatch_size": 256,
    "learning_rate": 2.5e-4, "clip_range": 0.1, "value_clip_range": 0.1, "value_coef": 0.5, "entropy_coef": 0.01,
    "bf16": True,
}
# Fewer, larger steps than CleanRL's: more learning a second where the network's arithmetic is the limit.
PPO_LARGE: Settings = _PPO | {
    "num_envs": 16, "num_steps": 64, "epochs": 3, "learning_rate": 4e-4, "value_clip_range": None,
}
# For few seconds: images of a quarter of the size, and a CNN that is cheap for them. Pixels are standardised, as small
# objects such as a ball would otherwise have little influence: Breakout earns 50 after 1.5 million steps, not 17.
SMALL: Settings = {
    "trunk": "strided", "standardise_pixels": True, "bf16": True,
    "env_options": {"img_height": 42, "img_width": 42, "episodic_life": True, "reward_clip": True},
}
_PPO_FAST: Settings = PPO_LARGE | SMALL | {"total_steps": 10_000_000, "num_envs": 32, "learning_rate": 6e-4}
# Settings of CleanRL's dqn_atari.py, but for double targets, Huber's loss and clipped gradients. The replay takes
# 7.1 GB: a frame of 84 x 84 is held once.
DQN: Settings = CLIPPED | {
    "total_steps": 10_000_000, "minibatch_size": 32, "learning_rate": 1e-4, "adam_epsilon": 1e-8, "loss": "huber",
    "bf16": True, "replay_size": 1_000_000, "learning_starts": 80_000, "target_update": 250, "publish_every": 10,
    "epsilon_end": 0.01,
}
# One large batch for 64 steps, and targets of 5 steps. The replay takes 0.8 GB. With twice the updates per step and
# half the replay, less is learnt from each step of Breakout, at half the speed.
_DQN_FAST: Settings = SMALL | {
    "total_steps": 1_000_000, "stop_episodes": 20, "num_envs": 32, "torch_threads": 1, "dueling": True,
    "double": False, "loss": "huber", "minibatch_size": 128, "learning_rate": 5e-4, "replay_size": 400_000,
    "replay_ratio": 1 / 64, "learning_starts": 8000, "n_step": 5, "target_update": 150, "publish_every": 4,
    "epsilon_end": 0.01, "epsilon_fraction": 0.08,
}
# The authors' settings: 128 environments, 32 steps, 2 epochs of 32 minibatches.
PQN: Settings = {
    "num_envs": 128, "num_steps": 32, "minibatch_size": 128, "epochs": 2, "q_lambda": 0.65, "learning_rate": 2.5e-4,
}
PRESETS: Presets = {
    "ppo": {
        "default": {
            "atari": _PPO,
            "Pong-v5": PPO_LARGE | {"total_steps": 5_000_000} | until(18.0),
        },
        "fast": {
            "atari": _PPO_FAST,
            "Breakout-v5": _PPO_FAST | until(400.0) | {"total_steps": 15_000_000},
            # Larger steps and less entropy than Breakout bears.
            "Pong-v5": _PPO_FAST | until(18.0) | {
                "total_steps": 3_000_000, "learning_rate": 8e-4, "clip_range": 0.2, "entropy_coef": 0.005,
            },
        },
    },
    "pqn": {"default": {
        "atari": PQN | CLIPPED | {"total_steps": 10_000_000, "anneal_learning_rate": False, "epsilon_end": 0.001},
    }},
    "dqn": {
        "default": {
            "atari": DQN,
            # Larger and fewer batches, with which learning takes less time on a CPU. The replay takes 1.4 GB.
            "Pong-v5": DQN | until(18.0) | {
                "total_steps": 2_000_000, "minibatch_size": 64, "learning_rate": 2.5e-4, "replay_size": 200_000,
                "replay_ratio": 0.125, "learning_starts": 10_000, "n_step": 3, "epsilon_fraction": 0.05,
            },
        },
        "fast": {
            "atari": _DQN_FAST,
            # More updates a step are the sooner at 18 here.
            "Pong-v5": _DQN_FAST | until(18.0) | {
                "total_steps": 2_000_000, "replay_ratio": 1 / 32, "replay_size": 200_000,
            },
            # Runs that ended at a first mean of 100, after 2 to 3 million steps, left agents that earned 43 to 84.
            "Breakout-v5": _DQN_FAST | until(200.0) | {
                "total_steps": 4_000_000, "anneal_learning_rate": True, "epsilon_fraction": 0.03, "save_replay": False,
            },
        },
    },
}

"""Presets: settings with which a run begins, as data, by algorithm, preset and task; and recipes, the best of them.

An algorithm's presets are a dict: name of the preset → key → settings. A key is a task, a family of tasks, a kind of
tasks, or "" for all others, of which the first counts that there is; a preset without any of them is the default one
for that task. A further key of the default preset, the name of a network, has settings that are added to those of the
task. `RECIPES` has the algorithm and the preset of a run that names no algorithm; `headrace.train.config.recipes` looks
up both.
"""

from __future__ import annotations

from typing import Any

from headrace.envs import atari, craftax, dm_control, minatar, minigrid, mpe, mujoco, vizdoom

Settings = dict[str, Any]
Presets = dict[str, dict[str, Settings]]

DEFAULT_PRESET = "default"
"""the preset that every algorithm has; its values are for learning from few steps"""
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
    "craftax": craftax,
    "dm_control": dm_control,
    "minatar": minatar,
    "minigrid": minigrid,
    "mpe": mpe,
    "mujoco": mujoco,
    "vizdoom": vizdoom,
}
CARTPOLE = {"CartPole-v0": {"stop_at_return": 195.0}, "CartPole-v1": {"stop_at_return": 475.0}}
PENDULUM = ("Pendulum-v0", "Pendulum-v1")
_CLIPPED: Settings = {"env_options": {"episodic_life": True, "reward_clip": True}}
_COMBINED: Settings = {"env_options": {"use_combined_action": True}}
_LIMITED: Settings = {"env_options": {"max_episode_steps": 5000}}


def _until(earned: float) -> Settings:
    """Returns the settings of a run that ends when the mean of 20 episodes is at a return."""
    return {"stop_at_return": earned, "stop_episodes": 20}


# fmt: off
# -- PPO -----------------------------------------------------------------------------------------

# Settings of CleanRL's ppo_atari_envpool.py, for 8 environments.
_PPO_ATARI: Settings = _CLIPPED | {
    "total_steps": 10_000_000, "num_envs": 8, "num_steps": 128, "epochs": 4, "minibatch_size": 256,
    "learning_rate": 2.5e-4, "clip_range": 0.1, "value_clip_range": 0.1, "value_coef": 0.5, "entropy_coef": 0.01,
}
# Fewer, larger steps than CleanRL's: more learning a second where the network's arithmetic is the limit.
_PPO_LARGE: Settings = _PPO_ATARI | {
    "num_envs": 16, "num_steps": 64, "epochs": 3, "learning_rate": 4e-4, "value_clip_range": None,
}
# Found by search for the least time until the task counts as solved.
_PPO_SPARSE: Settings = {
    "normalise_observations": True, "normalise_rewards": True, "num_steps": 64, "epochs": 10, "minibatch_size": 512,
    "learning_rate": 1e-3,
}
_PPO_SOLVED: Settings = {"total_steps": 1_000_000, "epochs": 8, "minibatch_size": 512, "learning_rate": 2e-3}
_PPO_PENDULUM: Settings = _PPO_SPARSE | {
    "total_steps": 400_000, "stop_at_return": -200.0, "gamma": 0.9, "gae_lambda": 0.9,
}
# Found by search for the highest return in a few minutes. Episodes of a perfect player end by the limit alone.
_PPO_MINATAR: Settings = _LIMITED | {
    "total_steps": 5_000_000, "num_envs": 128, "num_steps": 64, "minibatch_size": 1024, "learning_rate": 2.5e-3,
    "value_coef": 0.5, "entropy_coef": 0.01,
}
# Compiled updates skip the zeros of the 1,345 numbers. One seed each: these were at a return of 10.2 after 103 s (5.2
# million steps), one layer of 256 units with two epochs, which takes half as long, at 8.6 after 93 s (9.2 million).
_PPO_CRAFTAX: Settings = {
    "total_steps": 36_000_000, "num_envs": 512, "num_steps": 64, "epochs": 3, "minibatch_size": 4096,
    "hidden": (256, 128), "learning_rate": 1e-3, "gae_lambda": 0.8, "entropy_coef": 0.01,
}
# Rewards are rare: small rollouts, so that what leads to one is learnt at once, and enough entropy that a policy which
# has yet to earn any goes on exploring; with 0.01, one seed of four never opened DoorKey-8x8's door again. It falls
# later, since the most likely moves of an agent that hesitates go round in circles: 0.2 of 0.9.
_PPO_MINIGRID: Settings = {
    "total_steps": 2_000_000, "num_envs": 32, "num_steps": 64, "epochs": 4, "minibatch_size": 256, "hidden": (64, 64),
    "learning_rate": 1e-3, "entropy_coef": 0.03,
    "schedules": {"entropy_coef": [(0, 0.03), (800_000, 0.03), (1_500_000, 0.002)]},
}
_PPO_DOORKEY: Settings = _PPO_MINIGRID | {
    "total_steps": 700_000, "stop_at_return": 1.0,  # out of reach, so that exploration has fallen when a run ends
    "schedules": {"entropy_coef": [(0, 0.03), (250_000, 0.03), (450_000, 0.002)]},
}
# Wider, and more random: after 800,000 moves, two seeds had 0.45 of the points against a player who looks one move
# ahead, where the settings of discrete actions had 0.2.
_PPO_CONNECT: Settings = {
    "total_steps": 2_000_000, "num_envs": 256, "num_steps": 32, "epochs": 2, "minibatch_size": 1024,
    "hidden": (256, 256), "learning_rate": 1e-3, "entropy_coef": 0.1,
}
# Found by search on HalfCheetah-v5 and Ant-v5 for the highest return after a million steps.
_PPO_MUJOCO: Settings = {
    "total_steps": 1_000_000, "num_envs": 16, "num_steps": 128, "epochs": 10, "minibatch_size": 512,
    "learning_rate": 5e-4, "gamma": 0.98, "gae_lambda": 0.92, "log_std_init": -1.0, "normalise_observations": True,
    "normalise_rewards": True,
}
# For the most return in the fewest seconds: half of the default epochs leave time for more steps, and returns are from
# further ahead. More environments, larger minibatches and networks take robots further that fall, or have many joints,
# but each step costs more.
_PPO_MUJOCO_FAST: Settings = _PPO_MUJOCO | {
    "total_steps": 4_000_000, "num_envs": 32, "hidden": (128, 128), "epochs": 5, "minibatch_size": 1024,
    "deviation_floor": 0.1, "gamma": 0.99, "gae_lambda": 0.95, "normalise_rewards": False, "normalise_values": True,
}
_PPO_KIND: Settings = {"num_envs": 32, "num_steps": 128, "epochs": 8}
_PPO_DISCRETE = _PPO_KIND | {"minibatch_size": 256, "entropy_coef": 0.01, "normalise_values": True}
_PPO_CONTINUOUS = _PPO_KIND | {
    "minibatch_size": 512, "learning_rate": 5e-4, "log_std_init": -0.5, "normalise_observations": True,
    "normalise_rewards": True,
}
# Rollouts of an eighth, where a step takes long: a processor has the time for more updates.
_PPO_SLOW: Settings = {"total_steps": 200_000, "num_envs": 8, "num_steps": 64, "minibatch_size": 64}
_PPO_SMALL: Settings = {"hidden": (64, 64), "deviation_floor": 0.0}
PPO: Presets = {
    DEFAULT_PRESET: {
        # Actor and critic share a recurrent network: where returns are large, its gradient is the critic's alone. Found
        # by `benchmarks/learning.py cartpole-gru acrobot-gru`, steps and seeds; without: by `--set
        # normalise_rewards=False`:
        #   CartPole-v1              solved after 75,000 to 81,000, three of three; without at 132 after 200,000
        #   Acrobot-v1               solved after 32,000 to 43,000, three of three; without at -500 after 300,000
        # Half the weight of the critic, rollouts or minibatches twice as large, and half the rate are no better on
        # CartPole; normalised observations are worse.
        "gru": {"normalise_rewards": True},
        "atari": _PPO_ATARI,
        "mujoco": _PPO_MUJOCO,
        "dm_control": _PPO_MUJOCO,
        # With normalised rewards, as scenarios have different scales. Found on D1Basic-v1
        # (`benchmarks/learning.py doom`).
        "vizdoom": _PPO_LARGE | _COMBINED | {"total_steps": 1_000_000, "normalise_rewards": True},
        # Kinds of tasks. After 300,000 steps, one seed each, and in brackets with the defaults of the settings:
        # LunarLander-v3 at 223 (109), Acrobot-v1 at -81 (-80), BipedalWalker-v3 at 37 (-104 after 176,000). Pictures
        # have what ViZDoom has; that was not compared.
        "discrete actions": _PPO_DISCRETE,
        # Exploration until there is a reward. 100 games after 500,000 steps, three seeds, and in brackets with
        # "discrete actions": FrozenLake8x8-v1 0.85, 0.89, 0.82 (0, 0.82, 0.88), CliffWalking-v1 -13, -13, -13 (-15, no
        # end of an episode in two), Taxi-v4 7.8, 7.8, 7.8 (7.6, 7.6, 7.6).
        "observations of a category": _PPO_DISCRETE | {
            "entropy_coef": 0.1, "schedules": {"entropy_coef": [(0, 0.1), (300_000, 0.1), (500_000, 0.005)]},
        },
        "continuous actions": _PPO_CONTINUOUS,
        "slow steps, discrete actions": _PPO_DISCRETE | _PPO_SLOW,
        "slow steps, continuous actions": _PPO_CONTINUOUS | _PPO_SLOW,
        "pictures": {
            "num_envs": 16, "num_steps": 64, "epochs": 3, "minibatch_size": 256, "learning_rate": 4e-4,
            "clip_range": 0.1, "value_coef": 0.5, "entropy_coef": 0.01, "normalise_rewards": True,
            "normalise_observations": True,  # of the numbers beside pictures
        },
        **{task: _PPO_SOLVED | goal for task, goal in CARTPOLE.items()},
        "Acrobot-v1": _PPO_SOLVED | {"stop_at_return": -100.0},
        "Craftax-Classic-Symbolic-v1": _PPO_CRAFTAX,
        "minigrid": _PPO_MINIGRID,
        "mpe": {"gamma": 0.95, "normalise_observations": True},  # episodes have 25 steps
        "MiniGrid-DoorKey-8x8-v0": _PPO_DOORKEY,
        "ConnectFour-v0": _PPO_CONNECT,
        "minatar": _PPO_MINATAR,
        "Pong-v5": _PPO_LARGE | {"total_steps": 5_000_000, "stop_at_return": 18.0, "stop_episodes": 20},
        **dict.fromkeys(PENDULUM, _PPO_PENDULUM),
        # Found by search: 4 taggers in 101 x 101 cells with random starts; 5 taggers and 20 runners in the plane.
        "TagGridWorld-v0": {
            "total_steps": 3_000_000, "num_envs": 256, "num_steps": 50, "minibatch_size": 5120, "gamma": 0.98,
            "entropy_coef": 0.01, "normalise_observations": True,
        },
        "TagContinuous-v0": {
            "total_steps": 600_000, "num_envs": 32, "num_steps": 20, "minibatch_size": 640, "epochs": 1,
            "learning_rate": 2e-3, "gamma": 0.98, "entropy_coef": 0.005, "normalise_observations": True,
        },
        "MountainCar-v0": _PPO_SPARSE | {"total_steps": 3_000_000, "stop_at_return": -110.0, "entropy_coef": 0.01},
        # solved after some 220,000 steps
        "LunarLander-v3": {
            "total_steps": 1_500_000, "stop_at_return": 200.0, "num_envs": 32, "num_steps": 128, "epochs": 8,
            "minibatch_size": 256, "gamma": 0.999, "gae_lambda": 0.98, "entropy_coef": 0.01, "normalise_values": True,
        },
        # a wide policy pushes at full force for long enough to reach the hill by chance
        "MountainCarContinuous-v0": _PPO_SPARSE | {
            "total_steps": 1_000_000, "stop_at_return": 90.0, "gamma": 0.999, "log_std_init": 1.0,
        },
    },
    "fast": {
        "mujoco": _PPO_MUJOCO_FAST,
        "dm_control": _PPO_MUJOCO_FAST,
        # Small networks are the soonest at 6,000.
        "HalfCheetah-v5": _PPO_MUJOCO_FAST | _PPO_SMALL | _until(6000.0) | {
            "total_steps": 2_000_000, "num_envs": 16, "minibatch_size": 512,
        },
        # What a step of a robot is worth that falls is known only after the fall that it begins, and what is tried out
        # is a fall. So they learn from further ahead, and at a rate that ends at 0 long after the goal.
        "Hopper-v5": _PPO_MUJOCO_FAST | _PPO_SMALL | _until(3100.0) | {"gamma": 0.995},
        "Walker2d-v5": _PPO_MUJOCO_FAST | _until(4000.0) | {"gamma": 0.995},
        "Ant-v4": _PPO_MUJOCO_FAST | _until(5000.0) | {"total_steps": 5_000_000},
        # Its observations have the forces of contacts, which Ant-v4's have not, and which are 0 most of the time.
        "Ant-v5": _PPO_MUJOCO_FAST | _until(5000.0) | {"deviation_floor": 0.5},
        "Humanoid-v5": _PPO_MUJOCO_FAST | _until(5000.0) | {
            "total_steps": 10_000_000, "gamma": 0.995, "env_options": {"physics": "lanes"},
        },
    },
}

# -- A2C -----------------------------------------------------------------------------------------

# Short rollouts, as each is used for one update; other settings are those of PPO. Measured by
# `benchmarks/learning.py cartpole-a2c acrobot-a2c`, agent steps and seeds:
#   CartPole-v1              solved after 133,000 to 305,000, six of six; with PPO's settings at 126 after 200,000
#   Acrobot-v1               solved after 16,000 to 51,000, three of three; with PPO's at -124 after 300,000
#   Pendulum-v1              at -305 and -884 after 400,000, so not solved; with PPO's at -1,113
#   MinAtar-Breakout-v1      at 1.5 and 1.6 after 500,000; with PPO's at 1.0
# On CartPole, training with twice the learning rate is unstable. The rate for tasks without an entry is low.
_A2C: Settings = {"num_envs": 16, "num_steps": 8, "learning_rate": 1e-3, "anneal_learning_rate": False}
_A2C_TASKS: dict[str, Settings] = {
    **{task: {"learning_rate": 3e-3} for task in (*CARTPOLE, "Acrobot-v1")},
    **{task: {"learning_rate": 2e-3} for task in PENDULUM},
    **{task: {"num_envs": 32, "num_steps": 5} for task in minatar.TASKS},
    # sizes as for PPO, as every agent contributes samples
    "TagContinuous-v0": {"num_envs": 32, "num_steps": 20, "learning_rate": 2e-3, "anneal_learning_rate": True},
    "TagGridWorld-v0": {"num_envs": 256, "num_steps": 50, "anneal_learning_rate": True},
}
_OF_PPO_ALONE = {"epochs", "minibatch_size", "clip_range", "value_clip_range"}


def _a2c(key: str) -> Settings:
    values = PPO[DEFAULT_PRESET].get(key, {}) | _A2C | _A2C_TASKS.get(key, {})
    return {name: value for name, value in values.items() if name not in _OF_PPO_ALONE}


A2C: Presets = {
    DEFAULT_PRESET: {
        **{key: _a2c(key) for key in ("", *PPO[DEFAULT_PRESET], *_A2C_TASKS)}, "gru": PPO[DEFAULT_PRESET]["gru"]
    }
}

# -- PQN -----------------------------------------------------------------------------------------

# For observations that are vectors, with perceptrons; the sizes are those of purejaxql for CartPole.
_PQN: Settings = {
    "num_envs": 32, "num_steps": 64, "hidden": (128, 128), "activation": "relu", "minibatch_size": 128, "epochs": 4,
    "q_lambda": 0.95, "learning_rate": 1e-3, "max_grad_norm": 10.0,
}
# The authors' settings: 128 environments, 32 steps, 2 epochs of 32 minibatches.
_PQN_IMAGES: Settings = _PQN | {
    "num_envs": 128, "num_steps": 32, "minibatch_size": 128, "epochs": 2, "q_lambda": 0.65, "learning_rate": 2.5e-4,
}
_PQN_MINATAR: Settings = _PQN_IMAGES | _LIMITED | {"total_steps": 5_000_000, "learning_rate": 5e-4, "epsilon_end": 0.02}
# For few seconds: a short exploration, a larger λ, and fewer, larger updates in bfloat16.
_PQN_MINATAR_FAST: Settings = _PQN_MINATAR | {
    "total_steps": 1_000_000, "stop_episodes": 20, "torch_threads": 1, "bf16": True, "minibatch_size": 256,
    "learning_rate": 1e-3, "q_lambda": 0.9,
}
PQN: Presets = {
    DEFAULT_PRESET: {
        "": _PQN,
        "atari": _PQN_IMAGES | _CLIPPED | {
            "total_steps": 10_000_000, "anneal_learning_rate": False, "epsilon_end": 0.001,
        },
        "vizdoom": _PQN_IMAGES | _COMBINED | {"total_steps": 1_000_000},
        "minatar": _PQN_MINATAR,
        **{
            task: _PQN | goal | {"total_steps": 500_000, "stop_episodes": 20, "epsilon_fraction": 0.2}
            for task, goal in CARTPOLE.items()
        },
    },
    "fast": {
        "minatar": _PQN_MINATAR_FAST,
        "MinAtar-Breakout-v1": _PQN_MINATAR_FAST | _until(10.0),
        "MinAtar-SpaceInvaders-v1": _PQN_MINATAR_FAST | _until(50.0),
    },
}

# -- DQN -----------------------------------------------------------------------------------------

# For observations that are vectors, with perceptrons.
_DQN: Settings = {
    "num_envs": 8, "num_steps": 4, "hidden": (128, 128), "activation": "relu", "minibatch_size": 128,
    "learning_rate": 1e-3, "anneal_learning_rate": False, "max_grad_norm": 10.0, "matmul_precision": "medium",
    "loss": "squared", "target_rate": 0.02, "replay_size": 100_000, "replay_ratio": 0.25,
}
# Settings of CleanRL's dqn_atari.py, but for double targets, Huber's loss and clipped gradients. The replay takes
# 7.1 GB: a frame of 84 x 84 is held once.
_DQN_ATARI: Settings = _DQN | _CLIPPED | {
    "total_steps": 10_000_000, "minibatch_size": 32, "learning_rate": 1e-4, "adam_epsilon": 1e-8, "loss": "huber",
    "bf16": True, "replay_size": 1_000_000, "learning_starts": 80_000, "target_update": 250, "publish_every": 10,
    "epsilon_end": 0.01,
}
# Found by search on MinAtar-Breakout-v1: a mean return of 7 within 80,000 steps.
_DQN_MINATAR: Settings = _DQN | _LIMITED | {
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
        "vizdoom": _DQN_ATARI | _COMBINED | {
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
        "Pong-v5": _DQN_ATARI_FAST | _until(18.0) | {
            "total_steps": 2_000_000, "replay_ratio": 1 / 32, "replay_size": 200_000,
        },
        "Breakout-v5": _DQN_ATARI_FAST | _until(100.0) | {
            "total_steps": 5_500_000, "anneal_learning_rate": True, "epsilon_fraction": 0.03, "save_replay": False,
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

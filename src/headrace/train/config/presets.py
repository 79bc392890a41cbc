"""Presets: settings with which a run begins, as data, by algorithm, preset and task; and recipes, the best of them.

An algorithm's presets are a dict: name of the preset → key → settings. A key is a task, a family of tasks, a kind of
tasks, or "" for all others, of which the first counts that there is; a preset without any of them is the default one
for that task. A further key of the default preset, the name of a network, has settings that are added to those of the
task. `RECIPES` has the algorithm and the preset of a run that names no algorithm; `headrace.train.config.recipes` looks
up both. `headrace.train.config.replay_presets` has the presets of algorithms with a replay, this module the others.
"""

from __future__ import annotations

from typing import Any

from headrace.envs import atari, boards, craftax, dm_control, minatar, minigrid, mpe, mujoco, vizdoom

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
    "boards": boards,
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
CLIPPED: Settings = {"env_options": {"episodic_life": True, "reward_clip": True}}
COMBINED: Settings = {"env_options": {"use_combined_action": True}}
LIMITED: Settings = {"env_options": {"max_episode_steps": 5000}}


def until(earned: float) -> Settings:
    """Returns the settings of a run that ends when the mean of 20 episodes is at a return."""
    return {"stop_at_return": earned, "stop_episodes": 20}


# fmt: off
# -- PPO -----------------------------------------------------------------------------------------

# Settings of CleanRL's ppo_atari_envpool.py, for 8 environments.
_PPO_ATARI: Settings = CLIPPED | {
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
_PPO_MINATAR: Settings = LIMITED | {
    "total_steps": 5_000_000, "num_envs": 128, "num_steps": 64, "minibatch_size": 1024, "learning_rate": 2.5e-3,
    "value_coef": 0.5, "entropy_coef": 0.01,
}
# Compiled updates skip the zeros of the 1,345 numbers. One seed each: these were at a return of 10.2 after 103 s (5.2
# million steps), one layer of 256 units with two epochs, which takes half as long, at 8.6 after 93 s (9.2 million).
# Another seed ends with 16.3 of the 22 achievements in an episode, after 18 minutes, eight of them with one core.
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
    "total_steps": 900_000, "stop_at_return": 1.0,  # out of reach, so that exploration has fallen when a run ends
    "schedules": {"entropy_coef": [(0, 0.03), (300_000, 0.03), (550_000, 0.002)]},
}
# Random enough that games differ, or what leaves a few lines of play is never met. Connect Four, one seed and 40 to 100
# games each, points against players who look one, two and four moves ahead: 0.77, 0.41 and 0.17 after 8 million moves;
# with an entropy coefficient of 0.1 0.74, 0.38 and 0.12: no clear difference. After 2.5 million with 0.1 and a lambda
# of 0.95: 0.57, 0.24 and 0.12, and with minibatches of 1024 0.47, 0.16 and 0.
# Runs of 6.5 million, 120 to 400 games each, two seeds: 0.59, 0.24 and 0.08, and with a coefficient of 0.05 0.60, 0.29
# and 0.10; one seed: one that falls from 0.2 to 0.01 0.60, 0.31 and 0.09, 0.05 and minibatches of 512 0.65, 0.17, 0.07.
_PPO_BOARDS: Settings = {
    "total_steps": 40_000_000, "num_envs": 256, "num_steps": 32, "epochs": 2, "network": "mlp", "hidden": (256, 256),
    "activation": "relu", "shared": True, "gae_lambda": 0.8, "entropy_coef": 0.2, "decisions_only": True,
    "random_moves": 5,
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
        "vizdoom": _PPO_LARGE | COMBINED | {"total_steps": 1_000_000, "normalise_rewards": True},
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
        "boards": _PPO_BOARDS,
        # 4,672 actions and 7,104 numbers: large minibatches, as a step of the optimiser has millions of parameters.
        "Chess-v1": _PPO_BOARDS | {"num_envs": 64, "hidden": (64, 64), "minibatch_size": 1024, "entropy_coef": 0.05},
        "KuhnPoker-v0": {},
        "LeducPoker-v0": {},
        "Game2048-v0": _PPO_DISCRETE,
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
        # A robot that walks, so its settings; wider at first than theirs, or it shuffles along on its knees for good.
        # Twice as many steps in a rollout, and a rate that falls late: 100 games of the last agent, four seeds, earn
        # 310 to 323; falling from the first step 298 to 316; with 32 environments as well 289 to 304, as some fall.
        "BipedalWalker-v3": _PPO_MUJOCO_FAST | {
            "total_steps": 3_000_000, "stop_at_return": 300.0, "log_std_init": -0.5, "num_envs": 64,
            "learning_rate": 8e-4, "schedules": {"learning_rate": [(0, 8e-4), (1_500_000, 8e-4), (3_000_000, 1e-4)]},
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
        "HalfCheetah-v5": _PPO_MUJOCO_FAST | _PPO_SMALL | until(6000.0) | {
            "total_steps": 2_000_000, "num_envs": 16, "minibatch_size": 512,
        },
        # What a step of a robot is worth that falls is known only after the fall that it begins, and what is tried out
        # is a fall. So they learn from further ahead, and at a rate that ends at 0 long after the goal.
        "Hopper-v5": _PPO_MUJOCO_FAST | _PPO_SMALL | until(3100.0) | {"gamma": 0.995},
        "Walker2d-v5": _PPO_MUJOCO_FAST | until(4000.0) | {"gamma": 0.995},
        "Ant-v4": _PPO_MUJOCO_FAST | until(5000.0) | {"total_steps": 5_000_000},
        # Its observations have the forces of contacts, which Ant-v4's have not, and which are 0 most of the time.
        "Ant-v5": _PPO_MUJOCO_FAST | until(5000.0) | {"deviation_floor": 0.5},
        "Humanoid-v5": _PPO_MUJOCO_FAST | until(5000.0) | {
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
_PQN_MINATAR: Settings = _PQN_IMAGES | LIMITED | {"total_steps": 5_000_000, "learning_rate": 5e-4, "epsilon_end": 0.02}
# For few seconds: a short exploration, and fewer, larger updates in bfloat16.
_PQN_MINATAR_FAST: Settings = _PQN_MINATAR | {
    "total_steps": 1_000_000, "stop_episodes": 20, "torch_threads": 1, "bf16": True, "minibatch_size": 256,
    "learning_rate": 1e-3,
}
# A larger λ is the sooner at two games. With it, Asterix is at 9 in place of 23 after a million steps, and Freeway,
# whose episodes all end at once, forgets at their second end what it had learnt.
_PQN_MINATAR_FAR: Settings = _PQN_MINATAR_FAST | {"q_lambda": 0.9}
PQN: Presets = {
    DEFAULT_PRESET: {
        "": _PQN,
        "atari": _PQN_IMAGES | CLIPPED | {
            "total_steps": 10_000_000, "anneal_learning_rate": False, "epsilon_end": 0.001,
        },
        "vizdoom": _PQN_IMAGES | COMBINED | {"total_steps": 1_000_000},
        "minatar": _PQN_MINATAR,
        **{
            task: _PQN | goal | {"total_steps": 500_000, "stop_episodes": 20, "epsilon_fraction": 0.2}
            for task, goal in CARTPOLE.items()
        },
    },
    "fast": {
        "minatar": _PQN_MINATAR_FAST,
        # somewhat more than the goals of 15, 10, 15 and 50, which a lucky mean of 20 episodes reaches too early
        "MinAtar-Asterix-v1": _PQN_MINATAR_FAST | until(25.0),
        "MinAtar-Breakout-v1": _PQN_MINATAR_FAR | until(13.0),
        # Ends of episodes, which come at once, disturb it for a while: it does not stop there.
        "MinAtar-Freeway-v1": _PQN_MINATAR_FAST | until(100.0) | {"total_steps": 1_200_000},
        "MinAtar-Seaquest-v1": _PQN_MINATAR_FAST | until(25.0) | {"total_steps": 2_000_000},
        "MinAtar-SpaceInvaders-v1": _PQN_MINATAR_FAR | until(60.0),
    },
}

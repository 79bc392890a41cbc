"""Settings with which runs of PPO begin, by preset and task."""

from __future__ import annotations

from headrace.train.algorithms.presets import CARTPOLE, CLIPPED, COMBINED, LIMITED, PENDULUM, until
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings

# fmt: off
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

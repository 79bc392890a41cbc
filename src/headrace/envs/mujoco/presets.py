"""Settings with which training on MuJoCo's robots begins."""

from headrace.envs.presets import until
from headrace.pool.family import Presets, Settings

# fmt: off
# Found by search on HalfCheetah-v5 and Ant-v5 for the highest return after a million steps.
PPO: Settings = {
    "total_steps": 1_000_000, "num_envs": 16, "num_steps": 128, "epochs": 10, "minibatch_size": 512,
    "learning_rate": 5e-4, "gamma": 0.98, "gae_lambda": 0.92, "log_std_init": -1.0, "normalise_observations": True,
    "normalise_rewards": True,
}
# For the most return in the fewest seconds: half of the default epochs leave time for more steps, and returns are from
# further ahead. More environments, larger minibatches and networks take robots further that fall, or have many joints,
# but each step costs more.
PPO_FAST: Settings = PPO | {
    "total_steps": 4_000_000, "num_envs": 32, "hidden": (128, 128), "epochs": 5, "minibatch_size": 1024,
    "deviation_floor": 0.1, "gamma": 0.99, "gae_lambda": 0.95, "normalise_rewards": False, "normalise_values": True,
}
_PPO_SMALL: Settings = {"hidden": (64, 64), "deviation_floor": 0.0}
PRESETS: Presets = {"ppo": {
    "default": {"mujoco": PPO},
    "fast": {
        "mujoco": PPO_FAST,
        # Small networks are the soonest at 6,000.
        "HalfCheetah-v5": PPO_FAST | _PPO_SMALL | until(6000.0) | {
            "total_steps": 2_000_000, "num_envs": 16, "minibatch_size": 512,
        },
        # What a step of a robot is worth that falls is known only after the fall that it begins, and what is tried out
        # is a fall. So they learn from further ahead, and at a rate that ends at 0 long after the goal.
        "Hopper-v5": PPO_FAST | _PPO_SMALL | until(3100.0) | {"gamma": 0.995},
        "Walker2d-v5": PPO_FAST | until(4000.0) | {"gamma": 0.995},
        "Ant-v4": PPO_FAST | until(5000.0) | {"total_steps": 5_000_000},
        # Its observations have the forces of contacts, which Ant-v4's have not, and which are 0 most of the time.
        "Ant-v5": PPO_FAST | until(5000.0) | {"deviation_floor": 0.5},
        "Humanoid-v5": PPO_FAST | until(5000.0) | {
            "total_steps": 10_000_000, "gamma": 0.995, "env_options": {"physics": "lanes"},
        },
    },
}}

"""Settings with which training on the games of tag begins."""

from headrace.pool.family import Presets

# fmt: off
PRESETS: Presets = {
    "ppo": {"default": {
        # Found by search: 4 taggers in 101 x 101 cells with random starts; 5 taggers and 20 runners in the plane.
        "TagGridWorld-v0": {
            "total_steps": 3_000_000, "num_envs": 256, "num_steps": 50, "minibatch_size": 5120, "gamma": 0.98,
            "entropy_coef": 0.01, "normalise_observations": True,
        },
        "TagContinuous-v0": {
            "total_steps": 600_000, "num_envs": 32, "num_steps": 20, "minibatch_size": 640, "epochs": 1,
            "learning_rate": 2e-3, "gamma": 0.98, "entropy_coef": 0.005, "normalise_observations": True,
        },
    }},
    # sizes as for PPO, as every agent contributes samples
    "a2c": {"default": {
        "TagContinuous-v0": {"num_envs": 32, "num_steps": 20, "learning_rate": 2e-3, "anneal_learning_rate": True},
        "TagGridWorld-v0": {"num_envs": 256, "num_steps": 50, "anneal_learning_rate": True},
    }},
}

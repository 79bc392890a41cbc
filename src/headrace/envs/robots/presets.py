"""Settings with which training on robots begins."""

from headrace.pool.family import Presets, Settings

# fmt: off
# Many environments for few steps each, as those who publish such tasks have it, but a thirtieth of theirs, in lanes.
PPO_FAST: Settings = {
    "total_steps": 4_000_000, "num_envs": 256, "num_steps": 32, "epochs": 5, "minibatch_size": 1024,
    "hidden": (128, 128), "learning_rate": 5e-4, "gamma": 0.98, "gae_lambda": 0.95, "log_std_init": -1.0,
    "deviation_floor": 0.1, "normalise_observations": True, "normalise_values": True,
    "env_options": {"physics": "lanes32"},
}
PRESETS: Presets = {"ppo": {"default": {"robots": PPO_FAST}, "fast": {"robots": PPO_FAST}}}

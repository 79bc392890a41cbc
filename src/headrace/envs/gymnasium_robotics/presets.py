"""Settings with which training on tasks with goals begins."""

from headrace.pool.family import Presets, Settings

# fmt: off
# Observations are normalised, as velocities are some hundredths of positions; that is only possible without samplers.
SAC: Settings = {
    "total_steps": 1_000_000, "samplers": 0, "num_envs": 16, "num_steps": 8, "hindsight": 0.8, "gamma": 0.95,
    "learning_rate": 1e-3, "target_rate": 0.05, "learning_starts": 2000, "replay_ratio": 0.25,
    "normalise_observations": True, "env_options": {"flat_observation": True},
}
PRESETS: Presets = {"sac": {"default": {
    "gymnasium_robotics": SAC,
    "FetchReach-v4": SAC | {"total_steps": 20_000, "learning_starts": 1000, "replay_ratio": 1.0},
    "FetchPush-v4": SAC | {"total_steps": 400_000},  # 0.9 succeed after 190,000
}}}

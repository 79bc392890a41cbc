"""Settings with which training on Doom begins."""

from headrace.envs.atari.presets import DQN, PPO_LARGE, PQN, SMALL
from headrace.envs.presets import until
from headrace.pool.family import Presets, Settings

# fmt: off
_COMBINED: Settings = {"total_steps": 1_000_000, "env_options": {"use_combined_action": True}}
# With normalised rewards, as scenarios have different scales. Found on D1Basic-v1 (`benchmarks/learning.py doom`).
_PPO: Settings = PPO_LARGE | _COMBINED | {"normalise_rewards": True}
PRESETS: Presets = {
    "ppo": {"default": {
        "vizdoom": _PPO,
        # One large target: small images show it.
        "D1Basic-v1": _PPO | SMALL | until(0.8) | {
            "total_steps": 200_000, "env_options": {"use_combined_action": True, "img_height": 42, "img_width": 42},
        },
    }},
    "pqn": {"default": {"vizdoom": PQN | _COMBINED}},
    # As for Atari, with a replay that takes 2.1 GB for colour images.
    "dqn": {"default": {"vizdoom": DQN | _COMBINED | {"replay_size": 100_000, "learning_starts": 10_000}}},
}

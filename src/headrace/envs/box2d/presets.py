"""Settings with which training on Box2D's tasks begins."""

from headrace.envs.atari.presets import PPO_LARGE
from headrace.envs.mujoco.presets import PPO_FAST
from headrace.pool.family import Presets

# fmt: off
PRESETS: Presets = {
    "ppo": {"default": {
        # Solved, by its mean, after some 220,000 steps; an agent that stops there crashes or hovers in up to a fifth of
        # its games, so it goes on. With gamma=0.999 or half the steps some seeds hover for good.
        "LunarLander-v3": {
            "total_steps": 1_000_000, "num_envs": 32, "num_steps": 128, "epochs": 8, "minibatch_size": 256,
            "gamma": 0.995, "gae_lambda": 0.98, "entropy_coef": 0.01, "normalise_values": True,
        },
        # A robot that walks, so its settings; wider at first than theirs, or it shuffles along on its knees for good:
        # with -0.5 two seeds of eleven.
        # Twice as many steps in a rollout, and a rate that falls late: 100 games of the last agent, four seeds, earn
        # 310 to 323; falling from the first step 298 to 316; with 32 environments as well 289 to 304, as some fall.
        "BipedalWalker-v3": PPO_FAST | {
            "total_steps": 3_000_000, "stop_at_return": 300.0, "log_std_init": 0.0, "num_envs": 64,
            "learning_rate": 8e-4, "schedules": {"learning_rate": [(0, 8e-4), (1_500_000, 8e-4), (3_000_000, 1e-4)]},
        },
        # Steps of four frames. Training returns pass 800 after 300,000 to 350,000 of them, and those of choices of five
        # (continuous=False) after 150,000.
        "CarRacing-v3": PPO_LARGE | {
            "total_steps": 500_000, "stop_at_return": 850.0, "num_envs": 32, "minibatch_size": 512,
            "learning_rate": 5e-4, "clip_range": 0.2, "entropy_coef": 0.002, "normalise_rewards": True,
            "trunk": "strided", "standardise_pixels": True,
            "env_options": {"frame_skip": 4, "max_episode_steps": 250},
        },
    }},
}

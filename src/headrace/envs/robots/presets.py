"""Settings with which training on robots begins."""

from headrace.pool.family import Presets, Settings

# fmt: off
# Many environments for few steps each, as those who publish such tasks have it, but a fortieth of their steps.
# Found by search on Go1Flat-v0 for the closest tracking of commands after three million steps.
PPO_FAST: Settings = {
    "total_steps": 5_000_000, "num_envs": 256, "num_steps": 32, "epochs": 3, "minibatch_size": 2048,
    "hidden": (128, 128), "learning_rate": 1e-3, "gamma": 0.97, "gae_lambda": 0.95, "log_std_init": -1.0,
    "deviation_floor": 0.1, "normalise_observations": True, "normalise_values": True, "matmul_precision": "medium",
    "env_options": {"physics": "lanes32"},
}
# Under the published weights a robot first learns to stand still, which it leaves after some 200 million steps. With a
# fifth of the penalties it walks after a million, and keeps to them when they grow. Kicks make it sure of its feet, and
# what it learns of one side holds of the other.
WALKING: Settings = PPO_FAST | {
    "mirror": True,
    "env_options": {"physics": "lanes32", "tracking": 2.0, "fall": 50.0, "push": 0.5},
    "option_schedules": {"penalty": [(0, 0.2), (600_000, 0.2), (1_500_000, 1.0)]},
}
# Robots on two legs have not learnt to walk by these settings: the G1 fell in every game after five million steps.
FAST: dict[str, Settings] = {
    "robots": PPO_FAST,
    "robots on four legs": WALKING,
    "Go1Flat-v0": WALKING,
    "Go2Flat-v0": WALKING,
    "Go2UniLab-v0": PPO_FAST | {"mirror": True},
}
PRESETS: Presets = {"ppo": {"default": {"robots": PPO_FAST}, "fast": FAST}}

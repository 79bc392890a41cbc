"""Settings with which training on robots begins."""

from headrace.envs.dm_control.presets import PIXELS
from headrace.pool.family import FROM_PIXELS, Presets, Settings

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
    "env_options": {"physics": "lanes32", "tracking": 2.0, "push": 0.5},
    "option_schedules": {"penalty": [(0, 0.2), (600_000, 0.2), (1_500_000, 1.0)]},
}
# UniLab's servos move by half as much for an action, so a robot must try large ones to find that it may walk. As many
# steps as UniLab's PPO takes.
TROTTING: Settings = WALKING | {
    "total_steps": 3_700_000, "epochs": 4, "log_std_init": 0.0,
    "env_options": {"physics": "lanes32", "tracking": 2.0, "fall": 50.0},
    "option_schedules": {"penalty": [(0, 0.2), (400_000, 0.2), (1_000_000, 1.0)]},
}
# Pictures have no mirror image. SAC has the settings of dm_control's robots, but the camera that follows; PPO those of
# all pictures. Neither was searched for.
SAC_PIXELS: Settings = PIXELS | {"env_options": PIXELS["env_options"] | {"render_camera_id": -1}}
PPO_PIXELS: Settings = {
    "num_envs": 16, "num_steps": 64, "epochs": 3, "learning_rate": 4e-4, "clip_range": 0.1, "value_coef": 0.5,
    "entropy_coef": 0.01, "normalise_rewards": True, "env_options": SAC_PIXELS["env_options"],
}
# Feet that are lifted in time earn several times what nanoG1 gives, and actions cost nearly nothing, until the robot
# walks all ways: with its own weights, and for some seeds with half of that, it learns to stand, and stays so. Then all
# costs grow.
STEPPING: Settings = PPO_FAST | {
    "total_steps": 34_000_000, "num_envs": 512, "epochs": 4, "minibatch_size": 4096, "hidden": (256, 128),
    "learning_rate": 7e-4, "target_kl_rate": 0.012, "gamma": 0.98, "log_std_init": -1.7, "entropy_coef": 0.005,
    "env_options": {"physics": "lanes32", "alive": 2.0, "foot_height": 0.07},
    "option_schedules": {
        "effort": [(0, 0.03), (12_000_000, 0.05), (18_000_000, 1.0), (26_000_000, 3.5)],
        "penalty": [(0, 1.0), (14_000_000, 1.0), (24_000_000, 1.9)],
        "gait": [(0, 6.0), (10_000_000, 6.0), (14_000_000, 3.0), (24_000_000, 0.25)],
        "tracking": [(0, 1.5), (18_000_000, 1.5), (26_000_000, 1.8)],
    },
}
# Other robots on two legs have not learnt to walk: by these settings the G1 fell in all games after five million steps.
ROBOTS: dict[str, Settings] = {"robots": PPO_FAST, f"robots{FROM_PIXELS}": PPO_PIXELS}
FAST: dict[str, Settings] = ROBOTS | {
    "robots on four legs": WALKING,
    "Go1Flat-v0": WALKING,
    "Go1Rough-v0": WALKING,
    "Go2Flat-v0": WALKING,
    "Go2UniLab-v0": TROTTING,
    "G1Nano-v0": STEPPING,
}
PRESETS: Presets = {
    "ppo": {"default": ROBOTS, "fast": FAST},
    "sac": {"default": {f"robots{FROM_PIXELS}": SAC_PIXELS}},
}

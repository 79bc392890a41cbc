"""Settings with which training on the Crazyflie begins."""

from headrace.pool.family import Presets, Settings

# fmt: off
# A policy begins by hovering, from states that become as hard as the task's within the first half of a run; RLtools'
# own curriculum has easy states first, too. A step that does not end the episode earns twice the task's: a craft that
# tumbles costs more than 1 a step, and PPO then learns to end early. How fast rotors are, the last four actions tell.
# What is learnt of a flight is learnt of the flight after half a turn, too, so that the craft does not settle beside
# the target. Without exploration it settles below it, as rotors speed up faster than they slow down, and so lift more
# while actions vary: less so where masses differ, so that it has to answer a height that is wrong, and where actions
# are narrowed in the second half.
_HOVERING: Settings = {
    "total_steps": 1_400_000, "num_envs": 128, "num_steps": 32, "epochs": 1, "minibatch_size": 256,
    "hidden": (64, 64), "learning_rate": 2e-3, "gamma": 0.985, "gae_lambda": 0.9, "log_std_init": -1.5,
    "normalise_observations": True, "normalise_values": True, "normalise_rewards": True, "mirror": True,
    "env_options": {"alive": 2.0, "least_action": 0.22, "action_history": 4, "mass_spread": 0.1},
    "option_schedules": {"hardness": [(0, 0.05), (60_000, 0.05), (330_000, 0.6), (600_000, 1.0)]},
    "schedules": {
        "learning_rate": [(0, 2e-3), (250_000, 2e-3), (1_400_000, 2e-5)],
        "entropy_coef": [(0, 0.0), (600_000, 0.0), (1_000_000, -0.01)],
    },
}

# A point that moves is followed to about 0.1 m after twice the steps.
_CURVE: Settings = _HOVERING | {
    "total_steps": 2_800_000, "epochs": 3, "mirror": False,
    "env_options": {"alive": 2.0, "least_action": 0.22, "action_history": 4},
    "schedules": {"learning_rate": [(0, 2e-3), (500_000, 2e-3), (2_800_000, 2e-5)]},
}

PRESETS: Presets = {"ppo": {"default": {"crazyflie": _HOVERING, "CrazyflieCurve-v0": _CURVE}}}

"""Settings with which training on dm_control's robots begins: MuJoCo's."""

from headrace.envs.mujoco.presets import PPO, PPO_FAST
from headrace.envs.presets import until
from headrace.pool.family import FROM_PIXELS, Presets, Settings

# fmt: off
# A cheap CNN learns from the pictures of DrQ (arXiv:2004.13649), smaller; targets of 3 steps, and an action for two of
# dm_control's, are those of DrQ-v2 (arXiv:2107.09645). The default camera stays where it is, and loses robots that run:
# with it CheetahRun stays at 40. Rewards are small at first, and so is the temperature. The replay takes 1.2 GB. Nearly
# all time is the learner's, which beside a sampler has one core less: without one, steps are 1.6 times as fast on two.
PIXELS: Settings = {
    "total_steps": 200_000, "num_envs": 4, "samplers": 0, "trunk": "strided", "standardise_pixels": True, "bf16": True,
    "minibatch_size": 128, "learning_rate": 5e-4, "critic_learning_rate": 5e-4, "target_rate": 0.01, "n_step": 3,
    "initial_temperature": 0.01, "replay_size": 100_000, "learning_starts": 1000, "stop_episodes": 20,
    "env_options": {
        "action_repeat": 2, "frame_stack": 3, "render_width": 64, "render_height": 64, "render_camera_id": 0,
        "render_effects": False,
    },
}
_DRQ = {"env_options": PIXELS["env_options"] | {"action_repeat": 4}}
# Pictures are drawn many times as fast as SAC learns from them; PPO keeps up. Its rate follows the KL divergence, as
# one that is fit for the beginning is too large later. Chosen on CheetahRun alone.
_PPO_PIXELS: Settings = {
    "total_steps": 6_000_000, "num_envs": 32, "num_steps": 64, "epochs": 4, "minibatch_size": 512,
    "learning_rate": 5e-4, "target_kl_rate": 0.04, "gamma": 0.98, "gae_lambda": 0.9, "log_std_init": -1.0,
    "normalise_rewards": True, "trunk": "strided", "bf16": True, "standardise_pixels": True, "stop_episodes": 20,
    "env_options": PIXELS["env_options"],
}
# Wide actions at first, and rewards that are near: WalkerWalk 895 where it has 538 otherwise, ReacherEasy 845 for 705.
# CheetahRun and CartpoleSwingup learn less so (511 for 772, 789 for 850; one seed each).
_PPO_WIDE = PPO_FAST | {"log_std_init": 0.0, "gamma": 0.98, "gae_lambda": 0.9}
PRESETS: Presets = {
    "ppo": {
        "default": {"dm_control": PPO},
        "fast": {
            "dm_control": PPO_FAST,
            **dict.fromkeys(("WalkerWalk-v1", "ReacherEasy-v1", "QuadrupedWalk-v1"), _PPO_WIDE),
            # nothing is earned before the ball is in the cup for the first time: with narrower actions one of three did
            "BallInCupCatch-v1": PPO_FAST | {"log_std_init": 0.0},
            f"dm_control{FROM_PIXELS}": _PPO_PIXELS,
            f"CheetahRun-v1{FROM_PIXELS}": _PPO_PIXELS | until(400.0) | _DRQ,
        },
    },
    "sac": {
        "default": {
            f"dm_control{FROM_PIXELS}": PIXELS,
            f"CheetahRun-v1{FROM_PIXELS}": PIXELS | until(400.0) | _DRQ,
        },
    },
}

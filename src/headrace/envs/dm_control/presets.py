"""Settings with which training on dm_control's robots begins: MuJoCo's."""

from headrace.envs.mujoco.presets import PPO, PPO_FAST
from headrace.pool.family import Presets

PRESETS: Presets = {"ppo": {"default": {"dm_control": PPO}, "fast": {"dm_control": PPO_FAST}}}

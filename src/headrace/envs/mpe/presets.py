"""Settings with which training on MPE's worlds begins."""

from headrace.pool.family import Presets

PRESETS: Presets = {
    "ppo": {"default": {"mpe": {"gamma": 0.95, "normalise_observations": True}}}  # episodes have 25 steps
}

"""Settings with which training on the Crazyflie begins."""

from headrace.pool.family import Presets

PRESETS: Presets = {}

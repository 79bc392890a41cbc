"""The settings of A2C, and what it can do."""

from __future__ import annotations

from headrace.train.algorithms.a2c.presets import A2C as PRESETS
from headrace.train.settings.rollouts import ROLLOUTS

A2C = ROLLOUTS.extended(presets=PRESETS)

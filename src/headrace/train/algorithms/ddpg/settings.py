"""The settings of DDPG, and what it can do."""

from __future__ import annotations

from headrace.train.algorithms.presets import continuous
from headrace.train.settings.replays import ACTOR_CRITIC, ActionNoise
from headrace.train.settings.rollouts import Clipping

DDPG = ACTOR_CRITIC.extended(ActionNoise, Clipping, presets=continuous("ddpg", {"max_grad_norm": 10.0}))

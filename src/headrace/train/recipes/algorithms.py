"""Headrace's algorithms by name: their settings, and their classes, which need torch and are imported last."""

from __future__ import annotations

import importlib
from typing import Any

from headrace.train.algorithms.a2c.settings import A2C
from headrace.train.algorithms.ddpg.settings import DDPG
from headrace.train.algorithms.dqn.settings import DQN
from headrace.train.algorithms.ppo.settings import PPO
from headrace.train.algorithms.pqn.settings import PQN
from headrace.train.algorithms.sac.settings import SAC
from headrace.train.algorithms.td3.settings import TD3
from headrace.train.settings.algorithm import ALGORITHMS, own_class

ALGORITHMS |= {"ppo": PPO, "a2c": A2C, "pqn": PQN, "ddpg": DDPG, "td3": TD3, "sac": SAC, "dqn": DQN}
CLASSES = {name: name.upper() for name in ALGORITHMS}
"""name → class in the module of this name, in its folder"""


def find_algorithm(name: str) -> Any:
    """Returns the class of an algorithm, which derives from `headrace.train.algorithms.policy.Policy`.

    Raises:
        OptionError: as `headrace.train.settings.algorithm.find_settings`.
    """
    if name in CLASSES:
        return getattr(importlib.import_module(f"headrace.train.algorithms.{name}"), CLASSES[name])
    return own_class(name)

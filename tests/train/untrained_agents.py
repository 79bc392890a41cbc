"""Agents of every kind with weights of chance, for tests of what is exported of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import headrace
import masked_games  # noqa: F401  (registers the test tasks)
import multi_agent_games  # noqa: F401
from headrace.train.play.agent import Agent
from headrace.train.recipes.make import make_config
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.workers.policy_copy import acting_policy
from python_games import SCALAR

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("CartPole-v1", {"normalise_observations": True, "normalise_values": True}),
    "continuous": ("Pendulum-v1", {}),
    "shared": ("CartPole-v1", {"shared": True}),
    "gru": ("CartPole-v1", {"network": "gru", "hidden": (16,)}),
    "one-hot": ("FrozenLake-v1", {}),
    "masks": ("TestGate-v0", {}),
    "masked values": ("TestGate-v0", {"algo": "dqn"}),
    "small images": ("MinAtar-Breakout-v1", {"algo": "ppo"}),
    "a number": (SCALAR, {}),
    "a number, sac": (SCALAR, {"algo": "sac"}),
    "sac": ("Pendulum-v1", {"algo": "sac"}),
    "td3": ("Pendulum-v1", {"algo": "td3"}),
    "dqn": ("CartPole-v1", {"algo": "dqn"}),
    "pqn": ("CartPole-v1", {"algo": "pqn"}),
    "normed images": ("MinAtar-Breakout-v1", {"algo": "pqn", "bf16": False}),
    "dueling images": ("MinAtar-Breakout-v1", {"algo": "dqn", "dueling": True}),
}


def untrained(task: str, wild: bool = True, **settings: Any) -> Agent:
    """An agent whose weights and statistics are those of chance; if not ``wild``, as runs begin."""
    config = make_config(task, **settings)
    torch.manual_seed(4)
    model = acting_policy(config).model()
    for name, tensor in model.items() if wild else ():
        if tensor.is_floating_point() and tensor.dim():
            model[name] = torch.randn_like(tensor) * 0.3 if "variance" not in name else torch.rand_like(tensor) + 0.5
        elif name.endswith("count"):
            model[name] = torch.tensor(9.0, dtype=tensor.dtype)
    return Agent(config, headrace.make_spec(task, **config.env_options), Checkpoint(model))


def observed(agent: Agent, rows: int) -> dict[str, np.ndarray]:
    """Inputs of so many rows from the environments themselves."""
    with headrace.make(agent.spec.task, num_envs=rows, seed=2, **agent.config.env_options) as pool:
        obs, info = pool.reset()
        found = {"observation": obs}
        if "action_mask" in info:
            found["action_mask"] = np.asarray(info["action_mask"], np.int8)
    return found

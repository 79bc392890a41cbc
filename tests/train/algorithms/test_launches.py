"""How many operations an update is: on a GPU each is a launch, of which the time of a small update consists."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graph_stand_in import graphs_on_a_cpu
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from updates import a_policy, some_transitions

VIEWS = {
    "view", "_unsafe_view", "t", "transpose", "permute", "expand", "select", "slice", "unsqueeze", "squeeze", "alias",
    "detach", "split", "split_with_sizes", "unbind", "as_strided", "reshape", "empty", "empty_like", "_reshape_alias",
}  # fmt: skip


class Launches(TorchDispatchMode):
    """Counts operations that compute or copy."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.split(".")[0] not in VIEWS:
            self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("algo", "most"), [("sac", 190), ("td3", 126), ("ddpg", 126), ("dqn", 60)])
def test_updates_from_a_replay_launch_few_kernels(algo: str, most: int) -> None:
    policy = a_policy(algo, "CartPole-v1" if algo == "dqn" else "Ant-v5")
    batch = some_transitions(policy, 32, 1)
    if algo == "dqn":
        batch = batch._replace(actions=torch.zeros(32, dtype=torch.int64))
    policy.compiled = policy.form = None  # as on a GPU
    policy.improve(batch, UpdateRates(1e-3, 1e-3, 0.5))
    with Launches() as counted:
        policy.improve(batch, UpdateRates(1e-3, 1e-3, 0.5))
    assert len(counted.names) <= most


@pytest.mark.parametrize(("algo", "most"), [("ppo", 132), ("a2c", 96), ("pqn", 105)])
def test_updates_from_a_rollout_launch_few_kernels(tmp_path: Any, algo: str, most: int) -> None:
    """One epoch of one minibatch."""
    sizes: dict[str, Any] = {} if algo == "a2c" else {"minibatch_size": 128, "epochs": 1}
    config = make_config("CartPole-v1", algo=algo, num_envs=16, num_steps=8, tensorboard=False, **sizes)
    with graphs_on_a_cpu():
        trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
        trainer.iterate()
        (samples,) = trainer.source.collect()
        with Launches() as counted:
            trainer.policies[0].learn(samples, trainer.step, trainer.source.generator)
        trainer.close()
    assert len(counted.names) <= most

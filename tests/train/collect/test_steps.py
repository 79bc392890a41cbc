"""What is written to a replay of steps, and how large the replay is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import headrace
from headrace.errors import SharedMemoryError
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.collect.fitting import agent_groups
from headrace.train.collect.policies import make_policy
from headrace.train.collect.steps import StepRecorder, make_replay
from headrace.train.modules.exploration import SquashedGaussian
from headrace.train.recipes.make import make_config
from headrace.train.storage.step_replay import StepReplay


def test_the_recorder_never_mixes_actions_of_the_host_and_of_the_device():
    """On the device "meta" no product can be read, as that of tensors on a GPU and on the host cannot be made."""
    with headrace.make("Pendulum-v1", num_envs=3, seed=1, autoreset="next_step") as pool:
        spec = headrace.make_spec("Pendulum-v1")
        replay = StepReplay(spec.observation_space, spec.action_space, 1, 16, 3)
        encoder = SimpleNamespace(image=False)
        policy: Any = SimpleNamespace(distribution=SquashedGaussian(spec.action_space, "meta"), encoder=encoder)
        recorder = StepRecorder(pool, policy, replay.writer(0), 1, lambda: "")
        recorder.begin()
        actions = torch.tensor([[-0.5], [0.0], [1.0]])
        recorder.step(actions, 2 * actions.numpy())
        assert (replay.arrays["record"][0, 0, :, 3] == actions.squeeze(1).numpy()).all()
        assert np.isfinite(recorder.observations().numpy()).all()


@pytest.mark.parametrize("samplers", [0, 1])
def test_a_replay_that_is_too_large_names_its_setting_and_a_value_that_fits(samplers: int) -> None:
    config = make_config("Pendulum-v1", algo="sac", samplers=samplers, replay_size=10**13)
    words = r"memory were wanted for replay_size=10000000000000, .* replay_size=[1-9]\d*0 fits"
    (group,) = agent_groups(config, headrace.make_spec("Pendulum-v1")).values()
    policy = make_policy("", config, group, torch.device("cpu"))
    assert isinstance(policy, OffPolicy)
    with pytest.raises(SharedMemoryError, match=words):
        make_replay(config) if samplers else policy._ring()

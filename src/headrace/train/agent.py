"""A trained policy, loaded from a run folder: what evaluation, videos and `headrace play` need."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import torch

from headrace.errors import OptionError
from headrace.train import checkpoint as checkpoints
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config
from headrace.train.distributions import distribution_for
from headrace.train.networks import make_network
from headrace.train.rollout import InputEncoder
from headrace.train.run import RunFolder


class Agent:
    """The policy of a checkpoint, on the CPU.

    Args:
        config: the run's configuration.
        observation_space, action_space: those of one environment.
        point: the checkpoint.
    """

    def __init__(self, config: Config, observation_space: gym.Space, action_space: gym.Space, point: Checkpoint):
        self.config = config
        self.distribution = distribution_for(action_space)
        self.network = make_network(config, observation_space, self.distribution)
        self.network.load_state_dict(checkpoints.group("network", point.model))
        self.encoder = InputEncoder(config, observation_space, torch.device("cpu"))
        if self.encoder.normaliser is not None:
            self.encoder.normaliser.load(checkpoints.group("normaliser", point.model))
        self._generator = torch.Generator().manual_seed(config.seed)

    @torch.inference_mode()
    def act(self, observations: np.ndarray, deterministic: bool = True) -> np.ndarray:
        """Actions [B, …] for observations [B, …]: the most likely ones, or a sample."""
        raw = torch.from_numpy(np.ascontiguousarray(observations))
        out = torch.empty(len(raw), *self.encoder.shape, dtype=self.encoder.dtype)
        params, _ = self.network(self.encoder(raw, out))
        if deterministic:
            actions = self.distribution.mode(params)
        else:
            noise = self.distribution.noise(len(raw), generator=self._generator)
            actions = self.distribution.sample(params, noise)
        return self.distribution.to_env(actions).numpy()


def load_checkpoint(run: RunFolder, which: str = "newest") -> Checkpoint:
    """The ``"newest"`` or ``"best"`` checkpoint of a run.

    Raises:
        OptionError: the run has none yet.
    """
    find = checkpoints.best if which == checkpoints.BEST else checkpoints.newest
    path = find(run.checkpoints)
    if path is None:
        raise OptionError(f"{run.path} has no checkpoint yet")
    return checkpoints.load(path)


def load_agent(
    run_dir: str | Path, observation_space: gym.Space, action_space: gym.Space, which: str = "newest"
) -> Agent:
    """The agent of a run folder, for environments with these spaces."""
    run, config = RunFolder.open(run_dir)
    return Agent(config, observation_space, action_space, load_checkpoint(run, which))

"""Which network an observation space gets, and that small images are worth a network of their own."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.train.algorithms.ppo import PPOConfig
from headrace.train.config.settings import make_config
from headrace.train.modules.distributions import distribution_for
from headrace.train.modules.network import MLP, NatureCNN, SmallCNN, make_network

train: Any = headrace.train  # the module itself, called; a type checker sees a module only


def network_for(shape: tuple[int, ...], dtype: type = np.uint8, network: Any = "auto") -> torch.nn.Module:
    space = gym.spaces.Box(0, 255, shape, dtype)
    return make_network(PPOConfig("x", network=network), space, distribution_for(gym.spaces.Discrete(3)))


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((4, 84, 84), NatureCNN),
        ((4, 36, 36), NatureCNN),
        ((4, 36, 35), SmallCNN),
        ((6, 10, 10), SmallCNN),
        ((1, 8, 20), SmallCNN),
        ((4, 7, 20), MLP),
        ((10, 10, 4), MLP),  # channels last
        ((100,), MLP),
    ],
)
def test_images_get_the_network_that_fits_their_size(shape, kind):
    assert type(network_for(shape)) is kind
    assert type(network_for(shape, np.float32)) is MLP
    assert type(network_for(shape, network="mlp")) is MLP
    network = network_for(shape)
    inputs = torch.randint(0, 256, (5, *shape)) if kind is not MLP else torch.rand(5, int(np.prod(shape)))
    params, values = network(inputs.to(torch.uint8) if kind is not MLP else inputs)
    assert params.shape == (5, 3)
    assert values.shape == (5,)
    assert params.dtype == values.dtype == torch.float32


@pytest.mark.parametrize("shape", [(4, 7, 20), (10, 10, 4), (100,)])
def test_a_cnn_for_what_is_no_image_is_refused(shape):
    with pytest.raises(OptionError, match="at least 8 x 8"):
        network_for(shape, network="cnn")


def test_a_small_cnn_sees_images_between_0_and_1():
    torch.manual_seed(0)
    images = torch.randint(0, 2, (7, 4, 10, 12), dtype=torch.uint8)
    plain = SmallCNN(4, 10, 12, 1.0, 3, None)
    scaled = SmallCNN(4, 10, 12, 255.0, 3, None)
    scaled.load_state_dict(plain.state_dict())
    for one, other in zip(plain(images), scaled(images * 255), strict=True):
        torch.testing.assert_close(one, other)
    assert float(plain(images)[1].detach().std()) > 0.01, "the value should depend on the image"


@pytest.mark.nightly
def test_it_learns_a_game_of_minatar_with_the_tuned_settings(tmp_path):
    """A random player of Breakout earns 0.5."""
    options = {"total_steps": 80_000, "torch_threads": 1, "tensorboard": False, "video": False, "quiet": True}
    result = train("MinAtar-Breakout-v1", run_dir=tmp_path / "run", seed=3, **options)
    assert result.mean_return > 1.5


def test_a_perfect_player_does_not_play_for_ever():
    for task in ("MinAtar-Breakout-v1", "MinAtar-SpaceInvaders-v0"):
        assert make_config(task).env_options["max_episode_steps"] > 0

"""Which network an observation space gets, and that small images are worth a network of their own."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import gymnasium as gym
import numpy as np
import pytest
import torch

import headrace
from headrace.errors import OptionError
from headrace.pool.flat_observation import Joined
from headrace.train.modules.cnn import ImageActorCritic, JoinedTrunk, NatureTrunk, SmallTrunk, StridedTrunk
from headrace.train.modules.distributions import distribution_for
from headrace.train.modules.mlp import MLP
from headrace.train.modules.network import make_network
from headrace.train.modules.normed import NormedTrunk
from headrace.train.modules.observation_encoder import InputEncoder
from headrace.train.recipes.make import make_config
from headrace.train.settings.kinds import NETWORKS, TRUNKS, Kind, Trunk
from headrace.train.settings.typed import Settings

train: Any = headrace.train  # the module itself, called; a type checker sees a module only


def network_for(shape: tuple[int, ...], dtype: type = np.uint8, **settings: Any) -> Any:
    space = gym.spaces.Box(0, 255, shape, dtype)
    return make_network(space, distribution_for(gym.spaces.Discrete(3)), **settings)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((4, 84, 84), NatureTrunk),
        ((4, 36, 36), NatureTrunk),
        ((4, 36, 35), SmallTrunk),
        ((6, 10, 10), SmallTrunk),
        ((1, 8, 20), SmallTrunk),
        ((4, 7, 20), MLP),
        ((10, 10, 4), MLP),  # channels last
        ((100,), MLP),
    ],
)
def test_images_get_the_network_that_fits_their_size(shape, kind):
    network = network_for(shape)
    assert type(network.trunk if isinstance(network, ImageActorCritic) else network) is kind
    assert type(network_for(shape, np.float32)) is MLP
    assert type(network_for(shape, network="mlp")) is MLP
    inputs = torch.randint(0, 256, (5, *shape)) if kind is not MLP else torch.rand(5, int(np.prod(shape)))
    params, values = network(inputs.to(torch.uint8) if kind is not MLP else inputs)
    assert params.shape == (5, 3)
    assert values.shape == (5,)
    assert params.dtype == values.dtype == torch.float32


@pytest.mark.parametrize("shape", [(4, 7, 20), (10, 10, 4), (100,)])
def test_a_cnn_for_observations_without_images_is_refused(shape):
    with pytest.raises(OptionError, match="at least 8 x 8"):
        network_for(shape, network="cnn")


def test_a_small_cnn_sees_images_between_0_and_1():
    torch.manual_seed(0)
    images = torch.randint(0, 2, (7, 4, 10, 12), dtype=torch.uint8)
    plain, scaled = SmallTrunk(4, 10, 12, 1.0), SmallTrunk(4, 10, 12, 255.0)
    scaled.load_state_dict(plain.state_dict())
    torch.testing.assert_close(plain(images), scaled(images * 255))
    assert float(plain(images).detach().std()) > 0.01, "features should depend on the image"


@pytest.mark.parametrize("shape", [(4, 42, 42), (4, 84, 84), (3, 36, 60)])
def test_a_strided_trunk_is_its_convolutions_one_after_the_other(shape):
    trunk = network_for(shape, trunk="strided").trunk
    assert isinstance(trunk, StridedTrunk)
    images = torch.randint(0, 256, (5, *shape), dtype=torch.uint8)
    layers: list[Any] = list(trunk.convolutions)
    x, stride = images.float() / 255, 3
    for layer in layers:
        x, stride = torch.relu(torch.nn.functional.conv2d(x, layer.weight, layer.bias, stride)), 2
    assert max(x.shape[2:]) <= 8
    wanted = torch.relu(torch.nn.functional.linear(x.flatten(1), trunk.dense.weight, trunk.dense.bias))
    torch.testing.assert_close(trunk(images), wanted, rtol=1e-4, atol=1e-5)


def test_pixels_are_standardised_by_the_statistics_of_seen_images():
    trunk = network_for((2, 40, 40), trunk="strided").trunk
    images = torch.randint(0, 256, (300, 2, 40, 40), dtype=torch.uint8)
    images[:, 0, 0, 0] = 7  # never changes
    images[:, 0, 0, 1] = 0
    images[0, 0, 0, 1] = 9  # hardly ever
    trunk.fit(images)
    seen = (images.float() - trunk.mean) * trunk.scale
    ordinary = seen[:, 1]
    torch.testing.assert_close(ordinary.mean(0), torch.zeros(40, 40), atol=1e-4, rtol=0)
    torch.testing.assert_close(ordinary.std(0, correction=0), torch.ones(40, 40), atol=1e-4, rtol=0)
    assert float(seen[:, 0, 0, 0].abs().max()) < 1e-4
    assert float(seen[:, 0, 0, 1].abs().max()) < 2, "rare pixels must not be blown up"
    assert not trunk.mean.requires_grad and not trunk.scale.requires_grad
    assert {"mean", "scale"} <= trunk.state_dict().keys()


class Flat(torch.nn.Module):
    """A trunk, and with a head an actor-critic, of the shape that the tables of kinds ask for."""

    def __init__(self, channels: int, height: int, width: int, bf16: bool, outputs: int):
        super().__init__()
        self.conv, self.dense = torch.nn.Conv2d(channels, 1, 1), torch.nn.Linear(height * width, outputs)
        self.features = outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.dense(self.conv(x.float()).flatten(1)))


def test_a_further_trunk_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_args(get_type_hints(Settings)["trunk"]) == tuple(TRUNKS)
    monkeypatch.setitem(TRUNKS, "flat", Trunk("one layer", f"{__name__}:Flat", 32))
    network = network_for((3, 40, 40), trunk="flat")
    assert isinstance(network, ImageActorCritic) and type(network.trunk) is Flat
    assert network(torch.zeros(5, 3, 40, 40, dtype=torch.uint8))[0].shape == (5, 3)
    normed = NormedTrunk(gym.spaces.Box(0, 255, (3, 40, 40), np.uint8), "flat", bf16=False)
    assert normed(torch.zeros(5, 3, 40, 40, dtype=torch.uint8)).shape == (5, 32)
    with pytest.raises(OptionError, match="trunk='flat' is for images of at least 36 x 36"):
        network_for((3, 10, 10), trunk="flat")


def test_a_further_kind_of_networks_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "wide", Kind("another", f"{MLP.__module__}:MLP", ("hidden", "activation")))
    network = network_for((4,), np.float32, network="wide", hidden=(7,))
    assert isinstance(network, MLP) and network.policy_weight.shape == (3, 7)
    assert type(network_for((3, 40, 40), network="wide", hidden=(7,))) is MLP  # it takes pixels as numbers


def test_a_strided_trunk_is_not_for_tiny_images():
    with pytest.raises(OptionError, match="at least 36 x 36"):
        network_for((4, 10, 10), trunk="strided")


@pytest.mark.nightly
def test_ppo_learns_a_game_of_minatar_with_the_tuned_settings(tmp_path):
    """A random player of Breakout earns 0.5."""
    options = {"total_steps": 80_000, "torch_threads": 1, "tensorboard": False, "video": False, "quiet": True}
    result = train("MinAtar-Breakout-v1", "ppo", run_dir=tmp_path / "run", seed=3, **options)
    assert result.mean_return > 1.5


def test_games_without_an_end_have_a_limit_of_steps():
    for task in ("MinAtar-Breakout-v1", "MinAtar-SpaceInvaders-v0"):
        assert make_config(task).env_options["max_episode_steps"] > 0


def test_pictures_among_numbers_have_a_trunk_each_and_numbers_are_normalised():
    parts = gym.spaces.Dict(
        far=gym.spaces.Box(0, 255, (40, 48, 3), np.uint8),
        near=gym.spaces.Box(0, 3, (9, 12), np.uint8),
        speed=gym.spaces.Box(-9, 9, (2,), np.float32),
    )
    space, (seen, other) = Joined(parts, keep=True), (parts.sample() for _ in range(2))
    network = make_network(space, distribution_for(gym.spaces.Discrete(3)))
    assert isinstance(network, ImageActorCritic) and isinstance(network.trunk, JoinedTrunk)
    assert [type(trunk) for trunk in network.trunk.trunks] == [NatureTrunk, SmallTrunk]
    rows = torch.from_numpy(np.stack([space.of(seen | {key: other[key]}) for key in ("speed", "far", "near")]))
    base = torch.from_numpy(space.of(seen)[None])
    answers = network(torch.cat((base, rows)))[1]
    assert len(set(answers.tolist())) == 4, "each part counts"
    far, near = network.trunk._pictures(base)
    assert np.array_equal(far[0].numpy(), seen["far"].transpose(2, 0, 1)) and np.array_equal(near[0, 0], seen["near"])
    encoder = InputEncoder(space, torch.device("cpu"), normalise=True)
    assert encoder.normaliser is not None
    encoder.normaliser.update(torch.cat((base, rows)))
    for out in (None, torch.empty_like(rows)):
        encoded = encoder(rows, out)
        assert torch.equal(encoded[:, 2:], rows[:, 2:]) and encoded[:, :2].abs().max() < 3
    with pytest.raises(OptionError, match="network='cnn' needs"):
        make_network(Joined(parts), distribution_for(gym.spaces.Discrete(3)), network="cnn")

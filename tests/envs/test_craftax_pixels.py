"""Craftax-Classic in pictures: as the package craftax draws the same states, whose textures are read from there."""

# pyright: reportGeneralTypeIssues=false, reportMissingImports=false

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import warp as wp
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.craftax.state import State
from headrace.errors import OptionError
from headrace.kernels import Streams

TASK = "Craftax-Classic-Pixels-v1"
STATES = 96
INSTALLED = find_spec("craftax") is not None


def test_the_spec_needs_no_textures():
    spec = headrace.make_spec(TASK)
    assert spec.observation.shape == (63, 63, 3) and spec.observation.dtype == np.uint8
    assert spec.info[0].name == "achievements"


def test_the_spec_with_channels_first():
    assert headrace.make_spec(TASK, flat_observation="pictures").observation.shape == (3, 63, 63)
    with pytest.raises(OptionError, match="must be False or 'pictures', not True"):
        headrace.make_spec(TASK, flat_observation=True)


@pytest.mark.skipif(not INSTALLED, reason="craftax is not installed")
def test_pictures_with_channels_first_are_the_same():
    with (
        headrace.make(TASK, num_envs=3, seed=3) as last,
        headrace.make(TASK, num_envs=3, seed=3, flat_observation="pictures") as first,
    ):
        pairs = [(last.reset()[0], first.reset()[0])]
        pairs += [(last.step(np.full(3, act))[0], first.step(np.full(3, act))[0]) for act in (1, 4, 6, 6, 5)]
        for seen, turned in pairs:
            assert np.array_equal(np.moveaxis(seen, -1, 1), turned)
        assert (pairs[0][0] != pairs[-1][0]).any()


@pytest.mark.skipif(INSTALLED, reason="craftax is installed")
def test_the_error_without_the_textures_says_what_to_install():
    with pytest.raises(OptionError, match="pip install --no-deps craftax"):
        headrace.make(TASK, num_envs=1)


@wp.func
def look(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    """A step in which nothing happens."""
    return float(0.0), bool(False)


def drawn(states):
    """Our pictures, uint8[N, 63, 63, 3], of states, name → values [N, …]."""
    from headrace.envs.craftax.pixels import PIXELS, TASKS

    task = replace(TASKS[TASK], env=replace(PIXELS, name="CraftaxLook", step=look))
    headrace.register("CraftaxLook-v0", task, replace=True)
    with headrace.make("CraftaxLook-v0", num_envs=STATES, seed=0, autoreset="disabled") as pool:
        pool.reset()
        arrays = arrays_of(pool)
        for name, values in states.items():
            arrays[name][:] = values
        return pool.step(np.zeros(STATES, np.int64))[0].copy()


@pytest.fixture(scope="module")
def frames():
    """States [N] of all kinds, and what we and the package draw of them, 0 to 255, float32[N, 63, 63, 3]."""
    jax = pytest.importorskip("jax")
    envs = pytest.importorskip("craftax.craftax_classic.envs.craftax_pixels_env")
    from record_craftax import ENV, as_ours, scattered, stacked

    rng = np.random.default_rng(0)
    base = jax.jit(lambda key: ENV.reset_env(key, ENV.default_params)[1])(jax.random.PRNGKey(0))
    theirs = stacked([scattered(rng, base) for _ in range(STATES)])
    ours = as_ours(theirs)
    drawn_by_them = np.asarray(jax.jit(jax.vmap(envs.CraftaxClassicPixelsEnv().get_obs))(theirs)) * 255
    return ours, drawn(ours).astype(np.float32), drawn_by_them


def test_pictures_equal_those_of_the_package_up_to_rounding(frames):
    states, ours, theirs = frames
    by_day = states["light"] >= 0.5
    assert 20 < by_day.sum() < STATES - 10 and states["asleep"][by_day].any()
    assert np.abs(ours[by_day] - theirs[by_day]).max() < 0.51
    assert np.abs(ours[:, 49:] - theirs[:, 49:]).max() < 0.51  # the inventory, which looks the same by night


def test_noise_at_night_is_as_strong_as_in_the_package(frames):
    states, ours, theirs = frames
    dark = (states["light"] < 0.5) & ~states["asleep"]
    seen = np.stack([ours[dark, :49], theirs[dark, :49]])
    middle = seen[:, :, 24, 31]  # the middle, which has no noise
    np.testing.assert_allclose(*middle, atol=0.6)
    corners = seen[:, :, :7, :7].reshape(2, dark.sum(), -1)
    np.testing.assert_allclose(*corners.mean(-1), atol=8)
    np.testing.assert_allclose(*corners.std(-1), atol=6)
    assert (np.abs(corners[0] - corners[1]).max(-1) > 1).all()  # the noise of both is random

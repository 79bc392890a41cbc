"""Atari does what Gymnasium does: the same bytes for the same seed and actions.

The reference is `AtariPreprocessing` + `FrameStackObservation` over ale-py's environment,
synchronised once, by the seed of the first reset, and never again: noops, sticky actions
and the state in which later games begin all follow from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from nightly import rest_nightly

ale_py = pytest.importorskip("ale_py")
cv2 = pytest.importorskip("cv2")
_atari = pytest.importorskip("headrace_atari._atari")

gym.register_envs(ale_py)
cv2.setNumThreads(1)

# the game and the probability of a sticky action
GAMES = [
    ("Pong", 0.0),  # paddles; needs no FIRE
    ("Pong", 0.25),
    ("Breakout", 0.0),  # paddles; waits for FIRE; lives
    ("Breakout", 0.25),
    ("SpaceInvaders", 0.25),  # flickers: needs the maximum of two frames
    ("Seaquest", 0.0),
    ("Qbert", 0.25),
    ("MsPacman", 0.0),
    ("Boxing", 0.25),  # no lives; rewards of both signs
    ("Freeway", 0.0),  # three actions
    ("BeamRider", 0.25),
    ("Kaboom", 0.25),  # paddles
    ("MontezumaRevenge", 0.0),
    ("Asteroids", 0.25),  # all of its sprites flicker
    ("UpNDown", 0.0),
    ("AirRaid", 0.25),  # a PAL screen of 250 rows
]

QUICK = [GAMES[i] for i in (1, 2, 4, 5, 6, 11, 12, 15)]  # of short games; the others are played to their ends nightly


def reference(game: str, sticky: float, **options: Any) -> gym.Env:
    """Gymnasium's own stack of wrappers."""
    env = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=sticky)
    settings = {"noop_max": 30, "frame_skip": 4, "screen_size": 84, **options}
    return gym.wrappers.FrameStackObservation(gym.wrappers.AtariPreprocessing(env, **settings), 4)


def episodes(pool: Any, env: gym.Env, steps: int, seed: int) -> Iterator[tuple[tuple, tuple]]:
    """Results of both, side by side; a reset has reward 0 and no end."""
    rng = np.random.default_rng(seed)
    ours, theirs = pool.reset(), env.reset(seed=seed)
    yield (ours[0][0], 0, False, ours[1]["lives"][0]), (theirs[0], 0, False, theirs[1]["lives"])
    over = False
    for _ in range(steps):
        if over:
            ours, theirs = pool.reset(), env.reset()
            over = False
            yield (ours[0][0], 0, False, 0), (theirs[0], 0, False, 0)
            continue
        action = rng.integers(pool.action_space.n)
        obs, reward, terminated, _, info = pool.step(np.array([action]))
        expected, its_reward, over, cut, its_info = env.step(action)
        assert not cut
        yield (obs[0], reward[0], terminated[0], info["lives"][0]), (expected, its_reward, over, its_info["lives"])


@pytest.mark.parametrize(("game", "sticky"), rest_nightly(GAMES, *QUICK))
def test_an_episode_equals_the_episode_in_gymnasium(make: Any, game: str, sticky: float) -> None:
    """A full episode, and the first 60 steps of the next."""
    pool = make(
        f"{game}-v5",
        repeat_action_probability=sticky,
        use_fire_reset=False,
        autoreset="disabled",
        seed=11,
        num_threads=1,
    )
    env = reference(game, sticky)
    assert pool.action_space.n == env.action_space.n  # pyright: ignore[reportAttributeAccessIssue]
    last = None
    for step, (ours, theirs) in enumerate(episodes(pool, env, 10_000, seed=11)):
        np.testing.assert_array_equal(ours[0], theirs[0], err_msg=f"observation {step}")
        assert ours[1:] == theirs[1:], f"step {step}"
        if theirs[2] and last is None:
            last = step + 60
        if step == last:
            break
    assert last is not None, "no episode has ended"
    env.close()


def test_colour_observations_equal_those_of_gymnasium(make: Any) -> None:
    pool = make("Breakout-v5", gray_scale=False, use_fire_reset=False, autoreset="disabled", seed=3)
    env = reference("Breakout", 0.0, grayscale_obs=False)
    for ours, theirs in episodes(pool, env, 150, seed=3):
        planes = theirs[0].transpose(0, 3, 1, 2).reshape(12, 84, 84)  # [4, 84, 84, 3]: colours last
        np.testing.assert_array_equal(ours[0], planes)
        assert ours[1:] == theirs[1:]
    env.close()


@pytest.mark.parametrize(("skip", "noops", "size"), [(1, 0, (84, 84)), (2, 1, (96, 64)), (5, 7, (80, 105))])
def test_episodes_with_other_frame_settings_equal_those_of_gymnasium(
    make: Any, skip: int, noops: int, size: tuple[int, int]
) -> None:
    width, height = size
    pool = make(
        "Breakout-v5", frame_skip=skip, noop_max=noops, img_width=width, img_height=height,
        use_fire_reset=False, autoreset="disabled", seed=5,
    )  # fmt: skip
    env = reference("Breakout", 0.0, frame_skip=skip, noop_max=noops, screen_size=size)
    for ours, theirs in episodes(pool, env, 300, seed=5):
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:] == theirs[1:]
    env.close()


def test_a_reset_with_a_seed_equals_a_seeded_reset_of_gymnasium(make: Any) -> None:
    pool = make("Breakout-v5", use_fire_reset=False, autoreset="disabled", seed=1, repeat_action_probability=0.25)
    env = reference("Breakout", 0.25)
    for seed in (1, 2, 1):
        obs, _ = pool.reset(seed=seed)
        np.testing.assert_array_equal(obs[0], env.reset(seed=seed)[0])
        for action in np.random.default_rng(seed).integers(4, size=60):
            np.testing.assert_array_equal(pool.step(np.array([action]))[0][0], env.step(action)[0])
    env.close()


@pytest.mark.parametrize("seed", [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**64 - 1])
def test_random_streams_equal_those_of_numpy(seed: int) -> None:
    sequence = np.random.SeedSequence(seed)
    assert _atari.seed_sequence(seed, 6) == sequence.generate_state(6).tolist()
    for low, high in ((1, 31), (0, 2), (-5, 1000), (3, 4), (0, 3 * 2**30)):
        theirs = np.random.default_rng(seed).integers(low, high, 50)
        one_by_one = np.random.default_rng(seed)
        assert _atari.numpy_integers(seed, low, high, 50) == [int(one_by_one.integers(low, high)) for _ in theirs]


def frames() -> Iterator[np.ndarray]:
    """Screens: noise, few colours (many ties), stripes, and a real one."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        yield rng.integers(0, 256, (210, 160), np.uint8)
        yield (rng.integers(0, 4, (210, 160)) * rng.integers(1, 80)).astype(np.uint8)
        yield np.repeat(rng.integers(0, 256, (210, 20), np.uint8), 8, axis=1)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.loadROM(ale_py.roms.get_rom_path("seaquest"))
    for _ in range(100):
        emulator.act(ale_py.Action.RIGHT)
    yield emulator.getScreenGrayscale()


@pytest.mark.parametrize("level", ["plain", "avx2", "avx512"])
def test_area_resize_equals_opencv_to_the_bit(level: str) -> None:
    for frame in frames():
        for height, width in ((84, 84), (105, 80), (70, 80), (42, 40), (96, 64), (210, 160), (1, 1)):
            ours = _atari.resized(frame, height, width, True, level)
            np.testing.assert_array_equal(ours, cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA))


@pytest.mark.parametrize("area", [True, False])
def test_other_resizes_equal_opencv_within_one_level(area: bool) -> None:
    how = cv2.INTER_AREA if area else cv2.INTER_LINEAR
    for frame in frames():
        for height, width in ((84, 84), (250, 84), (84, 200), (420, 320), (300, 300)):
            ours = _atari.resized(frame, height, width, area).astype(int)
            assert np.abs(ours - cv2.resize(frame, (width, height), interpolation=how)).max() <= 1


@pytest.mark.parametrize("level", ["plain", "avx2", "avx512"])
@pytest.mark.parametrize("mask", [0xFE, 0xFF])
def test_pooled_pixels_are_the_maximum_of_two_frames(level: str, mask: int) -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(0, 256, 256, np.uint8)
    for shape in ((210, 160), (250, 160), (1, 31), (1, 100)):
        a, b = (rng.integers(0, 256, shape, np.uint8) & np.uint8(mask) for _ in range(2))
        b[: shape[0] // 2] = a[: shape[0] // 2]
        expected = np.maximum(table[a], table[b])
        np.testing.assert_array_equal(_atari.pooled(a, b, table.tolist(), level), expected)

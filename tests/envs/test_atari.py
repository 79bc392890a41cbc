"""Atari: spaces and options as EnvPool has them, lives, saved states, resets without booting, errors."""

from __future__ import annotations

import importlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.envs import atari
from headrace.envs.atari.games import GAME_OF, rom_path, task_name
from headrace.errors import OptionError, StateError
from headrace.pool.executors.threads import ThreadsExecutor
from nightly import rest_nightly

pytest.importorskip("ale_py")
_atari = pytest.importorskip("headrace_atari._atari")

INFO = ("lives", "reward", "terminated", "ram")


def play(pool: Any, steps: int, seed: int = 0) -> list[tuple]:
    """Results of random actions, copied."""
    rng = np.random.default_rng(seed)
    results = []
    for _ in range(steps):
        obs, reward, terminated, truncated, info = pool.step(rng.integers(pool.action_space.n, size=pool.num_envs))
        results.append((obs, reward, terminated, truncated, *(info[name] for name in INFO)))
    return results


def assert_equal(ours: list[tuple], theirs: list[tuple]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


# ---- EnvPool's surface


def test_every_game_of_envpool_exists_with_the_same_spaces() -> None:
    envpool = pytest.importorskip("envpool")
    games = importlib.import_module("envpool.atari.registration").atari_game_list
    assert len(games) == 104
    assert {task_name(game) for game in games} <= set(envpool.list_all_envs()) & set(atari.TASKS)
    for task in ("Pong-v5", "Breakout-v5", "MsPacman-v5", "TicTacToe3d-v5", "Freeway-v5"):
        for options in ({}, {"gray_scale": False, "stack_num": 2, "img_height": 100}, {"full_action_space": True}):
            spec, its = headrace.make_spec(task, **options), envpool.make_spec(task, **options)
            assert spec.observation == its.observation_space
            assert spec.action == its.action_space


def test_results_have_the_dtypes_and_shapes_of_envpool(make: Any) -> None:
    envpool = pytest.importorskip("envpool")
    ours, theirs = make("Breakout-v5", num_envs=3), envpool.make_gymnasium("Breakout-v5", num_envs=3)
    (obs, info), (its_obs, its_info) = ours.reset(), theirs.reset()
    assert (obs.dtype, obs.shape) == (its_obs.dtype, its_obs.shape)
    for name in INFO:
        assert (info[name].dtype, info[name].shape) == (its_info[name].dtype, its_info[name].shape), name
    action = np.zeros(3, np.int64)
    for a, b in zip(ours.step(action)[:4], theirs.step(action.astype(np.int32))[:4], strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)


def test_the_rom_of_every_game_loads() -> None:
    for task, game in GAME_OF.items():
        info = _atari.game_info(str(rom_path(game)))
        assert info.width == 160, task
        assert len(info.actions) >= 2, task


# ---- options


def test_reward_clip_gives_signs_and_info_keeps_the_raw_reward(make: Any) -> None:
    raw, clipped = (make("SpaceInvaders-v5", seed=1, reward_clip=clip) for clip in (False, True))
    raw.reset()
    clipped.reset()
    pairs = list(zip(play(raw, 300), play(clipped, 300), strict=True))
    assert any(a[1][0] > 1 for a, _ in pairs)
    for a, b in pairs:
        assert b[1] == np.sign(a[1])
        assert a[1] == a[5] == b[5]


def test_fire_reset_starts_the_game(make: Any) -> None:
    noop = np.zeros(1, np.int64)
    for fire, moves in ((True, True), (False, False)):
        pool = make("Breakout-v5", seed=0, use_fire_reset=fire)
        first = pool.reset()[0][0, -1]
        seen = [pool.step(noop)[0][0, -1] for _ in range(20)]
        assert any((frame != first).sum() > 0 for frame in seen) == moves


def test_zero_discount_on_life_loss_sets_the_discount_when_a_life_is_lost(make: Any) -> None:
    pool = make("Breakout-v5", seed=0, zero_discount_on_life_loss=True)
    _, info = pool.reset()
    lives, zeros = int(info["lives"][0]), 0
    rng = np.random.default_rng(0)
    for _ in range(200):
        _, _, _, _, info = pool.step(rng.integers(4, size=1))
        assert (info["discount"][0] == 0) == (info["lives"][0] < lives)
        zeros += int(info["discount"][0] == 0)
        lives = int(info["lives"][0])
    assert zeros >= 2


def test_mode_and_difficulty_change_the_game(make: Any) -> None:
    frames = {}
    for mode, difficulty in ((-1, -1), (0, 0), (1, 0), (0, 1)):
        pool = make("Pong-v5", seed=0, mode=mode, difficulty=difficulty)
        pool.reset()
        frames[mode, difficulty] = np.stack([r[0] for r in play(pool, 60)])
    np.testing.assert_array_equal(frames[-1, -1], frames[0, 0])
    assert (frames[0, 0] != frames[1, 0]).any()
    assert (frames[0, 0] != frames[0, 1]).any()


def test_max_episode_steps_truncates_an_episode(make: Any) -> None:
    pool = make("Pong-v5", seed=0, max_episode_steps=5)
    pool.reset()
    assert [bool(r[3][0]) for r in play(pool, 6)] == [False] * 4 + [True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stack": 4}, "no option 'stack'.*stack_num"),
        ({"stack_num": 0}, "stack_num .* integer in .1, 64., not 0"),
        ({"frame_skip": 2.5}, "frame_skip .* not 2.5"),
        ({"frame_skip": True}, "frame_skip"),
        ({"gray_scale": 1}, "gray_scale .* True or False, not 1"),
        ({"repeat_action_probability": 1.5}, "repeat_action_probability .* not 1.5"),
        ({"repeat_action_probability": float("nan")}, "not nan"),
        ({"img_height": "84"}, "img_height .* not '84'"),
        ({"mode": 77}, "mode of Pong-v5 must be one of 0, 1, or -1, not 77"),
        ({"difficulty": 9}, "difficulty of Pong-v5 must be one of 0, 1, 2, 3, or -1, not 9"),
        ({"max_episode_steps": -1}, "max_episode_steps"),
    ],
)
def test_invalid_options_are_refused_with_a_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        headrace.make_spec("Pong-v5", **options)


def test_the_error_of_a_missing_or_invalid_rom_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(OptionError, match=re.escape(f"Pong-v5: there is no ROM at {tmp_path}")):
        headrace.make("Pong-v5")
    for content, message in ((None, "no ROM at"), (b"not a game", "not a ROM")):
        rom = tmp_path / "nothing.bin"
        if content:
            rom.write_bytes(content)
        with pytest.raises(RuntimeError, match=message):
            _atari.game_info(str(rom))


# ---- saved states

LOADED = ["Pong-v5", "Breakout-v5", "MontezumaRevenge-v5", "Pitfall2-v5"]


@pytest.mark.parametrize("task", rest_nightly(LOADED, *LOADED[:3]))
def test_a_loaded_state_continues_bit_by_bit(make: Any, task: str) -> None:
    options = {"repeat_action_probability": 0.25, "num_envs": 2, "episodic_life": True}
    first, second = make(task, seed=1, **options), make(task, seed=77, **options)
    first.reset()
    second.reset()
    play(first, 70)
    second.load_state([0, 1], first.save_state())
    np.testing.assert_array_equal(first.render(), second.render())
    assert_equal(play(first, 250, 1), play(second, 250, 1))


def test_states_of_other_tasks_and_damaged_states_are_refused(make: Any) -> None:
    pong, breakout, small = make("Pong-v5"), make("Breakout-v5"), make("Pong-v5", stack_num=2)
    for pool in (pong, breakout, small):
        pool.reset()
    (blob,) = pong.save_state()
    corrupt = bytearray(blob)
    corrupt[2000] ^= 1
    for pool, state in (
        (breakout, blob),
        (small, blob),
        (pong, blob[:-1]),
        (pong, blob[:3000]),
        (pong, bytes(corrupt)),
    ):
        with pytest.raises(StateError):
            pool.load_state([0], [state])
    pong.load_state([0], [blob])
    play(pong, 1)


# ---- resets


def booting(task: str, **options: Any) -> headrace.Task:
    """The same task, but every reset boots the console."""
    plain = task.removeprefix("Booting/")
    built = atari.build(plain, **options)
    simulator = _atari.simulator(rom=str(rom_path(GAME_OF[plain])), **built.spec.options, reuse_boots=False)
    return headrace.Task(built.spec, partial(ThreadsExecutor, _atari, simulator))


@pytest.mark.parametrize(
    "task", ["Pong-v5", "Breakout-v5", "SpaceInvaders-v5", "AirRaid-v5", "Berzerk-v5", "DoubleDunk-v5"]
)
def test_resets_that_reuse_a_boot_equal_resets_that_boot_the_console(make: Any, task: str) -> None:
    headrace.register(f"Booting/{task}", booting, replace=True)
    options = {"num_envs": 2, "seed": 4, "repeat_action_probability": 0.25, "autoreset": "disabled"}
    reusing, honest = make(task, **options), make(f"Booting/{task}", **options)
    rng = np.random.default_rng(0)
    for _ in range(8):
        np.testing.assert_array_equal(reusing.reset()[0], honest.reset()[0])
        np.testing.assert_array_equal(reusing.render(), honest.render())
        steps, seed = (int(x) for x in rng.integers(1, 25, 2))
        assert_equal(play(reusing, steps, seed), play(honest, steps, seed))


# ---- the module


def test_the_stub_declares_every_name_of_the_module() -> None:
    stub = (Path(_atari.__file__).parent / "_atari.pyi").read_text()
    for name in (n for n in dir(_atari) if not n.startswith("_")):
        assert re.search(rf"^(def|class) {name}\b", stub, re.MULTILINE), name


def test_the_bare_emulator_runs_and_refuses_a_missing_rom() -> None:
    steps, seconds = _atari.bare_emulator(str(rom_path("pong")), num_threads=2, seconds=0.05)
    assert steps >= 2
    assert seconds > 0
    with pytest.raises(RuntimeError, match="no ROM"):
        _atari.bare_emulator("/nowhere.bin")


@pytest.mark.parametrize("num_threads", [-1, 0, 1025, 10**6])
def test_the_bare_emulator_refuses_invalid_numbers_of_threads(num_threads: int) -> None:
    with pytest.raises(OptionError, match=rf"num_threads must be an integer in \[1, 1024\], not {num_threads}"):
        _atari.bare_emulator(str(rom_path("pong")), num_threads=num_threads, seconds=0.05)


def test_rendered_frames_show_the_whole_screen_in_colour(make: Any) -> None:
    pool = make("Pong-v5", num_envs=2)
    pool.reset()
    frames = pool.render([0, 1])
    assert frames.shape == (2, 210, 160, 3)
    assert len(np.unique(frames[0].reshape(-1, 3), axis=0)) >= 4

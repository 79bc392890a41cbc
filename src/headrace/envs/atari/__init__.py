"""Atari games on the Arcade Learning Environment's emulator, in C++.

Names, options, spaces and info fields are those of EnvPool. Games are bit for bit identical to Gymnasium's
(`AtariPreprocessing` over ale-py); see ``native/atari``. The compiled module is imported when a task is first built.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.envs.atari.games import GAME_OF, rom_path
from headrace.envs.atari.options import AtariOptions, checked
from headrace.errors import OptionError
from headrace.native_modules import ATARI
from headrace.pool.family import Family
from headrace.pool.signals import Signals
from headrace.pool.spec import Field, TaskSpec
from headrace.pool.task import Task

TASKS: tuple[str, ...] = tuple(GAME_OF)
FRAMES_PER_SECOND = 60  # frame rate of the console
JOYSTICK = (
    *("noop", "fire", "↑", "→", "←", "↓", "↗", "↖", "↘", "↙", "↑ fire", "→ fire", "← fire", "↓ fire"),
    *("↗ fire", "↖ fire", "↘ fire", "↙ fire"),
)
"""names of the console's joystick actions, indexed by the emulator's action numbers"""


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Observations are uint8[stack_num, img_height, img_width], or uint8[3 * stack_num, …] in color, oldest frame first.
    Info fields are ``lives`` int32, ``reward`` float32 (never clipped), ``terminated`` int32 (whether the game is
    over), ``ram`` uint8[128] and, with ``zero_discount_on_life_loss``, ``discount`` float32.

    Args:
        task: one of `TASKS`.
        options: any of `AtariOptions`.

    Raises:
        OptionError: an option is unknown or invalid, the game does not have this mode or difficulty, or its ROM or
            the compiled module is not installed.
    """
    given = checked(task, options)
    rom = str(rom_path(GAME_OF[task]))
    atari = ATARI.load()
    game = atari.game_info(rom)
    _check_choice(task, "mode", given.mode, game.modes)
    _check_choice(task, "difficulty", given.difficulty, game.difficulties)
    settings = asdict(given)
    max_episode_steps = settings.pop("max_episode_steps")
    actions = game.full_actions if given.full_action_space else game.actions
    spec = TaskSpec(
        task=task,
        observation=_observation(given),
        action=gym.spaces.Discrete(len(actions)),
        info=_info(given),
        max_episode_steps=max_episode_steps,
        frame_skip=given.frame_skip,
        options=settings,
        render_fps=FRAMES_PER_SECOND / given.frame_skip,
        signals=Signals(rate_hz=FRAMES_PER_SECOND / given.frame_skip),
    )
    from headrace.pool.executors.threads import ThreadsExecutor

    return Task(spec, partial(ThreadsExecutor, atari, atari.simulator(rom=rom, **settings)), stack="stack_num")


def joystick_actions(task: str, full: bool) -> list[int]:
    """Returns the emulator's numbers of a game's actions, in the task's order.

    With ``full`` these are all 18 actions, otherwise those that the game uses.
    """
    game = ATARI.load().game_info(str(rom_path(GAME_OF[task])))
    return game.full_actions if full else game.actions


def _check_choice(task: str, name: str, value: int, known: list[int]) -> None:
    if value != -1 and value not in known:
        raise OptionError(f"{name} of {task} must be one of {', '.join(map(str, known))}, or -1, not {value}")


def _observation(options: AtariOptions) -> gym.Space:
    channels = options.stack_num * (1 if options.gray_scale else 3)
    return gym.spaces.Box(0, 255, (channels, options.img_height, options.img_width), np.uint8)


def _info(options: AtariOptions) -> tuple[Field, ...]:
    fields = (
        Field("lives", np.dtype(np.int32)),
        Field("reward", np.dtype(np.float32)),
        Field("terminated", np.dtype(np.int32)),
        Field("ram", np.dtype(np.uint8), (128,)),
    )
    discount = (Field("discount", np.dtype(np.float32)),)
    return fields + (discount if options.zero_discount_on_life_loss else ())


FAMILY = Family(
    "atari",
    TASKS,
    build,
    runs_on="C++ on threads",
    extra="headrace[atari]",
    presets="headrace.envs.atari.presets:PRESETS",
    recipe=("ppo", "fast"),
    meanings=lambda task, options: [
        JOYSTICK[number] for number in joystick_actions(task, bool(options.get("full_action_space")))
    ],
    evaluation=lambda lives: {"reward_clip": False} | ({} if lives else {"episodic_life": False}),
)

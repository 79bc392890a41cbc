"""A game of Doom as a `gymnasium.Env`, with EnvPool's observations, actions, rewards and info fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.envs.vizdoom.actions import action_table
from headrace.envs.vizdoom.game import configured, start
from headrace.envs.vizdoom.options import DEFAULTS
from headrace.envs.vizdoom.resize import Resizer
from headrace.envs.vizdoom.rewards import REWARDS, Rewards
from headrace.errors import EngineLostError, OptionError

INFO = tuple(
    """
    AMMO2 AMMO3 AMMO4 AMMO5 AMMO6 AMMO7 ARMOR DAMAGECOUNT DEATHCOUNT FRAGCOUNT HEALTH HITCOUNT KILLCOUNT SELECTED_WEAPON
    SELECTED_WEAPON_AMMO USER2
    """.split()
)
"""game variables that are info fields, whether or not the scenario's settings include them"""
PLANAR = ("CRCGCB", "CBCGCR")  # formats of shape [channels, height, width]; others are [height, width, channels]
RGB = {
    "CRCGCB": (0, 1, 2),
    "RGB24": (0, 1, 2),
    "RGBA32": (0, 1, 2),
    "ARGB32": (1, 2, 3),
    "CBCGCR": (2, 1, 0),
    "BGR24": (2, 1, 0),
    "BGRA32": (2, 1, 0),
    "ABGR32": (3, 2, 1),
}
"""format → channels of red, green and blue; other formats are grayscale"""
TICS_PER_SECOND = 35  # the game's frame rate


class VizdoomEnv(gym.Env):
    """A game of Doom, whose engine process is started by the first `reset`.

    Each episode has its own seed, determined by the seed of `reset` and the episode's number, so that an episode does
    not depend on the actions in earlier ones.

    Args:
        task: the task's name.
        options: all of `headrace.envs.vizdoom.options.OPTIONS`, completed with their defaults.
        max_episode_steps: number of steps after which an episode is truncated; 0 for no limit.
        env_id: the environment's number, for the names of recordings.

    Raises:
        OptionError: a file is missing, or the options are unsuitable for the scenario.
    """

    def __init__(self, task: str, options: Mapping[str, Any], max_episode_steps: int = 0, env_id: int = 0):
        self._task, self._options, self._limit, self._env_id = task, options, max_episode_steps, env_id
        self._game = game = configured(task, options)
        for name in INFO:
            game.add_available_game_variable(_variables()[name])
        observed = [variable.name for variable in game.get_available_game_variables()]
        _check_rewards(task, options["reward_config"], observed)
        self._rewards = Rewards(
            observed, options["reward_config"], options["selected_weapon_reward_config"], options["weapon_duration"]
        )
        self._shown = [(name, observed.index(name)) for name in INFO]
        buttons = [button.name for button in game.get_available_buttons()]
        if not buttons:
            raise OptionError(f"{task} has no buttons: name some as available_buttons in {options['cfg_path']}")
        self._table = _table(task, options, buttons) if options["use_combined_action"] else None
        _check_used(task, options, buttons)
        self._format = game.get_screen_format().name
        height, width = options["img_height"], options["img_width"]
        self._resize = Resizer(
            (game.get_screen_height(), game.get_screen_width()), (height, width), options["use_inter_area_resize"]
        )
        self._planes = game.get_screen_channels()
        self._frames = np.zeros((options["stack_num"] * self._planes, height, width), np.uint8)
        self._screen = np.zeros((game.get_screen_height(), game.get_screen_width(), 3), np.uint8)
        self._started, self._dead, self._steps, self._episode = False, False, 0, 0
        self.observation_space = gym.spaces.Box(0, 255, self._frames.shape, np.uint8)
        self.action_space = gym.spaces.Discrete(len(self._table)) if self._table else _values(buttons)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": TICS_PER_SECOND / options["frame_skip"]}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, float]]:
        """Begins an episode, in the same game after a death with ``episodic_life``; returns observation and info."""
        super().reset(seed=seed)
        if self._dead and seed is None:
            self._live_on()
        else:
            self._begin()
        self._dead = False
        state = self._game.get_state()
        self._rewards.begin(np.asarray(state.game_variables, np.float64))
        self._frames = np.concatenate([self._seen(state)] * self._options["stack_num"])
        return self._frames, self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, float]]:
        """Advances the game by ``frame_skip`` tics; returns observation, reward, terminated, truncated and info.

        Raises:
            EngineLostError: the engine's process has ended.
        """
        game = self._game
        game.set_action(action.tolist() if self._table is None else self._table[action])
        try:
            game.advance_action(self._options["frame_skip"], True)
        except Exception as error:
            if game.is_running():
                raise
            raise EngineLostError(f"the engine of {self._task} has ended: {error}") from error
        self._steps += 1
        over = game.is_episode_finished()
        self._dead = not over and self._options["episodic_life"] and game.is_player_dead()
        state, reward = game.get_state(), 0.0
        if state is not None:  # the engine has no state after the end of a game
            reward = self._rewards.step(np.asarray(state.game_variables, np.float64))
            self._frames = np.concatenate([self._frames[self._planes :], self._seen(state)])
        if self._options["scenario_reward"]:
            reward = game.get_last_reward()
        return self._frames, reward, over or self._dead, 0 < self._limit <= self._steps, self._info()

    def render(self) -> np.ndarray:
        """Returns the latest screen at the engine's resolution, uint8[height, width, 3]."""
        screen = self._screen
        if screen.ndim == 2:
            return np.repeat(screen[..., None], 3, 2)
        if self._format not in RGB:
            return screen
        red, green, blue = RGB[self._format]
        planes = screen if self._format in PLANAR else np.moveaxis(screen, -1, 0)
        return np.stack([planes[red], planes[green], planes[blue]], -1)

    def close(self) -> None:
        """Ends the engine's process."""
        self._game.close()

    def __reduce__(self) -> Any:
        raise TypeError("ViZDoom cannot save a game in the middle")

    def _begin(self) -> None:
        """Starts a new game with the next seed."""
        game, record = self._game, self._options["lmp_save_dir"]
        game.set_seed(int(self.np_random.integers(2**31)))
        if not self._started:
            start(game)
            self._started = True
            if record:
                game.new_episode(self._recording(record))
        else:
            game.new_episode(*([self._recording(record)] if record else []))
        self._steps = 0
        self._episode += 1

    def _recording(self, folder: str) -> str:
        return str(Path(folder).resolve() / f"env_{self._env_id}_{self._episode}.lmp")

    def _live_on(self) -> None:
        """Continues a game after a death that did not end it."""
        game = self._game
        game.respawn_player()
        game.make_action(self._table[0] if self._table else [0.0] * game.get_available_buttons_size())
        self._steps += 1

    def _seen(self, state: Any) -> np.ndarray:
        """Returns the screen as a frame, uint8[channels, img_height, img_width]."""
        self._screen = screen = state.screen_buffer
        if screen.ndim == 2:
            screen = screen[None]
        elif self._format not in PLANAR:
            screen = np.moveaxis(screen, -1, 0)
        return self._resize(screen)

    def _info(self) -> dict[str, float]:
        values = self._rewards.values.tolist()
        return {name: values[place] for name, place in self._shown}


def _variables() -> Mapping[str, Any]:
    import vizdoom

    return vizdoom.GameVariable.__members__


def _buttons() -> Mapping[str, Any]:
    import vizdoom

    return vizdoom.Button.__members__


def _check_rewards(task: str, prices: Mapping[str, Any], observed: list[str]) -> None:
    for name, price in prices.items():
        if name not in _variables():
            raise OptionError(f"reward_config of {task} names {name!r}, which is not a game variable of ViZDoom's")
        if name not in observed and price != REWARDS.get(name):
            raise OptionError(
                f"reward_config of {task} names {name}, which is not observed: name it among the "
                f"available_game_variables of a .cfg of yours (cfg_path); observed are {', '.join(observed)}"
            )


def _check_used(task: str, options: Mapping[str, Any], buttons: list[str]) -> None:
    priced = [
        name
        for name in ("reward_config", "selected_weapon_reward_config", "weapon_duration")
        if options[name] != DEFAULTS[name]
    ]
    if options["scenario_reward"] and priced:
        raise OptionError(f"{priced[0]} of {task} is for scenario_reward=False: the scenario has rewards of its own")
    for name in ("force_speed", "delta_button_config"):
        if options[name] and not options["use_combined_action"]:
            raise OptionError(f"{name} of {task} is for use_combined_action=True, which is not set")
    if options["force_speed"] and "SPEED" not in buttons:
        raise OptionError(f"force_speed of {task} needs the button SPEED; there are {', '.join(buttons)}")


def _table(task: str, options: Mapping[str, Any], buttons: list[str]) -> list[list[float]]:
    deltas = options["delta_button_config"]
    there = [name for name in buttons if name.endswith("_DELTA")]
    for name in deltas:
        if name not in there:
            have = f"the scenario has {', '.join(there)}" if there else "the scenario has none"
            raise OptionError(f"delta_button_config of {task} names {name!r}, no delta button that is there: {have}")
    order = sorted(_buttons(), key=lambda name: int(_buttons()[name].value))
    return action_table(buttons, order, deltas, options["force_speed"])


def _values(buttons: list[str]) -> gym.spaces.Box:
    """Returns the space of actions: for a binary button [0, 1], pressed if above 0; for a delta button unbounded."""
    high = [np.inf if name.endswith("_DELTA") else 1.0 for name in buttons]
    low = [-np.inf if name.endswith("_DELTA") else 0.0 for name in buttons]
    return gym.spaces.Box(np.array(low), np.array(high), dtype=np.float64)

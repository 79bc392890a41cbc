"""Names of the Atari games, and the paths of their ROMs.

The ROM ``ms_pacman.bin`` belongs to the task ``MsPacman-v5``, as in EnvPool. ROMs are part of the ale-py package;
its four games for two players only (Combat, Joust, Maze Craze, Warlords) are omitted.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.errors import OptionError

GAMES: tuple[str, ...] = tuple(
    """
    adventure air_raid alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist basic_math
    battle_zone beam_rider berzerk blackjack bowling boxing breakout carnival casino centipede chopper_command
    crazy_climber crossbow darkchambers defender demon_attack donkey_kong double_dunk earthworld elevator_action enduro
    entombed et fishing_derby flag_capture freeway frogger frostbite galaxian gopher gravitar hangman haunted_house hero
    human_cannonball ice_hockey jamesbond journey_escape kaboom kangaroo keystone_kapers king_kong klax koolaid krull
    kung_fu_master laser_gates lost_luggage mario_bros miniature_golf montezuma_revenge mr_do ms_pacman name_this_game
    othello pacman phoenix pitfall pitfall2 pong pooyan private_eye qbert riverraid road_runner robotank seaquest
    sir_lancelot skiing solaris space_invaders space_war star_gunner superman surround tennis tetris tic_tac_toe_3d
    time_pilot trondead turmoil tutankham up_n_down venture video_checkers video_chess video_cube video_pinball
    wizard_of_wor word_zapper yars_revenge zaxxon
    """.split()
)


def task_name(game: str) -> str:
    """Returns the task's name of a game, such as ``MsPacman-v5`` for ``ms_pacman``."""
    return "".join(word.capitalize() for word in game.split("_")) + "-v5"


GAME_OF: dict[str, str] = {task_name(game): game for game in GAMES}


def rom_path(game: str) -> Path:
    """Returns the path of a game's ROM, in the folder ``ALE_ROMS_DIR`` if that is set, or else in ale-py's package.

    Raises:
        OptionError: ale-py is not installed, or the ROM does not exist.
    """
    folder = os.environ.get("ALE_ROMS_DIR")
    if folder is None:
        try:
            from ale_py import roms
        except ImportError:
            raise OptionError(
                f"{task_name(game)} needs the game's ROM, which comes with ale-py: pip install 'headrace[atari]'"
            ) from None
        folder = str(Path(roms.__file__).parent)
    path = Path(folder) / f"{game}.bin"
    if not path.is_file():
        raise OptionError(f"{task_name(game)}: there is no ROM at {path}")
    return path

"""Configuration and start of a game of Doom, so that no resource of its engine outlives the process that plays it.

The engine is a process of ViZDoom. Without these measures, it would wait forever if the playing process is killed,
would not release its shared memory, and would leave folders and settings in the working directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.envs.vizdoom.scenarios import FOR_SEVERAL, SCENARIO_OF, game_file, map_file, settings_file
from headrace.errors import OptionError
from headrace.pool.cache import cache_folder

LAUNCHER = Path(__file__).parent / "launch.sh"
SHARED_MEMORY = "/dev/shm/ViZDoom"


def configured(task: str, given: Mapping[str, Any]) -> Any:
    """Returns a `vizdoom.DoomGame` with a task's settings, without starting its engine.

    Raises:
        OptionError: ViZDoom is not installed, or a file is missing or has settings unknown to ViZDoom.
    """
    settings = settings_file(task, given["cfg_path"])
    iwad = game_file(task, given["iwad_path"])
    try:
        import vizdoom
    except ImportError as error:
        raise OptionError(f"{task} needs ViZDoom: pip install 'headrace[vizdoom]': {error}") from error
    game = vizdoom.DoomGame()
    if not game.load_config(str(settings)):
        raise OptionError(f"{task}: ViZDoom does not know all settings in {settings}; the lines are named above")
    named = game.get_doom_scenario_path()
    game.set_doom_scenario_path(str(map_file(task, given["wad_path"], named, settings)))
    game.set_doom_game_path(str(iwad))
    game.set_doom_map(given["map_id"])
    game.set_mode(vizdoom.Mode.PLAYER)
    game.set_episode_timeout(0)  # the pool truncates episodes
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_doom_config_path(os.devnull)  # or a game would write its settings at its end, and the next would read them
    if SCENARIO_OF.get(task) in FOR_SEVERAL and "-deathmatch" not in given["game_args"]:
        game.add_game_args("-deathmatch")  # without it, the engine finds no player start and crashes
    if given["game_args"]:
        game.add_game_args(given["game_args"])
    return game


def start(game: Any) -> None:
    """Starts the engine's process and its first episode.

    Raises:
        vizdoom.ViZDoomErrorException: the engine does not start.
    """
    import vizdoom

    folder = cache_folder() / "vizdoom"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["HEADRACE_DOOM_ENGINE"] = vizdoom.exe_path
    os.environ["HEADRACE_DOOM_FOLDER"] = str(folder)
    os.environ["HEADRACE_DOOM_PLAYER"] = str(os.getpid())
    game.set_vizdoom_path(str(LAUNCHER))
    game.init()
    _unlink_shared_memory()


def _unlink_shared_memory() -> None:
    """Unlinks the shared memory of this process and its engines, which both have mapped, so that it cannot leak."""
    with Path("/proc/self/maps").open() as maps:
        names = {line.split(None, 5)[5].rstrip("\n") for line in maps if SHARED_MEMORY in line}
    for name in names:
        with suppress(FileNotFoundError):
            Path(name).unlink()

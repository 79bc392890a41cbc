"""Names of the ViZDoom tasks, and the paths of their settings (``.cfg``) and maps (``.wad``).

The scenario ``health_gathering`` is the task ``HealthGathering-v1``, as in EnvPool. Most scenarios are part of the
vizdoom package. The settings of D1 to D4 are part of Headrace; D1 and D2 use ViZDoom's maps, and the maps of D3 and D4
are part of the package envpool-assets.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from headrace.errors import OptionError

CUSTOM = "VizdoomCustom-v1"
SCENARIOS: tuple[str, ...] = tuple(
    """
    D1_basic D2_navigation D3_battle D4_battle2 basic basic_audio basic_notifications cig deadly_corridor deathmatch
    defend_the_center defend_the_line health_gathering health_gathering_supreme multi_duel my_way_home predict_position
    rocket_basic simpler_basic take_cover vizdoom_custom
    """.split()
)
OWN = Path(__file__).parent / "scenarios"
MAPS = {"D1_basic": "health_gathering", "D2_navigation": "health_gathering_supreme"}  # scenario → ViZDoom's map
FOR_SEVERAL = ("cig", "multi_duel")  # scenarios whose maps have player starts for deathmatches only
ASSETS = ("D3_battle", "D4_battle2")  # scenarios whose maps are not part of vizdoom


def task_name(scenario: str) -> str:
    """Returns the task's name of a scenario, such as ``HealthGathering-v1`` for ``health_gathering``."""
    return "".join(word.capitalize() for word in scenario.split("_")) + "-v1"


SCENARIO_OF: dict[str, str] = {task_name(scenario): scenario for scenario in SCENARIOS}


def settings_file(task: str, given: str) -> Path:
    """Returns the path of a task's ``.cfg``: the given one, or if that is empty the scenario's.

    Raises:
        OptionError: the file does not exist, or none is given for a custom scenario.
    """
    if given:
        return existing(task, "cfg_path", given)
    if task == CUSTOM:
        raise OptionError(f"{task} needs cfg_path, the path of a .cfg file of yours; wad_path where that names no map")
    scenario = SCENARIO_OF[task]
    own = OWN / f"{scenario}.cfg"
    return own if own.is_file() else _of_package(task, f"{scenario}.cfg")


def map_file(task: str, given: str, named: str, settings: Path) -> Path:
    """Returns the path of a task's ``.wad``: the given one, or else the scenario's.

    Args:
        task: the task's name.
        given: the option ``wad_path``; may be empty.
        named: the map that the settings of a custom scenario name, also searched in their folder; may be empty.
        settings: the path of the settings.

    Raises:
        OptionError: the file does not exist, or none is given or named for a custom scenario.
    """
    if given:
        return existing(task, "wad_path", given)
    scenario = SCENARIO_OF[task]
    if scenario in ASSETS:
        return _of_assets(task, f"{scenario}.wad")
    if scenario in MAPS:
        return _of_package(task, f"{MAPS[scenario]}.wad")
    if task != CUSTOM:
        return _of_package(task, f"{scenario}.wad")
    if not named:
        raise OptionError(f"{task} needs wad_path: {settings} names no doom_scenario_path")
    places = (Path(named), settings.parent / named)
    for place in places:
        if place.is_file():
            return place.resolve()
    raise OptionError(f"{task}: {settings} names the map {named}, and there is no such file: give wad_path")


def game_file(task: str, given: str) -> Path:
    """Returns the path of the game's data: the given ``.wad``, or if that is empty Freedoom's, of vizdoom's package."""
    if not given:
        return _of_package(task, "freedoom2.wad", "")
    path = Path(given)
    return existing(task, "iwad_path", given if path.is_file() else f"{given}.wad")


def existing(task: str, option: str, path: str) -> Path:
    """Returns the absolute path of a file that an option names.

    Raises:
        OptionError: the file does not exist.
    """
    if not Path(path).is_file():
        raise OptionError(f"{option} of {task}: there is no file {path}")
    return Path(path).resolve()


def _of_package(task: str, name: str, folder: str = "scenarios") -> Path:
    spec = find_spec("vizdoom")
    if spec is None or not spec.submodule_search_locations:
        raise OptionError(f"{task} needs ViZDoom: pip install 'headrace[vizdoom]'")
    path = Path(spec.submodule_search_locations[0]) / folder / name
    if not path.is_file():
        raise OptionError(f"{task}: the vizdoom package that is installed has no {name}: give the file's path yourself")
    return path


def _of_assets(task: str, name: str) -> Path:
    spec = find_spec("envpool_assets")
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / "vizdoom" / "maps" / name if folders else None
    if path is None or not path.is_file():
        raise OptionError(
            f"{task} needs the map {name}, which vizdoom has not: pip install envpool-assets, or give its wad_path"
        )
    return path

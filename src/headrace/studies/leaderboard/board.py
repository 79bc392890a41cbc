"""The rows of a leaderboard, read from a TOML file: a task, settings, and the returns to reach.

Headrace's own list is ``board.toml`` beside this module. Another may come from somebody else, and its rows may name
code; a `Row` is made only after its user has agreed to that, as it asks for the settings of a run.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints

from headrace.errors import OptionError
from headrace.pool.sources import split
from headrace.train.recipes.make import DECIDING, make_config
from headrace.train.recipes.recipes import preset_of
from headrace.train.runs import files
from headrace.train.runs.trust import admit
from headrace.train.settings.algorithm import DEFAULT_PRESET
from headrace.train.settings.command import train_command
from headrace.train.settings.values import check_storable, describe, matches

T = TypeVar("T")
R = TypeVar("R", "Row", "Row | Listed")
DEFAULT = Path(__file__).with_name("board.toml")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
GAMES = 20  # number of episodes that a trained agent plays, unless a row has another number
NEEDED = ("name", "task", "goals", "minutes")
# settings of a row that is judged by games: a checkpoint every ten seconds, all of them kept
CHECKPOINTS = {"checkpoint_seconds": 10.0, "keep_checkpoints": 1000}
OWN = ("task", "goals", "minutes", "algo", "judge")
ENDS = {"total_steps": "total_steps", "stop_at_return": "goals", "stop_episodes": "games"}
"""settings of a run that follow from a row → the key of the row"""
QUIET = {"video": False, "viewer": False}
NOT_SETTINGS = {
    "task": "is a key of the row itself",
    "algo": "is a key of the row itself",
    "seed": "is chosen by --seeds",
    **{name: f"follows from the row's {key}" for name, key in ENDS.items()},
    **dict.fromkeys(("run_dir", "resume", "quiet", "trust", "callback", "tuned"), "is set by the leaderboard"),
}
"""keywords of `headrace.train.train` that no row can set → the reason, for messages"""


@dataclass(frozen=True)
class Published:
    """A published result of another system.

    Attributes:
        who: the name of the system or paper.
        source: where the result was published.
        seconds, steps: seconds and agent steps until then; None if the source does not report them.
    """

    who: str
    goal: float
    source: str
    seconds: float | None = None
    steps: int | None = None
    hardware: str = ""


class Listed(NamedTuple):
    """What a file says of a row, for which nothing was made; where a recipe decides, ``algo`` is "" and
    ``total_steps`` 0."""

    name: str
    task: str
    goals: tuple[float, ...]
    minutes: float
    algo: str = ""
    total_steps: int = 0


@dataclass(frozen=True)
class Row:
    """One row of a leaderboard.

    Attributes:
        name: the name of the row and of its folder: lower-case letters, digits, dots and hyphens.
        goals: increasing mean returns, for each of which the time is measured; a run ends at the last.
        minutes: minutes of training after which a run ends.
        total_steps: agent steps after which a run ends; by default as many as the recipe of the task has.
        algo: the algorithm; by default that of the recipe.
        settings: further keyword arguments of `headrace.train.train`.
        games: episodes that the trained agent plays without exploration.
        judge: how a goal is reached: by the mean of the last ``games`` episodes of ``"training"``, or of ``"games"``
            that a checkpoint plays without exploration.
        margin: how far above the last goal the mean of training ends a run, so that its last checkpoints reach the goal
            in games, too.
    """

    name: str
    task: str
    goals: tuple[float, ...]
    minutes: float
    total_steps: int = 0
    algo: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    games: int = GAMES
    judge: Literal["training", "games"] = "training"
    margin: float = 0.0
    published: tuple[Published, ...] = ()

    def __post_init__(self) -> None:
        named: dict[str, Any] = {"algo": self.algo} if self.algo else {}
        named |= {name: self.settings[name] for name in (*DECIDING, "env_options") if name in self.settings}
        begins = make_config(self.task, **named)
        object.__setattr__(self, "algo", begins.algo)
        object.__setattr__(self, "total_steps", self.total_steps or begins.total_steps)

    def kept(self) -> dict[str, Any]:
        """Returns the values on which a seed's results depend, as JSON represents them."""
        judge = {"judge": self.judge} if self.judge != "training" else {}
        asked = self.requested_settings()
        config = make_config(self.task, **asked)
        begins = preset_of(config.algorithm.presets, self.task, config.network, config.preset, config.env_options)
        own = {"task": self.task, "goals": self.goals, "minutes": self.minutes, **judge}
        names = dict.fromkeys(("algo", "preset", *begins, *asked))
        return json.loads(json.dumps({**own, **config.pick(*names)}))

    @classmethod
    def from_kept(cls, name: str, values: Mapping[str, Any], file: Path, trust: bool = False) -> Row:
        """Returns the row whose `kept` values a file holds.

        Args:
            values: those of `kept`, and the published results under ``"published"``.

        Raises:
            TrustError: they ask for what the user has not agreed to, and ``trust`` is false.
        """
        admit(values, file, trust, training=True)
        values = {"preset": DEFAULT_PRESET, **values}  # of rows from before recipes
        rest = {key: value for key, value in values.items() if key not in (*OWN, *ENDS, *QUIET)}
        named = {key: values[key] for key in ("task", "total_steps", "minutes", "algo")}
        published = tuple(Published(**each) for each in rest.pop("published", ()))
        goals, games, judge = tuple(values["goals"]), values["stop_episodes"], values.get("judge", "training")
        if judge == "games":
            rest = {key: value for key, value in rest.items() if CHECKPOINTS.get(key) != value}
        margin = values["stop_at_return"] - max(goals)
        return cls(
            name, **named, goals=goals, games=games, judge=judge, margin=margin, settings=rest, published=published
        )

    def requested_settings(self) -> dict[str, Any]:
        end = max(self.goals) + self.margin
        ends = {"total_steps": self.total_steps, "stop_at_return": end, "stop_episodes": self.games}
        kept = CHECKPOINTS if self.judge == "games" else {}
        return {"algo": self.algo, **QUIET, **ends, **kept, **self.settings}

    def command(self, seed: int) -> str:
        """Returns the shell command that trains one seed without the leaderboard, without what it has by itself."""
        asked = {**self.requested_settings(), "seed": seed}
        config, plain = make_config(self.task, **asked), make_config(self.task)
        named: dict[str, Any] = {}
        for name in (*DECIDING, "env_options"):
            if (value := vars(config)[name]) != vars(plain)[name]:
                named[name] = value
                plain = make_config(self.task, **named)
        own = [name for name in asked if name == "seed" or vars(config)[name] != vars(plain)[name]]
        return train_command(self.task, named | config.pick(*own))


def read_board(file: str | Path = DEFAULT, trust: bool = False) -> list[Row]:
    """Returns the rows in a file.

    Raises:
        OptionError: the file cannot be read, or a row is invalid; the message names the row.
        TrustError: a row asks for what the user has not agreed to, such as running code, and ``trust`` is false.
    """
    rows = []
    for where, values in _checked_rows(file):
        asked = {**values.get("settings", {}), "task": values["task"], "algo": values.get("algo") or "ppo"}
        admit(asked, Path(file), trust, training=True)
        rows.append(_made(where, Row, values))
    return rows


def list_board(file: str | Path = DEFAULT) -> list[Row] | list[Listed]:
    """Returns the rows in a file, to be shown; those of a file from elsewhere as it says, so that it asks for nothing.

    Raises:
        OptionError: as `read_board`.
    """
    if Path(file) == DEFAULT:
        return read_board(file)
    found = [{name: each[name] for name in Listed._fields if name in each} for _, each in _checked_rows(file)]
    return [Listed(**values) for values in found]


def _checked_rows(file: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """Returns (words that say where it is, values by attribute) of each row in a file; raises as `list_board`."""
    try:
        values = tomllib.loads(Path(file).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{file} cannot be read as a board: {error}") from error
    _check_known(str(file), values, ("row",))
    rows = [_checked_row(file, number, each) for number, each in enumerate(_tables(file, values, "row"), 1)]
    if not rows:
        raise OptionError(f"{file} has no rows: each begins with [[row]]")
    names = [row["name"] for _, row in rows]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(f"{file} has two rows of the name {twice}")
    return rows


def chosen_rows(rows: list[R], names: tuple[str, ...]) -> list[R]:
    """Returns the rows of these names; all rows if no name is given.

    Raises:
        OptionError: no row has one of the names.
    """
    known = {row.name: row for row in rows}
    for name in names:
        if name not in known:
            raise OptionError(f"the board has no row {name!r}; it has {', '.join(known)}")
    return [known[name] for name in names] if names else rows


def _checked_row(file: str | Path, number: int, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    where = f"{file}, row {values.get('name', number)!r}"
    for name in NEEDED:
        if name not in values:
            raise OptionError(f"{where} has no {name}")
    if not (isinstance(values["name"], str) and _NAME.fullmatch(values["name"])):
        raise OptionError(f"{where}: a name has lower-case letters, digits, dots and hyphens")
    goals = values["goals"]
    if not (isinstance(goals, list) and goals and None not in map(files.number, goals) and sorted({*goals}) == goals):
        raise OptionError(f"{where}: goals={goals!r} must be a list of increasing returns, such as [6000, 9000]")
    for name in ("total_steps", "minutes", "games"):
        if name in values and not (files.number(values[name]) or 0) > 0:
            raise OptionError(f"{where}: {name}={values[name]!r} must be a number above 0")
    margin = files.number(values.get("margin", 0.0))
    if margin is None or margin < 0:
        raise OptionError(f"{where}: margin={values.get('margin')!r} must be a number of at least 0")
    for name in values.get("settings", {}) if isinstance(values.get("settings"), dict) else ():
        if name in NOT_SETTINGS:
            raise OptionError(f"{where}: settings.{name} {NOT_SETTINGS[name]}: leave it out of settings")
    published = tuple(_made(where, Published, each) for each in _tables(where, values, "published"))
    named = {"goals": tuple(map(float, goals)), "published": published}
    _check_types(where, Row, found := {**values, **named})
    split(found["task"])  # which is a name that can be shown
    return where, found


def _tables(where: str | Path, values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = values.get(name, [])
    if not (isinstance(found, list) and all(isinstance(each, dict) for each in found)):
        raise OptionError(f"{where}: {name} must be tables, [[{name}]]")
    return found


def _check_types(where: str, kind: type[Any], values: Mapping[str, Any]) -> None:
    hints = get_type_hints(kind)
    _check_known(where, values, tuple(hints))
    for name, value in values.items():
        if name != "published" and not matches(value, hints[name]):
            raise OptionError(f"{where}: {name}={value!r} must be {describe(hints[name])}")
    check_storable("settings", values.get("settings", {}))


def _made(where: str, kind: type[T], values: Mapping[str, Any]) -> T:
    _check_types(where, kind, values)
    try:
        return kind(**values)
    except TypeError as error:
        raise OptionError(f"{where}: {str(error).partition('__init__() ')[2] or error}") from error


def _check_known(where: str, values: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raises `OptionError` for keys of other names."""
    if unknown := [name for name in values if name not in names]:
        raise OptionError(f"{where}: there is no {' and no '.join(unknown)}; keys are {', '.join(names)}")

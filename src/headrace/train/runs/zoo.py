"""The zoo: trained agents of the package ``headrace-zoo``, named ``zoo:TASK`` wherever a run folder is named.

An agent is a run folder that holds what acting needs and no more: its settings, one checkpoint with the networks, some
lines of its metrics, and a `Card`. It is only read, as the package may belong to another user: it is never resumed,
and what is made of it, such as videos, is written elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headrace.errors import OptionError, StateError
from headrace.native_modules import checkout
from headrace.pool.cache import cache_folder
from headrace.pool.registry import is_registered
from headrace.pool.suggestions import nearest
from headrace.train.runs import files
from headrace.train.runs.words import return_text

PREFIX = "zoo:"
PACKAGE = "headrace_zoo"
CARD, PICTURE = "card.json", "agent.gif"
FORMAT = 1


@dataclass(frozen=True)
class Card:
    """What is known of an agent: how it was trained, and what it earns.

    Attributes:
        format: `FORMAT` of the version that wrote the card.
        task, algo: names of the task and of the algorithm.
        command: the command that trained it, with its seed.
        steps: agent steps of the training.
        processor_seconds: seconds of all cores that the training used, without the program's start.
        returns: the return of each game that it played, without exploration, in environments of seed ``games_seed``; of
            a game by turns, the points against a player that moves at random.
        bits: bits of a weight in the file.
        weights: SHA-256 of the file with the networks.
        versions: package → the version it was trained with.
        licence: the licence of the weights, an SPDX identifier.
        against_random: whether ``returns`` are points against a player that moves at random.
    """

    format: int
    task: str
    algo: str
    command: str
    seed: int
    steps: int
    processor_seconds: float | None
    processor: str
    games_seed: int
    returns: list[float]
    bits: int
    weights: str
    versions: dict[str, str]
    licence: str
    against_random: bool = False

    @property
    def mean(self) -> float:
        """Mean return of the games."""
        return statistics.fmean(self.returns)

    @property
    def deviation(self) -> float:
        """Standard deviation of the returns."""
        return statistics.pstdev(self.returns)

    @property
    def words(self) -> str:
        """How it was trained and what it earns, in words."""
        spent = "" if self.processor_seconds is None else f" in {self.processor_seconds:,.0f} s of a processor"
        earned = f"mean return {return_text(self.mean)} ± {return_text(self.deviation)} of {len(self.returns)} games"
        if self.against_random:
            earned = f"{sum(self.returns):g} points of {len(self.returns)} games against random moves"
        return f"{self.steps:,} steps{spent}; {earned}"


def home() -> Path | None:
    """Returns the folder of all agents: the checkout's, or that of the installed package; None if there is neither."""
    own = checkout() / "zoo" / PACKAGE
    if own.is_dir():
        return own
    spec = find_spec(PACKAGE)
    return None if spec is None else Path(next(iter(spec.submodule_search_locations or ())))


def agents() -> dict[str, Path]:
    """Returns the name of each agent → its folder, in the order of the names; empty where no zoo is installed."""
    folder = home()
    return {} if folder is None else {card.parent.name: card.parent for card in sorted(folder.glob(f"*/{CARD}"))}


def installed() -> dict[str, Path]:
    """Returns the same as `agents`; raises `OptionError` where no zoo is installed."""
    if known := agents():
        return known
    raise OptionError(
        "the zoo's agents are in the package headrace-zoo, which is not installed: pip install 'headrace[zoo]', or "
        "pip install ./zoo in a checkout"
    )


def agent_folder(name: str) -> Path:
    """Returns the folder of an agent; raises `OptionError` if there is none of this name, or no zoo."""
    known = installed()
    if name in known:
        return known[name]
    if not name:
        raise OptionError(f"which agent? {PREFIX}NAME, such as {PREFIX}{next(iter(known))}; headrace zoo lists them")
    close = [] if is_registered(name) else nearest(name, known, 3)
    hint = f" (did you mean {' or '.join(PREFIX + each for each in close)}?)" if close else ""
    made = f", and headrace train {name} makes one" if is_registered(name) else ""
    raise OptionError(f"the zoo has no agent {name!r}{hint}; headrace zoo lists them{made}")


def check_task(task: str) -> None:
    """Raises `OptionError` where an agent is named in place of a task to train in."""
    if task.startswith(PREFIX) and (name := task.removeprefix(PREFIX)) in agents():
        raise OptionError(
            f"{task} is an agent, and no task: headrace train {name} --load {task} begins with its networks"
        )


def is_agent(folder: Path) -> bool:
    """Returns whether a run folder is an agent of a zoo."""
    return (folder / CARD).is_file()


def written(folder: Path) -> Path:
    """Returns the folder in which what is made of a run is written: itself, or for an agent one in the user's cache."""
    return cache_folder() / "zoo" / folder.name if is_agent(folder) else folder


def read_card(folder: Path) -> Card:
    """Returns an agent's card; raises `StateError` if it cannot be read, or is of another version of the zoo."""
    file = folder / CARD
    try:
        values = json.loads(files.read(file))
        if (known := values.pop("format")) != FORMAT:
            raise StateError(
                f"{file} has format {known}; this version reads {FORMAT}: install the headrace-zoo that came with it"
            )
        card = Card(FORMAT, **values)
        if not card.returns or not all(files.number(each) is not None for each in card.returns):
            raise ValueError("it has no returns")
    except StateError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StateError(f"{file} cannot be read: {error}") from error
    return card


def checked(folder: Path) -> Card:
    """Returns an agent's card; raises `StateError` as `read_card`, and for other weights than those that it is of."""
    card = read_card(folder)
    sums = [hashlib.sha256(files.read(each)).hexdigest() for each in folder.glob("checkpoints/*/model.safetensors")]
    if sums != [card.weights]:
        raise StateError(f"the weights in {folder} are not those that its card is of: install headrace-zoo anew")
    return card

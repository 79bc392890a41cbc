"""The episodes of a run that are kept as videos in ``episodes/``, with a line each in ``episodes.jsonl``."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from headrace.train.runs import files
from headrace.train.runs.files import replace

MOST = 8  # maximum number of episodes that are kept
LIST = "episodes.jsonl"
Kind = Literal["progress", "newest", "best"]
RANKS = {"newest": 0, "progress": 1, "best": 2}


@dataclass(frozen=True)
class KeptEpisode:
    """An episode that is kept.

    Attributes:
        file: name of its video in the folder of episodes.
        step: agent steps of the run when the agent's weights were learnt.
        return_: its return; ``return`` in the file.
        time: time at which it was played, in seconds since 1970.
        kind: ``"best"`` or ``"newest"`` for the agent of that checkpoint, ``"progress"`` for one during training.
        complete: whether the video includes the end of the episode.
    """

    file: str
    step: int
    return_: float
    length: int
    time: float
    kind: str
    complete: bool = True


def file_name(step: int) -> str:
    """Returns the file name of a video of the agent with the weights of agent step ``step``."""
    return f"episode-{step:012d}.mp4"


def kept(folder: Path) -> list[KeptEpisode]:
    """Returns the episodes in a folder whose videos exist, sorted by steps, without damaged lines."""
    try:
        lines = files.read(folder / LIST).splitlines()
    except OSError:
        return []
    found = {one.file: one for line in lines if (one := _episode(line)) is not None and (folder / one.file).is_file()}
    return sorted(found.values(), key=lambda one: one.step)


def keep(folder: Path, episode: KeptEpisode) -> None:
    """Adds an episode, whose video has been written, to the list; removes others if there are more than `MOST`.

    Removed are first episodes of kind ``"newest"``, then ``"progress"``, then ``"best"``; the oldest first.

    Raises:
        StorageError: the list cannot be written.
    """
    episodes = [one for one in kept(folder) if one.file != episode.file] + [episode]
    while len(episodes) > MOST:
        others = [one for one in episodes if one is not episode]
        least = min(others, key=lambda one: (RANKS.get(one.kind, -1), one.time))
        episodes.remove(least)
        (folder / least.file).unlink(missing_ok=True)
    lines = ({name.rstrip("_"): value for name, value in asdict(one).items()} for one in episodes)
    replace(folder / LIST, "".join(json.dumps(line) + "\n" for line in lines))


def _episode(line: bytes) -> KeptEpisode | None:
    try:
        values = json.loads(line)
        numbers = float(values["return"]), int(values["length"]), float(values["time"])
        file, step, kind = values["file"], int(values["step"]), values["kind"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not (isinstance(file, str) and isinstance(kind, str) and file == Path(file).name and math.isfinite(numbers[2])):
        return None
    return KeptEpisode(file, step, *numbers, kind, bool(values.get("complete", True)))

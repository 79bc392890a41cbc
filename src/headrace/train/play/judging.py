"""How a run's best checkpoint was judged, and the evaluation of the last weights at a run's end, however it ends.

The counters of a checkpoint that was judged hold ``judged``: ``by`` (``"evaluation"`` or ``"training"``), the mean
``return`` and the number of ``episodes``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal

from headrace.errors import StateError
from headrace.train.config.settings import Config
from headrace.train.play.agent import Agent, checkpoint_path
from headrace.train.play.evaluate import Evaluation, play_episodes, playing_pool
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder

JUDGED = "judged"
SEED = 2000  # of the environments in which the last weights, and the best ones until then, are compared
HOW = {"evaluation": "episodes without exploration", "training": "episodes of training"}

Judged = dict[str, Any]


def judged(by: Literal["evaluation", "training"], mean_return: float, episodes: int) -> Judged:
    return {"by": by, "return": mean_return, "episodes": episodes}


def compare(config: Config, agent: Agent, best: Checkpoint | None, seconds: float) -> tuple[Judged | None, ...]:
    """Evaluates an agent, and the best checkpoint so far unless evaluations have judged it already.

    Args:
        agent: the agent, whose weights are replaced.
        best: the best checkpoint so far, if any.
        seconds: maximum time. Ctrl-C ends it earlier.

    Returns:
        How both are judged now; None for an agent whose episodes took too long.
    """
    until, known = time.monotonic() + seconds, None if best is None else best.counters.get(JUDGED)
    own = None
    try:
        with playing_pool(config, lives=True, num_envs=config.evaluate_episodes, seed=SEED) as pool:

            def played() -> Judged | None:
                found = play_episodes(agent, pool, 1, until=until)
                return None if found is None else _by_evaluation(found)

            own = played()
            if own is not None and best is not None and (known is None or known["by"] == "training"):
                agent.load(best.model)
                known = played() or known
    except KeyboardInterrupt:
        pass
    return own, known


def _by_evaluation(played: Evaluation) -> Judged:
    return judged("evaluation", played.mean_return, len(played.returns))


def describe_checkpoint(run: RunFolder, which: str = checkpoints.BEST) -> str:
    """Returns in words which checkpoint ``which`` is: its agent steps, and how it was judged.

    Raises:
        OptionError: as `checkpoint_path`.
        StateError: the checkpoint is damaged.
    """
    path = checkpoint_path(run, which)
    counters = _counters(path)
    name = path.name if path.name == checkpoints.BEST else "newest" if which == checkpoints.BEST else which
    words = f"{name} checkpoint, of step {counters['step']:,}"
    known = counters.get(JUDGED)
    if known is None:
        return words
    return f"{words}: mean return {known['return']:.1f} of {known['episodes']} {HOW[known['by']]}"


def best_evaluation(run: RunFolder) -> float | None:
    """Returns the mean return with which evaluations judged a run's best checkpoint; None if they did not."""
    path = run.checkpoints / checkpoints.BEST
    known = _counters(path).get(JUDGED) if path.is_dir() else None
    return known["return"] if known is not None and known["by"] == "evaluation" else None


def _counters(path: Path) -> dict[str, Any]:
    try:
        return json.loads((path / checkpoints.COUNTERS).read_text())
    except (OSError, ValueError) as error:
        raise StateError(f"checkpoint {path} cannot be read: {error}") from error

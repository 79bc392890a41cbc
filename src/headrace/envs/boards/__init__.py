"""Games on boards and with cards: tic-tac-toe, Connect Four, Othello, Hex, Go, Kuhn and Leduc poker, and
2048.

All but 2048 are for two players by turns, and learnt by self-play: `headrace.envs.boards.common` says how both see and
move.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

_MODULES = {
    "Chess-v1": "chess",
    "ConnectFour-v0": "connect",
    "Game2048-v0": "game_2048",
    "Go19x19-v0": "go",
    "Go9x9-v0": "go",
    "Hex-v0": "hex",
    "KuhnPoker-v0": "poker",
    "LeducPoker-v0": "poker",
    "Othello-v0": "othello",
    "TicTacToe-v0": "connect",
}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Raises:
        OptionError: an option is unknown, or its value is invalid.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "boards",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.boards.presets:PRESETS",
    meanings={
        "Game2048-v0": ("↑", "→", "↓", "←"),
        "KuhnPoker-v0": ("check or fold", "bet or call"),
        "LeducPoker-v0": ("fold", "check or call", "raise"),
    },
)

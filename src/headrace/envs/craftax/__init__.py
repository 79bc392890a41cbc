"""Craftax-Classic, a world of two dimensions in which to survive and to make tools, as a kernel environment.

Crafter (Hafner, "Benchmarking the spectrum of agent capabilities", ICLR 2022) as Craftax has it (Matthews et al.,
"Craftax: a lightning-fast benchmark for open-ended reinforcement learning", ICML 2024). The rules are those of the
package craftax, version 1.6.1, in an independent implementation: from the same state, what is not chance is the same.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

_MODULES = {"Craftax-Classic-Symbolic-v1": "classic", "Craftax-Classic-Pixels-v1": "pixels"}
TASKS: tuple[str, ...] = tuple(_MODULES)
ACTIONS = (
    *("noop", "left", "right", "up", "down", "do", "sleep"),
    *("place stone", "place table", "place furnace", "place plant"),
    *("make wood pickaxe", "make stone pickaxe", "make iron pickaxe"),
    *("make wood sword", "make stone sword", "make iron sword"),
)
ACHIEVEMENTS = (
    *("collect_wood", "place_table", "eat_cow", "collect_sapling", "collect_drink", "make_wood_pickaxe"),
    *("make_wood_sword", "place_plant", "defeat_zombie", "collect_stone", "place_stone", "eat_plant"),
    *("defeat_skeleton", "make_stone_pickaxe", "make_stone_sword", "wake_up", "place_furnace", "collect_coal"),
    *("collect_iron", "collect_diamond", "make_iron_pickaxe", "make_iron_sword"),
)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Raises:
        OptionError: an option is unknown, or its value is invalid.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "craftax",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.craftax.presets:PRESETS",
    meanings=dict.fromkeys(TASKS, ("·", "←", "→", "↑", "↓", *ACTIONS[5:])),
)

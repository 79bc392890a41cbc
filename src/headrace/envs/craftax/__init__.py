"""Craftax-Classic, a world of two dimensions in which to survive and to make tools, as a kernel environment.

Crafter (Hafner, "Benchmarking the spectrum of agent capabilities", ICLR 2022) as Craftax has it (Matthews et al.,
"Craftax: a lightning-fast benchmark for open-ended reinforcement learning", ICML 2024). The rules are those of the
package craftax, version 1.6.1, in an independent implementation: from the same state, what is not chance is the same.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.task import Task

_MODULES = {"Craftax-Classic-Symbolic-v1": "classic"}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Raises:
        OptionError: an option is unknown, or its value is invalid.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)

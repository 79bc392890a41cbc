"""The algorithm and the preset of a run that names no algorithm, by task, family or kind: the best that are known."""

from __future__ import annotations

from headrace.pool.family import FROM_PIXELS
from headrace.pool.registry import families
from headrace.pool.remarks import remark
from headrace.train.recipes.algorithms import ALGORITHMS
from headrace.train.settings.algorithm import DEFAULT_PRESET


def _recipes() -> dict[str, tuple[str, str]]:
    known = families().items()
    every = {name: family.recipe for name, family in known}
    every |= {f"{name}{FROM_PIXELS}": family.recipe_from_pixels for name, family in known}
    every |= {kind: family.recipe for _, family in known for kind in family.kinds}
    found = {name: recipe for name, recipe in every.items() if recipe}
    for name, (algo, preset) in list(found.items()):
        if algo not in ALGORITHMS or preset not in ALGORITHMS[algo].presets:
            remark(f"the recipe of the family of tasks {name} is left out: there is no preset {preset!r} of {algo!r}")
            del found[name]
    return found | {"": ("ppo", DEFAULT_PRESET)}


RECIPES = _recipes()
"""key, as in presets → the best algorithm, and the preset of it with the best settings"""
GENERAL = (
    "several agents",
    "pictures",
    "observations of a category",
    "slow steps, continuous actions",
    "slow steps, discrete actions",
    "continuous actions",
    "discrete actions",
)
"""kinds of tasks, by their spaces and by the time that a step takes"""
KINDS = (*(kind for family in families().values() for kind in family.kinds), *GENERAL)
"""those, and before them what users' tasks say of themselves"""

"""What the presets of several algorithms have: those of families of tasks, and of continuous actions."""

from __future__ import annotations

from headrace.pool.registry import families
from headrace.pool.remarks import remark
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings


def with_families(algo: str, own: Presets) -> Presets:
    """Returns the presets of an algorithm with those of all families, added to the settings of all tasks.

    Those of a family that cannot be read are left out, with a remark: all other tasks can still be trained.
    """
    found, all_others = {preset: {**table} for preset, table in own.items()}, own[DEFAULT_PRESET].get("", {})
    for family in families().values():
        try:
            theirs = family.presets_of(algo)
        except Exception as error:  # of somebody else's package
            remark(f"the presets of the family of tasks {family.name} are left out: {error}")
            continue
        for preset, table in theirs.items():
            found.setdefault(preset, {}).update({key: all_others | {**values} for key, values in table.items()})
    return found


# fmt: off
# Values that papers and libraries of the field share for MuJoCo's tasks; also for tasks without presets.
CONTINUOUS: Settings = {
    "num_envs": 8, "num_steps": 8, "hidden": (256, 256), "activation": "relu", "minibatch_size": 256,
    "learning_rate": 3e-4, "critic_learning_rate": 1e-3, "anneal_learning_rate": False,
    "adam_epsilon": 1e-8,  # gradients of mean losses are small: PPO's 1e-5 would slow updates down
    "matmul_precision": "medium",
    "publish_every": 4,  # copying the weights to another core's cache takes long
}
# Pictures of 84 x 84 in three colours take 2.1 GB.
_PIXELS: Settings = {"replay_size": 100_000, "minibatch_size": 128, "learning_starts": 1000}

# fmt: on


def continuous(algo: str, own: Settings) -> Presets:
    values = CONTINUOUS | own
    return with_families(algo, {DEFAULT_PRESET: {"": values, "pictures": values | _PIXELS}})

"""The task families that come with Headrace, registered by name.

Importing this package registers the names only. A family's environments, and the simulator
that they need, are imported when one of its tasks is first made.
"""

from headrace.envs import atari, classic_control, dm_control, minatar, mujoco, tag, toy_text, vizdoom
from headrace.pool.registry import register_family

FAMILIES: dict[str, tuple[str, ...]] = {
    "atari": atari.TASKS,
    "classic_control": classic_control.TASKS,
    "dm_control": dm_control.TASKS,
    "minatar": minatar.TASKS,
    "mujoco": mujoco.TASKS,
    "tag": tag.TASKS,
    "toy_text": toy_text.TASKS,
    "vizdoom": vizdoom.TASKS,
}

for _family, _tasks in FAMILIES.items():
    register_family(_tasks, f"headrace.envs.{_family}:build")

"""The public names for authors of MuJoCo tasks.

    from headrace.mujoco import MujocoEnv, MujocoTask, Streams, normal

`MujocoEnv` names the parts of a task: the fields of MuJoCo that it reads, and its initial states, rewards
and observations as Warp functions; `MujocoTask` adds the model, spaces and options, and is what
`headrace.register` takes. ``docs/mujoco-task.md`` is a tutorial.
"""

from headrace.pool.executors.mujoco import *  # noqa: F403
from headrace.pool.executors.mujoco import __all__ as __all__

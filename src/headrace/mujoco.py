"""What the author of a MuJoCo task imports, in one place.

    from headrace.mujoco import MujocoEnv, MujocoTask, Streams, normal

`MujocoEnv` names the parts of a task: the fields of MuJoCo that it reads, and how an episode starts, what
is rewarded and what is seen, as Warp functions; `MujocoTask` adds the model, spaces and options, and is
what `headrace.register` takes. ``docs/mujoco-task.md`` builds one from nothing.
"""

from headrace.pool.executors.mujoco import *  # noqa: F403
from headrace.pool.executors.mujoco import __all__ as __all__

"""The task families that come with Headrace, registered by name.

Importing this package registers the names only. A family's environments, and the simulator
that they need, are imported when one of its tasks is first made.
"""

from headrace.envs import (
    atari,
    boards,
    box2d,
    classic_control,
    craftax,
    dm_control,
    minatar,
    minigrid,
    mpe,
    mujoco,
    tag,
    toy_text,
    vizdoom,
)
from headrace.pool.registry import register_family, register_other_name

FAMILIES: dict[str, tuple[str, ...]] = {
    "atari": atari.TASKS,
    "boards": boards.TASKS,
    "box2d": box2d.TASKS,
    "classic_control": classic_control.TASKS,
    "craftax": craftax.TASKS,
    "dm_control": dm_control.TASKS,
    "minatar": minatar.TASKS,
    "minigrid": minigrid.TASKS,
    "mpe": mpe.TASKS,
    "mujoco": mujoco.TASKS,
    "tag": tag.TASKS,
    "toy_text": toy_text.TASKS,
    "vizdoom": vizdoom.TASKS,
}

KERNELS, MUJOCO, THREADS = "Warp kernels, on CPUs and GPUs", "MuJoCo on threads, or on a GPU", "C++ on threads"
RUNS: dict[str, tuple[str, str]] = {
    "atari": (THREADS, "headrace[atari]"),
    "boards": (KERNELS, ""),
    "box2d": (THREADS, "headrace[box2d]"),
    "classic_control": (KERNELS, ""),
    "craftax": (KERNELS, ""),
    "dm_control": (MUJOCO, "headrace[dm-control]"),
    "minatar": (KERNELS, ""),
    "minigrid": (KERNELS, ""),
    "mpe": (KERNELS, ""),
    "mujoco": (MUJOCO, "headrace[mujoco]"),
    "tag": (KERNELS, ""),
    "toy_text": (KERNELS, ""),
    "vizdoom": ("engines in processes", "headrace[vizdoom]"),
}
"""family → what it runs on, and what to install beside Headrace; an empty text for nothing"""

for _family, _tasks in FAMILIES.items():
    register_family(_tasks, f"headrace.envs.{_family}:build")

# EnvPool's further names of the same tasks. Gymnasium's own environments of these names need JAX, or no longer exist.
for _name, _task in {
    "phys2d/CartPole-v0": "CartPole-v0",
    "phys2d/CartPole-v1": "CartPole-v1",
    "phys2d/Pendulum-v0": "Pendulum-v0",
    "tabular/Blackjack-v0": "Blackjack-v1",
    "tabular/CliffWalking-v0": "CliffWalking-v0",
    "CarRacing-v2": "CarRacing-v3",
    "LunarLander-v2": "LunarLander-v3",
    "LunarLanderContinuous-v2": "LunarLanderContinuous-v3",
    **{f"{name}-v3": f"{name}-v4" for name in ("HalfCheetah", "Hopper", "Swimmer", "Walker2d")},
    **{f"{name}-v2": f"{name}-v4" for name in ("HumanoidStandup", "Pusher", "Reacher")},
    **{f"Inverted{name}-v2": f"Inverted{name}-v4" for name in ("DoublePendulum", "Pendulum")},
}.items():
    register_other_name(_name, _task)
register_other_name("Ant-v3", "Ant-v4", use_contact_force=True)

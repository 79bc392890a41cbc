"""The environments of a run."""

from __future__ import annotations

from typing import Any

from headrace.train.settings.fields import record, setting
from headrace.train.settings.values import check_points, check_stages, require


@record("environments", shared=True)
class Environments:
    """The number, the options and the rewards of the environments."""

    num_envs: int = setting(
        64, "Number of environments that are stepped together, N; of each process, if several train.", low=1, speed=True
    )
    num_threads: int = setting(0, "Threads of the pool; 0 lets it choose.", low=0, speed=True)
    env_options: dict[str, Any] = setting({}, "Options of the task, such as frame_skip or episodic_life.", speed=True)
    curriculum: dict[str, list[tuple[int, Any]]] = setting(
        {},
        "Options of the task that change with the agent steps so far: name → [(step, value), …], each value from its "
        "step on. A change makes new environments and begins new episodes. Evaluations and videos use env_options, and "
        "last values of options that env_options does not name.",
    )
    option_schedules: dict[str, list[tuple[int, float]]] = setting(
        {},
        "Options of the task that change with the agent steps so far, within episodes: name → [(step, value), …], "
        "linear in between. Nothing but tables of the environments' state may depend on them, such as weights of "
        "rewards; of Python environments they are attributes. Evaluations and videos are as with curriculum, and the "
        "best weights are those of episodes after the last step.",
    )
    reward: str | None = setting(
        None,
        "A function that computes the rewards to learn from, file.py:name or package.module:name. It receives a "
        "headrace.wrappers.Step of all environments and returns their rewards. Reported returns and evaluations use "
        "the task's own rewards.",
    )
    action_masks: bool = setting(
        True,
        'Exclude actions that info["action_mask"] forbids, in tasks with masks and discrete actions. Most published '
        "curves of Taxi are without its mask, which only excludes actions that change nothing.",
        shared=False,
    )

    def __post_init__(self) -> None:
        require(self.reward is None or ":" in self.reward, "reward", self.reward, "file.py:name of a function")
        for name, points in self.curriculum.items():
            check_stages(name, points)
        for name, points in self.option_schedules.items():
            check_points(name, points)
            require(name not in self.curriculum, "option_schedules", name, "no option of curriculum")

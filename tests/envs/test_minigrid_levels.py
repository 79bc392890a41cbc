"""Levels of MiniGrid's tasks are distributed as in the package, and every goal can be reached."""

# pyright: reportMissingImports=false

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.minigrid import TASKS, text
from headrace.envs.minigrid.babyai.instructions import LIMIT
from headrace.envs.minigrid.world import GOAL, LAVA, WALL
from nightly import rest_nightly

stats = pytest.importorskip("scipy.stats")
worlds = pytest.importorskip("minigrid_worlds", reason="needs minigrid", exc_type=ImportError)

SAID = ("after you", "and", "a ", "behind", "door", "front", "left", "next", "open", "pick", "then")
IMPROBABLE = 1e-4  # of the least of several probabilities, times their number
FEW = 20
COMMON = (
    "BabyAI-GoToLocalS6N3-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-PutNextLocalS5N3-v0",
    "MiniGrid-BlockedUnlockPickup-v0",
    "MiniGrid-DoorKey-6x6-v0",
    "MiniGrid-KeyCorridorS3R3-v0",
    "MiniGrid-LavaCrossingS9N3-v0",
    "MiniGrid-MemoryS13Random-v0",
    "MiniGrid-MultiRoom-N4-S5-v1",
    "MiniGrid-PutNear-6x6-N2-v0",
)


def ways(cells, width, start):
    """The number of steps from a cell to each other, through doors but not walls or lava; -1 if there is no way."""
    far = np.full(cells.size, -1)
    far[start], edge = 0, [start]
    while edge:
        at = edge.pop(0)
        for other in (at + 1, at - 1, at + width, at - width):
            if 0 <= other < cells.size and far[other] < 0 and cells[other] not in (WALL, LAVA):
                far[other] = far[at] + 1
                edge.append(other)
    return far


def features(cells, width, agent, direction, mission, limit):
    """The compared features of a level: each of its cells, the agent, the mission, and the distances of things."""
    far = ways(cells, width, agent)
    things = sorted({int(cell) for cell in cells if cell not in (1, WALL)})
    near = [int(min(far[cells == thing])) for thing in things[:3]]
    counts = [int((cells == cell).sum()) for cell in (1, int(WALL))]
    said = [mission, *(word in mission for word in SAID), len(mission.split()), limit]
    return [*map(int, cells), agent, direction, *said, str(things), len(things), *(near + [-2] * 3)[:3], *counts]


def ours(task, n):
    with headrace.make(task, num_envs=n, seed=5) as pool:
        obs, _ = pool.reset()
        state = arrays_of(pool)
        width = worlds.official(task, 0).width
        return [
            features(
                state["cells"][i].copy(),
                width,
                int(state["y"][i]) * width + int(state["x"][i]),
                int(state["direction"][i]),
                text(obs["mission"][i]),
                int(state["notes"][i, LIMIT]) if task.startswith("BabyAI") else 0,
            )
            for i in range(n)
        ]


def theirs(task, n):
    env, found = worlds.official(task, 0), []
    for seed in range(n):
        env.reset(seed=seed)
        agent = int(env.agent_pos[1]) * env.width + int(env.agent_pos[0])
        limit = env.max_steps if task.startswith("BabyAI") else 0
        found.append(features(worlds.grid_of(env), env.width, agent, int(env.agent_dir), env.mission, limit))
    return found


def probability_that_one_law_made_both(a, b):
    """The least p-value of a χ² test of each feature, times their number; rare values of a feature count as one."""
    least, tests = 1.0, 0
    for mine, yours in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True):
        values, which = np.unique(np.array([*mine, *yours], dtype=object).astype(str), return_inverse=True)
        counts = np.stack([np.bincount(part, minlength=len(values)) for part in (which[: len(a)], which[len(a) :])])
        rare = counts.sum(0) < FEW
        counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
        counts = counts[:, counts.sum(0) >= FEW]
        if counts.shape[1] > 1:
            least, tests = min(least, stats.chi2_contingency(counts).pvalue), tests + 1
    return least * max(tests, 1)


@pytest.mark.parametrize("task", rest_nightly(TASKS, *COMMON))
def test_levels_are_distributed_as_in_the_package(task):
    assert probability_that_one_law_made_both(ours(task, 3000), theirs(task, 600)) > IMPROBABLE


def test_the_comparison_tells_levels_of_two_tasks_apart():
    task = "MiniGrid-{}CrossingS9N{}-v0"
    assert (
        probability_that_one_law_made_both(ours(task.format("Lava", 2), 300), theirs(task.format("Lava", 3), 300))
        < 1e-9
    )


PASSABLE = [task for task in TASKS if "Crossing" in task or "Room" in task or "Gap" in task]


@pytest.mark.parametrize("task", rest_nightly(PASSABLE, *PASSABLE[::4]))
def test_there_is_a_way_to_every_goal(task):
    n, width = 300, worlds.official(task, 0).width
    with headrace.make(task, num_envs=n, seed=6) as pool:
        pool.reset()
        state = arrays_of(pool)
        for i in range(n):
            cells, agent = state["cells"][i], int(state["y"][i]) * width + int(state["x"][i])
            assert (ways(cells, width, agent)[cells == GOAL] > 0).all()

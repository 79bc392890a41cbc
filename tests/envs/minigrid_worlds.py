"""The environments of the package minigrid, and copies of their state in ours, for tests."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import minigrid  # noqa: F401  # registers its environments
import numpy as np
from kernel_states import arrays_of
from minigrid.core.constants import COLOR_TO_IDX
from minigrid.core.world_object import Ball, Box, Door, Key
from minigrid.envs.babyai.core.verifier import AfterInstr, BeforeInstr, PutNextInstr, SeqInstr

import headrace
from headrace.envs.minigrid import WORDS
from headrace.envs.minigrid.babyai import instructions as babyai
from headrace.envs.minigrid.world import EMPTY, FILLED, looks

KINDS = {int(look) & 0xFFFFFF: byte for byte, look in reversed([*enumerate(looks())]) if byte & 15 != 2}
"""the look of a cell in observations → its byte"""


def official(task: str, seed: int) -> Any:
    """Returns the package's environment of a task after a reset, without wrappers."""
    env = gym.make(task, disable_env_checker=True).unwrapped
    env.reset(seed=seed)
    return env


def byte_of(thing: Any) -> int:
    """Returns the byte of a cell with this thing, a `WorldObj` or None."""
    if thing is None:
        return int(EMPTY)
    if isinstance(thing, Box) and thing.contains is not None:
        return int(FILLED) | COLOR_TO_IDX[thing.color] << 3 | COLOR_TO_IDX[thing.contains.color]
    kind, color, state = thing.encode()
    return KINDS[kind | color << 8 | state << 16]


def grid_of(env: Any) -> np.ndarray:
    """Returns the bytes of the package's grid, uint8[cells]."""
    return np.array([byte_of(thing) for thing in env.grid.grid], np.uint8)


def named(color: str, kind: str) -> int:
    return byte_of({"key": Key, "ball": Ball, "box": Box}[kind](color))


def words_of(mission: str) -> list[int]:
    """Returns the numbers of a mission's words, of which a comma is one unless it is part of another."""
    words = [part for word in mission.split() for part in ([word] if word in WORDS else [word[:-1], word[-1]])]
    return [WORDS.index(word) for word in words]


def tasks_of(env: Any) -> dict[int, Any]:
    """Returns the subtasks of a BabyAI level by their number in ours: those of the second group are 2 and 3."""
    asked = env.instrs
    groups = [asked]
    if isinstance(asked, BeforeInstr | AfterInstr):
        groups = [asked.instr_a, asked.instr_b][:: 1 if isinstance(asked, BeforeInstr) else -1]
    return {
        2 * later + i: task
        for later, group in enumerate(groups)
        for i, task in enumerate([group.instr_a, group.instr_b] if isinstance(group, SeqInstr) else [group])
    }


def is_half_done(env: Any) -> bool:
    """Returns whether the first of two groups of BabyAI's tasks is done."""
    first = {BeforeInstr: "a_done", AfterInstr: "b_done"}.get(type(env.instrs))
    return first is not None and getattr(env.instrs, first) == "success"


def do_half(env: Any) -> None:
    """Does the first of two groups of BabyAI's tasks, so that the second has been looked at before."""
    first = {BeforeInstr: "a_done", AfterInstr: "b_done"}.get(type(env.instrs))
    if first is not None:
        setattr(env.instrs, first, "success")
        for i, task in tasks_of(env).items():
            if i >= 2:
                task.preCarrying = env.carrying


def instructions_of(env: Any) -> dict[str, Any]:
    """Returns the fields of our state that the verifier of BabyAI's levels looks at."""
    notes, marks, carried = [0] * babyai.NOTES, np.zeros(env.width * env.height, np.uint16), 0
    tasks = tasks_of(env)
    begun = is_half_done(env)
    notes[babyai.LIMIT] = env.max_steps
    notes[babyai.FINISHED] = sum(1 << i for i in range(4) if i not in tasks or (begun and i < 2))
    kinds = {"GoToInstr": babyai.GO_TO, "OpenInstr": babyai.OPEN_IT, "PickupInstr": babyai.PICK_UP_IT}
    for i, task in tasks.items():
        strict = babyai.STRICT if getattr(task, "strict", False) else 0
        notes[babyai.TASKS + i] = kinds.get(type(task).__name__, babyai.PUT_NEXT) | strict
        meant = [task.desc_move, task.desc_fixed] if isinstance(task, PutNextInstr) else [task.desc]
        for j, description in enumerate(meant, 2 * i):
            things = {id(thing) for thing in description.obj_set}
            here = [id(thing) in things for thing in env.grid.grid]
            marks[here] |= 1 << j
            marks[[x + y * env.width for x, y in description.obj_poss]] |= 256 << j
            carried |= (id(env.carrying) in things) << j
    return {"notes": notes, "marks": marks, "wanted": carried}


def rule_of(env: Any) -> dict[str, Any]:
    """Returns the fields of our state that a task's rule looks at."""

    def cell(at: Any) -> int:
        return int(at[1]) * env.width + int(at[0])

    def door(color: str) -> int:
        return next(i for i, at in enumerate(env.grid.grid) if isinstance(at, Door) and at.color == color)

    name = type(env).__name__
    if hasattr(env, "instrs"):
        return instructions_of(env)
    if name == "FetchEnv":
        return {"wanted": named(env.targetColor, env.targetType)}
    if name in ("GoToDoorEnv", "GoToObjectEnv"):
        return {"target": cell(env.target_pos)}
    if name == "PutNearEnv":
        return {"wanted": named(env.moveColor, env.move_type), "target": cell(env.target_pos)}
    if name == "RedBlueDoorEnv":
        return {"target": door("red"), "second": door("blue")}
    if name == "MemoryEnv":
        return {"target": cell(env.success_pos), "second": cell(env.failure_pos)}
    if name == "UnlockEnv":
        return {"target": cell(env.door.cur_pos)}
    if name == "DynamicObstaclesEnv":
        return {"notes": [cell(ball.cur_pos) for ball in env.obstacles]}
    return {"wanted": byte_of(env.obj)} if hasattr(env, "obj") else {}


def synchronise(pool: headrace.Pool, i: int, env: Any) -> None:
    """Puts the state of the package's environment into row i of ours."""
    ours = arrays_of(pool)
    mission = words_of(env.mission)
    state = {
        "cells": grid_of(env),
        "x": env.agent_pos[0],
        "y": env.agent_pos[1],
        "direction": env.agent_dir,
        "carrying": byte_of(env.carrying),
        "steps": env.step_count,
        "mission": mission + [0] * (ours["mission"].shape[1] - len(mission)),
        **rule_of(env),
    }
    for name, value in state.items():
        if name == "notes":
            ours[name][i, : len(value)] = value
        else:
            ours[name][i] = value


def scatter(env: Any, rng: np.random.Generator) -> None:
    """Puts the agent somewhere else, often in front of a thing, and with something in hands, often a key."""
    name, free = type(env).__name__, [i for i, thing in enumerate(env.grid.grid) if thing is None]
    places = [(i, d) for i in free for d in range(4)]
    ahead = {(i, d): env.grid.grid[i + (1, env.width, -1, -env.width)[d]] for i, d in places if _inside(env, i)}
    facing: dict[int, list[tuple[int, int]]] = {}  # byte of a thing → places in front of one
    for at, thing in ahead.items():
        if thing is not None and thing.type != "wall":
            facing.setdefault(byte_of(thing), []).append(at)
    if rng.random() < 0.7 and facing:
        places = [*facing.values()][int(rng.integers(len(facing)))]
    if name != "GoToDoorEnv":  # its grid is empty beyond the room
        at, env.agent_dir = places[int(rng.integers(len(places)))]
        env.agent_pos = (at % env.width, at // env.width)
    doors = [thing for thing in env.grid.grid if isinstance(thing, Door)]
    if doors and rng.random() < 0.5:
        env.carrying = Key(doors[int(rng.integers(len(doors)))].color)
    if hasattr(env, "instrs"):
        if rng.random() < 0.4:
            take(env, rng)
        if rng.random() < 0.5:
            do_half(env)
    for door in doors:
        ends = name in ("UnlockEnv", "GoToDoorEnv") or (name == "RedBlueDoorEnv" and door.color == "blue")
        if rng.random() < 0.3 and not ends:
            door.is_open, door.is_locked = bool(rng.integers(2)), False


def take(env: Any, rng: np.random.Generator) -> None:
    """Puts one of the things in the grid into the agent's hands, mostly one that is to be put somewhere."""
    things = [i for i, thing in enumerate(env.grid.grid) if thing is not None and thing.can_pickup()]
    moved = [task.desc_move.obj_set for task in tasks_of(env).values() if isinstance(task, PutNextInstr)]
    if moved and rng.random() < 0.7:
        things = [i for i in things if any(env.grid.grid[i] is thing for each in moved for thing in each)]
    if things:
        at = things[int(rng.integers(len(things)))]
        env.carrying, env.grid.grid[at] = env.grid.grid[at], None
        env.carrying.cur_pos = np.array([-1, -1])


def _inside(env: Any, at: int) -> bool:
    return 0 < at % env.width < env.width - 1 and 0 < at // env.width < env.height - 1


def follow(env: Any, pool: headrace.Pool, i: int) -> None:
    """Lets the package's obstacles move to where ours have."""
    drawn = [int(part) for at in arrays_of(pool)["notes"][i] for part in (at % env.width, at // env.width)]
    turn = iter(range(len(env.obstacles)))

    def place(ball: Any, **how: Any) -> None:
        number = next(turn)
        x, y = drawn[2 * number : 2 * number + 2]
        left, top = (max(part, 0) for part in how["top"])
        assert left <= x < left + 3 and top <= y < top + 3
        if env.grid.get(x, y) is not None or (x, y) == tuple(env.agent_pos):
            free = [(i, j) for i in range(left, left + 3) for j in range(top, top + 3) if env.grid.get(i, j) is None]
            assert not [at for at in free if at != tuple(env.agent_pos)]
            assert ball.cur_pos == (x, y)
            raise RecursionError
        env.put_obj(ball, x, y)

    env.place_obj = place

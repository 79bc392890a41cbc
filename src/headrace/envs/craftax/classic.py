"""Craftax-Classic: its step, its observation, and its task."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.craftax.mobs import move_mobs, spawn_mobs
from headrace.envs.craftax.names import ACTIONS
from headrace.envs.craftax.names import ACHIEVEMENTS as NAMES
from headrace.envs.craftax.picture import render
from headrace.envs.craftax.player import act, grow_plants, wear
from headrace.envs.craftax.state import (
    ACHIEVEMENTS,
    ARROWS,
    BLOCK,
    COWS,
    ENERGY,
    HEALTH,
    LAST,
    LAVA,
    MOB,
    MOBS,
    MOST,
    OUTSIDE,
    PLANTS,
    SHAPES,
    SKELETONS,
    THINGS,
    UP,
    WALKERS,
    State,
    block_at,
)
from headrace.envs.craftax.world import CENTER, generate_world
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, random_bits
from headrace.pool.executors.kernels.trigonometry import sincos
from headrace.pool.spec import Field

ROWS, COLUMNS = wp.constant(7), wp.constant(9)  # what the player sees
KINDS = wp.constant(21)  # numbers for a place: 17 blocks, zombie, cow, skeleton, arrow
FIRST_MOB = wp.constant(17)
SEEN = wp.constant(7 * 9 * 21)  # the numbers of all places
SIZE_OF_VIEW = wp.constant(int(SEEN) + 22)
DAY = wp.constant(300.0)  # steps
PI = wp.constant(float(np.float32(math.pi)))

CLEAR = """
    float* first = &wp::index(obs, row, 0);
#if defined(__CUDA_ARCH__)
    for (int i = 0; i < count; ++i) first[i] = 0.0f;
#else
    __builtin_memset(first, 0, count * sizeof(float));
#endif
"""


@wp.struct
class View:
    """``obs`` float32[rows, 1345] and ``achievements`` bool[rows, 22]."""

    obs: wp.array2d[wp.float32]
    achievements: wp.array2d[wp.bool]


@wp.func_native(CLEAR)
def clear(obs: wp.array2d[wp.float32], row: int, count: int):
    """Sets the first numbers of a row to 0, faster than one by one; they must be contiguous."""
    for i in range(count):
        obs[row, i] = 0.0


@wp.func
def light_at(time: int) -> float:
    """Returns how light it is, 0 to 1."""
    days = float(time) / DAY
    _, cosine = sincos(wp.float64(PI * ((days - wp.floor(days)) + 0.3)))
    dark = wp.abs(float(cosine))
    return 1.0 - dark * dark * dark


@wp.func
def reset(state: State, env: int, streams: Streams):
    generate_world(state, env, streams)
    state.player[env] = wp.vec2i(CENTER, CENTER)
    state.facing[env] = UP
    state.asleep[env] = False
    for i in range(4):
        state.vitals[env, i] = MOST
        state.strain[env, i] = 0.0
    for i in range(THINGS):
        state.things[env, i] = 0
    for i in range(MOBS):
        state.places[env, i] = wp.vec2i(0, 0)
    for i in range(WALKERS):
        state.mob_health[env, i] = wp.where(i < COWS, 1, wp.where(i < SKELETONS, 3, 0))
        state.cooldown[env, i] = 0
    for i in range(3):
        state.flights[env, i] = wp.vec2i(1, 1)
    for i in range(PLANTS):
        state.plants[env, i] = wp.vec2i(0, 0)
        state.plant_age[env, i] = 0
    state.alive[env] = 0
    state.planted[env] = 0
    state.achieved[env] = 0
    state.time[env] = 0
    state.light[env] = light_at(0)


@wp.func
def advance(state: State, env: int, asked: int, moves: wp.uint64, arrivals: wp.uint64, streams: Streams):
    """Advances by a step, with drawn bits for the moves of mobs and for new ones; returns reward and whether it ends."""
    achieved = state.achieved[env]  # one by one: a tuple would hold references
    health = state.vitals[env, HEALTH]
    action = wp.where(state.asleep[env], 0, asked)
    act(state, env, action, streams)
    move_mobs(state, env, moves)
    spawn_mobs(state, env, arrivals, streams)
    grow_plants(state, env)
    wear(state, env, action)
    left = wp.max(state.vitals[env, HEALTH], 0)
    if block_at(state, env, state.player[env]) == LAVA:
        left = 0
    state.vitals[env, HEALTH] = left
    state.time[env] = state.time[env] + 1
    state.light[env] = light_at(state.time[env])

    reward = 0.1 * float(left - health)
    new = state.achieved[env] & ~achieved
    while new != 0:
        new = new & (new - 1)
        reward += 1.0
    return reward, left == 0


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    moves, arrivals = random_bits(streams, env), random_bits(streams, env)
    reward, over = advance(state, env, int(actions[row]), moves, arrivals, streams)
    return reward, over


@wp.func
def show_blocks(state: State, env: int, numbers: wp.array[wp.float32]):
    """Shows the blocks around the player."""
    top = state.player[env][0] - ROWS / 2
    left = state.player[env][1] - COLUMNS / 2
    number = int(0)
    for i in range(ROWS):
        line = state.cells[env, (top + i) & LAST]  # once, not for every cell
        for j in range(COLUMNS):
            there = (((top + i) | (left + j)) & ~LAST) == 0
            numbers[number + wp.where(there, int(line[(left + j) & LAST]) & BLOCK, OUTSIDE)] = 1.0
            number += KINDS


@wp.func
def show_mobs(state: State, env: int, numbers: wp.array[wp.float32]):
    """Shows the mobs around the player.

    As in the package, a mob out of sight erases another one of its kind that is seen as far from the other side.
    """
    corner = state.player[env] - wp.vec2i(ROWS / 2, COLUMNS / 2)
    alive = state.alive[env]
    for mob in range(MOBS):
        place = state.places[env, mob] - corner
        seen = place[0] >= 0 and place[1] >= 0 and ((alive >> mob) & 1) == 1
        i = place[0] + wp.where(place[0] < 0, ROWS, 0)
        j = place[1] + wp.where(place[1] < 0, COLUMNS, 0)
        if i >= 0 and i < ROWS and j >= 0 and j < COLUMNS:
            kind = wp.where(mob < COWS, 0, wp.where(mob < SKELETONS, 1, wp.where(mob < ARROWS, 2, 3)))
            numbers[(i * COLUMNS + j) * KINDS + FIRST_MOB + kind] = wp.where(seen, 1.0, 0.0)


@wp.func
def observe(state: State, env: int, view: View, row: int):
    clear(view.obs, row, SIZE_OF_VIEW)
    numbers = view.obs[row]
    show_blocks(state, env, numbers)
    show_mobs(state, env, numbers)
    for i in range(THINGS):
        numbers[SEEN + i] = state.tenths[state.things[env, i]]
    for i in range(4):
        numbers[SEEN + THINGS + i] = state.tenths[state.vitals[env, i]]
    numbers[SEEN + THINGS + 3 + state.facing[env]] = 1.0
    numbers[SIZE_OF_VIEW - 2] = state.light[env]
    numbers[SIZE_OF_VIEW - 1] = wp.where(state.asleep[env], 1.0, 0.0)
    achieved = state.achieved[env]
    flags = view.achievements[row]
    for i in range(ACHIEVEMENTS):
        flags[i] = ((achieved >> i) & 1) == 1


MAP = (0, int(LAST))
BOUNDS = {
    "cells": (0, int(MOB) + 16),
    "player": (-1, int(LAST)),
    "facing": (1, 4),
    **dict.fromkeys(("vitals", "things"), (0, int(MOST))),
    "places": (np.where(np.arange(int(MOBS)) < int(ARROWS), 0, -(2**30))[:, None], 2**30),
    "plants": MAP,
}
# as XLA compiles the division of float16 by 10: a product with the rounded reciprocal
TENTHS = (np.arange(int(MOST) + 1).astype(np.float16) * np.float16(0.1)).astype(np.float32)
GAME = KernelEnv(
    "CraftaxClassic",
    State,
    View,
    reset,
    step,
    observe,
    render,
    shapes=SHAPES,
    tables={"tenths": TENTHS},
    bounds=BOUNDS,
)
TASKS = {
    "Craftax-Classic-Symbolic-v1": KernelTask(
        GAME,
        gym.spaces.Box(0.0, 1.0, (int(SIZE_OF_VIEW),), np.float32),
        gym.spaces.Discrete(len(ACTIONS)),
        info=(Field("achievements", np.dtype(np.bool_), (len(NAMES),)),),
        max_episode_steps=10_000,
        render_fps=10,
    )
}

"""Craftax-Classic: its step, its observation, and its task."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.craftax import ACHIEVEMENTS, ACTIONS
from headrace.envs.craftax import state as s
from headrace.envs.craftax.mobs import move_mobs, spawn_mobs
from headrace.envs.craftax.picture import render
from headrace.envs.craftax.player import act, grow_plants, wear
from headrace.envs.craftax.world import CENTER, generate_world
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, random_bits
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.executors.kernels.trigonometry import sincos
from headrace.pool.spec import Field

ROWS, COLUMNS = wp.constant(7), wp.constant(9)  # what the player sees
KINDS = wp.constant(21)  # numbers for a place: 17 blocks, zombie, cow, skeleton, arrow
FIRST_MOB = wp.constant(17)
SEEN = wp.constant(7 * 9 * 21)  # the numbers of all places
SIZE_OF_VIEW = wp.constant(int(SEEN) + 22)
DAY = wp.constant(300.0)  # steps
PI = wp.constant(float(np.float32(math.pi)))


@wp.struct
class View:
    """``obs`` float32[rows, 1345] and ``achievements`` bool[rows, 22]."""

    obs: wp.array2d[wp.float32]
    achievements: wp.array2d[wp.bool]


@wp.func_native(cpp(__file__, "show_blocks"))
def show_blocks(obs: wp.array2d[wp.float32], row: int, cells: wp.array3d[wp.uint8], env: int, top: int, left: int):
    """Sets a row of the view to 0, and in it the blocks of the places from a corner on to 1."""
    for i in range(SIZE_OF_VIEW):
        obs[row, i] = 0.0
    for i in range(ROWS):
        for j in range(COLUMNS):
            there = (((top + i) | (left + j)) & ~s.LAST) == 0
            block = int(cells[env, (top + i) & s.LAST, (left + j) & s.LAST]) & s.BLOCK
            obs[row, (i * COLUMNS + j) * KINDS + wp.where(there, block, s.OUTSIDE)] = 1.0


@wp.func
def show_flags(flags: wp.array2d[wp.bool], row: int, bits: int):
    """Writes the achievements' bits as flags."""
    for i in range(s.ACHIEVEMENTS):
        flags[row, i] = ((bits >> i) & 1) == 1


@wp.func
def light_at(time: int) -> float:
    """Returns how light it is, 0 to 1."""
    days = float(time) / DAY
    _, cosine = sincos(wp.float64(PI * ((days - wp.floor(days)) + 0.3)))
    dark = wp.abs(float(cosine))
    return 1.0 - dark * dark * dark


@wp.func
def reset(state: s.State, env: int, streams: Streams):
    generate_world(state, env, streams)
    state.player[env] = wp.vec2i(CENTER, CENTER)
    state.facing[env] = s.UP
    state.asleep[env] = False
    for i in range(4):
        state.vitals[env, i] = s.MOST
        state.strain[env, i] = 0.0
    for i in range(s.THINGS):
        state.things[env, i] = 0
    for i in range(s.MOBS):
        state.places[env, i] = wp.vec2i(0, 0)
    for i in range(s.WALKERS):
        state.mob_health[env, i] = wp.where(i < s.COWS, 1, wp.where(i < s.SKELETONS, 3, 0))
        state.cooldown[env, i] = 0
    for i in range(3):
        state.flights[env, i] = wp.vec2i(1, 1)
    for i in range(s.PLANTS):
        state.plants[env, i] = wp.vec2i(0, 0)
        state.plant_age[env, i] = 0
    state.alive[env] = 0
    state.planted[env] = 0
    state.achieved[env] = 0
    state.time[env] = 0
    state.light[env] = light_at(0)


@wp.func
def advance(state: s.State, env: int, asked: int, moves: wp.uint64, arrivals: wp.uint64, streams: Streams):
    """Advances by a step, with drawn bits for the moves of mobs and for new ones; returns the reward and the end."""
    achieved = state.achieved[env]  # one by one: a tuple would hold references
    health = state.vitals[env, s.HEALTH]
    action = wp.where(state.asleep[env], 0, asked)
    act(state, env, action, streams)
    move_mobs(state, env, moves)
    spawn_mobs(state, env, arrivals, streams)
    grow_plants(state, env)
    wear(state, env, action)
    left = wp.max(state.vitals[env, s.HEALTH], 0)
    if s.block_at(state, env, state.player[env]) == s.LAVA:
        left = 0
    state.vitals[env, s.HEALTH] = left
    state.time[env] = state.time[env] + 1
    state.light[env] = light_at(state.time[env])

    reward = 0.1 * float(left - health)
    new = state.achieved[env] & ~achieved
    while new != 0:
        new = new & (new - 1)
        reward += 1.0
    return reward, left == 0


@wp.func_native(cpp(__file__, "fetch_next"))
def fetch_next(state: s.State, env: int):
    """Lets a CPU fetch what the next environment's step reads of the map, around the player and below the mobs.

    A thousand maps are more than a core's cache holds, and each mob would wait for its part of one.
    """
    return  # for debug mode, which runs Python


@wp.func
def step(state: s.State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    fetch_next(state, env)
    moves, arrivals = random_bits(streams, env), random_bits(streams, env)
    reward, over = advance(state, env, int(actions[row]), moves, arrivals, streams)
    return reward, over


@wp.func
def show_mobs(state: s.State, env: int, numbers: wp.array[wp.float32]):
    """Shows the mobs around the player.

    As in the package, a mob out of sight erases another one of its kind that is seen as far from the other side.
    """
    corner = state.player[env] - wp.vec2i(ROWS / 2, COLUMNS / 2)
    alive = state.alive[env]
    for mob in range(s.MOBS):
        place = state.places[env, mob] - corner
        seen = place[0] >= 0 and place[1] >= 0 and ((alive >> mob) & 1) == 1
        i = place[0] + wp.where(place[0] < 0, ROWS, 0)
        j = place[1] + wp.where(place[1] < 0, COLUMNS, 0)
        if i >= 0 and i < ROWS and j >= 0 and j < COLUMNS:
            kind = wp.where(mob < s.COWS, 0, wp.where(mob < s.SKELETONS, 1, wp.where(mob < s.ARROWS, 2, 3)))
            numbers[(i * COLUMNS + j) * KINDS + FIRST_MOB + kind] = wp.where(seen, 1.0, 0.0)


@wp.func
def observe(state: s.State, env: int, view: View, row: int):
    corner = state.player[env] - wp.vec2i(ROWS / 2, COLUMNS / 2)
    show_blocks(view.obs, row, state.cells, env, corner[0], corner[1])
    numbers = view.obs[row]
    show_mobs(state, env, numbers)
    for i in range(s.THINGS):
        numbers[SEEN + i] = state.tenths[state.things[env, i]]
    for i in range(4):
        numbers[SEEN + s.THINGS + i] = state.tenths[state.vitals[env, i]]
    numbers[SEEN + s.THINGS + 3 + state.facing[env]] = 1.0
    numbers[SIZE_OF_VIEW - 2] = state.light[env]
    numbers[SIZE_OF_VIEW - 1] = wp.where(state.asleep[env], 1.0, 0.0)
    show_flags(view.achievements, row, state.achieved[env])


FLYING = np.arange(int(s.MOBS))[:, None] >= int(s.ARROWS)
BOUNDS = {
    "cells": (0, int(s.MOB) + 16),
    "player": (-1, int(s.LAST)),
    "facing": (1, 4),
    **dict.fromkeys(("vitals", "things"), (0, int(s.MOST))),
    "places": (np.where(FLYING, -(2**30), 0), np.where(FLYING, 2**30, int(s.LAST))),
    "flights": (-1, 1),
    "plants": (0, int(s.LAST)),
    "alive": (0, (1 << int(s.MOBS)) - 1),
    "planted": (0, (1 << int(s.PLANTS)) - 1),
    "achieved": (0, (1 << len(ACHIEVEMENTS)) - 1),
    "light": (0.0, 1.0),
    "time": (0, 2**30),
}
# as XLA compiles the division of float16 by 10: a product with the rounded reciprocal
TENTHS = (np.arange(int(s.MOST) + 1).astype(np.float16) * np.float16(0.1)).astype(np.float32)
GAME = KernelEnv(
    "CraftaxClassic",
    s.State,
    View,
    reset,
    step,
    observe,
    render,
    shapes=s.SHAPES,
    tables={"tenths": TENTHS, "textures": np.zeros((1, 4), np.float32)},
    bounds=BOUNDS,
    inlined=True,
)
TASKS = {
    "Craftax-Classic-Symbolic-v1": KernelTask(
        GAME,
        gym.spaces.Box(0.0, 1.0, (int(SIZE_OF_VIEW),), np.float32),
        gym.spaces.Discrete(len(ACTIONS)),
        info=(Field("achievements", np.dtype(np.bool_), (len(ACHIEVEMENTS),)),),
        max_episode_steps=10_000,
        render_fps=10,
    )
}

"""Records steps and worlds of the package craftax in a file, which tests replay without the package.

    pip install craftax==1.6.1
    python tests/envs/record_craftax.py

Four things are recorded. Steps: chains of states from scattered ones, with actions, rewards, ends, and a checksum of
each observation; no mobs come, so that all that is random is the moves of those that are there, and saplings. Arrivals:
from some states, how many mobs of each kind come in a number of steps, and how far away. Worlds: how many cells of each
block generated worlds have, and how far the nearest one is from the player's start. Players: how long random players
live, and what they achieve.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false

import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax_classic.envs.craftax_state import EnvParams, Inventory, Mobs
from craftax.craftax_classic.envs.craftax_symbolic_env import CraftaxClassicSymbolicEnvNoAutoReset
from craftax.craftax_classic.game_logic import calculate_light_level

FILE = Path(__file__).with_name("craftax_recorded.npz")
CHAINS, STEPS, BASES = 256, 6, 8
ARRIVALS, SAMPLES = 12, 4000
WORLDS, PLAYERS, LONGEST = 1500, 512, 800
KINDS = ("zombies", "cows", "skeletons", "arrows")
THINGS = tuple(Inventory.__dataclass_fields__)
ENV = CraftaxClassicSymbolicEnvNoAutoReset()
CALM = EnvParams(
    spawn_cow_chance=0.0, spawn_zombie_base_chance=0.0, spawn_zombie_night_chance=0.0, spawn_skeleton_chance=0.0
)
QUIET, GRASS, PLANT, RIPE = (2, 7, 13), 2, 15, 16  # blocks on which one stands


def near(rng: np.random.Generator, place: np.ndarray, count: int) -> np.ndarray:
    """Places on the map, most of them a few steps from a place."""
    reach = rng.choice([1, 2, 4, 8, 16], (count, 1), p=[0.25, 0.25, 0.25, 0.15, 0.1])
    return np.clip(place + np.round(rng.uniform(-1, 1, (count, 2)) * reach).astype(int), 0, 63)


def scattered(rng: np.random.Generator, base: Any) -> Any:
    """A state of any kind in the world of ``base``, also such as players hardly ever reach."""
    place = rng.integers(0, 64, 2) if rng.random() < 0.8 else rng.choice([0, 1, 62, 63], 2)
    cells, mobs = np.array(base.map), np.zeros((64, 64), bool)
    share = rng.choice([0.0, 0.2, 0.9])
    for x, y in np.clip(place + np.argwhere(np.ones((7, 7))) - 3, 0, 63):
        cells[x, y] = rng.integers(2, 17) if rng.random() < share else cells[x, y]
    cells[tuple(place)] = rng.choice(QUIET)
    if place.min() == 0 and rng.random() < 0.3:  # lava at the other side of the map
        cells[tuple(np.where(place == 0, 63, place))] = 14
    ages, planted = rng.choice([0, 300, 597, 598, 599, 600, 900], 10), rng.random(10) < rng.choice([0.0, 0.4, 1.0])
    plants = near(rng, place, 10) * planted[:, None]
    for at, age in zip(plants[planted], ages[planted], strict=True):
        if (at != place).any():
            cells[tuple(at)] = RIPE if age >= 600 else PLANT
    kinds = {}
    for kind in KINDS:
        count = len(getattr(base, kind).mask)
        at, alive = near(rng, place, count), rng.random(count) < 0.75
        alive &= (at != place).any(1)
        if kind != "arrows":
            mobs[tuple(at[alive].T)] = True
        health = np.where(alive, rng.integers(1, 6, count), rng.integers(-1, 2, count))
        kinds[kind] = Mobs(*(jnp.asarray(part) for part in (at, health, alive, rng.integers(-1, 3, count))))
    flights = np.array([(0, -1), (0, 1), (-1, 0), (1, 0), (1, 1)])[rng.integers(0, 5, 3)]
    time = int(rng.integers(0, 9000))
    names = ("player_health", "player_food", "player_drink", "player_energy")
    vitals = dict(zip(names, rng.integers(0, 10, 4).tolist(), strict=True))
    vitals["player_health"] = max(vitals["player_health"], 1)
    numbers = rng.integers(0, 10, 12) * (rng.random(12) < rng.choice([0.3, 0.9]))
    tools = {name: int(n) for name, n in zip(THINGS, numbers, strict=True)}
    return base.replace(
        map=jnp.asarray(cells),
        mob_map=jnp.asarray(mobs | (rng.random((64, 64)) < 0.002)),
        player_position=jnp.asarray(place),
        player_direction=int(rng.integers(1, 5)),
        is_sleeping=bool(rng.random() < 0.15),
        player_recover=float(rng.choice([-15, -14.5, -3, 0, 7, 24, 25])),
        player_hunger=float(rng.choice([0, 3.5, 24, 25])),
        player_thirst=float(rng.choice([0, 3.5, 19, 20])),
        player_fatigue=float(rng.choice([-10, -9, 0, 5, 29, 30])),
        inventory=Inventory(**tools),
        arrow_directions=jnp.asarray(flights),
        growing_plants_positions=jnp.asarray(plants),
        growing_plants_age=jnp.asarray(ages * planted),
        growing_plants_mask=jnp.asarray(planted),
        light_level=calculate_light_level(time, CALM),
        achievements=jnp.asarray(rng.random(22) < 0.3),
        timestep=time,
        **vitals,
        **kinds,
    )


def bits(flags: Any) -> np.ndarray:
    """Flags [N, count] as integers, bit i for flag i."""
    flags = np.asarray(flags)
    return flags @ (1 << np.arange(flags.shape[1]))


def as_ours(state: Any) -> dict[str, np.ndarray]:
    """A batch of the package's states as Headrace's arrays."""
    mobs = [getattr(state, kind) for kind in KINDS]
    vitals = (state.player_health, state.player_food, state.player_drink, state.player_energy)
    strain = (state.player_recover, state.player_hunger, state.player_thirst, state.player_fatigue)
    return {
        "cells": (np.asarray(state.map) + 32 * np.asarray(state.mob_map)).astype(np.uint8),
        "player": np.asarray(state.player_position, np.int8),
        "facing": np.asarray(state.player_direction, np.int8),
        "asleep": np.asarray(state.is_sleeping, bool),
        "vitals": np.stack(vitals, 1).astype(np.int8),
        "strain": np.stack(strain, 1).astype(np.float32),
        "things": np.stack([getattr(state.inventory, name) for name in THINGS], 1).astype(np.int8),
        "places": np.concatenate([m.position for m in mobs], 1).astype(np.int16),
        "mob_health": np.concatenate([m.health for m in mobs[:3]], 1).astype(np.int8),
        "cooldown": np.concatenate([m.attack_cooldown for m in mobs[:3]], 1).astype(np.int16),
        "flights": np.asarray(state.arrow_directions, np.int8),
        "alive": bits(np.concatenate([m.mask for m in mobs], 1)).astype(np.int32),
        "plants": np.asarray(state.growing_plants_positions, np.int8),
        "plant_age": np.asarray(state.growing_plants_age, np.int16),
        "planted": bits(state.growing_plants_mask).astype(np.int32),
        "achieved": bits(state.achievements).astype(np.int32),
        "light": np.asarray(state.light_level, np.float32),
        "time": np.asarray(state.timestep, np.int32),
    }


def checksums(observations: Any) -> list[int]:
    return [zlib.crc32(np.asarray(row, np.float32).tobytes()) for row in observations]


def stacked(states: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *states)


def record_steps(rng: np.random.Generator, bases: list[Any]) -> dict[str, np.ndarray]:
    """Chains of steps: state arrays [STEPS + 1, CHAINS, …], the cells as differences from those before."""
    step = jax.jit(jax.vmap(ENV.step_env, in_axes=(0, 0, 0, None)))
    look = jax.jit(jax.vmap(ENV.get_obs))
    state = stacked([scattered(rng, bases[i % BASES]) for i in range(CHAINS)])
    states, rows, sums = [as_ours(state)], [], [checksums(look(state))]
    for n in range(STEPS):
        action = np.where(rng.random(CHAINS) < 0.3, 5, rng.integers(0, 17, CHAINS)).astype(np.int32)
        keys = jax.random.split(jax.random.PRNGKey(n), CHAINS)
        seen, state, reward, over, _ = step(keys, state, action, CALM)
        states.append(as_ours(state))
        sums.append(checksums(seen))
        rows.append((action, reward, over))
    found = {name: np.stack([s[name] for s in states]) for name in states[0]}
    worlds = np.stack([np.asarray(base.map, np.uint8) for base in bases])
    before = np.concatenate([worlds[np.arange(CHAINS) % BASES][None], found["cells"][:-1]])
    found["cells"] = found["cells"] ^ before
    action, reward, over = (np.stack([np.asarray(row[i]) for row in rows]) for i in range(3))
    return found | {
        "worlds": worlds,
        "action": action.astype(np.int8),
        "reward": reward,
        "over": over,
        "crc": np.array(sums),
    }


def record_arrivals(rng: np.random.Generator, bases: list[Any]) -> dict[str, np.ndarray]:
    """States in which mobs come, and of how many in SAMPLES steps, by kind and distance: [ARRIVALS, 3, 14]."""
    step = jax.jit(jax.vmap(lambda key, state: ENV.step_env(key, state, 0, ENV.default_params)[1], in_axes=(0, None)))
    states, counts = [], np.zeros((ARRIVALS, 3, 14), np.int32)
    for i in range(ARRIVALS):
        state = scattered(rng, bases[i % BASES])
        dead = {kind: getattr(state, kind).replace(mask=jnp.zeros_like(getattr(state, kind).mask)) for kind in KINDS}
        state = state.replace(**dead, mob_map=jnp.zeros_like(state.mob_map), is_sleeping=False)
        states.append(state)
        after = step(jax.random.split(jax.random.PRNGKey(100 + i), SAMPLES), jax.tree.map(jnp.asarray, state))
        for k, kind in enumerate(KINDS[:3]):
            mobs = getattr(after, kind)
            steps = np.abs(np.asarray(mobs.position) - np.asarray(state.player_position)).sum(-1)
            counts[i, k] = np.bincount(steps[np.asarray(mobs.mask)], minlength=14)
    found = {f"calm_{name}": array for name, array in as_ours(stacked(states)).items()}
    worlds = np.stack([np.asarray(bases[i % BASES].map, np.uint8) for i in range(ARRIVALS)])
    return found | {"calm_cells": found["calm_cells"] ^ worlds, "arrivals": counts}


def record_worlds() -> dict[str, np.ndarray]:
    """Of WORLDS worlds, the cells of each block, and the steps from the start to the nearest one (99 for none)."""
    make = jax.jit(jax.vmap(lambda key: ENV.reset_env(key, ENV.default_params)[1].map))
    cells = np.concatenate([make(jax.random.split(jax.random.PRNGKey(7 + i), 250)) for i in range(WORLDS // 250)])
    x, y = np.mgrid[:64, :64]
    steps = np.abs(x - 32) + np.abs(y - 32)
    counts = np.stack([(cells == block).sum((1, 2)) for block in range(17)], 1)
    nearest = np.stack([np.where(cells == block, steps, 99).min((1, 2)) for block in range(17)], 1)
    return {"counts": counts.astype(np.int16), "nearest": nearest.astype(np.uint8)}


def record_players() -> dict[str, np.ndarray]:
    """Of random players, the steps they live, LONGEST at the most, and a bit for each of their achievements."""
    params = ENV.default_params

    def advance(carry: Any, _: None) -> tuple[Any, None]:
        key, state, over, length = carry
        key, chosen, drawn = jax.random.split(key, 3)
        actions = jax.random.randint(chosen, (PLAYERS,), 0, 17)
        step = jax.vmap(ENV.step_env, in_axes=(0, 0, 0, None))
        _, after, _, ended, _ = step(jax.random.split(drawn, PLAYERS), state, actions, params)
        state = jax.tree.map(
            lambda new, old: jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), old, new), after, state
        )
        return (key, state, over | ended, length + ~over), None

    keys = jax.random.split(jax.random.PRNGKey(3), PLAYERS)
    state = jax.jit(jax.vmap(lambda key: ENV.reset_env(key, params)[1]))(keys)
    state = jax.tree.map(jnp.asarray, state)
    play = jax.jit(lambda carry: jax.lax.scan(advance, carry, None, length=20)[0])
    carry = (jax.random.PRNGKey(4), state, jnp.zeros(PLAYERS, bool), jnp.zeros(PLAYERS, jnp.int32))
    for _ in range(LONGEST // 20):
        carry = play(carry)
    return {
        "lived": np.asarray(carry[3], np.int16),
        "achieved_by_players": bits(carry[1].achievements).astype(np.int32),
    }


def main() -> None:
    rng = np.random.default_rng(0)
    reset = jax.jit(lambda key: ENV.reset_env(key, ENV.default_params)[1])
    bases = [reset(jax.random.PRNGKey(i)) for i in range(BASES)]
    recorded = record_steps(rng, bases) | record_arrivals(rng, bases) | record_worlds() | record_players()
    np.savez_compressed(FILE, **recorded)
    print(f"{FILE.name}: {FILE.stat().st_size / 1000:.0f} kB, {CHAINS * STEPS} steps, {WORLDS} worlds")


if __name__ == "__main__":
    main()

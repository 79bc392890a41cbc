"""MinAtar's games in which things appear by chance, against the package: Asterix, Freeway and Seaquest.

Both begin each step in the same state. After it, ours has to be one of the states to which chance may lead the
package's environment, which is given each possible draw in turn; the one that equals ours is where it goes on.
"""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

import copy
import itertools

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.minatar.seaquest import swimmers

minatar = pytest.importorskip("minatar")
stats = pytest.importorskip("scipy.stats")

LOW, HIGH = 0.0, 0.999  # draws below and above every probability
IMPROBABLE = 1e-3


class Draws:
    """Stands in for a random generator, and returns the prepared values."""

    def __init__(self, *values):
        self.values = list(values)

    def rand(self, *_):
        return self.values.pop(0)

    def randint(self, *_, **__):
        return self.values.pop(0)


def official(game):
    env = minatar.Environment(game.lower(), sticky_action_prob=0.0)
    env.seed(0)
    env.reset()
    return env


def possible_draws(game, inner, ours):
    """All random draws that the package's game may make in this step."""
    coins = (LOW, HIGH)
    if game == "Freeway":  # the draws are read from our cars
        return [(np.abs(ours["periods"]), np.where(ours["periods"] > 0, HIGH, LOW))]
    if game == "Asterix":
        free = inner.entities.count(None)
        return list(itertools.product(coins, coins, range(max(free, 1)))) if inner.spawn_timer == 0 else [()]
    enemies = itertools.product(coins, coins, range(1, 9)) if inner.e_spawn_timer == 0 else [()]
    divers = itertools.product(coins, range(1, 9)) if inner.d_spawn_timer == 0 else [()]
    return [(*enemy, *diver) for enemy, diver in itertools.product(enemies, divers)]


def packed(x, y, rightward, moves_in, fires_in=0, hunter=False):
    place = x | y << 4 | int(rightward) << 8 | moves_in << 9 | fires_in << 12
    return place | (swimmers.IS_HUNTER if hunter else 0) | swimmers.SWIMS


def rows(bullets, rightward):
    """Bullets that fly to one side, as ten rows of bits."""
    bits = np.zeros(10, np.int64)
    for x, y, right in bullets:
        if right == rightward:
            bits[y] |= 1 << x
    return bits


def theirs_as_ours(game, env):
    """The state of the package's environment, by the names of our arrays."""
    inner = env.env
    if game == "Freeway":
        columns, _, moves_in, periods = np.array(inner.cars).T
        state = {
            "chicken": inner.pos,
            "columns": columns,
            "periods": periods,
            "moves_in": moves_in,
            "walks_in": inner.move_timer,
            "time_left": inner.terminate_timer,
        }
    elif game == "Asterix":
        state = {
            "player": (inner.player_x, inner.player_y),
            "columns": [-1 if e is None else e[0] for e in inner.entities],
            "rightward": sum(1 << i for i, e in enumerate(inner.entities) if e and e[2]),
            "gold": sum(1 << i for i, e in enumerate(inner.entities) if e and e[3]),
            "spawn_interval": inner.spawn_speed,
            "spawn_in": inner.spawn_timer,
            "move_interval": inner.move_speed,
            "move_in": inner.move_timer,
            "ramp_in": inner.ramp_timer,
            "ramps": inner.ramp_index,
        }
    else:
        state = {
            "player": (inner.sub_x, inner.sub_y),
            "rightward": inner.sub_or,
            "air": inner.oxygen,
            "rescued": inner.diver_count,
            "at_surface": inner.surface,
            "shots_left": rows(inner.f_bullets, False),
            "shots_right": rows(inner.f_bullets, True),
            "bullets_left": rows(inner.e_bullets, False),
            "bullets_right": rows(inner.e_bullets, True),
            "enemies": [packed(*fish) for fish in inner.e_fish] + [packed(*sub, hunter=True) for sub in inner.e_subs],
            "divers": [packed(*diver) for diver in inner.divers],
            "spawn_interval": inner.e_spawn_speed,
            "spawn_in": inner.e_spawn_timer,
            "diver_in": inner.d_spawn_timer,
            "move_interval": inner.move_speed,
            "reload": inner.shot_timer,
            "ramps": inner.ramp_index,
        }
    return state


def comparable(game, state):
    """A state without its meaningless parts: the bits of empty rows, the order of fish among submarines."""
    state = {name: np.asarray(value).tolist() for name, value in state.items() if name != "last_action"}
    if game == "Asterix":
        here = sum(1 << i for i, column in enumerate(state["columns"]) if column >= 0)
        state.update(rightward=state["rightward"] & here, gold=state["gold"] & here)
    if game == "Seaquest":
        state["enemies"] = sorted(filter(None, state["enemies"]), key=lambda e: e & swimmers.IS_HUNTER)
        state["divers"] = list(filter(None, state["divers"]))
    return state


def scattered(game, rng):
    """The package's environment in a start state that games reach late, and random players never."""
    env = official(game)
    inner = env.env
    if game == "Freeway":
        inner.pos, inner.terminate_timer = int(rng.integers(1, 10)), int(rng.choice([5, 2500]))
    elif game == "Asterix":
        inner.player_x, inner.player_y = int(rng.integers(10)), int(rng.integers(1, 9))
        inner.ramp_index = int(rng.integers(20))
        inner.spawn_speed, inner.move_speed = int(rng.integers(1, 11)), int(rng.integers(1, 6))
        inner.spawn_timer, inner.ramp_timer = int(rng.integers(0, 3)), int(rng.integers(0, 40))
    else:
        inner.sub_x, inner.sub_y, inner.surface = (
            int(rng.integers(1, 9)),
            int(rng.integers(0, 9)),
            bool(rng.integers(2)),
        )
        inner.sub_or, inner.oxygen = bool(rng.integers(2)), int(rng.integers(1, 201))
        inner.diver_count = int(rng.integers(-1, 7))
        inner.e_spawn_speed, inner.move_speed = int(rng.integers(1, 21)), int(rng.integers(2, 6))
        inner.e_spawn_timer, inner.d_spawn_timer = int(rng.integers(0, 3)), int(rng.integers(0, 3))
        inner.ramp_index = int(rng.integers(20))
    return env


def put(game, pool, i, env):
    arrays = arrays_of(pool)
    for name, value in theirs_as_ours(game, env).items():
        row = np.zeros_like(arrays[name][i])
        if name in {"enemies", "divers"}:
            row[: len(value)] = value
        else:
            row[...] = value
        arrays[name][i] = row


def followed(game, env, ours, action):
    """The package's environment after a step in which chance led it to our state, and its reward and end."""
    want = comparable(game, ours)
    chances = possible_draws(game, env.env, ours)
    for draws in chances:
        after = copy.deepcopy(env) if len(chances) > 1 else env
        after.env.random = Draws(*draws)
        outcome = after.act(action)
        if comparable(game, theirs_as_ours(game, after)) == want:
            return after, outcome
    raise AssertionError(f"chance leads {comparable(game, theirs_as_ours(game, env))} and {action} nowhere to {want}")


@pytest.mark.parametrize("game", ["Asterix", "Freeway", "Seaquest"])
def test_each_step_gives_a_state_that_the_package_can_reach_by_chance(game):
    rng = np.random.default_rng(2)
    n, ends, earned = 16, 0, 0.0
    with headrace.make(f"MinAtar-{game}-v0", num_envs=n, seed=1, autoreset="disabled", sticky_action_prob=0.0) as pool:
        pool.reset()
        references = [scattered(game, rng) for _ in range(n)]
        for i, env in enumerate(references):
            put(game, pool, i, env)
        held = rng.integers(0, 6, n)
        for _ in range(100):
            again = rng.random(n) < 0.5  # players that go on get somewhere, in Freeway upwards
            held = np.where(again, 2 if game == "Freeway" else held, rng.integers(0, 6, n))
            obs, reward, terminated, truncated, _ = pool.step(held)
            assert not truncated.any()
            arrays = arrays_of(pool)
            for i in range(n):
                ours = {name: array[i] for name, array in arrays.items()}
                references[i], outcome = followed(game, references[i], ours, int(held[i]))
                assert (reward[i], terminated[i]) == outcome
                np.testing.assert_array_equal(obs[i], np.moveaxis(references[i].state(), -1, 0))
            done = np.flatnonzero(terminated)
            ends, earned = ends + done.size, earned + float(reward.sum())
            if done.size:
                pool.reset(done)
            for i in done:
                references[i] = scattered(game, rng)
                put(game, pool, i, references[i])
    assert ends > 3
    assert earned > 2


@pytest.mark.parametrize("game", ["Asterix", "Seaquest"])
def test_the_first_things_that_enter_are_distributed_as_in_the_package(game):
    """The first that enters, seen before the next one: of every kind, from every side, in every row."""
    n, steps = 2000, 12 if game == "Asterix" else 22
    with headrace.make(f"MinAtar-{game}-v1", num_envs=n, seed=7, sticky_action_prob=0.0) as pool:
        ours = pool.reset()[0]
        for _ in range(steps):
            ours = pool.step(np.zeros(n, np.int64))[0]
    rng, theirs = np.random.default_rng(3), []
    env = official(game)
    for _ in range(n):
        env.seed(int(rng.integers(2**31)))
        env.reset()
        for _ in range(steps):
            env.act(0)
        theirs.append(np.moveaxis(env.state(), -1, 0))
    kinds, which = np.unique(np.concatenate([ours, np.stack(theirs)]), axis=0, return_inverse=True)
    counts = np.stack([np.bincount(which.ravel()[half], minlength=len(kinds)) for half in (slice(n), slice(n, None))])
    assert len(kinds) == 32
    assert stats.chi2_contingency(counts).pvalue > IMPROBABLE


def test_the_periods_of_the_cars_of_freeway_are_uniform():
    n = 1000
    with headrace.make("MinAtar-Freeway-v1", num_envs=n, seed=7) as pool:
        pool.reset()
        periods = arrays_of(pool)["periods"].ravel()
    counts = [np.count_nonzero(periods == p) for p in (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)]
    assert sum(counts) == 8 * n
    assert stats.chisquare(counts).pvalue > IMPROBABLE

"""Craftax-Classic against the package's recorded steps: the same states after every one, and the same statistics.

`record_craftax.py` has recorded them. Which way the package's mobs went is found anew: of all bits that decide a mob's
move, those are taken with which ours ends where the package's did. Then the whole state must be the same.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false

import zlib
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import warp as wp
from kernel_states import arrays_of

import headrace
from headrace.envs.craftax.classic import GAME, SIZE_OF_VIEW, TASKS, advance
from headrace.envs.craftax.state import State
from headrace.kernels import KernelTask, Streams

stats = pytest.importorskip("scipy.stats")

TASK = "Craftax-Classic-Symbolic-v1"
RECORDED = dict(np.load(Path(__file__).with_name("craftax_recorded.npz")))
STATE = ("player", "facing", "asleep", "vitals", "strain", "things", "places", "mob_health", "cooldown", "flights")
STATE += ("alive", "plants", "plant_age", "planted", "achieved", "light", "time")
COPIES, BATCHES = 64, 6
ENDED = wp.constant(100.0)
LOOK = wp.constant(17)  # an action of this test alone: it only observes
IMPROBABLE = 1e-4
NO_ARRIVALS = wp.constant(wp.uint64(2**64 - 1))


@wp.struct
class Actions:
    act: wp.array[wp.int64]
    moves: wp.array[wp.int64]


@wp.func
def forced_step(state: State, env: int, actions: Actions, row: int, streams: Streams):
    reward, over = float(0.0), bool(False)
    action = int(actions.act[row])
    if action != LOOK:
        moves = wp.uint64(actions.moves[row])
        reward, over = advance(state, env, action, moves, NO_ARRIVALS, streams)
    return wp.where(over, reward + ENDED, reward), False  # the recorded chains go on after their ends


def make_forced(num_envs):
    """A pool in which no mobs come, and an action ``moves`` has the bits that decide where mobs go."""
    env = replace(GAME, name="CraftaxForced", step=forced_step, actions=Actions)
    largest = gym.spaces.Box(-(2**63), 2**63 - 1, (), np.int64)
    space = gym.spaces.Dict({"act": gym.spaces.Discrete(18), "moves": largest})
    seen = gym.spaces.Box(0.0, 1.0, (int(SIZE_OF_VIEW),), np.float32)
    headrace.register("CraftaxForced-v0", KernelTask(env, seen, space, info=TASKS[TASK].info), replace=True)
    return headrace.make("CraftaxForced-v0", num_envs=num_envs, seed=0, autoreset="disabled", num_threads=1)


def recorded_states():
    """State array → [STEPS + 1, CHAINS, …], with the cells themselves."""
    states = {name: RECORDED[name] for name in STATE}
    chains = RECORDED["cells"].shape[1]
    first = RECORDED["worlds"][np.arange(chains) % len(RECORDED["worlds"])]
    states["cells"] = np.bitwise_xor.accumulate(np.concatenate([first[None], RECORDED["cells"]]))[1:]
    return states


def put(pool, state):
    """Write states [N, …] into the pool's."""
    ours = arrays_of(pool)
    for name, values in state.items():
        ours[name][:] = values


def moves_of_mobs():
    """For each of the eight mobs that walk: all its choices, as bits of ``moves``."""
    zombies = [np.arange(32) << 5 * i for i in range(3)]
    cows = [np.arange(8) << 15 + 3 * i for i in range(3)]
    whims = np.array([0, (1 << 17) - 1])
    skeletons = [(np.arange(8)[:, None] << 24 + 3 * i | whims << 30 + 17 * i).ravel() for i in range(2)]
    return [*zombies, *cows, *skeletons]


@pytest.fixture(scope="module")
def states():
    return recorded_states()


class Replay:
    """Steps from given states, each in COPIES environments that differ in chance."""

    def __init__(self, pool, before, action):
        self.pool, self.before, self.n = pool, {name: v.repeat(COPIES, 0) for name, v in before.items()}, len(action)
        self.action = action.astype(np.int64).repeat(COPIES)

    def __call__(self, moves):
        """State arrays, rewards and ends after a step, [n, COPIES, …], with ``moves`` [n, COPIES]."""
        put(self.pool, self.before)
        _, reward, *_ = self.pool.step({"act": self.action, "moves": moves.ravel()})
        over = reward > ENDED / 2
        after = arrays_of(self.pool) | {"reward": reward - ENDED * over, "over": over}
        return {name: array.reshape(self.n, COPIES, *array.shape[1:]) for name, array in after.items()}


def choices_found(replay, after):
    """The bits [n] with which our mobs do what the package's mobs did."""
    moves = np.zeros(replay.n, np.int64)
    for mob, choices in enumerate(moves_of_mobs()):
        tried = moves[:, None] | choices[np.arange(COPIES) % len(choices)]
        ours = replay(tried)
        same = (ours["places"][:, :, mob] == after["places"][:, None, mob]).all(-1)
        same &= ours["cooldown"][:, :, mob] == after["cooldown"][:, None, mob]
        fit = same * (1 + (ours["flights"] == after["flights"][:, None]).sum((-1, -2)))
        assert fit.any(1).all(), f"no choice moves mob {mob} as the package's"
        moves = tried[np.arange(replay.n), fit.argmax(1)]
    return moves


def test_states_equal_those_of_the_package_after_every_recorded_step(states):
    """From every recorded state, with the choices of the package's mobs: each field, the reward, and the end."""
    steps, chains = RECORDED["action"].shape
    with make_forced(chains * COPIES) as pool:
        pool.reset()
        for t in range(steps):
            after = {name: values[t + 1] for name, values in states.items()}
            after |= {"reward": RECORDED["reward"][t], "over": RECORDED["over"][t]}
            replay = Replay(pool, {name: values[t] for name, values in states.items()}, RECORDED["action"][t])
            ours = replay(choices_found(replay, after)[:, None].repeat(COPIES, 1))
            # of the copies, one in which a sapling is found as in the package
            found = ours["things"][:, :, 5] == after["things"][:, None, 5]
            assert found.any(1).all()
            for name, want in after.items():
                got = ours[name][np.arange(chains), found.argmax(1)]
                wrong = np.abs(got - want) > 1e-5 if name in ("light", "reward") else got != want
                where = np.flatnonzero(wrong.reshape(chains, -1).any(1))
                assert not where.size, f"{name} differs in step {t} of chains {where}"
    assert RECORDED["over"].sum() > 20
    assert (RECORDED["reward"] > 0.9).sum() > 50


def test_observations_equal_those_of_the_package_bit_for_bit(states):
    steps, chains = RECORDED["crc"].shape
    look = {"act": np.full(chains, int(LOOK)), "moves": np.zeros(chains, np.int64)}
    with make_forced(chains) as pool:
        pool.reset()
        for t in range(steps):
            put(pool, {name: values[t] for name, values in states.items()})
            seen, *_ = pool.step(look)
            assert [zlib.crc32(row.tobytes()) for row in seen] == RECORDED["crc"][t].tolist()
    assert RECORDED["crc"].size > 1000


def probability_of_both(a, b):
    """The p-value of a χ² test that two samples have one distribution, over about ten cells of both together."""
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 11)))
    counts = np.stack([np.histogram(sample, [*edges[:-1], np.inf])[0] for sample in (a, b)])
    return 1.0 if counts.shape[1] < 2 else stats.chi2_contingency(counts).pvalue


def test_mobs_arrive_as_often_and_as_far_away_as_in_the_package(states):
    """One step from states without mobs, thousands of times."""
    states = {name: RECORDED[f"calm_{name}"] for name in STATE}
    worlds = RECORDED["worlds"][np.arange(len(states["player"])) % len(RECORDED["worlds"])]
    states["cells"] = RECORDED["calm_cells"] ^ worlds
    samples, chances = 4000, []
    with headrace.make(TASK, num_envs=samples, seed=4, autoreset="disabled") as pool:
        for i, theirs in enumerate(RECORDED["arrivals"]):
            pool.reset()
            put(pool, {name: values[i] for name, values in states.items()})
            pool.step(np.zeros(samples, np.int64))
            ours = arrays_of(pool)
            steps = np.abs(ours["places"] - states["player"][i]).sum(-1)
            for kind, mobs in enumerate((range(3), range(3, 6), range(6, 8))):
                came = [steps[(ours["alive"] >> mob & 1) == 1, mob] for mob in mobs]
                found = np.bincount(np.concatenate(came), minlength=14)
                counts = np.stack([np.append(c, samples - c.sum()) for c in (theirs[kind], found)])
                counts = counts[:, counts.sum(0) > 10]
                if counts.shape[1] > 1:
                    chances.append(stats.chi2_contingency(counts).pvalue)
                else:
                    assert theirs[kind].sum() + found.sum() <= 10
    assert len(chances) > 20
    assert min(chances) > IMPROBABLE / 10
    assert stats.kstest(chances, "uniform").pvalue > IMPROBABLE


def far_apart(ours, theirs):
    """Whether the means of two samples differ by more than chance explains, where theirs is of BATCHES batches.

    The package has drawn a batch at once, and worlds of one batch are more alike than those of two.
    """
    means = theirs.reshape(BATCHES, -1).mean(1)
    return abs(ours.mean() - means.mean()) > 8 * means.std(ddof=1) / np.sqrt(BATCHES) + 0.01 * means.mean()


def test_worlds_have_as_many_blocks_and_as_near_as_in_the_package():
    n = 4 * len(RECORDED["counts"])
    with headrace.make(TASK, num_envs=n, seed=11) as pool:
        pool.reset()
        cells = arrays_of(pool)["cells"].copy()
    x, y = np.mgrid[:64, :64]
    steps = np.abs(x - 32) + np.abs(y - 32)
    for block in range(17):
        theirs, nearest = RECORDED["counts"][:, block], RECORDED["nearest"][:, block]
        ours = (cells == block).sum((1, 2))
        assert not far_apart(ours, theirs), block
        assert not far_apart(np.where(cells == block, steps, 99).min((1, 2)), nearest), block
        assert abs(ours.mean() - theirs.mean()) <= 0.1 * theirs.mean()
        assert abs(ours.std() - theirs.std()) <= 0.1 * theirs.std()
    assert ((cells == 10).sum((1, 2)) >= 1).all(), "a world without a diamond"


def test_random_players_live_as_long_and_achieve_as_much_as_in_the_package():
    lived, achieved = RECORDED["lived"], RECORDED["achieved_by_players"]
    n, rng = 2000, np.random.default_rng(3)
    ours, notes, playing = np.zeros(n, np.int64), np.zeros(n, np.int64), np.arange(n)
    with headrace.make(TASK, num_envs=n, seed=5, autoreset="disabled") as pool:
        pool.reset()
        for _ in range(800):
            _, _, terminated, _, info = pool.step(rng.integers(0, 17, playing.size), playing)
            ours[playing] += 1
            notes[playing] = info["achievements"] @ (1 << np.arange(22))
            playing = playing[~terminated]
            if not playing.size:
                break
    assert probability_of_both(ours, lived) > IMPROBABLE
    for i in range(22):
        counts = [[(who >> i & 1).sum(), (1 - (who >> i & 1)).sum()] for who in (notes, achieved)]
        assert stats.fisher_exact(counts).pvalue > IMPROBABLE, i
    assert np.mean([bin(x).count("1") for x in notes]) > 1.5

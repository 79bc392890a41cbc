"""The random parts of the toy text tasks: outcomes, starts and whole games beside their references, by statistics.

Seeds are fixed, so a test either always passes or always fails; each would fail by bad luck alone for one seed in
a hundred thousand.
"""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace

Z = 4.27  # a normal variable is above this once in a hundred thousand times


def chi_square_limit(freedom):
    """The value that a chi-square variable exceeds once in a hundred thousand times (Wilson and Hilferty, 1931)."""
    return freedom * (1 - 2 / (9 * freedom) + Z * (2 / (9 * freedom)) ** 0.5) ** 3


def assert_drawn_from(counts, probabilities):
    """Pearson's test, one row a distribution: counts [rows, outcomes] against probabilities of the same shape."""
    counts, probabilities = np.atleast_2d(counts), np.atleast_2d(probabilities)
    expected = probabilities * counts.sum(axis=1, keepdims=True)
    possible = probabilities > 0
    assert (counts[~possible] == 0).all(), "something happened that cannot"
    assert expected[possible].min() >= 5, "too few samples for this test"
    freedom = possible.sum() - len(counts)
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    if freedom:
        assert statistic < chi_square_limit(freedom)


def assert_drawn_alike(ours, theirs):
    """Asserts that two samples of equal size, of tuples or numbers, have one distribution; rare values are pooled."""
    a, b = Counter(ours), Counter(theirs)
    pairs = [(a[value], b[value]) for value in a.keys() | b.keys()]
    common = [pair for pair in pairs if sum(pair) >= 20]
    rare = np.sum([pair for pair in pairs if sum(pair) < 20] or [(0, 0)], axis=0)
    if rare.sum() >= 20:
        common.append(tuple(rare))
    x, y = np.array(common, float).T
    assert len(x) > 1
    assert ((x - y) ** 2 / (x + y)).sum() < chi_square_limit(len(x) - 1)


def merged(transitions):
    """(next state, reward, terminated, probability given) → probability, of Gymnasium's list of outcomes."""
    total = Counter()
    for probability, state, reward, terminated in transitions:
        total[int(state), float(np.float32(reward)), bool(terminated), float(np.float32(probability))] += probability
    return total


OFTEN = {"FrozenLake-v1": 2000, "FrozenLake8x8-v1": 600, "CliffWalkingSlippery-v1": 1000, "Taxi-v4": 150}


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("FrozenLake-v1", {}),
        ("FrozenLake-v1", {"success_rate": 0.75, "reward_schedule": (2, -1, 0.5)}),
        ("FrozenLake8x8-v1", {}),
        ("CliffWalkingSlippery-v1", {}),
        ("Taxi-v4", {"is_rainy": True}),
        ("Taxi-v4", {"is_rainy": True, "rainy_probability": 0.4}),
    ],
)
def test_outcomes_have_the_probabilities_of_gymnasium(task, options):
    """At least 100,000 steps, the same number from every state with every action."""
    reference = gym.make(task, **options).unwrapped
    times, (states, actions) = OFTEN[task], (reference.observation_space.n, reference.action_space.n)
    pairs = np.indices((states, actions)).reshape(2, -1).repeat(times, axis=1)
    assert pairs.shape[1] >= 100_000
    with headrace.make(task, num_envs=pairs.shape[1], seed=1, autoreset="disabled", **options) as pool:
        pool.reset()
        arrays_of(pool)["s"][:] = pairs[0]
        obs, reward, terminated, _, info = pool.step(np.ascontiguousarray(pairs[1]))
    columns = zip(obs.tolist(), reward.tolist(), terminated.tolist(), info["prob"].tolist(), strict=True)
    seen = np.array([Counter() for _ in range(states * actions)])
    for i, outcome in enumerate(columns):
        seen[i // times][outcome] += 1
    for i, counts in enumerate(seen):
        expected = merged(reference.P[i // actions][i % actions])
        assert set(counts) <= set(expected)
    widest = max(len(counts) for counts in seen)
    table = np.zeros((2, len(seen), widest))
    for i, counts in enumerate(seen):
        for j, (outcome, probability) in enumerate(merged(reference.P[i // actions][i % actions]).items()):
            table[:, i, j] = counts[outcome], probability
    assert_drawn_from(*table)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("Taxi-v3", {}),
        ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True}),
        ("FrozenLake-v1", {"desc": ["SFS", "FHF", "SFG"]}),
        ("FrozenLake-v1", {}),
        ("CliffWalking-v1", {}),
    ],
)
def test_starts_have_the_probabilities_of_gymnasium(task, options):
    reference = gym.make(task.replace("v3", "v4"), **options).unwrapped
    with headrace.make(task, num_envs=100_000, seed=4, **options) as pool:
        obs, info = pool.reset()
    assert (info["prob"] == 1).all()
    assert_drawn_from(np.bincount(obs, minlength=obs.max() + 1), reference.initial_state_distrib[: obs.max() + 1])


def test_a_fickle_passenger_changes_once_with_the_given_probability():
    n, with_passenger, far = 100_000, 4 * 4 + 1, 2 * 100 + 2 * 20
    options = {"fickle_passenger": True, "fickle_probability": 0.3}
    with headrace.make("Taxi-v4", num_envs=n, seed=8, autoreset="disabled", **options) as pool:
        pool.reset()
        arrays_of(pool)["s"][:] = far + with_passenger
        blocked, *_ = pool.step(np.full(n, 5))  # no stand here: nothing changes, the passenger's mind neither
        assert (blocked == far + with_passenger).all()
        first = pool.step(np.full(n, 0))[0]
        second = pool.step(np.full(n, 1))[0]
    assert (first // 4 == (far + 100 + with_passenger) // 4).all()
    counts = np.bincount(first % 4, minlength=4)
    assert_drawn_from(counts, [0.1, 0.7, 0.1, 0.1])
    np.testing.assert_array_equal(second % 4, first % 4)


def test_rides_of_a_fickle_passenger_are_distributed_as_in_gymnasium():
    """The whole way in the rain, by both: the same mixture of destinations and cells."""
    n, steps = 20_000, [1, 0, 3, 2]
    options = {"fickle_passenger": True, "fickle_probability": 0.6, "is_rainy": True}
    reference = gym.make("Taxi-v4", **options).unwrapped
    start, theirs = 2 * 100 + 2 * 20 + 4 * 4 + 3, []
    for i in range(n):
        reference.reset(seed=i)
        reference.s = start
        theirs.append([reference.step(action)[0] for action in steps][-1])
    with headrace.make("Taxi-v4", num_envs=n, seed=2, **options) as pool:
        pool.reset()
        arrays_of(pool)["s"][:] = start
        ours = [pool.step(np.full(n, action))[0] for action in steps][-1]
    assert_drawn_alike(ours.tolist(), theirs)


GAMES = 40_000
HIT_BELOW = 16


@pytest.fixture(scope="module")
def games():
    """(first observation, last observation, reward) of Gymnasium's games of Blackjack, hitting below 16."""
    env = gym.make("Blackjack-v1", sab=True).unwrapped
    env.reset(seed=0)
    results = []
    for _ in range(GAMES):
        first, _ = env.reset()
        obs, terminated, reward = first, False, 0.0
        while not terminated:
            obs, reward, terminated, _, _ = env.step(int(obs[0] < HIT_BELOW))
        results.append((first, obs, reward))
    return results


def test_blackjack_is_won_as_often_as_in_gymnasium(games):
    with headrace.make("Blackjack-v1", num_envs=GAMES, seed=5, autoreset="disabled") as pool:
        first, _ = pool.reset()
        last, rewards = first.copy(), np.zeros(GAMES)
        playing = np.arange(GAMES)
        while playing.size:
            obs, reward, terminated, _, _ = pool.step((last[playing, 0] < HIT_BELOW).astype(np.int64), playing)
            last[playing], rewards[playing] = obs, reward
            playing = playing[~terminated]
    starts, ends, earned = zip(*games, strict=True)
    assert_drawn_alike(rewards.tolist(), earned)
    assert_drawn_alike(map(tuple, first.tolist()), starts)
    assert_drawn_alike(map(tuple, last.tolist()), ends)
    ours = zip(map(tuple, last.tolist()), rewards.tolist(), strict=True)
    assert_drawn_alike(ours, zip(ends, earned, strict=True))


def test_cards_are_drawn_with_their_probabilities():
    n = 130_000
    with headrace.make("Blackjack-v1", num_envs=n, seed=6, autoreset="disabled") as pool:
        pool.reset()
        arrays = arrays_of(pool)
        hands = [arrays["dealer"] >> 4, arrays["dealer"] & 15, arrays["player"] >> 4, arrays["player"] & 15]
        arrays["dealer"][:], arrays["open_card"][:] = 0x22, 2
        pool.step(np.zeros(n, np.int64))
        drawn = arrays["dealer"].copy()
    while (more := drawn >= 0x1000).any():  # all but the first card that was drawn to 2 and 2
        drawn[more] >>= 4
    for card in (*hands, drawn & 15):
        assert_drawn_from(np.bincount(card.astype(int), minlength=11)[1:], [1 / 13] * 9 + [4 / 13])
    pairs = hands[2].astype(int) * 11 + hands[3].astype(int)
    single = np.array([0] + [1 / 13] * 9 + [4 / 13])
    assert_drawn_from(np.bincount(pairs, minlength=121), np.outer(single, single).ravel())


def test_nchain_slips_with_the_given_probability_and_as_in_envpool():
    n = 100_000
    with headrace.make("NChain-v0", num_envs=n, seed=0) as pool:
        pool.reset()
        obs, reward, *_ = pool.step(np.zeros(n, np.int64))
        assert_drawn_from(np.bincount(obs), [0.2, 0.8])
        np.testing.assert_array_equal(reward, np.where(obs == 0, 2, 0))
        obs, reward, *_ = pool.step(np.ones(n, np.int64))
        assert_drawn_from(np.bincount(obs, minlength=3), [0.8, 0.04, 0.16])

    envpool = pytest.importorskip("envpool")
    theirs = envpool.make_gymnasium("NChain-v0", num_envs=20_000, seed=0)
    theirs.reset()
    with headrace.make("NChain-v0", num_envs=20_000, seed=1) as pool:
        pool.reset()
        for action in (0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0):
            want_obs, want_reward, *_ = theirs.step(np.full(20_000, action, np.int32))
            obs, reward, *_ = pool.step(np.full(20_000, action))
            ours = zip(obs.tolist(), reward.tolist(), strict=True)
            assert_drawn_alike(ours, zip(want_obs.tolist(), want_reward.tolist(), strict=True))
    theirs.close()


@pytest.mark.parametrize("width", [5, 8])
def test_the_ball_of_catch_starts_in_a_uniformly_drawn_column(width):
    with headrace.make("Catch-v0", num_envs=100_000, seed=0, width=width) as pool:
        obs, _ = pool.reset()
    assert_drawn_from(np.bincount(obs[:, 0].argmax(axis=1)), [1 / width] * width)
    assert (obs[:, -1].argmax(axis=1) == width // 2).all()


def test_the_statistical_tests_notice_small_errors():
    rng = np.random.default_rng(0)
    with pytest.raises(AssertionError):
        assert_drawn_from(rng.multinomial(100_000, [0.34, 0.33, 0.33]), [1 / 3] * 3)
    with pytest.raises(AssertionError):
        assert_drawn_from([1000, 1000, 1], [0.5, 0.5, 0.0])
    samples = [rng.choice(3, 100_000, p=p).tolist() for p in ([1 / 3] * 3, [0.35, 0.33, 0.32])]
    with pytest.raises(AssertionError):
        assert_drawn_alike(*samples)

"""MinAtar's games against the package: the same states after every step, and the same statistics.

The games are deterministic but for sticky actions and the side on which Breakout's ball starts. So without
stickiness, from the same start, every step must agree exactly; with it, whole distributions are compared.
"""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from nightly import rest_nightly

minatar = pytest.importorskip("minatar")
stats = pytest.importorskip("scipy.stats")

GAMES = {"Breakout": "breakout", "SpaceInvaders": "space_invaders"}
VELOCITIES = ((-1, -1), (1, -1), (1, 1), (-1, 1))  # by MinAtar's ball_dir
IMPROBABLE = 1e-3


def official(game, seed, **options):
    env = minatar.Environment(GAMES[game], **options)
    env.seed(seed)
    env.reset()
    return env


def screen(env):
    """What MinAtar's environment shows, channels first."""
    return np.moveaxis(env.state(), -1, 0)


def bits(grid):
    """Ten rows of cells as integers, bit x for column x."""
    return (np.asarray(grid) > 0) @ (1 << np.arange(10))


def synchronise(pool, i, theirs):
    """Put the state of MinAtar's environment into row i of ours."""
    ours, inner = arrays_of(pool), theirs.env
    if "paddle" in ours:
        state = {
            "paddle": inner.pos,
            "ball": (inner.ball_x, inner.ball_y),
            "trail": (inner.last_x, inner.last_y),
            "velocity": VELOCITIES[inner.ball_dir],
            "wall": bits(inner.brick_map)[1:4] @ (1 << 10 * np.arange(3)),
            "passing": inner.strike,
        }
    else:
        state = {
            "cannon": inner.pos,
            "aliens": bits(inner.alien_map),
            "shots": bits(inner.f_bullet_map),
            "bombs": bits(inner.e_bullet_map),
            "direction": inner.alien_dir,
            "march_interval": inner.enemy_move_interval,
            "march_in": inner.alien_move_timer,
            "bomb_in": inner.alien_shot_timer,
            "reload": inner.shot_timer,
        }
    state["last_action"] = theirs.last_action
    assert state.keys() == ours.keys()
    for name, value in state.items():
        ours[name][i] = value


def scattered(game, rng, **options):
    """MinAtar's environment in a state of any kind, also such as random players never reach."""
    env = official(game, int(rng.integers(2**31)), **options)
    inner = env.env
    inner.pos = int(rng.integers(10))
    if game == "Breakout":
        inner.brick_map[1:4] = rng.random((3, 10)) < rng.choice([0.0, 0.05, 0.5, 1.0])
        inner.ball_x, inner.ball_y = int(rng.integers(10)), int(rng.choice([0, 1, 2, 3, 4, 8, 8, 8]))
        inner.ball_dir, inner.strike = int(rng.integers(4)), bool(rng.integers(2))
        return env
    while not inner.alien_map.any() or inner.alien_map[9, inner.pos]:
        inner.alien_map[:] = 0
        rows, columns = np.sort(rng.integers(0, 11, 2)), np.sort(rng.integers(0, 11, 2))
        inner.alien_map[slice(*rows), slice(*columns)] = rng.random((rows[1] - rows[0], columns[1] - columns[0])) < 0.5
    inner.f_bullet_map[:9] = rng.random((9, 10)) < 0.05
    inner.e_bullet_map[:] = rng.random((10, 10)) < 0.05
    inner.e_bullet_map[9, inner.pos] = 0
    inner.alien_dir = int(rng.choice([-1, 1]))
    inner.enemy_move_interval = int(rng.integers(6, 13))
    inner.alien_move_timer = int(rng.integers(0, 3))
    inner.alien_shot_timer = int(rng.integers(0, 3))
    inner.shot_timer = int(rng.integers(0, 2))
    return env


def good_action(env, rng):
    """A fair player's action, in MinAtar's numbers: to where the ball comes down; away from bombs, below aliens."""
    inner, x = env.env, env.env.pos
    if env.game_name() == "breakout":
        target, (dx, dy) = inner.ball_x, VELOCITIES[inner.ball_dir]
        for _ in range(8 - inner.ball_y if dy > 0 else 0):  # falling: where it meets the row above the paddle's
            if 0 <= target + dx <= 9:
                target += dx
            else:
                dx = -dx
        if inner.ball_y == 8 and 0 <= x - target - dx <= 1:
            target += dx * int(rng.integers(2))  # both throw it back, to different sides
        return 0 if target == x else 1 if target < x else 3
    columns = np.flatnonzero(inner.alien_map.any(0))
    target = columns[np.abs(columns - x).argmin()] + inner.alien_dir
    after = {5: x, 1: max(x - 1, 0), 3: min(x + 1, 9)}
    return min(after, key=lambda a: 20 * inner.e_bullet_map[6:, after[a]].any() + abs(after[a] - target))


def assert_step_agrees(pool, references, actions):
    """One step of both; returns where the episode ended, and all rewards."""
    action_set = range(6) if pool.action_space.n == 6 else references[0].minimal_action_set()
    obs, reward, terminated, truncated, _ = pool.step(actions)
    for i, env in enumerate(references):
        want_reward, want_terminated = env.act(action_set[actions[i]])
        np.testing.assert_array_equal(obs[i], screen(env))
        assert reward[i] == want_reward
        assert terminated[i] == want_terminated
    assert not truncated.any()
    return terminated, reward


@pytest.mark.parametrize("version", [pytest.param("v0", marks=pytest.mark.nightly), "v1"])
@pytest.mark.parametrize("game", GAMES)
def test_episodes_equal_those_of_the_package_step_by_step(game, version):
    """From equal starts, one synchronisation an episode; players of every skill, random ones too."""
    rng = np.random.default_rng(5)
    n, episodes, walls_and_waves = 60, 0, 0
    references = [official(game, i, sticky_action_prob=0.0) for i in range(n)]
    skill = np.linspace(0.0, 1.5, n)
    with headrace.make(
        f"MinAtar-{game}-{version}", num_envs=n, seed=3, autoreset="disabled", sticky_action_prob=0.0
    ) as pool:
        obs, _ = pool.reset()
        back = {a: i for i, a in enumerate(range(6) if version == "v0" else references[0].minimal_action_set())}
        for i, env in enumerate(references):
            synchronise(pool, i, env)
        score = np.zeros(n)
        for _ in range(800):
            actions = rng.integers(0, pool.action_space.n, n)
            for i in np.flatnonzero(rng.random(n) < skill):
                actions[i] = back[good_action(references[i], rng)]
            over, reward = assert_step_agrees(pool, references, actions)
            score += reward
            done = np.flatnonzero(over)
            if done.size:
                walls_and_waves += (score[done] > 30).sum()
                episodes, score[done] = episodes + done.size, 0
                obs, _ = pool.reset(done)
                for row, i in enumerate(done):
                    references[i].reset()
                    synchronise(pool, i, references[i])
                    started = screen(references[i])
                    # Breakout's ball may start at the other side
                    assert np.array_equal(obs[row], started) or np.array_equal(obs[row, 1:3], started[1:3, :, ::-1])
    assert episodes > 200
    assert walls_and_waves + (score > 30).sum() > 10, "no player went on to a second wall or wave"


@pytest.mark.parametrize("ramping", rest_nightly([True, False], True))
@pytest.mark.parametrize("game", GAMES)
def test_steps_from_states_all_over_the_space_equal_those_of_the_package(game, ramping):
    rng = np.random.default_rng(1)
    n, ends, earned = 600, 0, 0.0
    options = {"difficulty_ramping": ramping} if game == "SpaceInvaders" else {}
    references = [scattered(game, rng, sticky_action_prob=0.0, difficulty_ramping=ramping) for _ in range(n)]
    with headrace.make(
        f"MinAtar-{game}-v0",
        num_envs=n,
        seed=0,
        autoreset="disabled",
        sticky_action_prob=0.0,
        **options,
    ) as pool:
        pool.reset()
        for _ in range(12):
            for i, env in enumerate(references):
                synchronise(pool, i, env)
            over, reward = assert_step_agrees(pool, references, rng.integers(0, 6, n))
            ends, earned = ends + over.sum(), earned + reward.sum()
            if over.any():
                pool.reset(np.flatnonzero(over))
            for i in np.flatnonzero(over):
                references[i] = scattered(game, rng, sticky_action_prob=0.0, difficulty_ramping=ramping)
    assert ends > 200
    assert earned > 200


def play_ours(game, n, seed, **options):
    """(returns, lengths) of n first episodes by a random player."""
    rng = np.random.default_rng(seed)
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    playing = np.arange(n)
    with headrace.make(f"MinAtar-{game}-v1", num_envs=n, seed=seed, autoreset="disabled", **options) as pool:
        pool.reset()
        while playing.size:
            actions = rng.integers(0, pool.action_space.n, playing.size)
            _, reward, terminated, _, _ = pool.step(actions, playing)
            returns[playing] += reward
            lengths[playing] += 1
            playing = playing[~terminated]
    return returns, lengths


def play_official(game, n, seed):
    """The same by MinAtar."""
    rng = np.random.default_rng(seed)
    env = official(game, seed)
    actions = env.minimal_action_set()
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    for i in range(n):
        env.reset()
        terminated = False
        while not terminated:
            reward, terminated = env.act(actions[rng.integers(len(actions))])
            returns[i] += reward
            lengths[i] += 1
    return returns, lengths


def probability_that_one_law_made_both(a, b):
    """The p-value of a χ² test for homogeneity over about twenty cells, each with enough of both samples."""
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 21)))
    edges = np.append(edges[:-1], np.inf)
    counts = np.stack([np.histogram(sample, edges)[0] for sample in (a, b)])
    return stats.chi2_contingency(counts[:, counts.sum(0) > 0]).pvalue


@pytest.mark.parametrize(
    ("game", "episodes"), rest_nightly([("Breakout", 4000), ("SpaceInvaders", 1500)], ("Breakout", 4000))
)
def test_returns_and_lengths_of_random_play_are_distributed_as_in_the_package(game, episodes):
    theirs = play_official(game, episodes, seed=11)
    ours = play_ours(game, 4 * episodes, seed=12)
    for mine, yours in zip(ours, theirs, strict=True):
        assert probability_that_one_law_made_both(mine, yours) > IMPROBABLE
        assert stats.ks_2samp(mine, yours).pvalue > IMPROBABLE
        assert stats.ttest_ind(mine, yours, equal_var=False).pvalue > IMPROBABLE
    # the test is able to tell: stickier actions are another game
    other = play_ours(game, 4 * episodes, seed=12, sticky_action_prob=0.6)
    assert (
        min(probability_that_one_law_made_both(mine, yours) for mine, yours in zip(other, theirs, strict=True)) < 1e-6
    )


def test_starts_are_distributed_as_in_the_package():
    n = 2000
    with headrace.make("MinAtar-Breakout-v1", num_envs=n, seed=4) as pool:
        ours, _ = pool.reset()
    env = official("Breakout", 5)
    theirs = []
    for _ in range(n):
        env.reset()
        theirs.append(screen(env))
    kinds, where = np.unique(np.concatenate([ours, np.stack(theirs)]), axis=0, return_inverse=True)
    counts = np.stack([np.bincount(where.ravel()[half], minlength=2) for half in (slice(0, n), slice(n, None))])
    assert len(kinds) == 2
    assert stats.chi2_contingency(counts).pvalue > IMPROBABLE

    with headrace.make("MinAtar-SpaceInvaders-v1", num_envs=3, seed=4) as pool:
        for obs in pool.reset()[0]:
            np.testing.assert_array_equal(obs, screen(official("SpaceInvaders", 0)))

"""Tag against its rules, written once more in plain NumPy, one agent at a time."""

from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.tag import TASKS
from headrace.errors import ActionError, OptionError

MOVES = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])


class GridReference:
    """One game on the grid, in Python integers and floats, from a first observation on."""

    def __init__(self, obs, length, limit, wall=0.1, tag=10.0, penalty=2.0, cost=0.01):
        self.at = np.rint(obs[:, :2] * length).astype(int)
        self.length, self.limit, self.t = length, limit, 0
        self.wall, self.tag, self.penalty, self.cost = wall, tag, penalty, cost

    def step(self, actions):
        self.t += 1
        reward = np.zeros(len(self.at))
        for agent, action in enumerate(actions):
            wanted = self.at[agent] + MOVES[action]
            self.at[agent] = np.clip(wanted, 0, self.length)
            if (self.at[agent] != wanted).any():
                reward[agent] -= self.wall
        caught = any((self.at[tagger] == self.at[-1]).all() for tagger in range(len(self.at) - 1))
        reward[:-1] += self.tag if caught else -self.cost
        reward[-1] += -self.penalty if caught else self.cost
        return reward, caught, self.t >= self.limit

    def partial(self):
        seen = []
        for agent, at in enumerate(self.at):
            runner = agent == len(self.at) - 1
            distances = [((other - at) ** 2).sum() for other in self.at[:-1]]
            target = self.at[int(np.argmin(distances))] if runner else self.at[-1]
            seen.append([*at / self.length, *target / self.length, float(runner), self.t / self.limit])
        return np.array(seen)

    def full(self):
        n = len(self.at)
        is_runner = np.arange(n) == n - 1
        common = [*self.at[:, 0] / self.length, *self.at[:, 1] / self.length, *is_runner]
        return np.array([[*common, *(np.arange(n) == agent), self.t / self.limit] for agent in range(n)])


@pytest.mark.parametrize(
    ("taggers", "length", "limit"),
    [(1, 3, 30), (4, 10, 100), (6, 2, 40), pytest.param(60, 25, 20, marks=pytest.mark.nightly)],
)
def test_grid_world_follows_the_rules(taggers, length, limit):
    options: dict[str, Any] = {
        "num_taggers": taggers,
        "grid_length": length,
        "max_episode_steps": limit,
        "random_start": True,
    }
    pool = headrace.make("TagGridWorld-v0", num_envs=16, seed=5, autoreset="same_step", **options)
    obs, _ = pool.reset()
    games = [GridReference(o, length, limit) for o in obs]
    rng = np.random.default_rng(0)
    ends = {"caught": 0, "time": 0, "several at once": 0}
    for _ in range(3 * limit):
        actions = rng.integers(0, 5, (16, taggers + 1))
        obs, reward, terminated, truncated, info = pool.step(actions)
        for i, game in enumerate(games):
            expected, caught, late = game.step(actions[i])
            np.testing.assert_allclose(reward[i], expected, atol=1e-6)
            assert (terminated[i], truncated[i]) == (caught, late)
            seen = info["final_obs"][i] if caught or late else obs[i]
            np.testing.assert_allclose(seen, game.partial(), atol=1e-6)
            ends["caught"] += caught
            ends["time"] += late and not caught
            ends["several at once"] += (game.at[:-1] == game.at[-1]).all(1).sum() > 1
            if caught or late:
                games[i] = GridReference(obs[i], length, limit)
    assert ends["caught"] > 0
    assert ends["several at once"] > 0 or taggers != 6


def test_full_observations_of_the_grid_world_follow_the_rules():
    pool = headrace.make("TagGridWorld-v0", num_envs=3, num_taggers=3, full_observation=True, random_start=True, seed=1)
    obs, _ = pool.reset()
    games = []
    for o in obs:
        own = o[0, :8].reshape(2, 4).T
        games.append(GridReference(own, 10, 100))
        np.testing.assert_allclose(o, games[-1].full(), atol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = rng.integers(0, 5, (3, 4))
        obs, _, terminated, _, _ = pool.step(actions)
        for o, game, a in zip(obs, games, actions, strict=True):
            game.step(a)
            np.testing.assert_allclose(o, game.full(), atol=1e-6)
        if terminated.any():
            return


def test_the_grid_world_starts_at_fixed_or_uniformly_drawn_cells():
    fixed, _ = headrace.make("TagGridWorld-v0", num_envs=2, num_taggers=3, grid_length=11).reset()
    np.testing.assert_allclose(fixed[:, :3, :2], 5 / 11)
    np.testing.assert_array_equal(fixed[:, 3, :2], 0)
    drawn, _ = headrace.make("TagGridWorld-v0", num_envs=4000, num_taggers=3, seed=2, random_start=True).reset()
    cells = np.rint(drawn[:, :, :2] * 10).astype(int)
    counts = np.bincount(cells.ravel(), minlength=11)
    expected = counts.sum() / 11
    assert ((counts - expected) ** 2 / expected).sum() < 29.6  # chi-squared, 10 degrees of freedom, p = 0.001
    correlations = np.corrcoef(cells.reshape(4000, -1).T) - np.eye(8)
    assert abs(correlations).max() < 0.07


def test_players_that_swap_cells_do_not_tag():
    options: dict[str, Any] = {"num_taggers": 1, "grid_length": 1, "random_start": True}
    pool = headrace.make("TagGridWorld-v0", num_envs=200, seed=0, **options)
    obs, _ = pool.reset()
    cells = np.rint(obs[:, :, :2]).astype(int)
    side_by_side = (cells[:, 0, 1] == cells[:, 1, 1]) & (cells[:, 0, 0] != cells[:, 1, 0])
    actions = np.where(cells[:, :, 0] == 0, 1, 2)
    _, reward, terminated, _, _ = pool.step(actions)
    assert side_by_side.any() and not terminated[side_by_side].any()
    np.testing.assert_allclose(reward[side_by_side], [[-0.01, 0.01]] * side_by_side.sum(), atol=1e-7)


# ---- in the plane -----------------------------------------------------------------------------


class PlaneReference:
    """One game in the plane in float64, from a saved state on."""

    def __init__(self, state: dict[str, Any], options: dict[str, Any]):
        self.x, self.y, self.direction, self.speed, self.acceleration, self.in_game, self.t = map(
            np.array, (state[name] for name in STATE)
        )
        self.o = options
        self.is_runner = np.arange(len(self.x)) >= options["num_taggers"]

    def step(self, actions):
        o, self.t = self.o, self.t + 1
        levels = [
            np.concatenate([[0.0], np.linspace(-o[m], o[m], o[n])])
            for m, n in (("max_acceleration", "num_acceleration_levels"), ("max_turn", "num_turn_levels"))
        ]
        reward = np.zeros(len(self.x))
        for i in np.flatnonzero(self.in_game):
            self.direction[i] = (self.direction[i] + levels[1][actions[i, 1]]) % (2 * np.pi)
            self.acceleration[i] += levels[0][actions[i, 0]]
            fastest = o["max_speed"] * o["skill_runner" if self.is_runner[i] else "skill_tagger"]
            self.speed[i] = min(max(self.speed[i] + self.acceleration[i], 0), fastest)
            if min(self.speed[i], fastest - self.speed[i]) <= 1e-6 * fastest:
                self.acceleration[i] = 0
            x = self.x[i] + self.speed[i] * np.cos(self.direction[i])
            y = self.y[i] + self.speed[i] * np.sin(self.direction[i])
            self.x[i], self.y[i] = np.clip(x, 0, o["grid_length"]), np.clip(y, 0, o["grid_length"])
            if (x, y) != (self.x[i], self.y[i]):
                reward[i] -= o["edge_hit_penalty"]
        caught = []
        for i in np.flatnonzero(self.in_game & self.is_runner):
            distances = np.hypot(self.x - self.x[i], self.y - self.y[i])[~self.is_runner]
            nearest = int(np.argmin(distances))
            if distances[nearest] < o["tagging_distance"] * o["grid_length"]:
                reward[i] -= o["tag_penalty"]
                reward[nearest] += o["tag_reward"]
                caught.append(i)
        if o["runner_exits"]:
            self.in_game[caught] = False
        reward[~self.is_runner] -= o["step_cost"]
        reward[self.is_runner & self.in_game] += o["step_reward"] + o["end_reward"] * (self.t == o["max_episode_steps"])
        return reward, not (self.in_game & self.is_runner).any(), self.t >= o["max_episode_steps"]

    def observe(self):
        o, n = self.o, len(self.x)
        seen = np.zeros((n, 7 * (min(o["num_observed"], n - 1) if not o["full_observation"] else n - 1) + 1))
        for i in range(n):
            others = [j for j in range(n) if j != i]
            if not o["full_observation"]:
                distances = {j: np.hypot(self.x[j] - self.x[i], self.y[j] - self.y[i]) for j in others}
                others = sorted((j for j in others if self.in_game[j] and self.in_game[i]), key=lambda j: distances[j])
            for k, j in enumerate(others[: (seen.shape[1] - 1) // 7]):
                seen[i, 7 * k : 7 * k + 7] = [
                    (self.x[j] - self.x[i]) / (np.sqrt(2) * o["grid_length"]),
                    (self.y[j] - self.y[i]) / (np.sqrt(2) * o["grid_length"]),
                    (self.speed[j] - self.speed[i]) / o["max_speed"],
                    (self.acceleration[j] - self.acceleration[i]) / o["max_acceleration"],
                    (self.direction[j] - self.direction[i]) / (2 * np.pi),
                    self.is_runner[j],
                    self.in_game[j],
                ]
            seen[i, -1] = self.t / o["max_episode_steps"]
        return seen


def some_actions(pool: headrace.Pool, rng: np.random.Generator) -> np.ndarray:
    space = cast(gym.spaces.MultiDiscrete, pool.action_space)
    return rng.integers(0, space.nvec, (pool.num_envs, *space.shape))


STATE = dict.fromkeys(("x", "y", "direction", "speed", "acceleration"), float) | {"in_game": bool, "t": int}


@pytest.mark.parametrize(
    "options",
    [
        {"num_taggers": 2, "num_runners": 3, "grid_length": 5.0, "tagging_distance": 0.2},
        {"num_taggers": 3, "num_runners": 9, "grid_length": 8.0, "tagging_distance": 0.1, "num_observed": 4},
        {"num_taggers": 2, "num_runners": 4, "grid_length": 4.0, "full_observation": True, "tagging_distance": 0.1},
        {"num_taggers": 3, "num_runners": 3, "tagging_distance": 0.1, "runner_exits": False, "skill_runner": 0.5},
    ],
)
def test_the_plane_follows_the_rules(options):
    prices: dict[str, Any] = {"edge_hit_penalty": 0.3, "step_cost": 0.02, "step_reward": 0.05, "max_episode_steps": 40}
    pool = headrace.make("TagContinuous-v0", num_envs=6, seed=3, autoreset="disabled", **prices, **options)
    everything = {"max_episode_steps": 40, **pool.spec.options}
    n = pool.spec.num_agents
    arrays = arrays_of(pool)
    rng = np.random.default_rng(0)
    tags = ends = 0
    for _ in range(4):
        pool.reset()
        for _ in range(40):
            before = [{name: arrays[name][i].astype(dtype) for name, dtype in STATE.items()} for i in range(6)]
            actions = rng.integers(0, 21, (6, n, 2))
            obs, reward, terminated, truncated, info = pool.step(actions)
            for i in range(6):
                game = PlaneReference(before[i], everything)
                expected, caught, late = game.step(actions[i])
                np.testing.assert_allclose(reward[i], expected, atol=1e-5)
                assert (terminated[i], truncated[i]) == (caught, late)
                np.testing.assert_array_equal(info["alive"][i], game.in_game)
                difference = obs[i] - game.observe()
                difference[:, 4:-1:7] -= np.rint(difference[:, 4:-1:7])  # a whole turn more or less is none
                np.testing.assert_allclose(difference, 0, atol=2e-5)
                tags += (expected <= -5).sum()
                ends += caught
            if (terminated | truncated).any():
                break
    assert tags > 0


def test_players_in_the_plane_start_at_uniform_places_and_at_rest():
    pool = headrace.make("TagContinuous-v0", num_envs=500, seed=1, num_taggers=2, num_runners=2)
    pool.reset()
    arrays = arrays_of(pool)
    for name in ("x", "y"):
        assert arrays[name].min() >= 0 and arrays[name].max() <= 20
        assert abs(arrays[name].mean() - 10) < 5 * 20 / np.sqrt(12 * 2000)
    quarters = arrays["direction"] / (np.pi / 2)
    np.testing.assert_allclose(quarters, np.rint(quarters), atol=1e-6)
    assert set(np.rint(quarters).astype(int).ravel()) == {0, 1, 2, 3}
    assert not arrays["speed"].any()


# ---- both -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_thousand_agents_can_be_stepped(task):
    options: dict[str, Any] = {"num_taggers": 999} if "Grid" in task else {"num_taggers": 100, "num_runners": 900}
    with headrace.make(task, num_envs=2, num_threads=2, seed=0, **options) as pool:
        obs, _ = pool.reset()
        assert obs.shape[:2] == (2, 1000)
        obs, reward, *_ = pool.step(0 * some_actions(pool, np.random.default_rng(0)))
        assert np.isfinite(obs).all() and reward.shape == (2, 1000)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_the_clock_shows_the_share_of_the_limit_and_zero_without_a_limit(task, full):
    for limit, shown in ((8, [0, 1 / 8, 2 / 8, 3 / 8]), (0, [0, 0, 0, 0])):
        with headrace.make(
            task, num_envs=2, seed=0, grid_length=50, full_observation=full, max_episode_steps=limit
        ) as pool:
            seen = [pool.reset()[0]]
            for _ in range(3):
                seen.append(pool.step(0 * some_actions(pool, np.random.default_rng(0)))[0])
            assert all(one in pool.observation_space for obs in seen for one in obs)
        assert [set(obs[..., -1].ravel()) for obs in seen] == [{share} for share in shown]


@pytest.mark.parametrize("task", TASKS)
def test_pictures_show_players_and_trails(task):
    with headrace.make(task, num_envs=2, seed=0) as pool:
        pool.reset()
        first = pool.render([0, 1])
        assert first.shape == (2, 480, 480, 3) and first.dtype == np.uint8
        rng = np.random.default_rng(0)
        for _ in range(5):
            pool.step(some_actions(pool, rng))
        later = pool.render([0])[0]
        assert (later != first[0]).any()
        faint = (later != 250).all(-1).sum()
    with headrace.make(task, num_envs=2, seed=0, trail=0) as pool:
        pool.reset()
        rng = np.random.default_rng(0)
        for _ in range(5):
            pool.step(some_actions(pool, rng))
        assert (pool.render([0])[0] != 250).all(-1).sum() < faint


@pytest.mark.parametrize("task", TASKS)
def test_invalid_options_and_actions_are_refused(task):
    mistakes: list[dict[str, Any]] = [
        {"num_taggers": 0},
        {"num_tagger": 3},
        {"tag_reward": "high"},
        {"full_observation": 1},
    ]
    for wrong in mistakes:
        with pytest.raises(OptionError, match=next(iter(wrong))):
            headrace.make(task, **wrong)
    with headrace.make(task, num_envs=2) as pool:
        pool.reset()
        actions = 0 * some_actions(pool, np.random.default_rng(0))
        actions.flat[7] = 21
        with pytest.raises(ActionError, match="21"):
            pool.step(actions)
        with pytest.raises(ActionError, match="shape"):
            pool.step(actions[:, :3])

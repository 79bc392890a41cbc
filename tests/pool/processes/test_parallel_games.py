"""PettingZoo's parallel environments in processes: many agents, as PettingZoo steps them one environment at a time."""

from __future__ import annotations

import functools
import pickle
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("pettingzoo", reason="the extra 'pettingzoo' is not installed")

from pettingzoo.test import parallel_api_test

import headrace
from headrace.errors import EnvironmentFailure, OptionError
from headrace.train import train
from headrace.train.runs.metrics import read_metrics
from masked_parallel_games import Forbidding
from parallel_games import Numbered, Race

WALKERS = "pettingzoo.sisl.multiwalker_v9:parallel_env"
N = 3


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """PettingZoo warns of its own modules' names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def test_the_games_of_these_tests_pass_pettingzoos_api_test() -> None:
    for game in (Race(), Numbered()):
        parallel_api_test(game, num_cycles=60)


def test_agents_are_grouped_by_their_types() -> None:
    with headrace.make(Race, num_envs=N) as pool:
        assert [(kind.name, kind.count) for kind in pool.spec.agents] == [("hare", 2), ("tortoise", 1)]
        assert pool.spec.render_fps == 8 and pool.spec.num_agents == 3
        obs, info = pool.reset()
        assert {name: array.shape for name, array in obs.items()} == {"hare": (N, 2, 1), "tortoise": (N, 1, 3)}
        assert info["alive"].all() and info["alive"].shape == (N, 3)
    with headrace.make(Numbered, num_envs=N) as pool:
        assert [(kind.name, kind.count) for kind in pool.spec.agents] == [("agent", 2)]
        obs, _ = pool.reset()
        assert obs["place"].shape == (N, 2, 1) and obs["left"].tolist() == [[12, 12]] * N
        assert (obs["place"] >= 1).all()


def by_itself(game: Race, seed: int, actions: list[Any], autoreset: str) -> list[Any]:
    """Results of one environment, reset when no agent is left: rows of obs, reward, ends, alive, last obs …"""
    order = ["hare_0", "hare_1", "tortoise_0"]
    obs, _ = game.reset(seed=seed)
    rows, over = [], False
    for action in actions:
        reward, cut, last, infos = dict.fromkeys(order, 0.0), {}, None, {}
        if over:
            obs, _ = game.reset()
            acting: list[str] = []
        else:
            acting = list(game.agents)
            given = {"hare_0": action["hare"][0], "hare_1": action["hare"][1], "tortoise_0": action["tortoise"][0]}
            obs, earned, _, cut, infos = game.step({agent: given[agent] for agent in acting})
            reward |= earned
        alive, over = [agent in game.agents for agent in order], not game.agents
        stayed = [bool(cut.get(agent)) for agent in order]
        if over:
            last, alive = obs, stayed
            if autoreset == "same_step":
                obs, _ = game.reset()
                alive, over = [True] * 3, False
        truncated = last is not None and any(cut.values())
        terminated = last is not None and not truncated
        rows.append((obs, [reward[a] for a in order], terminated, truncated, alive, last, stayed, infos))
    return rows


def equal(dense: Any, seen: dict[str, Any], env: int) -> None:
    for kind, agents in (("hare", ["hare_0", "hare_1"]), ("tortoise", ["tortoise_0"])):
        for i, agent in enumerate(agents):
            np.testing.assert_array_equal(dense[kind][env, i], seen.get(agent, np.zeros_like(dense[kind][env, i])))


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_results_of_a_pool_equal_those_of_single_pettingzoo_environments(autoreset: Any) -> None:
    ends = 0
    with headrace.make(Race, num_envs=N, num_threads=2, seed=5, autoreset=autoreset, length=4.0) as pool:
        space = gym.vector.utils.batch_space(pool.action_space, N)
        space.seed(1)
        actions = [space.sample() for _ in range(60)]
        singles = [
            by_itself(Race(4.0), 5 + i, [{k: v[i] for k, v in a.items()} for a in actions], autoreset) for i in range(N)
        ]
        pool.reset()
        for t, action in enumerate(actions):
            obs, reward, terminated, truncated, info = pool.step(action)
            for i in range(N):
                seen, earned, ended, cut, alive, last, stayed, infos = singles[i][t]
                equal(obs, seen, i)
                np.testing.assert_array_equal(reward[i], np.array(earned, np.float32))
                assert (terminated[i], truncated[i], info["alive"][i].tolist()) == (ended, cut, alive)
                where = info["final_info"] if last is not None and autoreset == "same_step" else info
                if last is not None and autoreset == "same_step":
                    equal(info["final_obs"], last, i)
                    assert info["final_info"]["alive"][i].tolist() == stayed
                for agent, own in infos.items():
                    if own:
                        assert where[agent]["won"][i] == own["won"]
                ends += last is not None
    assert ends > 5


def test_options_attributes_rendering_and_saved_states_work_for_games() -> None:
    with headrace.make(Race, num_envs=N, num_threads=2, seed=0, length=9.0, max_episode_steps=4) as pool:
        pool.reset(options={"ahead": 50.0})
        assert (np.array(pool.call("state")) >= 50).all()
        assert pool.get_attr("length") == [9.0] * N
        pool.reset()
        pool.set_attr("length", [9.0, 0.0, 9.0])
        act = {"hare": np.ones((N, 2), np.int64), "tortoise": np.zeros((N, 1, 1), np.float32)}
        _, _, terminated, *_ = pool.step(act)
        assert terminated.tolist() == [False, True, False]
        assert pool.render([0]).shape == (1, 2, 4, 3)
        saved = pool.save_state()
        first = [pool.step(act) for _ in range(6)]
        pool.load_state(None, saved)
        for (obs, reward, _, truncated, info), (obs2, reward2, _, truncated2, info2) in zip(
            first, [pool.step(act) for _ in range(6)], strict=True
        ):
            np.testing.assert_array_equal(obs["hare"], obs2["hare"])
            for a, b in ((reward, reward2), (truncated, truncated2), (info["alive"], info2["alive"])):
                np.testing.assert_array_equal(a, b)
        assert any(result[3].any() for result in first)
        truncated, alive = first[2][3], first[2][4]["alive"]
        assert truncated[0] and alive[0].all(), "agents that the limit truncates are still alive"


def test_max_num_players_gives_the_flat_layout_of_envpool() -> None:
    with headrace.make(Race, num_envs=N, max_num_players=3, seed=0) as pool:
        obs, info = pool.reset()
        assert info["players"]["id"].tolist() == [0, 1, 2] * N
        assert obs["hare"].shape == (2 * N, 1) and obs["tortoise"].shape == (N, 3)


def test_a_local_game_class_with_cached_spaces_can_be_played_and_pickled() -> None:
    """As in PettingZoo's tutorials; no process can import a class that was made within a function."""

    class Cached(Race):
        @functools.lru_cache(maxsize=None)  # noqa: B019, UP033
        def observation_space(self, agent: Any) -> gym.Space:  # type: ignore[override]
            return super().observation_space(agent)

        @functools.cache  # noqa: B019
        def action_space(self, agent: Any) -> gym.Space:  # type: ignore[override]
            return super().action_space(agent)

    with headrace.make(Cached, num_envs=2, num_threads=1, seed=1) as pool:
        pool.reset()
        act = {"hare": np.ones((2, 2), np.int64), "tortoise": np.zeros((2, 1, 1), np.float32)}
        saved = pool.save_state()
        first = pool.step(act)[0]["hare"]
        pool.load_state(None, saved)
        np.testing.assert_array_equal(pool.step(act)[0]["hare"], first)
        with pickle.loads(pickle.dumps(pool)) as twin:
            np.testing.assert_array_equal(twin.step(act)[0]["hare"], pool.step(act)[0]["hare"])


class Broken(Race):
    def _seen(self, agents: list[str]) -> dict[str, Any]:
        return super()._seen(agents) if self.count < 2 else {"hare_0": np.zeros(7, np.float32)}


class Worded(Race):
    def observation_space(self, agent: Any) -> gym.Space:
        return gym.spaces.Text(8)


class Reserved(Race):
    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["alive_0", "alive_1"]


def in_turns() -> Any:
    from pettingzoo.classic import tictactoe_v3

    return tictactoe_v3.env()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Worded, "hare's space must be one array"),
        (Reserved, "an agent type cannot be called 'alive'"),
        (in_turns, "act in turns"),
    ],
)
def test_unsupported_games_are_refused_with_a_reason(task: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        headrace.make(task)


def test_an_observation_of_the_wrong_shape_raises_the_failure_of_its_environment() -> None:
    with headrace.make(Broken, num_envs=2) as pool:
        pool.reset()
        act = {"hare": np.ones((2, 2), np.int64), "tortoise": np.zeros((2, 1, 1), np.float32)}
        pool.step(act)
        with pytest.raises(EnvironmentFailure, match=r"what hare_0 sees has shape \(7,\); its space says \(1,\)"):
            pool.step(act)


@pytest.mark.parametrize("task", [WALKERS, f"{Path(__file__).parents[2] / 'parallel_games.py'}:Race"])
def test_training_runs_in_parallel_games_with_finite_metrics(task: str, tmp_path: Path) -> None:
    if task == WALKERS:
        pytest.importorskip("Box2D", reason="Box2D is not installed")
    settings: dict[str, Any] = {"num_envs": 4, "num_steps": 32, "log_steps": 1, "video": False}
    result = train(task, run_dir=tmp_path, quiet=True, total_steps=3 * 4 * 32, minibatch_size=64, **settings)
    assert result.steps >= 3 * 4 * 32
    lines = list(read_metrics(tmp_path / "metrics.jsonl"))
    assert lines and all(np.isfinite(v) for line in lines for v in line.values() if isinstance(v, float))


@pytest.mark.parametrize("in_infos", [False, True])
def test_action_masks_in_observations_or_infos_become_the_mask_of_the_pool(in_infos: bool) -> None:
    with headrace.make(Forbidding, num_envs=2, autoreset="same_step", in_infos=in_infos) as pool:
        assert pool.observation_space == gym.spaces.Box(0, 100, (3, 2), np.float32)
        obs, info = pool.reset()
        assert obs.tolist() == [[[0, 0]] * 3] * 2
        first = [[1, 0, 0, 1, 1], [1, 0, 0, 1, 1], [1, 0, 1, 0, 0]]
        assert info["action_mask"].dtype == np.int8 and info["action_mask"].tolist() == [first] * 2
        walkers, pair = np.zeros((2, 2), np.int64), np.zeros((2, 1, 2), np.int64)
        *_, info = pool.step({"walker": walkers, "pair": pair})
        assert info["action_mask"].tolist() == [[[0, 1, 0, 1, 1], [0, 1, 0, 1, 1], [0, 1, 0, 1, 0]]] * 2


def test_agents_truncated_early_are_marked_in_info() -> None:
    with headrace.make(Forbidding, num_envs=1, autoreset="same_step") as pool:
        _, info = pool.reset()
        seen = []
        for count in range(4):
            action = {"walker": np.full((1, 2), count % 3), "pair": np.array([[[count % 2, count % 3]]])}
            _, _, terminated, truncated, info = pool.step(action)
            own = info["final_info"] if truncated[0] else info
            seen.append((own["alive"][0].tolist(), own["truncations"][0].tolist(), bool(terminated[0])))
        assert seen == [
            ([True, True, True], [False, False, False], False),
            ([False, True, True], [True, False, False], False),
            ([False, True, True], [False, False, False], False),
            ([False, False, True], [False, False, True], False),
        ]
        assert not info["truncations"].any() and info["alive"].all()


@pytest.mark.parametrize("in_infos", [False, True])
def test_training_takes_only_actions_that_pettingzoos_masks_allow(tmp_path: Path, in_infos: bool) -> None:
    """The game raises when an agent takes a forbidden action."""
    task = f"{Path(__file__).parents[2] / 'masked_parallel_games.py'}:Forbidding"
    options = {"in_infos": in_infos}
    result = train(task, total_steps=600, num_envs=4, env_options=options, run_dir=tmp_path, quiet=True)
    assert result.mean_return is not None and result.mean_return > 0


class Silent(Race):
    """Has None for the infos of agents, and for the observations of those that left."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, infos = super().reset(seed=seed, options=options)
        return obs, dict.fromkeys(infos)

    def step(self, actions: Any) -> Any:
        obs, rewards, ended, cut, infos = super().step(actions)
        self.agents = self.agents or None  # type: ignore[assignment]
        return {**dict.fromkeys(self.possible_agents), **obs}, rewards, ended, cut, dict.fromkeys(infos)


def test_none_in_place_of_infos_observations_or_agents_counts_as_missing() -> None:
    with headrace.make(Race, num_envs=N, seed=3) as pool, headrace.make(Silent, num_envs=N, seed=3) as silent:
        pool.reset()
        silent.reset()
        for _ in range(30):
            action = {"hare": np.full((N, 2), 2), "tortoise": np.full((N, 1, 1), 0.7, np.float32)}
            (obs, *rest, info), (ours, *others, told) = pool.step(action), silent.step(action)
            pairs = zip((*obs.values(), *rest, info["alive"]), (*ours.values(), *others, told["alive"]), strict=True)
            for one, other in pairs:
                np.testing.assert_array_equal(one, other)


def test_a_game_without_possible_agents_is_refused() -> None:
    class Nobody(Race):
        def __init__(self) -> None:
            super().__init__()
            self.possible_agents = None  # type: ignore[assignment]

    with pytest.raises(OptionError, match="Nobody has possible_agents=None: list the names of all its agents"):
        headrace.make(Nobody)


@pytest.mark.parametrize(("place", "what"), [(0, "observation"), (1, "reward")])
def test_an_agent_in_the_game_without_an_observation_or_a_reward_is_a_failure(place: int, what: str) -> None:
    class Forgetful(Race):
        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            result[place].pop(self.agents[-1], None)
            return result

    with headrace.make(Forgetful, num_envs=1, seed=3) as pool:
        pool.reset()
        action = {"hare": np.full((1, 2), 2), "tortoise": np.full((1, 1, 1), 0.7, np.float32)}
        with pytest.raises(EnvironmentFailure, match=f"is among the agents, but has no {what}"):
            pool.step(action)

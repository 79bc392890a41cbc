"""EnvPool's players layout has the rows of the dense arrays, without those of agents that have left."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import headrace
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.errors import ActionError, ClosedError, EnvIdError, OptionError, SequenceError, StateError

RING, HUNT = "TestRing-v0", "TestHunt-v0"
N, AGENTS = 6, 5


def ring_actions(rng: np.random.Generator, n: int = N) -> Any:
    return rng.integers(0, 4, (n, AGENTS))


def hunt_actions(rng: np.random.Generator, n: int = N) -> Any:
    dog = np.stack([rng.integers(0, 3, (n, 2)), rng.integers(0, 10, (n, 2))], -1)
    return {"archer": rng.uniform(-1, 1, (n, 3, 2)).astype(np.float32), "dog": dog}


def flat_action(dense: Any, mask: np.ndarray) -> Any:
    """The rows of a dense action that a mask [k, agents] picks, in EnvPool's form."""
    if isinstance(dense, dict):
        return {"archer": dense["archer"][mask[:, :3]], "dog": dense["dog"][mask[:, 3:]]}
    return dense[mask]


def flat_obs(dense: Any, mask: np.ndarray) -> Any:
    return flat_action(dense, mask)


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(a, b)


CASES = [(RING, ring_actions), (HUNT, hunt_actions)]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize(("task", "draw"), CASES)
def test_rows_of_players_equal_those_of_the_dense_pool(task: str, draw: Any, mode: Any) -> None:
    rng = np.random.default_rng(0)
    dense: Any = headrace.make(task, num_envs=N, seed=3, autoreset=mode)
    pool: Any = headrace.make(task, num_envs=N, seed=3, autoreset=mode, max_num_players=9)
    with dense, pool:
        want, want_info = dense.reset()
        obs, info = pool.reset()
        alive = want_info["alive"]
        assert alive.all()
        assert_same(obs, flat_obs(want, alive))
        assert info["players"]["env_id"].tolist() == np.repeat(np.arange(N), AGENTS).tolist()
        assert info["players"]["id"].tolist() == list(range(AGENTS)) * N
        died = ended = 0
        for _ in range(80):
            action = draw(rng)
            result = pool.step(flat_action(action, alive))
            want, want_reward, want_terminated, want_truncated, want_info = dense.step(action)
            over = want_terminated | want_truncated
            acted = alive & ~((want_info["elapsed_step"] == 0) & ~over)[:, None]
            shown, alive = acted | want_info["alive"], want_info["alive"]

            obs, reward, terminated, truncated, info = result
            assert_same(obs, flat_obs(want, shown))
            assert_same(reward, want_reward[shown])
            assert_same([terminated, truncated], [want_terminated, want_truncated])
            players = info["players"]
            assert_same([players["env_id"], players["id"]], list(np.nonzero(shown)))
            assert players["env_id"].dtype == players["id"].dtype == np.int32
            assert_same(players["alive"], alive[shown])
            assert_same(info["elapsed_step"], want_info["elapsed_step"])
            assert "alive" not in info
            if task == RING:
                assert_same(players["luck"], want_info["luck"][shown])
                assert_same(info["living"], want_info["living"])
            if "final_obs" in want_info:
                assert_same(info["final_obs"], flat_obs(want_info["final_obs"], shown))
                assert_same(info["_final_obs"], (acted & over[:, None])[shown])
                assert_same(info["final_info"]["players"]["alive"], want_info["final_info"]["alive"][shown])
                assert_same(info["final_info"]["elapsed_step"], want_info["final_info"]["elapsed_step"])
            died += int((~shown).sum())
            ended += int(over.sum())
        assert died > 20
        assert ended > 5


@pytest.mark.parametrize("task", [RING, HUNT])
def test_observations_are_not_copied_while_all_players_are_alive(task: str) -> None:
    with headrace.make(task, num_envs=3, seed=0, max_num_players=AGENTS) as pool:
        obs, _ = pool.reset()
        for array in obs.values() if isinstance(obs, dict) else [obs]:
            assert array.base is not None


def forms(action: Any, players: dict[str, np.ndarray], rng: np.random.Generator) -> list[Any]:
    """The same actions in every form that EnvPool knows."""
    env_id, number = players["env_id"], players["id"]
    shuffled = rng.permutation(len(action))
    by_env = np.argsort(-env_id, kind="stable")  # environments backwards, players in order
    return [
        action,
        action.tolist(),
        {"action": action},
        {"players.action": action, "players.env_id": env_id},
        {"players": {"action": action, "env_id": env_id}, "env_id": np.arange(N)},
        {"players": {"action": action[by_env], "env_id": env_id[by_env]}},
        {"players": {"action": action[shuffled], "env_id": env_id[shuffled], "id": number[shuffled]}},
    ]


def test_actions_in_all_forms_of_envpool_give_the_same_results() -> None:
    rng = np.random.default_rng(1)
    pools: list[Any] = [headrace.make(RING, num_envs=N, seed=8, max_num_players=AGENTS) for _ in range(8)]
    starts = [pool.reset()[1] for pool in pools]
    players, keep = starts[0]["players"], np.ones(N * AGENTS, bool)
    for t in range(40):
        action = rng.integers(0, 4, int(keep.sum()))
        given = forms(action, {k: players[k][keep] for k in ("env_id", "id")}, rng)
        everyone = np.full(len(keep), 3)  # rows of players that have left are allowed, and ignored
        everyone[keep] = action
        given.append({"players": {"action": everyone, "env_id": players["env_id"]}} if t % 2 else everyone)
        results = [pool.step(form) for pool, form in zip(pools, given, strict=True)]
        for result in results[1:]:
            assert_same(list(result), list(results[0]))
        players = results[0][4]["players"]
        keep = players["alive"]
    for pool in pools:
        pool.close()


def test_partial_and_asynchronous_steps_have_the_rows_of_whole_steps() -> None:
    rng = np.random.default_rng(2)
    whole: Any = headrace.make(RING, num_envs=N, seed=4, max_num_players=AGENTS)
    parts: Any = headrace.make(RING, num_envs=N, seed=4, max_num_players=AGENTS)
    queue: Any = headrace.make(RING, num_envs=N, batch_size=2, seed=4, max_num_players=AGENTS)
    with whole, parts, queue:
        _, info = whole.reset()
        parts.reset()
        queue.async_reset()
        assert queue.is_async
        for _ in range(3):
            queue.recv(reset=True)
        alive = np.ones((N, AGENTS), bool)
        for _ in range(50):
            dense = ring_actions(rng)
            *result, info = whole.step(dense[alive])
            players = info["players"]
            for name in (parts, queue):
                order = rng.permutation(N).reshape(3, 2)
                for ids in order:
                    action = dense[ids][alive[ids]]
                    if name is parts:
                        got = parts.step(action, ids)
                    else:
                        queue.send({"players.action": action, "env_id": ids})
                        got = queue.recv()
                    assert got[4]["env_id"].tolist() == ids.tolist()
                    for row, i in enumerate(ids):
                        mine, theirs = got[4]["players"]["env_id"] == i, players["env_id"] == i
                        assert_same(got[0][mine], result[0][theirs])
                        assert_same(got[1][mine], result[1][theirs])
                        assert got[2][row] == result[2][i]
                        for key in ("id", "alive", "luck"):
                            assert_same(got[4]["players"][key][mine], players[key][theirs])
            alive[:] = False
            alive[players["env_id"][players["alive"]], players["id"][players["alive"]]] = True


def test_finished_environments_need_a_reset_if_autoreset_is_disabled() -> None:
    with headrace.make(HUNT, num_envs=2, seed=0, limit=2, autoreset="disabled", max_num_players=5) as pool:
        _, info = pool.reset()
        rng = np.random.default_rng(0)
        for _ in range(2):
            mask = np.zeros((2, 5), bool)
            players = info["players"]
            mask[players["env_id"][players["alive"]], players["id"][players["alive"]]] = True
            info = pool.step(flat_action(hunt_actions(rng, 2), mask))[4]
        assert (info["elapsed_step"] == 2).all()
        with pytest.raises(SequenceError, match="environment 0 has finished"):
            pool.step(flat_action(hunt_actions(rng, 2), pool._alive))
        _, info = pool.reset([1])
        assert info["players"]["env_id"].tolist() == [1] * 5
        *_, info = pool.step(flat_action(hunt_actions(rng, 1), np.ones((1, 5), bool)), [1])
        assert info["players"]["id"].tolist() == [0, 1, 2, 3, 4]


def test_saved_states_contain_the_players_that_are_alive() -> None:
    rng = np.random.default_rng(5)
    pool: Any = headrace.make(RING, num_envs=3, seed=2, max_num_players=AGENTS)
    pool.reset()
    players = {"alive": np.ones(15, bool)}
    while players["alive"].all() or len(players["alive"]) == 15:
        players = pool.step(rng.integers(0, 4, int(players["alive"].sum())))[4]["players"]
    other: Any = headrace.make(RING, num_envs=3, seed=77, max_num_players=AGENTS)
    other.load_state(None, pool.save_state())
    twin = pickle.loads(pickle.dumps(pool))
    for _ in range(20):
        action = rng.integers(0, 4, int(players["alive"].sum()))
        result = pool.step(action)
        assert_same(list(result), list(other.step(action)))
        assert_same(list(result), list(twin.step(action)))
        players = result[4]["players"]
    with pytest.raises(StateError, match="not a saved state"):
        other.load_state([0], [b"short"])
    with pytest.raises(StateError):
        other.load_state([0], pool.pool.save_state([0]))
    for each in (pool, other, twin):
        each.close()


WRONG = [
    (np.zeros(29, int), "30 players to act"),
    (np.zeros((6, 5), int), "30 players to act"),
    (np.zeros(30), "dtype float64"),
    (np.full(30, 4), "action 4"),
    ({"archer": np.zeros(30, int)}, "holds action"),
    ({"action": np.zeros(30, int), "players.id": np.zeros(30, int)}, "needs players.env_id"),
    ({"action": np.zeros(30, int), "players.env_id": np.zeros(30, int)}, "once for each player"),
    ({"action": np.zeros(30, int), "players.env_id": np.full(30, 7)}, r"in \[0, 5\]"),
    ({"action": np.zeros(5, int), "players.env_id": np.full(5, 3), "env_id": [2]}, "3 is not among"),
    ({"players": {"action": np.zeros(6, int), "env_id": [1] * 6, "id": [0, 1, 2, 3, 4, 4]}, "env_id": [1]}, "two act"),
    (
        {"players": {"action": np.zeros(4, int), "env_id": [1] * 4, "id": [0, 1, 2, 4]}, "env_id": [1]},
        "player 3 of",
    ),
    ({"players": {"action": np.zeros(5, int), "env_id": [1] * 5, "id": [0, 1, 2, 3, 5]}, "env_id": [1]}, r"\[0, 4\]"),
    ({"players": {"action": np.zeros(5, int), "env_id": [1] * 5, "id": [0, 1]}, "env_id": [1]}, "2 rows"),
    ([[1, 2], [3]], "one row a player"),
    ({"players": np.zeros(30, int)}, "players must be a dict"),
    ({"players": {"action": np.zeros(5, int), "env_id": [0.5] * 5}, "env_id": [1]}, "list of integers"),
]


@pytest.mark.parametrize(("action", "message"), WRONG)
def test_wrong_actions_are_refused_and_change_nothing(action: Any, message: str) -> None:
    with headrace.make(RING, num_envs=N, seed=1, max_num_players=AGENTS) as pool:
        pool.reset()
        before = pool.save_state()
        with pytest.raises(ActionError, match=message):
            pool.step(action)
        assert pool.save_state() == before
        pool.step(np.zeros(30, int))


def test_calls_in_the_wrong_order_are_refused() -> None:
    pool: Any = headrace.make(RING, num_envs=2, seed=1, max_num_players=AGENTS)
    with pytest.raises(SequenceError, match="environment 0 was never reset"):
        pool.step(np.zeros(10, int))
    pool.reset()
    pool.send(np.zeros(5, int), [1])
    with pytest.raises(SequenceError, match="environment 1 is in flight"):
        pool.send(np.zeros(10, int))
    pool.recv()
    pool.close()
    with pytest.raises(ClosedError):
        pool.step(np.zeros(10, int))


def test_repeated_env_ids_and_arrays_instead_of_dicts_are_refused() -> None:
    with headrace.make(RING, num_envs=N, seed=1, max_num_players=AGENTS) as pool:
        pool.reset()
        with pytest.raises(EnvIdError, match="more than once"):
            pool.step(np.zeros(10, int), [1, 1])
        with pytest.raises(ActionError, match="array for each of"):
            headrace.make(HUNT, max_num_players=AGENTS).send(np.zeros(5))


@pytest.mark.parametrize("players", [0, 2, 4, -5, 5.0, "5", None])
def test_wrong_values_of_max_num_players_are_refused(players: Any) -> None:
    with pytest.raises(OptionError, match=r"has 5 players: max_num_players must be 1 .* or at least 5"):
        headrace.make(RING, max_num_players=players)


def test_single_agent_tasks_and_other_views_refuse_max_num_players() -> None:
    with pytest.raises(OptionError, match="for one player"):
        headrace.make("CartPole-v1", max_num_players=2)
    for env_type in ("dm", "vec"):
        with pytest.raises(OptionError, match="only env_type='gym' has a row for each player"):
            headrace.make(RING, env_type, max_num_players=5)  # type: ignore[call-overload]


def test_the_spaces_of_a_players_pool_are_those_of_one_player() -> None:
    with headrace.make_gym(RING, num_envs=4, seed=0, max_num_players=8) as pool:
        assert pool.action_space.n == 4  # type: ignore[attr-defined]
        assert pool.observation_space.shape == (2,)
        assert pool.config["max_num_players"] == 8
        assert len(pool) == 4
        assert "PlayersPool" in repr(pool)
        assert pool.render is not None
    with headrace.make(HUNT, max_num_players=5) as pool:
        assert set(pool.action_space) == {"archer", "dog"}  # type: ignore[arg-type]


def drive(env: Any, steps: int) -> None:
    """A program for EnvPool's environments of several players, in EnvPool's words."""
    obs, info = env.reset()
    n = len(env)
    for _ in range(steps):
        players = info["players"]["env_id"]
        assert obs.shape[0] == len(players)
        assert players.dtype == np.int32
        action = np.zeros(len(players), np.int32)
        sent = {"env_id": np.arange(n, dtype=np.int32), "players.env_id": players, "players.action": action}
        obs, reward, terminated, truncated, info = env.step(sent)
        assert reward.shape == info["players"]["env_id"].shape
        assert terminated.shape == truncated.shape == info["elapsed_step"].shape == (n,)
    assert len(env.step(np.zeros(len(info["players"]["env_id"]), np.int32))) == 5


def test_a_program_written_for_envpool_runs() -> None:
    drive(headrace.make("TagGridWorld-v0", num_envs=3, num_taggers=4, max_num_players=5), 20)


def test_envpool_itself_runs_the_same_program() -> None:
    envpool = pytest.importorskip("envpool", reason="EnvPool is not installed")
    drive(envpool.make_gymnasium("IntersectionMultiAgent-v0", num_envs=3), 20)

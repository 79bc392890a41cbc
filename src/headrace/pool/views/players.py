"""Multi-agent environments in EnvPool's ``players`` layout: one flat row for each player in the game.

The pool's own layout is dense, with a row for every agent whether it is alive or not. EnvPool concatenates the rows of
the players of a batch, with an index of their environments. If all agents are alive, the two layouts are identical in
memory and no data are copied; otherwise the rows of agents that have left are removed from results, and added to
actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import ActionError, OptionError, StateError
from headrace.pool.actions import check_env_ids
from headrace.pool.columns import Column, columns
from headrace.pool.pool import Pool, StepResult
from headrace.pool.seeds import SeedLike
from headrace.pool.state import seal, task_key, unseal_all

PLAYERS = "players"


class PlayersPool:
    """A pool of a multi-agent task in EnvPool's layout; made by ``headrace.make(task, max_num_players=…)``.

    Results are ``(obs [p, …], reward float32[p], terminated bool[k], truncated bool[k], info)`` for the p
    players of k environments: those in the game before the step or after it. ``info`` is the pool's, except that
    fields of agents are in ``info["players"]``: ``env_id`` int32[p], ``id`` int32[p] (the agent's number in its
    environment), ``alive`` bool[p] (whether it continues), and the task's info fields for agents [p, …]. Rows are
    ordered by environment, and within an environment by the agents' numbers.

    If agent types have different spaces, obs is a dict with an array for each type, whose rows are its players.

    Args:
        pool: the underlying pool; closed with this object.
        max_num_players: at least the number of agents of one environment; reported in `config`.

    Raises:
        OptionError: the task has one agent, or ``max_num_players`` is smaller than the number of agents.
    """

    def __init__(self, pool: Pool, max_num_players: int):
        self.pool, self.spec = pool, pool.spec
        agents = pool.spec.num_agents
        whole = isinstance(max_num_players, int | np.integer) and not isinstance(max_num_players, bool)
        if not pool.spec.agents:
            raise OptionError(f"{pool.spec.task} is for one player: max_num_players must be 1, not {max_num_players!r}")
        if not whole or max_num_players < agents:
            raise OptionError(
                f"{pool.spec.task} has {agents} players: max_num_players must be 1 (one dense row an environment) "
                f"or at least {agents}, not {max_num_players!r}"
            )
        self.config = {**pool.config, "max_num_players": max_num_players}
        self.num_envs, self.batch_size, self.is_async = pool.num_envs, pool.batch_size, pool.is_async
        self.all_env_ids, self.autoreset, self.device = pool.all_env_ids, pool.autoreset, pool.device
        self.async_reset, self.render = pool.async_reset, pool.render
        self._seen, self._acted = columns(pool.spec, "observation"), columns(pool.spec, "action")
        self.observation_space: Any = _single(self._seen)
        self.action_space: Any = _single(self._acted)
        self.single_observation_space, self.single_action_space = self.observation_space, self.action_space
        self._per_agent = [f.name for f in pool.spec.info if f.per_agent]
        self._numbers = np.arange(agents, dtype=np.int32)
        self._key = task_key(pool.spec, f"{pool.autoreset}, {PLAYERS}")
        # for the last result of each environment: whether each agent continues, and whether it had a row
        self._alive = np.zeros((pool.num_envs, agents), np.bool_)
        self._shown = np.zeros((pool.num_envs, agents), np.bool_)

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        return f"<PlayersPool of {self.pool!r}>"

    def reset(
        self, env_id: Any = None, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; see `Pool.reset`."""
        obs, info = self.pool.reset(env_id, seed=seed, options=options)
        shown = self._note(info, np.zeros(len(info["env_id"]), np.bool_))
        return self._players(obs, shown), info

    def step(self, action: Any, env_id: Any = None) -> StepResult:
        """Advances all environments, or those of ``env_id``, by one agent step; see `send` and `Pool.step`."""
        return self._stepped(*self.pool.step(*self._dense(action, env_id)))

    def send(self, action: Any, env_id: Any = None) -> None:
        """Starts one step and returns immediately.

        Args:
            action: an array [p, …] with one row for each player, in the order of the last results, with or without rows
                for players that have left. Or a dict of ``action``, or one array for each agent type; ``env_id``; and
                ``players.env_id`` (with ``players.id``, rows may be in any order). EnvPool's nested form,
                ``{"players": {"env_id": …, "action": …}}``, is equivalent.
            env_id: the environments to step; all by default.

        Raises:
            ActionError: a player's action is missing, given twice, or wrong; no environment was stepped.
        """
        self.pool.send(*self._dense(action, env_id))

    def recv(self, timeout: float | None = None, *, reset: bool = False, return_info: bool = True) -> Any:
        """Returns the next results; see `Pool.recv`."""
        obs, *rest, info = self._stepped(*self.pool.recv(timeout))
        if reset:
            return (obs, info) if return_info else obs
        return (obs, *rest, info)

    def save_state(self, env_ids: Any = None) -> list[bytes]:
        """Returns the complete state of the environments ``env_ids``, one `bytes` each; see `Pool.save_state`."""
        ids = self.all_env_ids if env_ids is None else check_env_ids(env_ids, self.num_envs)
        rows = np.hstack([self._alive, self._shown])
        states = zip(ids, self.pool.save_state(ids), strict=True)
        return [seal(rows[i].tobytes() + blob, self._key, False) for i, blob in states]

    def load_state(self, env_ids: Any, blobs: list[bytes]) -> None:
        """Loads saved states into the environments ``env_ids`` (None: all); see `Pool.load_state`.

        Raises:
            StateError: a state is damaged, or was not saved by a `PlayersPool` of this task; no environment has
                changed.
        """
        ids = self.all_env_ids if env_ids is None else check_env_ids(env_ids, self.num_envs)
        states = [state for state, _ in unseal_all(blobs, self._key, ids)]
        size = 2 * self._alive.shape[1]
        for i, state in zip(ids, states, strict=True):
            if len(state) < size or max(state[:size]) > 1:
                raise StateError(f"the state for environment {i} is damaged")
        self.pool.load_state(ids, [state[size:] for state in states])
        rows = np.array([np.frombuffer(state, np.bool_, size) for state in states])
        self._alive[ids], self._shown[ids] = np.hsplit(rows, 2)

    def close(self) -> None:
        self.pool.close()

    def __enter__(self) -> PlayersPool:
        self.pool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., PlayersPool], tuple[Any, ...]]:
        return _rebuild, (self.pool, self.config["max_num_players"], self._alive, self._shown)

    # -- from dense rows to players and back -----------------------------------------------------

    def _stepped(
        self, obs: Any, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]
    ) -> StepResult:
        shown = self._note(info, terminated | truncated)
        return self._players(obs, shown), _flat(reward, shown), terminated, truncated, info

    def _note(self, info: dict[str, Any], over: np.ndarray) -> np.ndarray:
        """Moves agents' info to ``info["players"]``; returns bool[k, agents], whether each agent has a row.

        These are the agents that acted in the step or act in the next one.
        """
        ids, alive = info["env_id"], info["alive"]
        fresh = (info["elapsed_step"] == 0) & ~over  # no agent acts in a reset
        acted = self._alive[ids] & ~fresh[:, None]
        shown = alive | acted
        self._alive[ids], self._shown[ids] = alive, shown

        if shown.all():
            env_id, number = np.repeat(ids, alive.shape[1]), np.tile(self._numbers, len(ids))
        else:
            rows, agents = np.nonzero(shown)
            env_id, number = ids[rows], agents.astype(np.int32)
        whose = {"env_id": env_id, "id": number}
        info[PLAYERS] = whose | {name: _flat(info.pop(name), shown) for name in self._per_agent}
        if "final_obs" in info:
            final = info["final_info"]
            final[PLAYERS] = whose | {name: _flat(final.pop(name), shown) for name in self._per_agent}
            info["final_obs"] = self._players(info["final_obs"], shown)
            info["_final_obs"] = (over[:, None] & acted)[shown]
        return shown

    def _players(self, obs: Any, shown: np.ndarray) -> Any:
        found = {c.name: _flat(c.of(obs), shown[:, c.first : c.first + c.count]) for c in self._seen}
        return found.get(None, found)

    def _dense(self, action: Any, env_id: Any) -> tuple[Any, np.ndarray | None]:
        """Returns the arguments of the pool's own `step`: dense actions and env_ids."""
        values, named = self._unpack(action)
        given = named.get("env_id") if env_id is None else env_id
        ids = self.all_env_ids if given is None else check_env_ids(given, self.num_envs)
        self.pool.check_steppable(ids)  # otherwise a call out of sequence would look like a wrong number of rows
        whose = self._whose(values, named, ids)
        dense = {c.name: _filled(c, values[c.name], whose, len(ids)) for c in self._acted}
        return dense.get(None, dense), None if given is None else ids

    def _unpack(self, action: Any) -> tuple[dict[str | None, np.ndarray], dict[str, Any]]:
        """Returns the arrays of actions by their columns' names, and the other entries of a dict in EnvPool's form."""
        names = [c.name for c in self._acted]
        if not isinstance(action, Mapping):
            if names != [None]:
                raise ActionError(f"actions must be a dict with an array for each of {sorted(map(str, names))}")
            return {None: _array("action", action)}, {}
        flat = {k: v for k, v in action.items() if k != PLAYERS}
        nested = action.get(PLAYERS, {})
        if not isinstance(nested, Mapping):
            raise ActionError(f"players must be a dict with env_id and actions, not {type(nested).__name__}")
        flat |= {f"{PLAYERS}.{k}": v for k, v in nested.items()}
        named = {k: flat.pop(k) for k in ("env_id", f"{PLAYERS}.env_id", f"{PLAYERS}.id") if k in flat}
        plain = {str(k).removeprefix(f"{PLAYERS}."): v for k, v in flat.items()}
        if plain.keys() != {name or "action" for name in names}:
            wanted = ", ".join(name or "action" for name in names)
            raise ActionError(f"a dict of actions holds {wanted} and env_ids, not {sorted(plain)}")
        return {name: _array(name or "action", plain[name or "action"]) for name in names}, named

    def _whose(
        self, values: Mapping[Any, np.ndarray], named: Mapping[str, Any], ids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns the actions' players, as rows of ``ids`` and agents' numbers; None for all players in order."""
        alive, shown = self._alive[ids], self._shown[ids]
        env_id, number = named.get(f"{PLAYERS}.env_id"), named.get(f"{PLAYERS}.id")
        if env_id is None:
            if number is not None:
                raise ActionError("players.id needs players.env_id")
            expected = self._expected(values, alive, shown)
            if expected.all():
                return None
            rows, agents = np.nonzero(expected)
            return rows, agents
        env_id = _integers(f"{PLAYERS}.env_id", env_id, self.num_envs)
        row_of = np.full(self.num_envs, -1)
        row_of[ids] = np.arange(len(ids))
        rows = row_of[env_id]
        if (rows < 0).any():
            raise ActionError(f"players.env_id {env_id[rows < 0][0]} is not among the environments to be stepped")
        if number is None:
            return rows, _agents_in_order(rows, env_id, alive, shown)
        agents = _integers(f"{PLAYERS}.id", number, alive.shape[1])
        _check_each_acts_once(rows, agents, ids, alive)
        return rows, agents

    def _expected(self, values: Mapping[Any, np.ndarray], alive: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Returns bool[k, agents], the agents of the actions: the living ones, or all of the last result.

        The number of rows of the actions decides.

        Raises:
            ActionError: it fits neither.
        """
        for mask in (alive, shown):
            if all(values[c.name].shape[:1] == (mask[:, c.first : c.first + c.count].sum(),) for c in self._acted):
                return mask
        given = {c.name or "action": list(values[c.name].shape) for c in self._acted}
        raise ActionError(f"there are {alive.sum()} players to act, one row each, but actions have shapes {given}")


def _agents_in_order(rows: np.ndarray, env_id: np.ndarray, alive: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Returns the agents' numbers of the players in these rows of environments, in order within each environment.

    An environment that is named once for each living player has actions of these; otherwise it must be named once for
    each player of its last result.
    """
    order = np.argsort(rows, kind="stable")
    expected = np.where((np.bincount(rows, minlength=len(alive)) == alive.sum(1))[:, None], alive, shown)
    found, numbers = np.nonzero(expected)
    if not np.array_equal(found, rows[order]):
        raise ActionError(f"players.env_id must name each environment once for each player: {env_id.tolist()}")
    agents = np.empty_like(numbers)
    agents[order] = numbers
    return agents


def _check_each_acts_once(rows: np.ndarray, agents: np.ndarray, ids: np.ndarray, alive: np.ndarray) -> None:
    """Raises `ActionError` unless every living player has one action, and none has two."""
    if len(agents) != len(rows):
        raise ActionError(f"players.id has {len(agents)} rows, players.env_id {len(rows)}")
    times = np.zeros(alive.shape, int)
    np.add.at(times, (rows, agents), 1)
    if (wrong := (times > 1) | (alive & (times == 0))).any():
        row, agent = np.argwhere(wrong)[0]
        what = "two actions" if times[row, agent] else "no action"
        raise ActionError(f"player {agent} of environment {ids[row]} has {what}")


def _rebuild(pool: Pool, max_num_players: int, alive: np.ndarray, shown: np.ndarray) -> PlayersPool:
    view = PlayersPool(pool, max_num_players)
    view._alive[:], view._shown[:] = alive, shown
    return view


def _single(of: list[Column]) -> gym.Space:
    return of[0].space if of[0].name is None else gym.spaces.Dict({c.name: c.space for c in of if c.name})


def _flat(dense: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Returns the rows [p, …] of players in a dense array [k, agents, …], without a copy if all agents have a row."""
    return dense.reshape(-1, *dense.shape[2:]) if shown.all() else dense[shown]


def _filled(column: Column, array: np.ndarray, whose: tuple[np.ndarray, np.ndarray] | None, k: int) -> np.ndarray:
    """Returns dense actions [k, count, …] from those of some players; the others get a valid action."""
    space, name, count = column.space, column.name or "action", column.count
    shape, dtype = tuple(space.shape or ()), np.dtype(space.dtype)
    own = None if whose is None else (whose[1] >= column.first) & (whose[1] < column.first + count)
    needed = (k * count if own is None else int(own.sum()), *shape)
    if array.shape != needed:
        raise ActionError(f"{name} has shape {array.shape}; this call needs {needed}, one row a player")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ActionError(f"{name} has dtype {array.dtype}; this task needs {dtype}")
    if dtype.kind in "iu" and (wrapped := array.astype(dtype) != array).any():
        raise ActionError(f"{name}: {array[wrapped].flat[0]} does not fit into {dtype}")
    if whose is None or own is None:
        return array.reshape(k, count, *shape)
    dense = column.filler(k)
    dense[whose[0][own], whose[1][own] - column.first] = array
    return dense


def _array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ActionError(f"{name} must be an array with one row a player: {error}") from None


def _integers(name: str, values: Any, limit: int) -> np.ndarray:
    array = _array(name, values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ActionError(f"{name} must be a list of integers, not {array.dtype}{list(array.shape)}")
    if array.size and (array.min() < 0 or array.max() >= limit):
        raise ActionError(f"{name} must be in [0, {limit - 1}]: {array.min()} … {array.max()}")
    return array

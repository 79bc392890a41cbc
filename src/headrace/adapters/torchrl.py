"""A pool as a TorchRL environment, whose batch dimension counts the pool's environments.

    >>> from headrace.adapters.torchrl import HeadraceEnv
    >>> env = HeadraceEnv(headrace.make("CartPole-v1", num_envs=8, autoreset="same_step"))
    >>> env.rollout(100, break_when_any_done=False)["next", "reward"].shape
    torch.Size([8, 100, 1])

TorchRL expects an episode's last observation from a step, and the next episode's first one from a later `reset`. The
pool returns both in one step, so most resets only return stored observations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.adapters.tensors import AnyPool, check_pool, device_of, given, kept
from headrace.errors import OptionError, SequenceError
from headrace.pool.columns import Column, columns
from headrace.pool.pool import Pool
from headrace.pool.spec import Field, TaskSpec, bounds, subspaces
from headrace.pool.torch.tensors import torch_dtype

try:
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, TensorSpec, Unbounded
    from torchrl.envs import EnvBase
except ImportError as error:
    raise ImportError(f"this adapter needs TorchRL ({error}): pip install torchrl") from error


class HeadraceEnv(EnvBase):
    """A pool as a `torchrl.envs.EnvBase` of batch size [num_envs], on the pool's device.

    An observation that is one array is called ``"observation"``; those of a `Dict` space have their keys as names.
    Discrete actions are `Categorical`. In a multi-agent task each agent type is a group: ``("tagger", "observation")``,
    ``("tagger", "action")``, ``("tagger", "reward")``, and ``("tagger", "mask")``, which marks the agents still in the
    game, have shapes [num_envs, agents, …]; episodes end for all agents together.

    After ``set_seed(s)`` the next `reset` of all environments seeds environment i with ``s + i``.

    Args:
        pool: a pool from `headrace.make`; or from `make_torch`, for environments on a device, whose results stay there.
            It must be made with ``autoreset="same_step"``, and is closed with this environment.
        info: names of info fields that are also observed, such as ``["lives"]``.

    Raises:
        OptionError: the pool is asynchronous, has another autoreset mode, has no such info field, or has a space that
            TorchRL's specs cannot describe.
    """

    def __init__(self, pool: AnyPool, info: Iterable[str] = ()):
        check_pool(pool, "TorchRL")
        spec, self.pool, self._rows = pool.spec, pool, pool.num_envs
        super().__init__(device=device_of(pool), batch_size=torch.Size([self._rows]))
        self._infos = _info_fields(spec, info)
        self._groups = _groups(spec)
        self._acted = columns(spec, "action") if spec.agents else []
        self._seen = columns(spec, "observation") if spec.agents else []
        self._make_specs(spec)
        self._seed: int | None = None
        self._newest = self._dict({}, self._rows)  # newest observations; the next episode's where one ended
        self._begun = torch.zeros(self._rows, dtype=torch.bool, device=self.device)  # reset here, not yet by TorchRL

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes the pool. Further calls have no effect."""
        self.is_closed = True
        self.pool.close()

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        self.is_closed = False
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None:
            self._newest, self._seed = self._observed(*self.pool.reset(seed=self._seed)), None
            self._begun = torch.zeros_like(self._begun)
            return self._newest.clone(recurse=False)
        mask = mask.reshape(self._rows)
        rows = (mask & ~self._begun).nonzero().flatten()
        if len(rows):
            self._newest = self._newest.clone()
            self._newest[rows] = self._observed(*self.pool.reset(rows.cpu().numpy()))
        self._begun = self._begun & ~mask
        return self._newest.clone(recurse=False)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = tensordict.get("_step", None)  # the environments to step, in a rollout that ends with the last episode
        if mask is not None:
            return self._step_some(tensordict, mask.reshape(self._rows))
        self._check_begun(self._begun)
        result = self.pool.step(given(self.pool, self._action(tensordict)))
        shown, self._newest, self._begun = self._stepped(result)
        return shown

    def _step_some(self, tensordict: TensorDictBase, mask: torch.Tensor) -> TensorDictBase:
        self._check_begun(self._begun & mask)
        rows = mask.nonzero().flatten()
        ids: Any = rows.numpy() if isinstance(self.pool, Pool) else rows
        shown, newest, begun = self._stepped(self.pool.step(given(self.pool, self._action(tensordict[mask])), ids))
        whole = self._skip_tensordict(tensordict)
        self._newest, self._begun = self._newest.clone(), self._begun.clone()
        whole[rows], self._newest[rows], self._begun[rows] = shown, newest, begun
        return whole

    def _check_begun(self, begun: torch.Tensor) -> None:
        if self.device.type == "cpu" and begun.any():  # on a GPU the check would wait for the device
            which = int(begun.nonzero()[0])
            raise SequenceError(f"environment {which} cannot be stepped, for its episode is over: reset it first")

    # -- between a pool's results and TensorDicts ------------------------------------------------------

    def _stepped(self, result: Any) -> tuple[TensorDict, TensorDict, torch.Tensor]:
        """Returns TorchRL's data of a step, the newest observations, and which of these begin an episode, bool[k]."""
        obs, reward, terminated, truncated, info = result
        newest, reward, terminated, truncated = self._observed(obs, info), *map(kept, (reward, terminated, truncated))
        done = terminated | truncated
        shown = newest.clone(recurse=False)
        if "final_obs" in info:
            shown = self._observed(info["final_obs"], info["final_info"]).where(done, newest)
        for name, (first, last) in self._groups.items():
            shown[name, "reward"] = reward[:, first:last, None]
        if not self._groups:
            shown["reward"] = reward[:, None]
        shown["done"], shown["terminated"], shown["truncated"] = done[:, None], terminated[:, None], truncated[:, None]
        return shown, newest, done

    def _observed(self, obs: Any, info: Mapping[str, Any]) -> TensorDict:
        rows = len(info["elapsed_step"])
        found = {name: kept(info[name]) for name in self._infos}
        if not self._groups:
            return self._dict(found | (kept(obs) if isinstance(obs, dict) else {"observation": kept(obs)}), rows)
        whole, alive = [(column, kept(column.of(obs))) for column in self._seen], kept(info["alive"])
        for name, (first, last) in self._groups.items():
            theirs = {
                self._key(column, "observation"): array[:, first - column.first : last - column.first]
                for column, array in whole
                if _holds(column, first)
            }
            found[name] = self._dict(theirs | {"mask": alive[:, first:last]}, rows, last - first)
        return self._dict(found, rows)

    def _dict(self, values: Mapping[str, Any], *shape: int) -> TensorDict:
        return TensorDict(dict(values), shape, device=self.device)

    def _action(self, tensordict: TensorDictBase) -> Any:
        space = self.pool.action_space
        if not self._groups:
            named = isinstance(space, gym.spaces.Dict)
            return tensordict.select(*space.spaces).to_dict() if named else tensordict["action"]
        found: dict[str | None, torch.Tensor] = {}
        for column in self._acted:
            key = self._key(column, "action")
            theirs = [tensordict[name, key] for name, (first, _) in self._groups.items() if _holds(column, first)]
            found[column.name] = torch.cat(theirs, 1)
        return found.get(None, found)

    def _key(self, column: Column, which: str) -> str:
        """Returns the name of an array within its group."""
        return which if column.name is None or column.name in self._groups else column.name

    # -- specs -----------------------------------------------------------------------------------------

    def _make_specs(self, spec: TaskSpec) -> None:
        here = torch.Size([self._rows])
        observed, acted, earned = {}, {}, {}
        for kind in spec.agents:
            shape = torch.Size([self._rows, kind.count])
            seen = self._named("observation", kind.observation, shape) | {"mask": self._flags(shape)}
            observed[kind.name] = self._composite(seen, shape)
            acted[kind.name] = self._composite(self._named("action", kind.action, shape), shape)
            earned[kind.name] = self._composite({"reward": self._floats(shape)}, shape)
        if not spec.agents:
            observed, acted = (self._named(which, getattr(spec, which), here) for which in ("observation", "action"))
            earned = {"reward": self._floats(here)}
        for name, field in self._infos.items():
            shape = torch.Size([*here, *field.shape])
            observed[name] = Unbounded(shape, dtype=torch_dtype(field.dtype), device=self.device)
        ends = {key: self._flags(torch.Size([*here, 1])) for key in ("done", "terminated", "truncated")}
        if taken := observed.keys() & {*acted, *earned, *ends} if not spec.agents else ():
            raise OptionError(f"{spec.task}: the observation {min(taken)!r} has a name that TorchRL uses: rename it")
        self.observation_spec, self.action_spec = self._composite(observed, here), self._composite(acted, here)
        self.reward_spec, self.done_spec = self._composite(earned, here), self._composite(ends, here)

    def _named(self, name: str, space: gym.Space, batch: torch.Size) -> dict[str, TensorSpec]:
        parts = space.spaces if isinstance(space, gym.spaces.Dict) else {name: space}
        return {key: self._spec(part, batch) for key, part in parts.items()}

    def _spec(self, space: gym.Space, batch: torch.Size) -> TensorSpec:
        """Returns the spec of a batch of this space's values; raises `OptionError` if TorchRL has none."""
        if isinstance(space, gym.spaces.Dict):
            return self._composite(self._named("", space, batch), batch)
        shape = torch.Size([*batch, *(space.shape or ())])
        if isinstance(space, gym.spaces.MultiBinary):
            return Binary(shape=shape, dtype=torch_dtype(space.dtype), device=self.device)
        if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
            return _choices(space, shape, self.device)
        if isinstance(space, gym.spaces.Box):
            return _box(space, shape, self.device)
        raise OptionError(f"{self.pool.spec.task}: TorchRL has no spec for {space}")

    def _floats(self, shape: torch.Size) -> TensorSpec:
        return Unbounded(torch.Size([*shape, 1]), dtype=torch.float32, device=self.device)

    def _flags(self, shape: torch.Size) -> TensorSpec:
        return Categorical(2, shape, dtype=torch.bool, device=self.device)

    def _composite(self, specs: Mapping[str, TensorSpec], shape: torch.Size) -> Composite:
        return Composite(dict(specs), shape=shape, device=self.device)


def _choices(space: gym.spaces.Discrete | gym.spaces.MultiDiscrete, shape: torch.Size, device: Any) -> TensorSpec:
    if np.any(space.start):  # TorchRL's choices count from 0
        return _box(space, shape, device)
    count = np.asarray(space.n if isinstance(space, gym.spaces.Discrete) else space.nvec)
    dtype = torch_dtype(space.dtype)
    if (count == count.flat[0]).all():
        return Categorical(int(count.flat[0]), shape, dtype=dtype, device=device)
    return MultiCategorical(torch.from_numpy(count), shape, dtype=dtype, device=device)


def _box(space: gym.Space, shape: torch.Size, device: Any) -> TensorSpec:
    """Returns the spec of values between the space's bounds, or without bounds if one is infinite."""
    dtype, ends = torch_dtype(space.dtype), [np.asarray(end) for end in bounds(space)]
    if not all(np.isfinite(end).all() for end in ends):
        return Unbounded(shape, dtype=dtype, device=device)
    low, high = (torch.as_tensor(end, dtype=dtype, device=device).expand(shape) for end in ends)
    return Bounded(low, high, shape, dtype=dtype, device=device)


def _groups(spec: TaskSpec) -> dict[str, tuple[int, int]]:
    """Returns agent type → (number of its first agent, number after its last agent)."""
    ends = np.cumsum([kind.count for kind in spec.agents]).tolist()
    return {kind.name: (end - kind.count, end) for kind, end in zip(spec.agents, ends, strict=True)}


def _holds(column: Column, agent: int) -> bool:
    return column.first <= agent < column.first + column.count


def _info_fields(spec: TaskSpec, names: Iterable[str]) -> dict[str, Field]:
    known = {field.name: field for field in (*spec.info, Field("elapsed_step", np.dtype(np.int32)))}
    asked = [names] if isinstance(names, str) else list(names)
    if unknown := [name for name in asked if name not in known]:
        raise OptionError(f"{spec.task} has no info field {unknown[0]!r}; it has {', '.join(known)}")
    if taken := set(asked) & {"observation", "action", "reward", *subspaces(spec.observation)}:
        raise OptionError(
            f"{min(taken)!r} names something else in TorchRL: it cannot be an info field that is observed"
        )
    return {name: known[name] for name in asked}

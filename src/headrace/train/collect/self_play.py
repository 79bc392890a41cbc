"""Self-play: policies that act with past versions of another policy.

A policy that plays only against its present self can learn in circles, and forget how to beat earlier versions. Past
versions as opponents prevent that (Bansal et al. 2018, arXiv:1710.03748, who also draw them uniformly). They are stored
beside the network, and copied into the network that plays them, so that every rollout runs the same program or CUDA
graph, whichever version is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.collect.rollout_buffer import Experience
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.config import Config


class OpponentPool:
    """Past versions of a policy.

    When the pool is full, the version whose two neighbours are closest to each other in time is removed; the first and
    the newest stay. The versions therefore cover the whole run: with four or more, the largest gap is at most 1.7 times
    that of an even spread.

    Args:
        live: the policy's tensors, of which versions are copies.

    Attributes:
        steps: agent step at which each stored version was made.
    """

    def __init__(self, live: Mapping[str, Tensor], every: int, kept: int):
        self._live, self.every, self.kept = live, every, kept
        self._versions = {name: torch.stack([torch.zeros_like(tensor)] * kept) for name, tensor in live.items()}
        self.steps: list[int] = []

    def keep(self, step: int) -> None:
        """Stores the present policy as a version if one is due at agent step ``step``."""
        if self.steps and step - max(self.steps) < self.every:
            return
        place = len(self.steps)
        if place < self.kept:
            self.steps.append(step)
        else:
            place = self.steps.index(_superfluous([*sorted(self.steps), step]))
            self.steps[place] = step
        for name, versions in self._versions.items():
            versions[place].copy_(self._live[name])

    def draw(self, generator: torch.Generator) -> Tensor:
        """Returns the index of a version drawn uniformly, int64[1], on the generator's device."""
        return torch.randint(len(self.steps), (1,), generator=generator, device=generator.device)

    def copy(self, place: Tensor, into: Mapping[str, Tensor]) -> None:
        """Copies the version with index ``place``, int64[1], into another policy's tensors."""
        for name, versions in self._versions.items():
            into[name].copy_(versions.index_select(0, place.to(versions.device))[0])

    def state(self) -> dict[str, Tensor]:
        steps = self.steps + [-1] * (self.kept - len(self.steps))
        return {"steps": torch.tensor(steps), **self._versions}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.steps = [step for step in state["steps"].tolist() if step >= 0]
        for name, versions in self._versions.items():
            versions.copy_(state[name])


class SelfPlay:
    """The policies that act with past versions of others.

    Attributes:
        pools: name of a copied policy → its versions.
    """

    def __init__(self, experiences: Sequence[Experience]):
        by_name = {experience.policy.name: experience for experience in experiences}
        self._copying = {
            name: (experience.config.copies, _tensors(experience))
            for name, experience in by_name.items()
            if experience.config.copies is not None
        }
        self.pools: dict[str, OpponentPool] = {}
        for model, _ in self._copying.values():
            config = by_name[model].config
            self.pools[model] = OpponentPool(_tensors(by_name[model]), config.copy_every, config.copies_kept)
        self._drawn: dict[str, Tensor] = {}

    @torch.inference_mode()
    def draw(self, step: int, generator: torch.Generator) -> None:
        """Stores the versions that are due at agent step ``step``, and draws the opponents of the next rollout."""
        for pool in self.pools.values():
            pool.keep(step)
        for name, (model, tensors) in self._copying.items():
            self._drawn[name] = self.pools[model].draw(generator)
            self.pools[model].copy(self._drawn[name], tensors)

    def version(self, name: str) -> int:
        """Returns the agent step at which the version that policy ``name`` last acted with was made."""
        model, _ = self._copying[name]
        return self.pools[model].steps[int(self._drawn[name])]

    def state(self) -> dict[str, Tensor]:
        state: dict[str, Tensor] = {}
        for name, pool in self.pools.items():
            state |= checkpoints.prefixed(f"versions.{name}", pool.state())
        return state | checkpoints.prefixed("drawn", self._drawn)

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        for name, pool in self.pools.items():
            pool.load(checkpoints.group(f"versions.{name}", saved))
        self._drawn = checkpoints.group("drawn", saved)


def check_copies(config: Config, groups: Mapping[str, AgentGroup]) -> None:
    """Raises `OptionError` where a policy copies one with other spaces, or where there is only one policy."""
    if config.copies is not None:
        raise OptionError("copies is a setting of one of several policies: policies={…: {'copies': …}}")
    for name, agent_group in groups.items():
        model = config.of_policy(name).copies
        if model is not None and (agent_group.observation, agent_group.action) != (
            groups[model].observation,
            groups[model].action,
        ):
            raise OptionError(f"policy {name!r} cannot copy {model!r}: their agents have different spaces")


def _superfluous(steps: Sequence[int]) -> int:
    """Returns which of increasing ``steps`` has the closest neighbours: the oldest of equals, the first of two."""
    gaps = [steps[i + 1] - steps[i - 1] for i in range(1, len(steps) - 1)]
    return steps[1 + gaps.index(min(gaps))] if gaps else steps[0]


def _tensors(experience: Experience) -> dict[str, Tensor]:
    """Returns views of all tensors that a policy acts with: parameters, buffers, statistics of observations."""
    tensors = checkpoints.prefixed("network", experience.policy.network.state_dict())
    normaliser = experience.encoder.normaliser
    return tensors | ({} if normaliser is None else checkpoints.prefixed("normaliser", normaliser.tensors()))

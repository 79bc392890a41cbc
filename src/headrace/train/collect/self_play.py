"""Self-play: policies that play as another one did before.

A learner that meets only what it is now can run in circles, and forget how to beat what it was.
Past versions of it as opponents prevent that (Bansal et al. 2018, who draw them evenly too). They are
kept beside the network, and copied into the memory of the network that plays them, so that a
rollout stays the same program (and the same CUDA graph) whichever is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.collect.rollout_buffer import Experience
from headrace.train.config.settings import Config
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.runs import checkpoint as checkpoints


class Bank:
    """Past versions of a policy.

    Versions become denser than one can keep, but never leave a part of the past uncovered: when there is no
    place left, the one whose neighbours are closest to each other makes room; the first and the newest stay. (Of
    four or more, no two neighbours are then further apart than 1.7 times an even spread, once all places are taken.)

    Args:
        live: the policy's own tensors, which the versions are copies of.
        every: agent steps between versions.
        kept: versions at most.

    Attributes:
        steps: place → agent steps into the run at which the version there was made.
    """

    def __init__(self, live: Mapping[str, Tensor], every: int, kept: int):
        self._live, self.every, self.kept = live, every, kept
        self._versions = {name: torch.stack([torch.zeros_like(tensor)] * kept) for name, tensor in live.items()}
        self.steps: list[int] = []

    def keep(self, step: int) -> None:
        """Keep the present policy as a version if one is due at this agent step of the run."""
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
        """The place of one version, each as likely as the others: int64[1], on the generator's device."""
        return torch.randint(len(self.steps), (1,), generator=generator, device=generator.device)

    def copy(self, place: Tensor, into: Mapping[str, Tensor]) -> None:
        """Make another policy's tensors those of the version in a place int64[1]."""
        for name, versions in self._versions.items():
            into[name].copy_(versions.index_select(0, place.to(versions.device))[0])

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        steps = self.steps + [-1] * (self.kept - len(self.steps))
        return {"steps": torch.tensor(steps), **self._versions}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.steps = [step for step in state["steps"].tolist() if step >= 0]
        for name, versions in self._versions.items():
            versions.copy_(state[name])


class SelfPlay:
    """The policies that copy others, and the banks of those.

    Args:
        experiences: of all policies: their networks, and what they know of observations.

    Attributes:
        banks: name of a copied policy → its versions.
    """

    def __init__(self, experiences: Sequence[Experience]):
        by_name = {experience.policy.name: experience for experience in experiences}
        self._copying = {
            name: (experience.config.copies, _tensors(experience))
            for name, experience in by_name.items()
            if experience.config.copies is not None
        }
        self.banks: dict[str, Bank] = {}
        for model, _ in self._copying.values():
            config = by_name[model].config
            self.banks[model] = Bank(_tensors(by_name[model]), config.copy_every, config.copies_kept)
        self._drawn: dict[str, Tensor] = {}

    @torch.inference_mode()
    def draw(self, step: int, generator: torch.Generator) -> None:
        """Keep the versions that are due at this agent step, and draw the next rollout's opponents."""
        for bank in self.banks.values():
            bank.keep(step)
        for name, (model, tensors) in self._copying.items():
            self._drawn[name] = self.banks[model].draw(generator)
            self.banks[model].copy(self._drawn[name], tensors)

    def version(self, name: str) -> int:
        """Agent steps into the run at which the version was made that a copying policy has last played."""
        model, _ = self._copying[name]
        return self.banks[model].steps[int(self._drawn[name])]

    def state(self) -> dict[str, Tensor]:
        """What of it decides how a run goes on."""
        state: dict[str, Tensor] = {}
        for name, bank in self.banks.items():
            state |= checkpoints.prefixed(f"versions.{name}", bank.state())
        return state | checkpoints.prefixed("drawn", self._drawn)

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, bank in self.banks.items():
            bank.load(checkpoints.group(f"versions.{name}", saved))
        self._drawn = checkpoints.group("drawn", saved)


def check_copies(config: Config, dealt: Mapping[str, AgentGroup]) -> None:
    """Raise `OptionError` where a policy copies one whose agents see or do other things, or there is but one policy."""
    if config.copies is not None:
        raise OptionError("copies is a setting of one of several policies: policies={…: {'copies': …}}")
    for name, agent_group in dealt.items():
        model = config.of_policy(name).copies
        if model is not None and (agent_group.observation, agent_group.action) != (
            dealt[model].observation,
            dealt[model].action,
        ):
            raise OptionError(f"policy {name!r} cannot copy {model!r}: their agents have different spaces")


def _superfluous(steps: Sequence[int]) -> int:
    """Of growing steps, the one whose neighbours are closest; of equals the oldest, of two steps the first."""
    gaps = [steps[i + 1] - steps[i - 1] for i in range(1, len(steps) - 1)]
    return steps[1 + gaps.index(min(gaps))] if gaps else steps[0]


def _tensors(experience: Experience) -> dict[str, Tensor]:
    """All that a policy plays with, where it lies in memory: parameters, buffers, statistics of observations."""
    tensors = checkpoints.prefixed("network", experience.policy.network.state_dict())
    normaliser = experience.encoder.normaliser
    return tensors | ({} if normaliser is None else checkpoints.prefixed("normaliser", normaliser.tensors()))

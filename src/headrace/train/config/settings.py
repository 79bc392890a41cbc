"""The settings of a training run: their checks, those of each policy, and how they are made and written.

The settings of a run are the records of its owners (`headrace.train.config.common`) and that of its algorithm, joined
by inheritance into one frozen dataclass, in which each name is looked up. The names of the fields are also the options
of the command line, the keyword arguments of `headrace.train.train`, and the keys of ``config.json``. The record of an
algorithm derives from `headrace.train.config.rollout.RolloutConfig` or `headrace.train.config.replay.ReplayConfig`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import OptionError
from headrace.pool.by_value import UNPICKLABLE
from headrace.pool.registry import parcel_of, unpack
from headrace.train.config import merge, user_objects
from headrace.train.config.checks import (
    check_devices,
    check_finite,
    check_points,
    check_stages,
    check_task,
    check_text,
    interpolated,
    require,
)
from headrace.train.config.common import Environments, Files, Learning, Network, Policies, Run, Workers
from headrace.train.config.fields import KINDS, settings_of
from headrace.train.config.presets import DEFAULT_PRESET, Presets
from headrace.train.config.registry import find_settings, unknown

LOGGERS = ("tensorboard", "wandb", "trackio")
NETWORKS = ("auto", "mlp", "cnn", "gru")


@dataclass(frozen=True)
class Config(Files, Policies, Workers, Learning, Network, Environments, Run):
    """Settings of a run, whatever its algorithm; those of an algorithm derive from it.

    Attributes:
        action_kinds: kinds of actions that the algorithm has, of ``"discrete"`` and ``"continuous"``.
        network_kinds: kinds of networks; ``"gru"`` is a recurrent one, ``"own"`` a user's.
        several_agents: whether it can play tasks with several agents.
        keeps_masks: whether it keeps to action masks of discrete actions.
        has_workers: whether it can learn from samplers in other processes.
        presets: settings with which its runs begin, see `headrace.train.config.presets`.
    """

    action_kinds: ClassVar[tuple[str, ...]] = ("discrete", "continuous")
    network_kinds: ClassVar[tuple[str, ...]] = tuple(KINDS)
    several_agents: ClassVar[bool] = True
    keeps_masks: ClassVar[bool] = True
    has_workers: ClassVar[bool] = False
    presets: ClassVar[Presets] = {DEFAULT_PRESET: {}}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Returns a setting of the run's algorithm."""

    def __post_init__(self) -> None:
        for name, known in settings_of(type(self)).items():
            check_finite(name, getattr(self, name))
            known.check(name, getattr(self, name))
        require(self.seed < 2**63, "seed", self.seed, "between 0 and 2**63")
        require(len(self.hidden) >= 1, "hidden", self.hidden, "at least one layer")
        require(self.reward is None or ":" in self.reward, "reward", self.reward, "file.py:name of a function")
        for each in self.log:
            require(each in LOGGERS, "log", each, f"one or more of {', '.join(LOGGERS)}")
        own = ":" in self.network
        require(own or self.network in NETWORKS, "network", self.network, f"{', '.join(NETWORKS)} or file.py:name")
        batch = self.batch_size
        what = f"a divisor of num_envs={self.num_envs}, as it counts environments; the samples of an update are"
        require(batch == 0 or self.num_envs % batch == 0, "batch_size", batch, f"{what} minibatch_size")
        check_devices(self.devices)
        # what makes results depend on timing
        late = {name: getattr(self, name) for name in ("samplers", "batch_size") if getattr(self, name) > 0}
        late |= {"actor_device": getattr(self, "actor_device", "")} if getattr(self, "apart", False) else {}
        if self.deterministic and late:
            name, value = next(iter(late.items()))
            raise OptionError(
                f"{name}={value!r} makes results depend on timing, which deterministic=True excludes: "
                "leave one of them out"
            )
        self._check_schedules()
        for name, points in self.curriculum.items():
            check_stages(name, points)
        for name in self.policies:
            check_text("policies", name)
            if name == "" or "." in name:  # a dot separates parts of tensors' names in a checkpoint
                raise OptionError(f"policy {name!r} must have a name, without dots")
            self.of_policy(name)

    def _check_schedules(self) -> None:
        """Raises `OptionError` for a schedule of a setting that can have none, or with malformed points."""
        known = [settings_of(each) for each in merge.record_types({"algo": self.algo, "policies": self.policies})]
        scheduled = dict.fromkeys(name for each in known for name, one in each.items() if one.scheduled)
        for name, points in self.schedules.items():
            if name not in scheduled:
                words = unknown(name, points, self.algo, scheduled)
                raise OptionError(f"a schedule of {words}; a schedule is for one of {', '.join(scheduled)}")
            check_points(name, points)
            for _, value in points if hasattr(self, name) else ():
                if value != 0 or name != "learning_rate":  # a rate may end at 0, but not be 0 throughout
                    dataclasses.replace(self, **{name: value}, schedules={})

    def __reduce__(self) -> tuple[Any, ...]:
        # the process that unpickles the settings imports a user's algorithm by its name
        task = None
        with contextlib.suppress(*UNPICKLABLE):  # it imports the script that registered the task
            task = parcel_of(self.task)
        return _unpickled, (vars(self), user_objects.packed(vars(self)), task)

    @property
    def learns_on(self) -> str:
        """The device of the process that learns and reports."""
        return self.device

    @property
    def first_update(self) -> int:
        """The number of agent steps before the first update."""
        return self.num_envs * self.num_steps

    def at(self, step: int) -> Config:
        """Returns the settings at agent step `step`, with values of `schedules`."""
        if not self.schedules:
            return self
        now = object.__new__(type(self))
        there = {name: interpolated(points, step) for name, points in self.schedules.items() if hasattr(self, name)}
        vars(now).update(vars(self) | there | {"schedules": {}})  # checked points need no checks in between
        return now

    def of_policy(self, name: str) -> Config:
        """Returns the settings of one policy: the run's, replaced by its own; a copy has those of the copied policy.

        Raises:
            OptionError: one of its settings is shared by all policies or invalid, or it copies a policy that cannot be
                copied.
        """
        own = self._own(name)
        if "copies" in own:
            own = self._as_copied(name, own)
        if not own:
            return dataclasses.replace(self, policies={}) if self.policies else self
        settings = find_settings(own.get("algo", self.algo))
        values = merge.only(settings, vars(self)) | own
        values |= {"policies": {}, "schedules": merge.only(settings, self.schedules)}
        return make_config(values.pop("task"), defaults=False, **values)

    def _own(self, name: str) -> dict[str, Any]:
        own = self.policies.get(name, {})
        if not isinstance(own, dict):
            raise OptionError(f"policy {name!r} must be a dict of settings, such as agents, not {own!r}")
        settings = find_settings(own.get("algo", self.algo))
        for key in sorted(own.keys() - settings_of(settings).keys() - {"agents"}):
            words = unknown(key, own[key], own.get("algo", self.algo), settings_of(settings))
            raise OptionError(f"policy {name!r}: {words}")
        if wrong := own.keys() & merge.shared(settings):
            raise OptionError(f"policy {name!r} cannot have a {min(wrong)} of its own")
        return {key: value for key, value in own.items() if key != "agents"}

    def _as_copied(self, name: str, own: dict[str, Any]) -> dict[str, Any]:
        model = own["copies"]
        if more := own.keys() - {"copies"}:
            raise OptionError(
                f"policy {name!r} has all its settings from {model!r}, which it copies: leave its {min(more)} out"
            )
        theirs = self._own(model) if model in self.policies else {}
        if model not in self.policies or "copies" in theirs or theirs.get("frozen", self.frozen):
            raise OptionError(f"policy {name!r} can copy one of the policies that learn, not {model!r}")
        return theirs | {"copies": model, "frozen": True, "load": None}

    def to_json(self) -> str:
        """Returns these settings as the text of ``config.json``."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> Config:
        """Returns the settings from the text that `to_json` returned; missing settings have their defaults."""
        return Config.from_values(json.loads(text))

    @staticmethod
    def from_values(values: dict[str, Any]) -> Config:
        """Returns the settings with these values, name → value; missing settings have their defaults.

        Settings of algorithms that the run does not use, as in the files of earlier versions, are left out.
        """
        return make_config(defaults=False, **merge.of_these_algorithms(values))


def make_config(task: str, *, defaults: bool = True, **overrides: Any) -> Config:
    """Returns the settings of a run: the presets of its algorithm for a task, with ``overrides`` applied.

    ``env_options`` in the overrides are merged into the preset's. A policy with an ``algo`` or a ``network`` of its own
    has the presets for that, except for settings that it or ``overrides`` specifies. Settings of the run that only the
    algorithms of some policies have are passed to those policies.

    Args:
        task: name of the task.
        defaults: whether to begin with presets; otherwise with the default of each setting.
        overrides: settings by name.

    Raises:
        OptionError: the task is not a name, or an override has an unknown name, belongs to another algorithm, or has a
            value of the wrong type or out of range.
    """
    check_task(task)
    for name in merge.DECIDING:
        if name in overrides:
            merge.checked(Config, name, overrides[name])
    settings, values = merge.settings_and_values(task, defaults, overrides)
    return settings(task=task, **values)


def _unpickled(values: dict[str, Any], objects: bytes | None, task: bytes | None) -> Config:
    user_objects.unpack(objects)
    unpack(task)
    config = object.__new__(find_settings(values["algo"]))
    vars(config).update(values)
    return config

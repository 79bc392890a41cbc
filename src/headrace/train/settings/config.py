"""The settings of a run: a composition of the records that its algorithm may have.

Their names are flat for users: the options of the command line, the keyword arguments of `headrace.train.train`, the
keys of ``config.json``, and the attributes of a `Config`. What a run has of them is decided by its records
(`headrace.train.settings.algorithm`), each of one owner.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from headrace.errors import OptionError
from headrace.pool.by_value import UNPICKLABLE
from headrace.pool.registry import build_task, parcel_of, unpack
from headrace.pool.task import Task
from headrace.train.settings import user_objects
from headrace.train.settings.algorithm import ALGORITHMS, Algorithm, find_settings
from headrace.train.settings.fields import REQUIRED
from headrace.train.settings.owners import stranger, unknown
from headrace.train.settings.values import check_finite, check_points, check_text, interpolated, require

R = TypeVar("R")
UPDATES = "updates"
"""what a run's file notes beside its settings: what makes its updates"""
REMOVED = {"viewer_share", UPDATES}
"""what a run's file holds that is no setting: those of earlier versions, and notes"""


class Fit(NamedTuple):
    """What decides, beside the settings, which records a policy has.

    Attributes:
        network: the kind of its network, of `headrace.train.settings.kinds.NETWORK_KINDS`.
        continuous: whether its actions are continuous.
        agents: the number of agents of an environment that it plays.
        alone: whether the task has one agent.
    """

    network: str = "mlp"
    continuous: bool = True
    agents: int = 1
    alone: bool = True


class Config:
    """Settings of a run, or of one of its policies; immutable.

    ``vars(config)`` are all settings, name → value, and each is an attribute.

    Args:
        algorithm: the records that there are, and what the algorithm can do.
        values: setting → value of the type of the setting; the others have their defaults.
        fit: how a policy stands to the task; of a perceptron for one agent where that is not known.

    Raises:
        OptionError: a value is out of bounds, or two of them exclude each other.
    """

    __slots__ = ("__dict__", "_built", "algorithm", "fit")
    algorithm: Algorithm
    fit: Fit
    _built: Task | None

    if TYPE_CHECKING:
        task: str
        algo: str
        env_options: dict[str, Any]
        policies: dict[str, dict[str, Any]]

        def __getattr__(self, name: str) -> Any:
            """Returns a setting."""

    def __init__(self, algorithm: Algorithm, values: Mapping[str, Any], fit: Fit = Fit()):  # noqa: B008
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "fit", fit)
        object.__setattr__(self, "_built", None)
        for name in algorithm.settings:
            vars(self)[name] = values[name] if name in values else algorithm.default(name)
        if self.task is REQUIRED:
            raise TypeError("settings need a task")
        self._check()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"settings cannot change: make others by replace({name}=…)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.algorithm == other.algorithm and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def get(self, kind: type[R]) -> R | None:
        """Returns the record of this kind; None where the algorithm has none."""
        part = next((part for part in self.algorithm.parts if part.kind is kind), None)
        return None if part is None else kind(**self.pick(*part.settings))

    def pick(self, *names: str) -> dict[str, Any]:
        """Returns some settings, name → value."""
        return {name: vars(self)[name] for name in names}

    def has(self, name: str) -> bool:
        """Returns whether one of the run's records has this setting: others are not used."""
        known = self.algorithm.settings.get(name)
        return known is not None and all(each.holds(self) for each in known.when)

    def replace(self, fit: Fit | None = None, **changes: Any) -> Config:
        """Returns the settings with these changes.

        Raises:
            OptionError: a setting is unknown, or has a value of another type; and as the constructor.
        """
        for name in changes.keys() - self.algorithm.settings.keys():
            raise OptionError(unknown(name, changes[name], self.algo, self.algorithm.settings))
        changed = {name: self.algorithm.checked(name, value) for name, value in changes.items()}
        new = Config(self.algorithm, vars(self) | changed, fit or self.fit)
        if (new.task, new.env_options) == (self.task, self.env_options):
            object.__setattr__(new, "_built", self._built)
        return new

    def build(self) -> Task:
        """Returns the task with ``env_options``, which is built once."""
        if self._built is None:
            object.__setattr__(self, "_built", build_task(self.task, **self.env_options))
        assert self._built is not None
        return self._built

    # -- checks ----------------------------------------------------------------------------------

    def _check(self) -> None:
        for name, known in self.algorithm.settings.items():
            check_finite(name, vars(self)[name])
            known.check(name, vars(self)[name])
        for part in self.algorithm.parts:
            part.kind(**self.pick(*part.settings))
        batch = self.batch_size
        what = f"a divisor of num_envs={self.num_envs}, as it counts environments; the samples of an update are"
        require(batch == 0 or self.num_envs % batch == 0, "batch_size", batch, f"{what} minibatch_size")
        # what makes results depend on timing
        late = {name: vars(self)[name] for name in ("samplers", "batch_size") if vars(self)[name] > 0}
        late |= {"actor_device": self.actor_device} if self.apart else {}
        if self.deterministic and late:
            name, value = next(iter(late.items()))
            raise OptionError(
                f"{name}={value!r} makes results depend on timing, which deterministic=True excludes: "
                "leave one of them out"
            )
        self._check_schedules()
        for name in self.policies:
            check_text("policies", name)
            if name == "" or "." in name:  # a dot separates parts of tensors' names in a checkpoint
                raise OptionError(f"policy {name!r} must have a name, without dots")
            self.of_policy(name)

    def _check_schedules(self) -> None:
        """Raises `OptionError` for a schedule of a setting that can have none, or with malformed points."""
        known = [find_settings(algo).settings for algo in algorithms_of(vars(self))]
        scheduled = dict.fromkeys(name for each in known for name, one in each.items() if one.scheduled)
        for name, points in self.schedules.items():
            if name not in scheduled:
                words = unknown(name, points, self.algo, scheduled)
                raise OptionError(f"a schedule of {words}; a schedule is for one of {', '.join(scheduled)}")
            check_points(name, points)
            for _, value in points if name in vars(self) else ():
                if value != 0 or name != "learning_rate":  # a rate may end at 0, but not be 0 throughout
                    self.replace(None, **{name: value, "schedules": {}})

    # -- what follows from several settings ------------------------------------------------------

    @property
    def apart(self) -> bool:
        """Whether actor and critics learn in two processes."""
        return vars(self).get("actor_device", "") not in ("", "auto")

    @property
    def learns_on(self) -> str:
        """The device of the process that learns and reports."""
        return vars(self).get("critic_device") or self.device

    @property
    def first_update(self) -> int:
        """The number of agent steps before the first update."""
        return self.learning_starts if self.algorithm.replays else self.num_envs * self.num_steps

    def at(self, step: int) -> Config:
        """Returns the settings at agent step `step`, with values of `schedules`."""
        if not self.schedules:
            return self
        now = copy.copy(self)  # checked points need no checks in between
        there = {name: interpolated(points, step) for name, points in self.schedules.items() if name in vars(self)}
        vars(now).update(there, schedules={})
        return now

    def __copy__(self) -> Config:
        new = object.__new__(Config)
        object.__setattr__(new, "algorithm", self.algorithm)
        object.__setattr__(new, "fit", self.fit)
        object.__setattr__(new, "_built", self._built)
        vars(new).update(vars(self))
        return new

    # -- policies --------------------------------------------------------------------------------

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
            return self.replace(policies={}) if self.policies else self
        algorithm = find_settings(own.get("algo", self.algo))
        values = {key: algorithm.checked(key, value) for key, value in own.items()}
        values |= {"policies": {}, "schedules": algorithm.only(self.schedules)}
        return Config(algorithm, algorithm.only(vars(self)) | values)

    def _own(self, name: str) -> dict[str, Any]:
        own = self.policies.get(name, {})
        if not isinstance(own, dict):
            raise OptionError(f"policy {name!r} must be a dict of settings, such as agents, not {own!r}")
        algorithm = find_settings(own.get("algo", self.algo))
        for key in sorted(own.keys() - algorithm.settings.keys() - {"agents"}):
            words = unknown(key, own[key], own.get("algo", self.algo), algorithm.settings)
            raise OptionError(f"policy {name!r}: {words}")
        if wrong := own.keys() & algorithm.shared():
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

    # -- as text and bytes -----------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        # the process that unpickles the settings imports a user's algorithm by its name
        task = None
        with contextlib.suppress(*UNPICKLABLE):  # it imports the script that registered the task
            task = parcel_of(self.task)
        return _unpickled, (vars(self), user_objects.packed(vars(self)), task)

    def to_json(self) -> str:
        """Returns these settings as the text of ``config.json``."""
        return json.dumps(vars(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> Config:
        """Returns the settings from the text that `to_json` returned; missing settings have their defaults."""
        return Config.from_values(json.loads(text))

    @staticmethod
    def from_values(values: dict[str, Any]) -> Config:
        """Returns the settings with these values, name → value; missing settings have their defaults.

        Settings of algorithms that the run does not use, as in the files of earlier versions, are left out.
        """
        used = _of_policies(values).union(find_settings(values.get("algo", "ppo")).settings)
        values = {name: value for name, value in values.items() if name in used or name not in REMOVED}
        if not used.issuperset(values):
            known = set().union(*(each.settings for each in ALGORITHMS.values()))
            values = {name: value for name, value in values.items() if name in used or name not in known}
        return composed(values)


def composed(given: Mapping[str, Any], begins: Mapping[str, Any] | None = None) -> Config:
    """Returns the settings of a run with given values, name → value, in place of those that it begins with.

    ``env_options`` that are given are merged into those. Settings of the run that only the algorithms of some policies
    have are passed to those policies.

    Args:
        begins: the values of a preset; None to begin with the default of each setting.

    Raises:
        OptionError: a setting is unknown, belongs to another algorithm, or has a value of another type.
    """
    algo = given.get("algo", "ppo")
    algorithm, theirs = find_settings(algo), dict[str, Any]()  # `theirs` are of policies with other algorithms
    values = {name: algorithm.checked(name, value) for name, value in (begins or {}).items()}
    for name, value in given.items():
        if name in algorithm.settings:
            value = algorithm.checked(name, value)
            values[name] = values.get(name, {}) | value if name == "env_options" else value
        elif name in _of_policies(given):
            theirs[name] = value
        else:
            task = given["task"] if begins is not None else ""
            raise OptionError(stranger(name, value, algo, algorithm.settings, task))
    if "policies" in values:
        values["policies"] = {
            name: find_settings(own.get("algo", algo)).only(theirs) | own if isinstance(own, dict) else own
            for name, own in values["policies"].items()
        }
    return Config(algorithm, values)


def algorithms_of(values: Mapping[str, Any]) -> list[str]:
    """Returns the names of the algorithms of a run and of its policies, each once."""
    policies = values.get("policies")
    own = policies.values() if isinstance(policies, dict) else ()
    others = (each["algo"] for each in own if isinstance(each, dict) and "algo" in each)
    return list(dict.fromkeys((values.get("algo", "ppo"), *others)))


def _of_policies(values: Mapping[str, Any]) -> set[str]:
    found = map(find_settings, algorithms_of(values))
    return set().union(*(each.settings.keys() - each.shared() for each in found))


def _unpickled(values: dict[str, Any], objects: bytes | None, task: bytes | None) -> Config:
    user_objects.unpack(objects)
    unpack(task)
    config = object.__new__(Config)
    object.__setattr__(config, "algorithm", find_settings(values["algo"]))
    object.__setattr__(config, "fit", Fit())
    object.__setattr__(config, "_built", None)
    vars(config).update(values)
    return config

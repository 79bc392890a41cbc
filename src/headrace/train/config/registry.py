"""Algorithms by name, imported only when they are needed.

An algorithm is a class whose attributes include its settings, presets and capabilities (see `Algorithm`). Headrace's
own algorithms inherit these from a class in `headrace.train.config.algorithms`, so that help and checks do not import
torch.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from headrace.errors import OptionError, UnknownTaskError
from headrace.pool.registry import nearest
from headrace.pool.sources import module_of, split
from headrace.train.config.fields import IN_TURN, KINDS, Use, settings_of

DEFAULT_PRESET = "default"
"""the preset that every algorithm has; its values are for learning from few steps"""
EXAMPLES = {"xqc": "examples/algorithms/xqc.py:XQC", "flashsac": "examples/algorithms/flash_sac.py:FlashSAC"}
"""algorithms of earlier versions that are examples"""
ARGUMENTS = ("run_dir", "resume", "quiet", "trust", "callback")
"""arguments of `headrace.train.train` beside the settings, which a misspelt name may mean"""


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of an algorithm.

    Attributes:
        replay: it learns from a replay instead of rollouts.
        actions: kinds of actions, of ``"discrete"`` and ``"continuous"``.
        networks: kinds of networks; ``"gru"`` is a recurrent one, ``"own"`` a user's.
        agents: it supports tasks with several agents.
        masks: it keeps to action masks of discrete actions.
        workers: it can learn from samplers in other processes.
        graphs: on CUDA, its rollouts and updates can be captured as graphs.
        presets: names of the algorithm's presets.
    """

    replay: bool = False
    actions: tuple[str, ...] = ("discrete", "continuous")
    networks: tuple[str, ...] = KINDS
    agents: bool = True
    masks: bool = True
    workers: bool = False
    graphs: bool = True
    presets: tuple[str, ...] = (DEFAULT_PRESET,)

    def admit(self, use: Use) -> bool:
        """Returns whether the case that a `Use` of a setting describes can occur with the algorithm."""
        return (
            use.replay in (None, self.replay)
            and bool({*use.networks} & {*self.networks})
            and (self.workers or IN_TURN in use.ways)
            and ("continuous" in self.actions or not use.continuous)
        )


class Algorithm(Protocol):
    """The attributes of an algorithm's class that the command line, the checks and the tuner read.

    Attributes:
        settings: the dataclass of its settings, derived from `headrace.train.config.settings.Config`.
        capabilities: the capabilities of the algorithm.
    """

    settings: ClassVar[type[Any]]
    capabilities: ClassVar[Capabilities]

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        """Returns the settings, by name, with which a run of this task and network begins.

        Args:
            preset: one of ``capabilities.presets``. A family of tasks may have the same settings for several.
        """
        ...


_algorithms: dict[str, str] = {}
_declarations: dict[str, str] = {}
_with_workers: set[str] = set()


def register_algorithm(name: str, where: str, *, declaration: str = "", workers: bool = False) -> None:
    """Registers an algorithm under a name.

    Args:
        name: the name, such as ``"ppo"``.
        where: the algorithm's class, as ``"package.module:Class"``.
        declaration: the class from which it inherits its settings, presets and capabilities, if that class is faster to
            import.
        workers: whether its runs have workers by default. The process from which workers are forked is then started
            before the class is imported.
    """
    _algorithms[name] = where
    _declarations[name] = declaration or where
    if workers:
        _with_workers.add(name)


def algorithms() -> list[str]:
    """Returns the names of the registered algorithms."""
    return list(_algorithms)


def begins_workers(name: str) -> bool:
    """Returns whether runs of an algorithm have workers by default, according to its registration."""
    return name in _with_workers


def find_algorithm(name: str, *, whole: bool = False) -> type[Algorithm]:
    """Returns the class of an algorithm, or only its declaration.

    Args:
        name: a registered name; or a class, as ``"file.py:Class"`` or ``"package.module:Class"``.
        whole: whether to return the class itself, whose module imports torch; otherwise its declaration, if any.

    Raises:
        OptionError: there is no such class, or it is not an algorithm.
    """
    if name in _algorithms:
        module, _, attribute = (_algorithms if whole else _declarations)[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    source, attribute = split(name)
    if name in EXAMPLES:
        raise OptionError(
            f"training option algo={name!r} is an example, not an algorithm of the package: "
            f"copy the file from the repository, and give algo={EXAMPLES[name]!r}"
        )
    if not source or not attribute:
        near = nearest(name, _algorithms, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_algorithms)}, and file.py:Class"
        raise OptionError(f"training option algo={name!r} is no algorithm: {hint}")
    try:
        found: Any = getattr(module_of(source), attribute, None)
    except UnknownTaskError as error:
        raise OptionError(f"training option algo={name!r}: {error}") from error
    if not all(hasattr(found, each) for each in ("settings", "presets", "capabilities")):
        raise OptionError(f"training option algo={name!r}: {source} has no class {attribute} derived from Policy")
    return found


def who_uses(name: str) -> str:
    """Returns a text on which registered algorithms use a setting, and in which cases; empty if none has it."""
    users: dict[Use, list[str]] = {}
    for algo in algorithms():
        found = find_algorithm(algo)
        known = settings_of(found.settings).get(name)
        for use in known.uses if known else ():
            if found.capabilities.admit(use):
                users.setdefault(dataclasses.replace(use, replay=None), []).append(algo)
    return "; ".join(_words(use, names) for use, names in users.items())


def _words(use: Use, names: list[str]) -> str:
    words = [", ".join(names) if names != algorithms() else "runs"]
    words += ["with continuous actions"] if use.continuous else []
    words += [f"with a network that is {' or '.join(use.networks)}"] if use.networks != KINDS else []
    words += [f"with {use.ways[0]}"] if len(use.ways) == 1 else []
    words += ["in tasks with one agent"] if use.alone else []
    if use.given is not None:
        setting, value = use.given
        words += [f"with {setting}" + ("" if value is True else f"={value!r}")]
    return " ".join(words)


def unknown(name: str, value: Any, algo: str, settings: Iterable[str]) -> str:
    """Returns a message that an algorithm with these settings has no such setting, and which algorithms have it."""
    if users := who_uses(name):
        return f"{name}={value!r} would not be used by {algo}: it is for {users}"
    near = difflib.get_close_matches(name, [*settings, *ARGUMENTS], n=3, cutoff=0.4)
    return f"unknown training option {name!r}" + (f"; nearest: {', '.join(near)}" if near else "")


_OURS = {"ppo": False, "a2c": False, "pqn": False, "ddpg": True, "td3": True, "sac": True, "dqn": True}
for _name, _workers in _OURS.items():
    register_algorithm(
        _name,
        f"headrace.train.algorithms.{_name}:{_name.upper()}",
        declaration=f"headrace.train.config.algorithms.{_name}:{_name.upper()}Declaration",
        workers=_workers,
    )
register_algorithm(
    "crossq",
    "headrace.train.algorithms.crossq:CrossQ",
    declaration="headrace.train.config.algorithms.crossq:CrossQDeclaration",
    workers=True,
)

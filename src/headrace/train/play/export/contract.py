"""The contract beside an exported policy: what its numbers are and where they come from, as plain JSON.

The file is named as the policy is, with the end ``.json``. ``docs/export.md`` says what each key means.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.flat_observation import Joined
from headrace.pool.meanings import action_meanings
from headrace.pool.signals import Control, Part
from headrace.train.algorithms.policy import Policy
from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import judged
from headrace.train.play.export.arrays import Array
from headrace.train.runs import files, zoo
from headrace.version import __version__

FORMAT, VERSION = "headrace-policy", 1
STACKS = ("frame_stack", "stack_num")
"""the options of tasks that say how many observations are stacked"""
MOST = 1000
"""elements of an observation up to which the statistics of each are written"""

SIMPLE = re.compile(r"\[\n *([^\[\]{}]*?)\n *\]")
"""a list of numbers and texts, which is written in one line"""

Facts = dict[str, Any]


def contract_of(agent: Agent, played: Policy, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> Facts:
    """Returns the contract of a policy, without its files."""
    spec, config, module = agent.spec, played.config, played.module
    run = None if agent.run_dir is None else agent.run_dir.resolve().name
    memory = {"size": module.memory_size, "start": 0.0} if module.memory_size else None
    return plain(
        {
            "format": FORMAT,
            "version": VERSION,
            "headrace": __version__,
            "task": spec.task,
            "env_options": {**spec.options, **agent.config.env_options},
            "rate_hz": spec.signals.rate_hz or None,
            "algo": config.algo,
            "policy": played.name,
            "run": {"name": run, "seed": agent.config.seed, "step": agent.step},
            "returns": agent.judged or _card_returns(agent),
            "observation": _observation(agent, played),
            "action": _action(agent, played),
            "memory": memory,
            "observation_space": str(played.agent_group.acting),
            "action_space": str(played.agent_group.action),
            "inputs": [asdict(array) | {"shape": ["batch", *array.shape]} for array in inputs],
            "outputs": [asdict(array) | {"shape": ["batch", *array.shape]} for array in outputs],
        }
    )


def _card_returns(agent: Agent) -> Facts | None:
    """Returns the returns of an agent of the zoo, whose card has them in place of its checkpoint."""
    if agent.run_dir is None or not zoo.is_agent(agent.run_dir):
        return None
    card = zoo.read_card(agent.run_dir)
    return None if card.against_random else judged("evaluation", card.mean, len(card.returns))


def contract_path(path: Path) -> Path:
    """Returns the path of the contract of a policy's file.

    Raises:
        OptionError: a file that is none of ours has this path.
    """
    beside = path.with_suffix(".json")
    if beside.exists() and _known(beside) is None:
        raise OptionError(f"{beside} exists and is no policy's contract, which would replace it: name {path} otherwise")
    return beside


def check_beside(contract: Facts, path: Path) -> None:
    """Checks that a contract would not replace that of a file which stays beside it, and is another policy's.

    Args:
        path: the policy's file.

    Raises:
        OptionError: it would.
    """
    beside = contract_path(path)
    before = _known(beside) or {}
    if all(before.get(key) in (None, contract[key]) for key in ("task", "policy")):
        return
    named = before.get("files")
    written = {path.name, *([path.with_suffix(".h").name] if path.suffix == ".c" else [])}
    stay = {name: facts for name, facts in (named if isinstance(named, dict) else {}).items() if name not in written}
    if left := [name for name, facts in stay.items() if _is_unchanged(beside.parent, name, facts)]:
        whose = f"policy {before.get('policy') or ''}".rstrip() + f" of {before.get('task')}"
        raise OptionError(f"{beside} says what {left[0]} is, the {whose}: name {path} otherwise, or remove both")


def write_contract(contract: Facts, written: Mapping[Path, Facts]) -> Path:
    """Writes the contract beside a policy's files, and returns its path.

    Files of the same policy that an earlier contract names stay in it, if they are as they were; see `check_beside`.

    Args:
        written: file → what is to be said of it beside its hash.

    Raises:
        StorageError: the contract cannot be written.
    """
    beside = contract_path(next(iter(written)))
    before = _known(beside) or {}
    kept = before.pop("files", {}) if isinstance(before.get("files"), dict) else {}
    if before != contract:
        kept = {}
    kept = {name: facts for name, facts in kept.items() if _is_unchanged(beside.parent, name, facts)}
    new = {path.name: {**_identity(path.read_bytes()), **plain(facts)} for path, facts in written.items()}
    text = json.dumps({**contract, "files": {**kept, **new}}, indent=2, allow_nan=False)
    files.replace(beside, SIMPLE.sub(lambda found: "[" + re.sub(r"\n *", " ", found[1]) + "]", text) + "\n")
    return beside


def _known(path: Path) -> Facts | None:
    """Returns a contract that was written before; None if the file has none, or is no file."""
    try:
        found = json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def _identity(content: bytes) -> Facts:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _is_unchanged(folder: Path, name: str, facts: Any) -> bool:
    path = folder / name
    if path.parent != folder or not path.is_file() or not isinstance(facts, dict):
        return False
    return _identity(path.read_bytes()).items() <= facts.items()


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: numbers that are not finite as null, and what is no JSON as its text."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if np.isfinite(value) else None
        case np.generic() | np.ndarray():
            return plain(value.tolist())
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return str(value)


# -- observations --------------------------------------------------------------------------------


def _observation(agent: Agent, played: Policy) -> Facts:
    group, encoder = played.agent_group, played.module.encoder
    space, stack = group.acting, _stack(agent)
    return {
        "dtype": str(np.dtype(space.dtype)),
        "shape": space.shape or (),
        "parts": _parts(agent, space, stack),
        "stack": stack,
        "left_out": group.critic,
        "normalisation": _normalisation(encoder, group),
    }


def _stack(agent: Agent) -> int:
    return max([1, *(int(agent.spec.options.get(name, 1)) for name in STACKS)])


def _normalisation(encoder: Any, group: Any) -> Facts | None:
    if encoder.image:
        return {"in_file": True, "kind": "pixels"}
    if (known := encoder.normaliser) is None:
        return None
    seen = int(np.prod(group.acting.shape))
    facts: Facts = {"in_file": True, "kind": "running", "limit": 10.0}
    if seen <= MOST:
        facts |= {"mean": known.mean[:seen].numpy(), "scale": known.scale[:seen].numpy()}
    return facts


def _parts(agent: Agent, space: gym.Space, stack: int) -> list[Facts]:
    """Returns the parts of one observation, of several stacked ones of the newest."""
    if isinstance(space, gym.spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n - 1)
        return [{"name": "category", "from": 0, "to": 1, "shape": [], "unit": "", "low": low, "high": high}]
    assert isinstance(space, gym.spaces.Box)
    if isinstance(space, Joined):
        parts = tuple(Part(name, shape, elements=elements) for name, shape, elements in space.parts())
    else:
        parts = () if agent.spec.agents else agent.spec.signals.observation
    size = int(np.prod(space.shape or (1,)))
    if not parts or sum(part.size for part in parts) * stack != size:  # a picture, or what nobody describes
        parts, stack = (Part("observation", space.shape or (1,)),), 1
    low, high = (bound.ravel()[size - size // stack :] for bound in (space.low, space.high))
    found, start = [], 0
    for part in parts:
        end = start + part.size
        facts: Facts = {"name": part.name, "from": start, "to": end, "shape": part.shape, "unit": part.unit}
        facts |= {"elements": part.elements} if part.elements else {}
        found.append(facts | {"low": _bound(low[start:end]), "high": _bound(high[start:end])})
        start = end
    return found


def _bound(values: np.ndarray) -> Any:
    """Returns the bound of all elements, or those of each; None where there is none."""
    found = [float(str(value)) for value in values]  # as short as float32 has it
    return found[0] if len({*found}) == 1 else found


# -- actions -------------------------------------------------------------------------------------


def _action(agent: Agent, played: Policy) -> Facts:
    space = played.agent_group.action
    facts: Facts = {"dtype": str(np.dtype(space.dtype)), "shape": space.shape or ()}
    if isinstance(space, gym.spaces.Box):
        return facts | {"kind": "continuous", "elements": _elements(agent, space)}
    several = isinstance(space, gym.spaces.MultiDiscrete)
    assert several or isinstance(space, gym.spaces.Discrete)
    return facts | {
        "kind": "discrete",
        "sizes": space.nvec if several else [space.n],
        "starts": np.ravel(space.start),
        "names": action_meanings(agent.spec.task, agent.spec.options, space),
        "masked": bool(played.module.heads),
    }


def _elements(agent: Agent, space: gym.spaces.Box) -> list[Facts]:
    size = int(np.prod(space.shape or (1,)))
    known = () if agent.spec.agents else agent.spec.signals.action
    controls = known if len(known) == size else tuple(Control(f"action {i}") for i in range(size))
    bounds = zip(controls, space.low.ravel(), space.high.ravel(), strict=True)
    return [asdict(control) | {"low": low, "high": high} for control, low, high in bounds]

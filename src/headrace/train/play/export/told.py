"""What a C header says of its policy to a reader: the contract in words."""

from __future__ import annotations

from typing import Any

from headrace.train.play.export.c import identifier
from headrace.train.play.export.contract import Facts
from headrace.train.play.export.network import Network

MOST = 64
"""names of a part's elements, or of actions, that are listed"""


def told_of(contract: Facts, network: Network, stem: str) -> list[str]:
    """Returns the lines of the header's first comment."""
    prefix, run = identifier(stem), contract["run"]
    name = f"Policy {contract['policy']}" if contract["policy"] else "Policy"
    where = f" of the run {run['name']}" if run["name"] else ""
    step = "" if run["step"] is None else f", step {run['step']:,}"
    rate = f", {contract['rate_hz']:g} times a second" if contract["rate_hz"] else ""
    return [
        f"{name} of {contract['task']}, trained by {contract['algo']}{where}{step}.",
        f"Written by headrace export (Headrace {contract['headrace']}); {stem}.json says the same and more.",
        "",
        f"Call {prefix}_reset when an episode begins, then {prefix}_act in each step{rate}.",
        "Observations and actions are as the environment has them: what normalises and scales them is in this file.",
        "Observations must be finite: nothing here checks them.",
        *_observation(contract["observation"], network),
        *_action(contract["action"]),
    ]


def _observation(seen: Facts, network: Network) -> list[str]:
    size = "" if network.source == "int32_t" else f"[{network.inputs}]"
    shape = " x ".join(map(str, seen["shape"]))
    lines = ["", f"observation: {network.source}{size}" + f", {shape}" * (len(seen["shape"]) > 1)]
    if network.source == "uint8_t":
        lines[-1] += ": channels, rows and columns of bytes"
    if seen["stack"] > 1:
        lines.append(f"  {seen['stack']} observations follow each other, the oldest first; each of them is")
    for part in seen["parts"]:
        unit = f" [{part['unit']}]" if part["unit"] else ""
        first, last = part["from"], part["to"] - 1
        place = f"{first:4d} to {last:4d}" if last > first else f"{first:4d}        "
        lines.append(f"  {place}  {part['name']}{unit}{_range(part)}")
        if 1 < len(elements := part.get("elements", ())) <= MOST:
            lines += _wrapped(" ".join(elements))
    return lines


def _action(done: Facts) -> list[str]:
    if done["kind"] == "continuous":
        lines = ["", f"action: float[{len(done['elements'])}]"]
        for i, each in enumerate(done["elements"][:MOST]):
            lines.append(f"  {i:4d}  {each['name']}{_asked(each)}")
        return lines
    lines, at = ["", "action: int32_t" + (f"[{len(done['sizes'])}]" if done["shape"] else "")], 0
    for i, (size, start) in enumerate(zip(done["sizes"], done["starts"], strict=True)):
        names = done["names"][at : at + size]
        lines.append(f"  {i:4d}" * bool(done["shape"]) + f"  from {start} to {start + size - 1}")
        if size <= MOST and names != [str(start + k) for k in range(size)]:
            lines += _wrapped(" ".join(f"{start + k}={name}" for k, name in enumerate(names)))
        at += size
    if done["masked"]:
        lines.append("mask: 0 for each action that must not be taken")
    return lines


def _asked(each: Facts) -> str:
    """Returns the range of an element of an action, and what it asks for."""
    unit, scale, offset = each["unit"], each["scale"], each["offset"]
    if not unit or (scale, offset) == (1, 0):
        return (f" [{unit}]" if unit else "") + _range(each)
    added = f"{offset:.6g} + " if offset else ""
    return f"{_range(each)}, asks for {added}{scale:.6g} * action {unit}"


def _range(facts: Facts) -> str:
    low, high = facts["low"], facts["high"]
    if isinstance(low, list) or isinstance(high, list) or (low is None and high is None):
        return ""
    return f", from {_number(low)} to {_number(high)}"


def _number(value: Any) -> str:
    return "any" if value is None else f"{value:g}"


def _wrapped(words: str, width: int = 96) -> list[str]:
    lines, now = [], ""
    for word in words.split():
        if now and len(now) + len(word) >= width:
            lines.append(now)
            now = ""
        now = f"{now} {word}" if now else word
    return [" " * 14 + line for line in [*lines, now]]

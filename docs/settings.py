"""Writes the tables of settings in ``algorithms.md`` and ``settings.md``, from the settings themselves.

    python docs/settings.py

A table stands between two marks in its page.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.train.config.fields import NEVER, REQUIRED, Setting, default_of, settings_of
from headrace.train.config.presets import DEFAULT_PRESET
from headrace.train.config.recipes import preset_of
from headrace.train.config.registry import ALGORITHMS, find_settings
from headrace.train.config.replay import ReplayConfig
from headrace.train.config.settings import Config

DOCS = Path(__file__).parent
PAGES = (DOCS / "algorithms.md", DOCS / "settings.md")
MARKED = re.compile(r"(<!-- docs/settings.py: (\w+)(?: (\w+))? -->).*?(<!-- / -->)", re.DOTALL)
KINDS = {"mlp": "`mlp`", "cnn": "`cnn`", "gru": "`gru`", "own": "your own"}


def overview() -> Iterator[str]:
    """What each algorithm can do."""
    yield "| `--algo` | actions | networks | learns from | workers | several agents | action masks |"
    yield "|---|---|---|---|---|---|---|"
    for name in ALGORITHMS:
        able = find_settings(name)
        words = [
            f"[`{name}`](#{name})",
            " and ".join(able.action_kinds),
            ", ".join(KINDS[kind] for kind in able.network_kinds),
            "a replay" if issubclass(able, ReplayConfig) else "rollouts",
            *(
                "yes" if each else "no"
                for each in (
                    able.has_workers,
                    able.several_agents,
                    able.keeps_masks and "discrete" in able.action_kinds,
                )
            ),
        ]
        yield f"| {' | '.join(words)} |"


def own(algo: str) -> Iterator[str]:
    """The settings that an algorithm has beside those of every run."""
    record = find_settings(algo)
    begins = preset_of(record.presets, "", "auto", DEFAULT_PRESET)
    yield "| setting | begins with | what it does |"
    yield "|---|---|---|"
    for name, known in settings_of(record).items():
        if NEVER not in known.needs and name not in settings_of(Config):
            value = begins.get(name, default_of(record, name))
            yield f"| `{name}` | {_value(value)} | {_meaning(known)} |"


def group(name: str) -> Iterator[str]:
    """The settings of one group that every algorithm has."""
    presets = {algo: preset_of(find_settings(algo).presets, "", "auto", DEFAULT_PRESET) for algo in ALGORITHMS}
    yield "| setting | default | what it does |"
    yield "|---|---|---|"
    for setting, known in settings_of(Config).items():
        if known.group != name:
            continue
        default = default_of(Config, setting)
        other: dict[str, list[str]] = {}
        for algo, begins in presets.items():
            if begins.get(setting, default) != default and setting != "algo":
                other.setdefault(_value(begins[setting]), []).append(algo)
        values = [_value(default), *(f"{value} for {', '.join(names)}" for value, names in other.items())]
        yield f"| `{setting}` | {'; '.join(values)} | {_meaning(known)} |"


TABLES: dict[str, Callable[..., Iterator[str]]] = {"overview": overview, "own": own, "group": group}


def _value(value: Any) -> str:
    if value is REQUIRED:
        return "none"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, float) and value and abs(value) < 1e-3:
        return f"{value:g}".replace("e-0", "e-")
    return {"": '""', "{}": "none", "()": "none"}.get(str(value), str(value))


def _meaning(known: Setting) -> str:
    bounds = {"at least": known.low, "above": known.above, "at most": known.high}
    said = [f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None]
    text = known.help.replace("|", r"\|").replace("<", "&lt;")
    return text + (f" ({', '.join(said)})" if said else "") + (" *May have a schedule.*" if known.scheduled else "")


def with_tables(text: str) -> str:
    """A page's text with its tables anew."""

    def filled(mark: re.Match[str]) -> str:
        table = TABLES[mark[2]](*[mark[3]] if mark[3] else [])
        return "\n".join((mark[1], "", *table, "", mark[4]))

    return MARKED.sub(filled, text)


def groups() -> list[str]:
    """The groups of the settings that every algorithm has."""
    return list(dict.fromkeys(settings_of(Config)[field.name].group or "" for field in dataclasses.fields(Config)))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text()))

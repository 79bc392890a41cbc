"""Writes the tables of algorithms, settings and recipes in five pages, from the settings themselves.

    python docs/settings.py

A table stands between two marks in its page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.pool.family import FROM_PIXELS
from headrace.pool.registry import families, is_registered
from headrace.train.recipes.recipes import REACHED, keys, preset_of, reached, recipe_at, recipe_of
from headrace.train.settings.algorithm import ALGORITHMS, DEFAULT_PRESET, find_settings
from headrace.train.settings.common import COMMON
from headrace.train.settings.fields import REQUIRED, Setting
from headrace.train.settings.kinds import OWN

DOCS = Path(__file__).parent
PAGES = tuple(
    DOCS / f"{name}.md" for name in ("algorithms", "rollout-algorithms", "replay-algorithms", "settings", "recipes")
)
MARKED = re.compile(r"(<!-- docs/settings.py: (\w+)((?: \w+)*) -->).*?(<!-- / -->)", re.DOTALL)
LIMITS = ("stop_at_return", "stop_episodes", "total_steps")  # of a run, not of how it learns


def overview() -> Iterator[str]:
    """What each algorithm can do."""
    yield "| `--algo` | actions | networks | learns from | workers | several agents | action masks |"
    yield "|---|---|---|---|---|---|---|"
    for name in ALGORITHMS:
        able = find_settings(name)
        words = [
            f"[`{name}`]({'replay' if able.replays else 'rollout'}-algorithms.md#{name})",
            " and ".join(able.action_kinds),
            ", ".join("your own" if kind == OWN else f"`{kind}`" for kind in able.network_kinds),
            "a replay" if able.replays else "rollouts",
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


def shared(*algos: str) -> Iterator[str]:
    """The settings, beside those of every run, that two or more of a page's algorithms have."""
    yield "| setting | of | begins with | what it does |"
    yield "|---|---|---|---|"
    for name, those in _owners(algos).items():
        if len(those) > 1:
            values: dict[str, list[str]] = {}
            for algo in those:
                values.setdefault(_beginning(algo, name), []).append(algo)
            told = "; ".join(f"{value} ({', '.join(of)})" if len(values) > 1 else value for value, of in values.items())
            of = "all" if len(those) == len(algos) else ", ".join(those)
            yield f"| `{name}` | {of} | {told} | {_meaning(find_settings(those[0]).settings[name])} |"


def own(*algos: str) -> Iterator[str]:
    """The settings that the first of a page's algorithms alone has."""
    alone = [name for name, those in _owners(algos).items() if those == [algos[0]]]
    if not alone:
        yield "All of its settings are those of several algorithms."
        return
    yield "| setting | begins with | what it does |"
    yield "|---|---|---|"
    for name in alone:
        known = find_settings(algos[0]).settings[name]
        yield f"| `{name}` | {_beginning(algos[0], name)} | {_meaning(known)} |"


def recipes() -> Iterator[str]:
    """What tasks, families and kinds of tasks are trained with: what differs from the family, or from the algorithm."""
    yield "| for | algorithm | preset | settings | steps | reached on 2 cores |"
    yield "|---|---|---|---|---:|---|"
    rows: dict[tuple[str, ...], list[str]] = {}
    for key in keys():
        algo, preset, _ = recipe_at(key)
        record = find_settings(algo)
        tables = [*(record.presets.get(name, {}) for name in (preset, DEFAULT_PRESET))]
        values = next(table[key] for table in tables if key in table)
        family = next((name for name, record in families().items() if key in record.tasks and name in tables[0]), "")
        shown = tables[0][family] if family else preset_of(record.presets, "", "auto", DEFAULT_PRESET)
        told = []
        for name in sorted({*values, *shown} - {*LIMITS}):
            begins = record.default(name)
            if (value := values.get(name, begins)) != shown.get(name, begins):
                told.append(f"`{name}={_value(value)}`")
        steps = values.get("total_steps", record.default("total_steps"))
        words = "; ".join([*([f"{family}'s"] if family else []), *([", ".join(told)] if told else [])])
        name = key.removesuffix(FROM_PIXELS)
        what = f"`{name}`" if is_registered(name) else f"{name} ({'family' if name in families() else 'kind'})"
        what += key.removeprefix(name)
        rows.setdefault(
            (algo, preset, words or "none", f"{steps:,}", (reached(key) or "").removesuffix(" on 2 cores")), []
        ).append(what)
    for texts, names in rows.items():
        yield f"| {', '.join(names)} | {' | '.join(texts)} |"


def measured() -> Iterator[str]:
    """What a family's recipe has reached on tasks that have none of their own."""
    yield "| task | recipe | reached on 2 cores |"
    yield "|---|---|---|"
    known = json.loads(REACHED.read_text())["tasks"]
    for task in sorted(known.keys() - {*keys()}):
        if words := reached(task):
            yield f"| `{task}` | {recipe_of(task, {}).key} | {words.removesuffix(' on 2 cores')} |"


def group(name: str) -> Iterator[str]:
    """The settings of one group that every algorithm has."""
    presets = {algo: preset_of(find_settings(algo).presets, "", "auto", DEFAULT_PRESET) for algo in ALGORITHMS}
    yield "| setting | default | what it does |"
    yield "|---|---|---|"
    for setting, known in COMMON.settings.items():
        if known.group != name:
            continue
        default = COMMON.default(setting)
        other: dict[str, list[str]] = {}
        for algo, begins in presets.items():
            if begins.get(setting, default) != default and setting != "algo":
                other.setdefault(_value(begins[setting]), []).append(algo)
        values = [_value(default), *(f"{value} for {', '.join(names)}" for value, names in other.items())]
        yield f"| `{setting}` | {'; '.join(values)} | {_meaning(known)} |"


TABLES: dict[str, Callable[..., Iterator[str]]] = {
    "overview": overview, "shared": shared, "own": own, "group": group, "recipes": recipes,
    "measured": measured,
}  # fmt: skip


def _owners(algos: tuple[str, ...]) -> dict[str, list[str]]:
    """Of each setting that is not one of every run: those of some algorithms that have it."""
    found: dict[str, list[str]] = {}
    for algo in algos:
        for name in find_settings(algo).settings:
            if name not in COMMON.settings:
                found.setdefault(name, []).append(algo)
    return found


def _beginning(algo: str, name: str) -> str:
    """The value that a run of an algorithm begins with, where its task has no other."""
    record = find_settings(algo)
    begins = preset_of(record.presets, "", "auto", DEFAULT_PRESET)
    return _value(begins.get(name, record.default(name)))


def _value(value: Any) -> str:
    if value is REQUIRED:
        return "none"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, float) and value and abs(value) < 1e-3:
        return f"{value:g}".replace("e-0", "e-")
    return {"": '""', "{}": "none", "()": "none"}.get(str(value), str(value))


def _meaning(known: Setting) -> str:
    bounds = {"≥": known.low, ">": known.above, "≤": known.high}
    said = [f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None]
    text = known.help.replace("|", r"\|").replace("<", "&lt;")
    return text + (f" ({', '.join(said)})" if said else "") + (" *May have a schedule.*" if known.scheduled else "")


def with_tables(text: str) -> str:
    """A page's text with its tables anew."""

    def filled(mark: re.Match[str]) -> str:
        table = TABLES[mark[2]](*mark[3].split())
        return "\n".join((mark[1], "", *table, "", mark[4]))

    return MARKED.sub(filled, text)


def groups() -> list[str]:
    """The groups of the settings that every algorithm has."""
    return list(dict.fromkeys(known.group or "" for known in COMMON.settings.values()))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text()))

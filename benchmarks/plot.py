"""Plots of results: of speeds, for each case a dot a peer (logarithmic), and of seconds until a task is solved.

Written as SVG that suits light and dark pages and asks for no library, so that the same record gives the same file
everywhere.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any, NamedTuple

WIDTH, ROW, TOP, RIGHT, LETTER = 860, 20, 46, 40, 7.4
"""pixels; of a letter its mean width"""
COLOURS = ("#3f6fd1", "#d9822b", "#2a9d72", "#b5489f", "#8a8f98", "#c8453b")
TICKS = (0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #333 } .axis { stroke: #ccc } .one { stroke: #666 }
.wanted { stroke: #333; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .axis { stroke: #444 } .one { stroke: #aaa } .wanted { stroke: #ddd } }
</style>"""


def bars(record: dict[str, Any]) -> str:
    """The SVG of a record; empty where it has no speeds beside others'."""
    cases = [case for case in record.get("cases", ()) if case.get("ratio")]
    if not cases:
        return ""
    peers = list(dict.fromkeys(peer for case in cases for peer in case["ratio"]))
    colours: dict[str, str] = dict(zip(peers, COLOURS * len(peers), strict=False))
    left = 16 + LETTER * max(len(case["name"]) for case in cases)
    values = [ratio for case in cases for ratio in (*case["ratio"].values(), *case["at_least"].values())]
    low, high = min(0.8, *values) / 1.1, max(1.25, *values) * 1.1

    def x(ratio: float) -> float:
        return round(left + (WIDTH - left - RIGHT) * math.log(ratio / low) / math.log(high / low), 1)

    bottom = TOP + ROW * len(cases)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" width="{WIDTH}">', STYLE]
    parts += legend(colours)
    for tick in (tick for tick in TICKS if low <= tick <= high):
        kind = "one" if tick == 1 else "axis"
        parts.append(f'<line class="{kind}" x1="{x(tick)}" x2="{x(tick)}" y1="{TOP - 12}" y2="{bottom}"/>')
        parts.append(f'<text x="{x(tick)}" y="{bottom + 16}" text-anchor="middle">{tick:g} ×</text>')
    for i, case in enumerate(cases):
        y = TOP + ROW * i
        parts.append(f'<text x="{left - 10:.1f}" y="{y + 4}" text-anchor="end">{escape(case["name"])}</text>')
        for peer, least in case["at_least"].items():
            if peer in case["ratio"]:
                parts.append(f'<line class="wanted" x1="{x(least)}" x2="{x(least)}" y1="{y - 6}" y2="{y + 6}"/>')
        for peer, ratio in case["ratio"].items():
            parts.append(f'<circle cx="{x(ratio)}" cy="{y}" r="5" fill="{colours[peer]}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def legend(colours: dict[str, str]) -> list[str]:
    """Peers with their colours, and what a stroke is, in a line."""
    parts, at = [], 10.0
    for peer, colour in colours.items():
        parts.append(f'<circle cx="{at:.1f}" cy="14" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{at + 10:.1f}" y="18">beside {escape(peer)}</text>')
        at += 40 + LETTER * (len(peer) + 7)
    parts.append(f'<line class="wanted" x1="{at:.1f}" x2="{at:.1f}" y1="8" y2="20"/>')
    return [*parts, f'<text x="{at + 8:.1f}" y="18">wanted</text>']


CODE = 'style="font-family: ui-monospace, monospace"'


class Race(NamedTuple):
    """The median seconds from a run's first step until a mean return, by a command and by another library."""

    command: str
    goal: float
    ours: float
    theirs: float


def race_bars(races: list[Race], us: str, peer: str) -> str:
    """The SVG of two bars a race; the other's has the same length in all, as seconds differ a hundredfold."""
    left, high, ours, theirs = 330, 46, COLOURS[0], COLOURS[4]
    full = WIDTH - left - 90
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high * len(races) + 34}" width="{WIDTH}">']
    parts.append(STYLE)
    for at, colour, name in ((left, ours, us), (left + 110, theirs, peer)):
        parts.append(f'<rect x="{at}" y="6" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{at + 18}" y="16">{escape(name)}</text>')
    for i, race in enumerate(races):
        y, until = 34 + high * i, f"until a mean return of {race.goal:,g}"
        parts.append(f'<text x="{left - 12}" y="{y + 13}" text-anchor="end" {CODE}>{escape(race.command)}</text>')
        parts.append(f'<text x="{left - 12}" y="{y + 30}" text-anchor="end">{until}</text>')
        sooner = f"{race.ours:.1f} s, {race.theirs / race.ours:.0f} × sooner"
        lines = ((y, ours, race.ours / race.theirs, sooner), (y + 17, theirs, 1.0, f"{race.theirs:.0f} s"))
        for top, colour, share, told in lines:
            width = round(full * share, 1)
            parts.append(f'<rect x="{left}" y="{top}" width="{width}" height="15" fill="{colour}"/>')
            parts.append(f'<text x="{left + width + 8}" y="{top + 12}">{told}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

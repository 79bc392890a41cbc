"""The README's table: how many times as fast as others, least … most over a benchmark's cases, a line for each peer.

Nothing is measured here: ratios are those of the JSON files, and a line is left out while nobody has measured it.
"""

from __future__ import annotations

from typing import Any

from catalog import CATALOG, Line


def glance(records: dict[str, dict[str, Any]]) -> str:
    """Markdown of records by benchmark."""
    rows = ["| | beside | times as fast |", "|---|---|---:|"]
    for benchmark in CATALOG:
        for line in benchmark.lines:
            if found := times(ratios(records.get(benchmark.name), line)):
                rows.append(f"| {line.what} | {line.called} | {found} |")
    return "\n".join(rows)


def ratios(record: dict[str, Any] | None, line: Line) -> list[float]:
    """Ours beside the peer's, of all cases."""
    if record is None:
        return []
    if record["name"] == "sac_learning":
        wanted = f"{line.peer} beside stable-baselines3"
        return [ratio for name, ratio in record["times_faster"].items() if name.endswith(f": {wanted}")]
    if record["name"] == "ppo_learning":
        both = [(runs[line.peer], runs["headrace"]) for runs in record["median_seconds"].values()]
        return [theirs / mine for theirs, mine in both if theirs and mine]
    return [case["ratio"][line.peer] for case in record["cases"] if line.peer in case["ratio"]]


def times(found: list[float]) -> str:
    """Least and most, or one where they are as good as equal."""
    if not found:
        return ""
    least, most = rounded(min(found)), rounded(max(found))
    return f"{least} ×" if least == most else f"{least} … {most} ×"


def rounded(ratio: float) -> str:
    """In as many digits as tell something."""
    digits = next((digits for limit, digits in ((2, 2), (10, 1)) if ratio < limit), 0)
    return f"{ratio:.{digits}f}"

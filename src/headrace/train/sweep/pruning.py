"""When a trial is given up: once it is behind what others had reached after as many steps.

``median`` is the rule of Golovin et al., "Google Vizier" (KDD 2017): end below the median of the others. ``halving`` is
asynchronous successive halving, Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020): of all
that reach a rung, the best third goes on.
"""

from __future__ import annotations

import statistics
from typing import Literal

from headrace.train.sweep.trials import Line

Rule = Literal["median", "halving", "none"]
SHARES: dict[Rule, tuple[float, ...]] = {
    "median": tuple(step / 10 for step in range(2, 10)),
    "halving": (1 / 27, 1 / 9, 1 / 3),
    "none": (),
}
"""parts of a run after which it is compared"""
LEAST = {"median": 4, "halving": 3}
"""trials that a rung must have seen, beside the one that is judged"""
ETA = 3  # of halving: one in so many goes on


class Pruner:
    """Compares trials at the same steps.

    Args:
        rule: which.
        total_steps: of a whole run.
    """

    def __init__(self, rule: Rule, total_steps: int):
        self._rule: Rule = rule
        self._scores: dict[int, dict[int, float]] = {int(share * total_steps): {} for share in SHARES[rule]}

    def note(self, number: int, lines: list[Line]) -> str:
        """Takes note of what a trial has reported.

        Args:
            number: of the trial.
            lines: all lines of its metrics.

        Returns:
            Why it is to end now, in words; empty if it goes on.
        """
        for rung, scores in self._scores.items():
            if number in scores or not lines or lines[-1]["step"] < rung:
                continue
            before = [line["return"] for line in lines if line["step"] <= rung and line.get("return") is not None]
            if before:
                scores[number] = score = before[-1]
                others = [other for trial, other in scores.items() if trial != number]
                if len(others) >= LEAST[self._rule] and (words := self._behind(score, others)):
                    return f"after {rung:,} steps {words}"
        return ""

    def _behind(self, score: float, others: list[float]) -> str:
        if self._rule == "median":
            middle = statistics.median(others)
            return f"its return {score:.1f} was below the others' median {middle:.1f}" if score < middle else ""
        better, among = sum(other > score for other in others), len(others) + 1
        kept = max(1, among // ETA)
        return f"{better} of {len(others)} others had a higher return than {score:.1f}" if better >= kept else ""

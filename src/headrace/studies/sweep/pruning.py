"""Pruning of trials whose returns are lower than those of other trials after the same number of steps.

``median`` is the rule of Golovin et al., "Google Vizier" (KDD 2017): a trial ends if it is below the median of the
others. ``halving`` is asynchronous successive halving, Li et al., "A System for Massively Parallel Hyperparameter
Tuning" (MLSys 2020): of all trials that reach a rung, the best third continues.
"""

from __future__ import annotations

import statistics
from typing import Literal

from headrace.studies.sweep.trials import Line

Rule = Literal["median", "halving", "none"]
SHARES: dict[Rule, tuple[float, ...]] = {
    "median": tuple(step / 10 for step in range(2, 10)),
    "halving": (1 / 27, 1 / 9, 1 / 3),
    "none": (),
}
"""fractions of a run after which trials are compared"""
LEAST = {"median": 4, "halving": 3}
"""the minimum number of other trials at a rung for a comparison"""
ETA = 3  # with halving, one in ETA trials continues after a rung


class Pruner:
    """A comparison of trials after the same numbers of steps.

    Args:
        rule: ``"median"`` or ``"halving"``.
    """

    def __init__(self, rule: Rule, total_steps: int):
        self._rule: Rule = rule
        self._scores: dict[int, dict[int, float]] = {int(share * total_steps): {} for share in SHARES[rule]}

    def note(self, number: int, lines: list[Line]) -> str:
        """Compares a trial with other trials at the rungs that it has reached.

        Returns:
            The reason, as text, why the trial should end now; empty if it continues.
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

"""A model, not a measurement: what samplers on a larger Ray cluster would do for one learner.

A simulation of the queue: samplers step at their own pace and answer after their patience; what they send passes the
network to the learner's machine, one block after the other, and then the one process beside the learner, which gives
the next order with the newest weights; those go once to every node. The learner updates at its own pace, or as the
replay ratio asks. Times are processor seconds that `ray_sampling.py` measured (``results/ray_sampling.json``), each
process on a core of its own; the network is assumed, not measured.

    python benchmarks/ray_model.py [--plot docs/images/ray_model.svg]
"""

from __future__ import annotations

import heapq
import json
import random
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, heading, tell
from headrace.train.cluster.coordinator import LEAST, PATIENCE, PATIENCE_EACH, PUT
from headrace.train.config.settings import make_config
from headrace.train.workers.policy_copy import frozen_policy
from headrace.train.workers.rate_limiter import SLACK

JITTER = 0.1  # of a sampler's pace: its standard deviation over a block
SIZES = (1, 2, 16, 256)
RATIOS = (None, 1 / 16)


@dataclass
class ModelArgs:
    """The queue between samplers on a cluster and one learner, simulated."""

    measured: Path = RESULTS / "ray_sampling.json"
    """what the parts cost"""
    bandwidth: float = 1.25e9
    """bytes a second into the learner's machine, and out of it"""
    latency: float = 1e-4
    """seconds of one way"""
    fetch: float = 0.0
    """seconds that a node takes to get a version of the weights, which an order waits for, beside their way"""
    ways: float = 0.0
    """further ways that it takes, as it asks where they are; `ray_network.py` measures both"""
    node: int = 16
    """samplers of a node"""
    seconds: float = 20.0
    """simulated"""
    out: Path = RESULTS
    plot: Path | None = None
    """where to draw it"""


@dataclass(frozen=True)
class Costs:
    """What the parts cost.

    Attributes:
        step: seconds of a sampler for an agent step.
        envs: environments of a sampler.
        answer, byte: seconds of the coordinator for an answer, and for each of its bytes.
        bytes_a_step: that a sampler sends.
        update: seconds of the learner.
        version: updates between two versions of the weights.
        weights: bytes of the weights.
    """

    step: float
    envs: int
    answer: float
    byte: float
    bytes_a_step: float
    update: float
    version: float
    weights: float

    @classmethod
    def of(cls, record: dict[str, Any]) -> Costs:
        """Fits them to what was measured: the first task's, and the coordinator's from answers of two sizes."""
        one, two = record["costs"][:2]
        sizes = two["bytes_an_answer"] - one["bytes_an_answer"]
        byte = max(0.0, (two["coordinator_seconds_an_answer"] - one["coordinator_seconds_an_answer"]) / sizes)
        answer = one["coordinator_seconds_an_answer"] - byte * one["bytes_an_answer"]
        learning = [each for each in record["learning"] if each["where"] == "cluster"]
        update = statistics.median(each["learner_seconds_an_update"] for each in learning)
        version = statistics.median(each["seconds_a_version"] * each["updates"] for each in learning)
        step, envs = one["sampler_seconds_a_step"], one["envs"]
        weights = 4 * frozen_policy(make_config(one["task"], algo=one["algo"])).actor_parameters.numel()
        return cls(step, envs, answer, byte, one["bytes_a_step"], update, version, weights)


@dataclass(frozen=True)
class Outcome:
    """What came of a simulation.

    Attributes:
        samplers: how many.
        ratio: updates a step; None for a free pace.
        sampling: agent steps a second that arrive.
        updates: a second.
        coordinator: the part of the time in which the coordinator is busy.
        age: seconds from the publication of the weights that acted to now, of the newest rows.
        versions: the same in versions of the weights.
    """

    samplers: int
    ratio: float | None
    sampling: float
    updates: float
    coordinator: float
    age: float
    versions: float


class Queue:
    """The simulation of one size.

    Args:
        costs, args: of the parts, and the network.
        samplers: how many.
        ratio: updates a step; None for a free pace.
    """

    def __init__(self, costs: Costs, args: ModelArgs, samplers: int, ratio: float | None):
        self._costs, self._args, self._samplers, self._ratio = costs, args, samplers, ratio
        self._random = random.Random(1)
        self._patience = PATIENCE + PATIENCE_EACH * samplers
        self._steps = 0.0  # that arrived
        self._updates, self._updated = 0.0, 0.0  # and when they were counted
        self._inwards = self._outwards = self._coordinator = 0.0  # when they are free again
        self._busy = 0.0
        self._limit = [0.0] * samplers
        self._own = [0.0] * samplers
        self._acted = [0.0] * samplers  # when the weights of the newest rows were published
        self._sent: dict[int, float] = {}  # node → when its newest weights were put

    def run(self, seconds: float) -> Outcome:
        """Simulate so many seconds; rates are of the second half."""
        events: list[tuple[float, int, float, float]] = []  # arrival, sampler, steps of the block, its weights' time
        for sampler in range(self._samplers):
            heapq.heappush(events, self._order(sampler, self._patience * self._random.random()))
        half, ages, before = seconds / 2, [], (0.0, 0.0, 0.0)
        next_look = half
        while events[0][0] < seconds:
            arrived, sampler, steps, put = heapq.heappop(events)
            while next_look <= arrived:
                if next_look == half:
                    before = self._steps, self._learn(next_look), self._busy
                ages.append(next_look - statistics.mean(self._acted))
                next_look += half / 200
            start = max(arrived, self._coordinator)
            cost = self._costs.answer + self._costs.byte * steps * self._costs.bytes_a_step
            self._coordinator, self._busy = start + cost, self._busy + cost
            self._steps, self._own[sampler], self._acted[sampler] = self._steps + steps, self._own[sampler] + steps, put
            heapq.heappush(events, self._order(sampler, self._coordinator))
        updates, age = self._learn(seconds) - before[1], statistics.mean(ages)
        return Outcome(
            self._samplers,
            self._ratio,
            (self._steps - before[0]) / half,
            updates / half,
            min(1.0, (self._busy - before[2]) / half),
            age,
            age * updates / half / self._costs.version,
        )

    def _learn(self, now: float) -> float:
        """The updates made until now."""
        made = self._updates + (now - self._updated) / self._costs.update
        due = made if self._ratio is None else self._steps * self._ratio
        self._updates, self._updated = min(made, max(due, self._updates)), now
        return self._updates

    def _order(self, sampler: int, now: float) -> tuple[float, int, float, float]:
        """Give an order; returns when its answer arrives, with how many steps, taken with weights of when."""
        costs, args = self._costs, self._args
        put, node = now - now % PUT, sampler // args.node
        begins = now + args.latency
        if self._sent.get(node, -1.0) < put:  # once for every node
            self._outwards = max(self._outwards, now) + costs.weights / args.bandwidth
            self._sent[node], begins = put, self._outwards + args.latency + args.fetch + args.ways * args.latency
        steps = max(0.0, self._random.gauss(1, JITTER)) * self._patience / costs.step
        if self._ratio is not None:
            steps = min(steps, self._granted(sampler, now))
        self._limit[sampler] = self._own[sampler] + steps
        works = min(self._patience, steps * costs.step) if steps else self._patience
        ends = begins + max(self._patience - PATIENCE + LEAST, works)
        self._inwards = max(self._inwards, ends) + steps * costs.bytes_a_step / args.bandwidth
        return self._inwards + args.latency, sampler, steps, put

    def _granted(self, sampler: int, now: float) -> float:
        """Steps that the replay ratio allows and that are promised to nobody else."""
        assert self._ratio is not None
        ahead = SLACK * self._costs.envs * self._samplers
        left = self._learn(now) / self._ratio + ahead - self._steps
        promised = sum(self._limit) - sum(self._own) - (self._limit[sampler] - self._own[sampler])
        return max(0.0, min(max(self._costs.envs, left / self._samplers), left - promised))


def draw(outcomes: list[Outcome], costs: Costs, path: Path) -> None:
    """Sampling and staleness over the number of samplers, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ratio in RATIOS:
        mine = [each for each in outcomes if each.ratio == ratio]
        label = "free pace" if ratio is None else f"replay ratio 1/{1 / ratio:.0f}"
        left.plot([each.samplers for each in mine], [each.sampling for each in mine], "o-", label=label)
        right.plot([each.samplers for each in mine], [1000 * each.age for each in mine], "o-", label=label)
    ideal = [samplers / costs.step for samplers in SIZES]
    left.plot(SIZES, ideal, ":", color="grey", label="samplers alone")
    left.set(title="model: agent steps a second", xlabel="samplers", xscale="log", yscale="log")
    right.set(title="model: age of the newest rows, ms", xlabel="samplers", xscale="log", yscale="log")
    for axes in (left, right):
        axes.set_xticks(SIZES, map(str, SIZES))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def row(each: dict[str, Any]) -> dict[str, Any]:
    """One prediction."""
    return {
        "samplers": each["samplers"],
        "replay ratio": "free" if each["ratio"] is None else f"1/{1 / each['ratio']:.0f}",
        "steps/s": f"{each['sampling']:,.0f}",
        "updates/s": f"{each['updates']:,.0f}",
        "coordinator busy": f"{each['coordinator']:.0%}",
        "age of the newest rows": f"{1000 * each['age']:,.0f} ms",
        "in versions": f"{each['versions']:,.1f}",
    }


def main() -> None:
    args = tyro.cli(ModelArgs)
    costs = Costs.of(json.loads(args.measured.read_text()))
    outcomes = [Queue(costs, args, samplers, ratio).run(args.seconds) for ratio in RATIOS for samplers in SIZES]
    predictions = list(map(asdict, outcomes))
    network = {"bandwidth": args.bandwidth, "latency": args.latency, "samplers_of_a_node": args.node}
    record = heading("ray_model", "A model of larger clusters")
    record |= {"costs": asdict(costs), "network": network, "predictions": predictions}
    tell(args.out, record | {"rows": list(map(row, predictions))})
    if args.plot is not None:
        draw(outcomes, costs, args.plot)


if __name__ == "__main__":
    main()

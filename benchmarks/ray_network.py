"""Twelve samplers behind a wire with delay and loss: does a run on Ray hang, and are its data as old as the model says?

Two network namespaces are two "machines" (see `torchrun_network.py`, which needs the same permissions). The first has
the learner and the head of a Ray cluster, the second a node with twelve samplers. For each wire a run learns for a
while; the age of the newest rows is measured as in `ray_sampling.py`. `ray_model.py` predicts it from the costs of the
parts in that run, in seconds of the clock, and the delay. What a node takes to fetch weights is fitted where there is
no delay, and the ways that this takes at the least one; longer delays are then predictions.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, heading, tell
from headrace.train.cluster.connection import QUIET
from headrace.train.config.settings import make_config
from headrace.train.processes.counters import PARTS
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from ray_model import Costs, ModelArgs, Queue
from ray_sampling import BEGIN, Sampling, used
from torchrun_network import ADDRESSES, two_machines

PORT = 6399
HEAD = f"{ADDRESSES[0]}:{PORT}"
OPEN = {"RAY_AUTH_MODE": "disabled"}  # nobody else reaches these machines
SIMULATED, HALVINGS = 60.0, 12  # seconds of a simulation, and how often a parameter's range is halved
NODES = 120.0  # seconds in which both nodes must be there
STORE = 100 << 20
WORK = PARTS.index("inference"), PARTS.index("env")


@dataclass
class NetworkArgs:
    """Twelve samplers on a Ray node behind a wire."""

    samplers: int = 12
    num_envs: int = 2
    """of each sampler"""
    ratio: float = 0.25
    """updates a step"""
    delays: tuple[float, ...] = (0.0, 20.0, 50.0, 100.0)
    """milliseconds that a packet takes, none and the least one first"""
    loss: float = 0.5
    """per cent of the packets that are lost, where there is a delay"""
    seconds: float = 15.0
    """of each measurement"""
    measure: bool = False
    """measure once, beside a cluster that is there: what the script calls itself for"""
    out: Path = RESULTS
    """folder for the JSON file"""


class Behind(Sampling):
    """A run whose samplers are behind the wire."""

    def begin(self) -> None:
        """Start, and learn until every sampler steps: the ratio lets those that begin last step only then."""
        self.learner.begin(False)
        self.source.start_workers(False)
        until = time.monotonic() + BEGIN
        while not (self.counters.steps > 0).all():
            self.learner.pace.run(0.1)
            self.source.check_workers()
            if time.monotonic() > until:
                raise SystemExit(f"samplers do not begin: {self.counters.steps.tolist()} steps")

    def measured(self, seconds: float) -> dict[str, float]:
        """Rates, the age of the newest rows, and what the parts cost: in wall-clock seconds but the coordinator's."""
        assert self.cluster is not None
        self.learner.pace.run(seconds / 4)
        status, coordinators = self.cluster._status, self.coordinators()
        learner, weights = self.learner, self.source.weights
        began, lost, version, updates = time.perf_counter(), self._lost(), weights.version, learner.updater.updates
        steps, worked = self.counters.total_steps(), self.counters.seconds[:, WORK].sum()
        answers, received, spent = int(status.exchanges[0]), int(status.received[0]), used(coordinators)
        ages = []
        while (took := time.perf_counter() - began) < seconds:
            self.learner.pace.run(0.1)
            self.source.check_workers()
            ages.append(self._age())
        made, steps = learner.updater.updates - updates, self.counters.total_steps() - steps
        version = weights.version - version
        return {
            "steps_a_second": steps / took,
            "updates_a_second": made / took,
            "versions": statistics.mean(ages),
            "age": statistics.mean(ages) * took / version,
            "restarts": self.source.restarts,
            "seconds_a_step": (self.counters.seconds[:, WORK].sum() - worked) / steps,
            "seconds_an_update": (took - (self._lost() - lost)) / made,
            "updates_a_version": made / version,
            "coordinator_seconds_an_answer": (used(coordinators) - spent) / (int(status.exchanges[0]) - answers),
            "bytes_a_step": (int(status.received[0]) - received) / steps,
            "weights_bytes": 4.0 * self.source.policy_copy.vector.numel(),
        }

    def _lost(self) -> float:
        """Seconds in which no update was due."""
        return self.learner.figures().split["idle"]


def measure(args: NetworkArgs) -> dict[str, float]:
    """One run beside the cluster, on this side of the wire."""
    small: dict[str, Any] = {"hidden": (32, 32), "minibatch_size": 32, "replay_size": 20_000, "publish_every": 1}
    quiet: dict[str, Any] = {"tensorboard": False, "viewer": False, "evaluate_episodes": 0, "stop_at_return": None}
    sizes: dict[str, Any] = {"samplers": args.samplers, "num_envs": args.num_envs, "num_threads": 1, "torch_threads": 1}
    learning: dict[str, Any] = {"replay_ratio": args.ratio, "learning_starts": 500, "total_steps": 10**12}
    together: dict[str, Any] = {"algo": "sac", "ray": HEAD, "actor_device": ""}
    config = make_config("Pendulum-v1", **together, **small, **quiet, **sizes, **learning)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(config, RunFolder.create(Path(folder) / "run", config))
        run = Behind(trainer)
        try:
            run.begin()
            return run.measured(args.seconds)
        finally:
            trainer.close()


def predicted(found: dict[str, float], args: NetworkArgs, network: dict[str, float]) -> dict[str, float]:
    """What the model says of such a run, given what its parts cost."""
    costs = Costs(
        step=found["seconds_a_step"],
        envs=args.num_envs,
        answer=found["coordinator_seconds_an_answer"],
        byte=0.0,
        bytes_a_step=found["bytes_a_step"],
        update=found["seconds_an_update"],
        version=found["updates_a_version"],
        weights=found["weights_bytes"],
    )
    outcome = asdict(
        Queue(costs, replace(ModelArgs(node=args.samplers), **network), args.samplers, args.ratio).run(SIMULATED)
    )
    return {name: outcome[name] for name in ("sampling", "updates", "coordinator", "age")}


def fitted(found: dict[str, float], args: NetworkArgs, network: dict[str, float], name: str, most: float) -> float:
    """The value of one of the network's parameters at which the model's age is the one that was measured."""
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        less = predicted(found, args, network | {name: middle})["age"] < found["age"]
        low, high = (middle, high) if less else (low, middle)
    return round(high, 4)


def told(runs: list[dict[str, Any]], args: NetworkArgs) -> dict[str, float]:
    """Adds to every run what the model says of it; returns what was fitted, at the first two."""
    fit: dict[str, float] = {"fetch": 0.0, "ways": 0.0}
    for name, most, run in zip(fit, (1.0, 50.0), runs, strict=False):
        fit[name] = fitted(run["measured"], args, fit | {"latency": run["delay_ms"] / 1000}, name, most)
    for run in runs:
        run["model"] = predicted(run["measured"], args, fit | {"latency": run["delay_ms"] / 1000})
    return fit


@contextlib.contextmanager
def cluster(names: tuple[str, str], samplers: int) -> Iterator[None]:
    """A Ray cluster whose head is on the first machine, without processors, and whose only node is on the second."""
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", f"--object-store-memory={STORE}"]
    head = [*ray, "--head", f"--port={PORT}", f"--node-ip-address={ADDRESSES[0]}", "--num-cpus=0"]
    node = [*ray, f"--address={HEAD}", f"--node-ip-address={ADDRESSES[1]}", f"--num-cpus={samplers}"]
    started = []
    environment = os.environ | QUIET | OPEN
    with tempfile.TemporaryDirectory(prefix="hr", dir="/tmp") as folder:
        head += [f"--temp-dir={folder}", "--include-dashboard=false"]
        try:
            for name, command in zip(names, (head, node), strict=True):
                command = ["ip", "netns", "exec", name, *command]
                out = subprocess.DEVNULL
                started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
                wait_for_head(names[1])  # the node gives up at once where there is none
            yield
        finally:
            for name in names:
                pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout
                for pid in pids.split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            for process in started:
                process.wait(60)


def wait_for_head(name: str) -> None:
    """Until the head answers on the other machine."""
    probe = f"exec 3<>/dev/tcp/{ADDRESSES[0]}/{PORT}"
    until = time.monotonic() + NODES
    while subprocess.run(["ip", "netns", "exec", name, "bash", "-c", probe], capture_output=True).returncode:
        if time.monotonic() > until:
            raise SystemExit("the head of the cluster does not answer")
        time.sleep(0.5)


def inside(name: str, args: NetworkArgs) -> dict[str, float]:
    """What this script measures when it runs on the first machine; waits for the cluster to be whole."""
    sizes = [f"--samplers={args.samplers}", f"--num-envs={args.num_envs}", f"--ratio={args.ratio}"]
    command = [sys.executable, __file__, "--measure", *sizes, f"--seconds={args.seconds}"]
    until = time.monotonic() + NODES
    while True:
        done = subprocess.run(
            ["ip", "netns", "exec", name, *command],
            capture_output=True,
            text=True,
            timeout=900,
            env=os.environ | OPEN,
        )
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        if time.monotonic() > until:
            raise SystemExit(done.stderr)
        time.sleep(1)


def rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A line a wire: rates, and the age that was measured beside the one that the model says, or was fitted to."""
    fitted_to = list(record["fitted"])
    return [
        {
            "wire": f"{run['delay_ms']:g} ms, {run['loss_percent']:g} % lost",
            "steps/s": run["measured"]["steps_a_second"],
            "model's steps/s": run["model"]["sampling"],
            "age of the newest rows": f"{1000 * run['measured']['age']:,.0f} ms",
            "model's": f"{1000 * run['model']['age']:,.0f} ms" + " (fitted)" * (number < len(fitted_to)),
            "restarts": int(run["measured"]["restarts"]),
        }
        for number, run in enumerate(record["runs"])
    ]


def main(args: NetworkArgs) -> None:
    """Measure, print a table and write the JSON file."""
    if args.measure:
        print(json.dumps(measure(args)))
        return
    found = []
    try:
        with two_machines() as (names, wire), cluster(names, args.samplers):
            for delay in args.delays:
                loss = args.loss if delay else 0.0
                wire.delay, wire.loss = delay / 1000, loss / 100
                measured = inside(names[0], args)
                found.append({"delay_ms": delay, "loss_percent": loss, "measured": measured})
                print(found[-1], flush=True)
    except OSError as error:
        print(f"skipped: {error}")
        return
    record = heading("ray_network", f"{args.samplers} samplers behind a wire with delay and loss")
    record |= {
        "samplers": args.samplers,
        "num_envs": args.num_envs,
        "ratio": args.ratio,
        "fitted": told(found, args),
        "runs": found,
    }
    tell(args.out, record | {"rows": rows(record)})


if __name__ == "__main__":
    main(tyro.cli(NetworkArgs))

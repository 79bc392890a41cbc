"""The process between the learner and the Ray actors, which calls the actors and stores the steps that they return.

It takes the place of all samplers: it writes to the same replay or slots, and updates the same counters. A call of a
sampler carries the newest weights and the number of steps that it may take; the steps that the replay ratio allows are
divided among the calls under way, so that together they never take more. Two calls of a sampler of rows are under way
at a time, so that it does not wait for this process; a sampler of rollouts has one for each free slot.

Ray restarts an actor that is lost, alone or with its node, where the cluster has free processors. The steps of a call
that fails do not count, and the sampler begins new episodes, since rows within an episode may be missing. An exception
in an actor ends the run, as it does on one machine.
"""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headrace.errors import HeadraceError, WorkerError
from headrace.pool.remarks import tell
from headrace.pool.shared import Fence, SharedArrays
from headrace.train.cluster.actor import EvaluatorActor, Sampled, SamplerActor, Start
from headrace.train.cluster.code import Code
from headrace.train.cluster.connection import connected
from headrace.train.logging.timer import Throughput
from headrace.train.processes.counters import Counters
from headrace.train.processes.supervisor import MOST_RAISED, RESTARTED
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.settings.config import Config
from headrace.train.storage.blocks import append_rows, put_rollout
from headrace.train.storage.layout import StepLayout
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers.evaluator import is_due

LOOK = 0.02  # maximum wait for a result, before weights and counters are read again, in seconds
REST = 1e-3  # this wait while a sampler may take no steps, in seconds
CALLS = 2  # calls of a sampler of rows that are under way at a time
BLOCK, BLOCK_EACH = 0.02, 0.003  # seconds of a block of rows, and added for every actor, as one process receives all
PAUSE = 0.1  # seconds before an actor that has not begun is called again
END = 2.0  # maximum wait for samplers to close their environments, in seconds
RING = 32 << 20  # bytes of rows in an actor, of which a block is at most a quarter
LEAST_ROWS, MOST_ROWS = 64, 8192
PUT = 0.01  # minimum time between two versions of the weights that are sent, in seconds
RAY = {"max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": "SPREAD"}
ONCE = {"max_task_retries": 0}  # a lost call is not repeated, while later ones wait until Ray has restarted the actor
COUNTS = ("connected", "nodes", "actors", "received", "sent", "restarts", "calls", "pulse")


class Cluster:
    """The memory that the learner shares with the driver, which writes it.

    Args:
        counters, weights, evaluations: the same as for local workers.
        memory: the replay or the slots into which the samplers' steps are written.

    Attributes:
        counts: int64[1] each: whether the cluster is ``connected``; ``nodes`` with actors; ``actors`` that have begun;
            bytes of steps ``received`` and of weights ``sent``; ``restarts`` of actors that were lost or failed;
            ``calls`` that have returned; and a ``pulse`` that increases while the driver works.
    """

    def __init__(
        self, counters: Counters, weights: WeightBuffer, evaluations: WeightBuffer, memory: StepReplay | Rollouts
    ):
        self.counters, self.weights, self.evaluations, self.memory = counters, weights, evaluations, memory
        self.counts = SharedArrays(dict.fromkeys(COUNTS, ((1,), np.dtype(np.int64))))
        self._bytes = Throughput()

    def count(self, name: str) -> int:
        return int(self.counts[name][0])

    def numbers(self) -> dict[str, Any]:
        """Returns the numbers for a line of metrics: nodes, actors, restarts, and bytes a second received and sent."""
        self._bytes.note(self.count("received"), self.count("sent"))
        received, sent = self._bytes.per_second() or (0.0, 0.0)
        known = {name: self.count(name) for name in ("nodes", "actors", "restarts")}
        return known | {"received_bytes": round(received), "sent_bytes": round(sent)}

    def close(self) -> None:
        self.counts.close()


@dataclass(eq=False)
class Worker:
    """A sampler or the evaluator, in an actor.

    Attributes:
        node: the name of its node; empty unless it has begun.
        calls: the number of its calls under way.
        restarts: the number of times that it was lost or failed.
        raised: the number of exceptions since its last result.
        version: the newest version of the weights that were sent to it.
    """

    name: str
    number: int
    actor: Any
    node: str = ""
    calls: int = 0
    restarts: int = 0
    raised: int = 0
    version: int = 0


@dataclass(frozen=True)
class Call:
    """A call under way: the method that takes its result, and the agent steps that it may take."""

    worker: Worker
    take: Callable[[Worker, Any], None]
    steps: int


class Driver:
    """The calls of all actors, which it starts."""

    def __init__(self, ray: Any, config: Config, cluster: Cluster, code: Code):
        self._ray, self._config, self._cluster = ray, config, cluster
        self._counters, self._memory, self._fence = cluster.counters, cluster.memory, Fence()
        self._calls, self._workers, self._granted = dict[Any, Call](), list[Worker](), 0
        self._newest, self._put_at, self._due, self._reference = 0, 0.0, 0.0, None
        size, extras = cluster.weights.sizes
        self._vector, self._extras = torch.zeros(size), torch.zeros(extras, dtype=torch.float64)
        threads, begun = config.num_threads or 1, self._counters.total_steps()
        memory = self._memory.of_one if isinstance(self._memory, Rollouts) else _ring(self._memory.layout)
        kinds = [(f"sampler {number}", SamplerActor, threads, memory) for number in range(config.samplers)]
        kinds += [("evaluator", EvaluatorActor, 0, None)] if config.evaluate_episodes else []
        settings: Any = config.replace(num_threads=threads).__reduce__()
        for number, (name, kind, cpus, memory) in enumerate(kinds):
            start = Start(settings, code, number, begun, (size, extras), memory, BLOCK + BLOCK_EACH * len(kinds))
            self._workers.append(Worker(name, number, ray.remote(kind).options(num_cpus=cpus, **RAY).remote(start)))
            self._begin(self._workers[-1])

    def turn(self) -> None:
        samplers = self._workers[: self._config.samplers]
        for worker in samplers:
            self._sample(worker)
        for worker in self._workers[self._config.samplers :]:
            self._evaluate(worker)
        for reference in self._ended(LOOK if all(worker.calls for worker in samplers) else REST):
            self._receive(reference)
        nodes, counts = [worker.node for worker in self._workers if worker.node], self._cluster.counts
        counts["actors"][0], counts["nodes"][0] = len(nodes), len(set(nodes))
        counts["pulse"][0] += 1

    def close(self) -> None:
        """Closes the environments, and kills the actors after at most `END` seconds."""
        ends = [worker.actor.close.remote() for worker in self._workers[: self._config.samplers] if worker.node]
        if ends:
            self._ray.wait(ends, num_returns=len(ends), timeout=END)
        for worker in self._workers:
            self._ray.kill(worker.actor)

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, worker: Worker, method: str, take: Callable[..., None], *arguments: Any, steps: int = 0) -> None:
        reference = getattr(worker.actor, method).options(**ONCE).remote(*arguments)
        self._calls[reference] = Call(worker, take, steps)
        worker.calls, self._granted = worker.calls + 1, self._granted + steps

    def _forget(self, reference: Any) -> Call:
        call = self._calls.pop(reference)
        call.worker.calls, self._granted = call.worker.calls - 1, self._granted - call.steps
        return call

    def _ended(self, seconds: float) -> list[Any]:
        """Returns the references of calls that have ended; waits for the first one, at most for ``seconds``.

        They are among the first calls of all workers, as a later block may arrive before an earlier one.
        """
        firsts = [*{call.worker: reference for reference, call in reversed(self._calls.items())}.values()]
        if not firsts:
            time.sleep(seconds)
            return []
        self._ray.wait(firsts, num_returns=1, timeout=seconds)
        return self._ray.wait(firsts, num_returns=len(firsts), timeout=0)[0]

    def _begin(self, worker: Worker) -> None:
        worker.node, worker.version = "", 0
        self._call(worker, "begin", lambda worker, node: setattr(worker, "node", node), worker.restarts)

    def _sample(self, worker: Worker) -> None:
        """Makes all calls of a sampler that the replay ratio, or the free slots, allow."""
        most, number = CALLS, worker.number
        if isinstance(self._memory, Rollouts):
            most = self._memory.slots - int((self._memory.arrays["filled"] - self._memory.arrays["taken"])[number])
        while worker.node and worker.calls < most and (steps := self._share()):
            progress = self._counters.steps.tolist()
            self._call(worker, "sample", self._store, self._newer(worker), progress, steps, steps=steps)

    def _share(self) -> int:
        """Returns the agent steps of one call: its share of those that are allowed, in steps of all environments."""
        envs, left = self._config.num_envs, int(self._counters.allowed[0]) - self._counters.total_steps()
        if isinstance(self._memory, Rollouts):
            return envs * self._config.num_steps
        share = min(max(envs, left // (CALLS * self._config.samplers)), left - self._granted)
        return max(0, -(-share // envs) * envs)

    def _evaluate(self, worker: Worker) -> None:
        step = self._counters.total_steps()
        if not worker.node or worker.calls or not is_due(self._config, step, self._due):
            return
        if (weights := self._newer(worker)) is not None:
            self._call(worker, "evaluate", self._publish, weights, step)

    def _newer(self, worker: Worker) -> Any:
        """Returns a reference to the newest weights in the cluster's object store; None if the worker has them."""
        now, late = time.monotonic(), self._put_at + PUT
        if now > late and (version := self._cluster.weights.read(self._vector, self._extras)) is not None:
            newest = version, self._vector.numpy(), self._extras.numpy()
            self._reference, self._newest, self._put_at = self._ray.put(newest), version, now
            self._cluster.counts["sent"][0] += sum(array.nbytes for array in newest[1:])
        before, worker.version = worker.version, self._newest
        return self._reference if before != self._newest else None

    # -- results ---------------------------------------------------------------------------------

    def _receive(self, reference: Any) -> None:
        from ray.exceptions import RayError, RayTaskError, RuntimeEnvSetupError

        call = self._forget(reference)
        worker = call.worker
        try:
            result = self._ray.get(reference)
        except RayTaskError as error:
            worker.raised += 1
            failure = WorkerError(f"the {worker.name} on node {worker.node or '?'} raised:\n{error}")
            if isinstance(error.cause, HeadraceError):
                raise error.cause from failure
            if worker.raised > MOST_RAISED:
                raise failure from None
            return self._again(worker, f"raised {_lines(error)[-1]}")
        except RayError as error:
            if isinstance(error, RuntimeEnvSetupError) or getattr(error, "actor_init_failed", False):
                raise WorkerError(f"the {worker.name} cannot begin: {error}") from error
            return self._again(worker, f"was lost: {_lines(error)[0]}")
        self._cluster.counts["calls"][0] += 1
        return self._again(worker, "was lost") if result is None else call.take(worker, result)

    def _again(self, worker: Worker, words: str) -> None:
        """Lets a worker begin again, and forgets its other calls, as their rows may not follow those before."""
        for reference in [reference for reference, call in self._calls.items() if call.worker is worker]:
            self._forget(reference)
        time.sleep(0.0 if worker.node else PAUSE)
        tell(f"the {worker.name}{f' on node {worker.node}' if worker.node else ''} {words}{RESTARTED}")
        worker.restarts += 1
        self._cluster.counts["restarts"][0] += 1
        self._begin(worker)

    def _store(self, worker: Worker, found: Sampled) -> None:
        counters, memory, number, data = self._counters, self._memory, worker.number, found.data
        if isinstance(memory, StepReplay):
            append_rows(memory.layout, memory.arrays, number, data, self._fence)
        else:
            slot = memory.free(number)
            assert slot is not None
            put_rollout(slot, data)
            memory.publish(number)
        counters.steps[number] += found.steps
        counters.seconds[number] += found.seconds
        counters.note_episodes(number, *found.episodes)
        self._cluster.counts["received"][0] += sum(array.nbytes for array in data.values())
        worker.raised = 0

    def _publish(self, worker: Worker, found: tuple[np.ndarray, np.ndarray, float]) -> None:
        vector, extras, pause = found
        self._cluster.evaluations.publish(torch.tensor(vector), torch.tensor(extras))
        self._counters.played[0] += self._config.evaluate_episodes
        worker.raised, self._due = 0, time.monotonic() + pause


def _ring(layout: StepLayout) -> StepLayout:
    one = dataclasses.replace(layout, segments=1, steps=1)
    row = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in one.fields.values())
    return dataclasses.replace(one, steps=min(MOST_ROWS, max(LEAST_ROWS, RING // row)))


def _lines(error: Exception) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]


def work(config: Config, cluster: Cluster, restarts: int) -> None:
    torch.set_num_threads(1)
    code = Code.of(vars(config))
    with connected(config.ray, config.samplers * (config.num_threads or 1), code) as ray:
        # Ray's handler of SIGTERM would end this process; the learner, which also receives the signal, is to stop it
        signal.signal(signal.SIGTERM, lambda *_: None)
        cluster.counts["connected"][0] = 1
        driver = Driver(ray, config, cluster, code)
        while not cluster.counters.stopped:
            driver.turn()
        driver.close()

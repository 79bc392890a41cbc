"""The process between the learner and the Ray actors, which sends orders and receives collected steps.

It takes the place of all samplers: it writes to the same replay or slots, and updates the same counters.
Each actor has one order at a time, and answers within milliseconds with the steps that it has collected. The next order
carries newer weights, if there are any. The steps that the replay ratio allows are divided among the actors, so that
together they never take more.

An actor that is lost, alone or with its node, is started again where the cluster has free processors. Steps that it had
not sent are lost, and those that it was still allowed are divided among the others. An exception in an actor ends the
run, as it does on one machine.
"""

from __future__ import annotations

import dataclasses
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headrace.errors import WorkerError
from headrace.pool.executors.processes.shared import Fence
from headrace.train.cluster.actor import Actor
from headrace.train.cluster.cluster_status import ClusterStatus
from headrace.train.cluster.code import Code
from headrace.train.cluster.connection import connected
from headrace.train.cluster.messages import ActorStart, Answer, Order, Weights
from headrace.train.config.settings import Config
from headrace.train.processes.counters import Counters
from headrace.train.processes.start import Report
from headrace.train.processes.supervisor import MOST_RAISED, PAUSE, RESTARTED
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.blocks import Rollout, Rows, append_rows, put_rollout
from headrace.train.storage.layout import StepLayout
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay
from headrace.version import __version__

LOOK = 0.02  # maximum wait for an answer, before weights and counters are checked again, in seconds
LEAST, PATIENCE = 0.005, 0.02  # minimum and maximum time after which an actor answers, in seconds
PATIENCE_EACH = 0.003  # seconds added to both for every actor, as one process receives all answers
HEAR = 30.0  # seconds without an answer after which an actor that had begun counts as lost
END = 2.0  # maximum wait for actors to close their environments, in seconds
RING = 32 << 20  # bytes of rows that an actor keeps until they are sent
LEAST_ROWS, MOST_ROWS = 64, 8192
PUT = 0.01  # minimum time between two versions of the weights that are sent, in seconds
EVALUATOR = "evaluator"


@dataclass(frozen=True)
class Shared:
    """The shared memory of the learner and the coordinator.

    Attributes:
        memory: the replay or the slots into which steps are written.
        status: the shared counters and messages of the cluster.
    """

    counters: Counters
    weights: WeightBuffer
    evaluations: WeightBuffer
    memory: StepReplay | Rollouts
    status: ClusterStatus


@dataclass
class Member:
    """One sampler or the evaluator, over all actors that have run it.

    Attributes:
        number: the sampler's number; for the evaluator, the number of samplers.
        kind: as in `ActorStart`.
        order: Ray's reference to the answer to its present order.
        node: the name of its node; empty until its first answer.
        lives: the number of actors that have been started for it.
        version: the version of the weights that it has.
        since: the time at which its order was sent, by ``time.monotonic``.
        seconds, rests, played: the attributes of `Answer`, of its earlier actors.
    """

    name: str
    number: int
    kind: str
    handle: Any = None
    order: Any = None
    node: str = ""
    lives: int = 0
    raised: int = 0
    limit: int = 0
    version: int = 0
    since: float = 0.0
    seconds: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    rests: int = 0
    played: int = 0


class Coordinator:
    """The exchange of orders and answers with the members, which it starts.

    Args:
        ray: the module `ray`, connected to the cluster.
        shared: the memory shared with the learner.
        code: the user's own files, which are sent to the actors.
    """

    def __init__(self, ray: Any, config: Config, shared: Shared, code: Code):
        self._ray, self._config, self._shared, self._code = ray, config, shared, code
        self._fence, self._newest = Fence(), 0
        size, extras = shared.weights.sizes
        self._vector, self._extras = torch.zeros(size), torch.zeros(extras, dtype=torch.float64)
        self._reference: Any = None
        self._put_at = 0.0
        self._actor: Any = ray.remote(Actor)
        kind = "rows" if isinstance(shared.memory, StepReplay) else "rollouts"
        self.members = [Member(f"sampler {number}", number, kind) for number in range(config.samplers)]
        if config.evaluate_episodes:
            self.members.append(Member(EVALUATOR, config.samplers, EVALUATOR))
        more = PATIENCE_EACH * len(self.members)
        self._least, self._patience = LEAST + more, PATIENCE + more
        self._put_weights()
        for member in self.members:
            self._start(member)
            self._give_order(member)

    # -- orders and answers ----------------------------------------------------------------------

    def turn(self) -> None:
        ray, status = self._ray, self._shared.status
        waiting = {member.order: member for member in self.members}
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=LOOK)
        if ready:
            ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        status.pulse += 1
        self._put_weights()
        for reference in ready:
            self._on_answer(waiting[reference])
        now = time.monotonic()
        for member in self.members:
            if member.node and now - member.since > HEAR + self._patience:
                self._lost(member, f"did not answer for {HEAR:.0f} s")
        begun = [member.node for member in self.members if member.node]
        status.actors[0], status.nodes[0] = len(begun), len(set(begun))

    def _on_answer(self, member: Member) -> None:
        from ray.exceptions import RayError

        try:
            answer: Answer = self._ray.get(member.order)
        except RayError as error:
            if getattr(error, "actor_init_failed", False) and not member.node:
                self._count_failure(member, WorkerError(f"the {member.name} cannot begin: {error}"), str(error))
            return self._lost(member, _first_line(error))
        if answer.failure is not None:
            self._take(member, answer)
            return self._failed(member, answer.failure)
        self._take(member, answer)
        self._give_order(member)
        return None

    def _take(self, member: Member, answer: Answer) -> None:
        shared, number = self._shared, member.number
        member.node, member.version = answer.node, answer.version
        shared.status.exchanges += 1
        if member.kind == EVALUATOR:
            shared.counters.played[0] = member.played + answer.played
            if answer.found is not None:
                found = answer.found
                shared.evaluations.publish(torch.tensor(found.vector), torch.tensor(found.extras))
            return
        counters = shared.counters
        if answer.block is not None:
            member.raised = 0
            shared.status.received += answer.block.nbytes
            self._store(number, answer.block)
        counters.steps[number] = answer.steps
        counters.seconds[number] = member.seconds + answer.seconds
        counters.rests[number] = member.rests + answer.rests + 1
        if len(answer.episodes.returns):
            counters.note_episodes(number, *answer.episodes)

    def _store(self, number: int, block: Rows | Rollout) -> None:
        memory = self._shared.memory
        if isinstance(memory, StepReplay):
            assert isinstance(block, Rows)
            append_rows(memory.layout, memory.arrays, number, block, self._fence)
            return
        assert isinstance(block, Rollout)
        slot = memory.free(number)
        assert slot is not None, "an actor begins a rollout only where there is room for it"
        put_rollout(slot, block)
        memory.publish(number)

    def _give_order(self, member: Member) -> None:
        counters = self._shared.counters
        own = 0 if member.kind == EVALUATOR else int(counters.steps[member.number])
        # an actor may wait long for free processors of the cluster: it is allowed steps only once it has begun
        member.limit = self._limit(member, own) if member.node else own
        waiting = 0
        if isinstance(self._shared.memory, Rollouts) and member.kind != EVALUATOR:
            arrays = self._shared.memory.arrays
            waiting = int(arrays["filled"][member.number] - arrays["taken"][member.number])
        order = Order(counters.total_steps() - own, member.limit, waiting, self._least, self._patience)
        newer = self._reference if member.version < self._newest else None
        member.order, member.since = member.handle.exchange.remote(order, newer), time.monotonic()

    def _limit(self, member: Member, own: int) -> int:
        """Returns the agent steps that a sampler may reach, given ``own`` so far.

        They include its share of the steps that are allowed and not yet granted to other samplers.
        """
        counters, samplers = self._shared.counters, self._config.samplers
        promised = sum(
            max(0, other.limit - int(counters.steps[other.number]))
            for other in self.members[:samplers]
            if other is not member and other.node
        )
        left = int(counters.allowed[0]) - counters.total_steps()
        share = max(self._config.num_envs, left // samplers)
        room = MOST_ROWS
        if isinstance(self._shared.memory, StepReplay):
            room = self._ring().steps // 4 * self._config.num_envs
        return own + max(0, min(share, left - promised, room))

    def _put_weights(self) -> None:
        """Puts the newest weights into the cluster's object store, from which all actors read them."""
        weights, now = self._shared.weights, time.monotonic()
        if weights.version == self._newest or now - self._put_at < PUT:
            return
        version = weights.read(self._vector, self._extras)
        if version is None:
            return
        newest = Weights(version, self._vector.numpy(), self._extras.numpy())
        self._reference, self._newest, self._put_at = self._ray.put(newest), version, now
        self._shared.status.sent += newest.nbytes

    # -- lives -----------------------------------------------------------------------------------

    def _start(self, member: Member) -> None:
        counters, config = self._shared.counters, self._config
        evaluator = member.kind == EVALUATOR
        threads = config.num_threads or 1
        make, (values, *rest) = dataclasses.replace(config, num_threads=threads).__reduce__()
        beginning = ActorStart(
            member.kind,
            (make, (values, *rest)),
            self._code,
            member.number,
            member.lives,
            int(counters.begun[0]),
            0 if evaluator else int(counters.steps[member.number]),
            __version__,
            self._ring() if member.kind == "rows" else None,
            self._shared.memory.of_one if isinstance(self._shared.memory, Rollouts) else (),
        )
        if not evaluator:
            member.seconds, member.rests = counters.seconds[member.number].copy(), int(counters.rests[member.number])
        member.played = int(counters.played[0])
        cpus = 0 if evaluator else threads
        how = {"num_cpus": cpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        member.handle = self._actor.options(**how).remote(beginning)
        member.node, member.version, member.lives = "", 0, member.lives + 1

    def _ring(self) -> StepLayout:
        """Returns the layout of the ring in which an actor keeps rows until they are sent."""
        assert isinstance(self._shared.memory, StepReplay)
        layout = dataclasses.replace(self._shared.memory.layout, segments=1, steps=1)
        row = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in layout.fields.values())
        return dataclasses.replace(layout, steps=min(MOST_ROWS, max(LEAST_ROWS, RING // row)))

    def _lost(self, member: Member, why: str) -> None:
        node = f" on node {member.node}" if member.node else ""
        self._again(member, f"the {member.name}{node} was lost: {why}")

    def _failed(self, member: Member, report: Report) -> None:
        """Starts the actor of a member again after an exception, or raises the exception, which ends the run."""
        member.raised += 1
        if report.error is not None or member.raised > MOST_RAISED:
            report.raise_as(f"the {member.name} on node {member.node}")
        self._again(member, f"the {member.name} raised {report.trace.strip().splitlines()[-1]}")

    def _count_failure(self, member: Member, error: WorkerError, why: str) -> None:
        member.raised += 1
        if member.raised > MOST_RAISED:
            raise error

    def _again(self, member: Member, words: str) -> None:
        self._kill(member)
        self._shared.status.restarts += 1
        self._shared.status.send(f"{words}{RESTARTED}")
        if not member.node:
            time.sleep(PAUSE)  # limits how often an actor that never begins is started
        self._start(member)
        self._give_order(member)

    def close(self) -> None:
        """Stops all actors, and kills those that take longer than `END` seconds."""
        ends = [member.handle.stop.remote() for member in self.members if member.node]
        if ends:
            self._ray.wait(ends, num_returns=len(ends), timeout=END)
        for member in self.members:
            self._kill(member)

    def _kill(self, member: Member) -> None:
        from ray.exceptions import RayError

        with suppress(RayError):  # one whose creation has failed cannot be killed
            self._ray.kill(member.handle)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def work(config: Config, shared: Shared, restarts: int) -> None:
    """Runs the coordinator; the main function of its process."""
    torch.set_num_threads(1)
    code = Code.of(vars(config))
    cpus = config.samplers * (config.num_threads or 1)
    with connected(config.ray, cpus) as ray:
        # Ray's handler of SIGTERM would end this process; the learner, which also receives the signal, is to stop it
        signal.signal(signal.SIGTERM, lambda *_: None)
        shared.status.connected[0] = 1
        coordinator = Coordinator(ray, config, shared, code)
        while not shared.counters.stopped:
            coordinator.turn()
        coordinator.close()

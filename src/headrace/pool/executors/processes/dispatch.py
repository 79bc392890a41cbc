"""Sends requests to workers, waits for them, and replaces workers that are lost.

A signal handler may raise at any point. Requests are therefore first stored as a plan, in a single assignment; if its
execution is interrupted, the next call completes it. So either all workers receive their requests, or none.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import ClosedError, EnvironmentFailure
from headrace.pool.executors.processes import control as codes
from headrace.pool.executors.processes.calls import CallFile
from headrace.pool.executors.processes.control import Control, WaitStrategy, shares
from headrace.pool.executors.processes.deaths import Deaths
from headrace.pool.executors.processes.mailbox import Mailbox
from headrace.pool.executors.processes.worker import Orders
from headrace.pool.executors.processes.worker_processes import PATIENCE, WorkerProcesses, dumped
from headrace.pool.remarks import remark, tell

LOOK = 0.0005  # longest time in seconds that the caller spins for results before it sleeps
ROUND = 0.2  # seconds between checks that all workers are alive
SHORTEST, LONGEST = 0.00002, 0.002  # seconds between checks for an answer to a call
STILL = 10.0  # seconds without progress after which a remark tells of a worker, once
MOST_FRUITLESS = 3  # number of successive processes that may end before they have served any request
EVERYONE = (codes.EVERYONE,)


class Part(NamedTuple):
    """The requests planned for one worker; its count ``asked`` is ``until`` afterwards."""

    worker: int
    requests: Sequence[int]
    until: int


class Dispatch:
    """The pool's side of the exchange with its workers.

    Args:
        control: the block that the workers share with this process.
        orders: a function (share, mailbox, sheet) → `Orders` of one worker.
        task: the task's name, for messages.
        timeout: seconds without progress after which a worker counts as hung; infinity for never.
        restart: whether environments whose process is lost begin a new episode automatically, with the old one
            reported as truncated.
        notes: whether requests are recorded in `asked_for`, for callers that look them up after a ring may have been
            overwritten.
        deaths: counts processes that die, which ends the caller's work where there are too many; None for any number,
            without remarks.

    Attributes:
        asked_for: for each worker, request number → request, if recorded; the caller removes entries.
        worker_of: int[N], the worker of each environment.
        lost: bool[N], environments whose episode was lost with its process, and not yet reported as truncated.
        gone: env_ids whose process was lost and that the caller must reset.
        failures: failures of workers that have not been raised yet.
    """

    def __init__(
        self,
        control: Control,
        orders: Callable[[Any, Mailbox, CallFile], Orders],
        task: str,
        timeout: float,
        restart: bool,
        notes: bool,
        deaths: Deaths | None = None,
    ):
        n, workers = len(control.seed), len(control.asked)
        self._control, self._task, self._timeout, self._restart = control, task, timeout, restart
        self._deaths = deaths
        self._replaced: set[int] = set()  # environments of replaced processes that have not reported their restart
        self._shares = shares(n, workers)
        self.workers = range(workers)
        self.asked_for: list[dict[int, int]] = [{} for _ in self.workers] if notes else []
        self.worker_of = np.repeat(np.arange(workers), [share.last - share.first for share in self._shares])
        self.lost = np.zeros(n, np.bool_)
        self.gone: set[int] = set()
        self.failures: list[EnvironmentFailure] = []
        self.mailboxes = [Mailbox() for _ in self.workers]
        self._plan: list[Part] = []
        self._began = [0 for _ in self.workers]  # requests served before each process was started
        self._fruitless = [0 for _ in self.workers]  # number of successive processes that served nothing
        self._moved = [(0, 0.0) for _ in self.workers]  # requests served when last checked, and the time of that change
        self._told: set[int] = set()  # workers of which a remark has told
        self._wait = WaitStrategy(control.caller, LOOK)
        self._ended = False
        self._call_files, self._calls = [CallFile() for _ in self.workers], 0  # number of calls so far
        each = zip(self._shares, self.mailboxes, self._call_files, strict=True)
        self._workers = WorkerProcesses([orders(share, box, call_file) for share, box, call_file in each])

    # -- asking ----------------------------------------------------------------------------------

    def ask(self, requests: Mapping[int, Sequence[int]]) -> None:
        """Puts requests into workers' rings; ``requests`` maps a worker to env_ids, or codes of `control`."""
        asked = self._control.asked
        if self.asked_for:
            for worker, some in requests.items():
                self.asked_for[worker].update(enumerate(some, asked[worker][0]))
        self._plan = [Part(w, some, asked[w][0] + len(some)) for w, some in requests.items() if some]
        self.carry_out()

    def ask_everyone(self) -> None:
        """Requests a step of all environments."""
        asked = self._control.asked
        self._plan = [Part(worker, EVERYONE, asked[worker][0] + 1) for worker in self.workers]
        self.carry_out()

    def ask_each(self, env_ids: np.ndarray) -> None:
        """Requests the commands in `control` for these environments, int32[k], in this order."""
        workers = self.worker_of[env_ids]
        self.ask({w: env_ids[workers == w].tolist() for w in self.workers})

    def carry_out(self) -> None:
        """Executes the remaining plan."""
        control, asked = self._control, self._control.asked
        for worker, requests, until in self._plan:
            if asked[worker][0] != until:
                ring = control.requests[worker]
                for i, request in enumerate(requests, until - len(requests)):
                    ring[i % len(ring)] = request
                control.fence()
                asked[worker][0] = until
        for worker, _, _ in self._plan:
            control.futexes[worker].ring()
        self._plan = []

    # -- waiting ---------------------------------------------------------------------------------

    def due(self) -> list[int]:
        """Returns the number of requests that each worker will have served when all of them are done."""
        due = [self._control.asked[worker][0] for worker in self.workers]
        for part in self._plan:
            due[part.worker] = part.until
        return due

    def wait(self, due: Sequence[int], timeout: float | None = None) -> bool:
        """Waits until worker w has served ``due[w]`` requests, for all w; returns False after ``timeout`` seconds."""
        self.carry_out()
        pairs = list(zip(self._control.served, due, strict=True))
        for wanted, then in zip(self._control.wanted, due, strict=True):
            wanted[0] = then
        self._control.all_wanted[0] = 1
        return self._rest(lambda: all(now[0] >= then for now, then in pairs), timeout)

    def wait_for(self, results: int, there: Callable[[], int], timeout: float | None) -> bool:
        """Waits until ``there()`` is at least ``results``; returns False after ``timeout`` seconds.

        Another thread may send requests meanwhile.
        """
        # when all missing results have arrived, at least one worker has served a 1/W share of them
        part = -(-(results - there()) // len(self.workers))
        for wanted, served in zip(self._control.wanted, self._control.served, strict=True):
            wanted[0] = served[0] + part
        self._control.all_wanted[0] = 0
        return self._rest(lambda: there() >= results, timeout)

    def _rest(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        clock = time.monotonic
        now = clock()
        until, look = math.inf if timeout is None else now + timeout, now + ROUND
        while not self._wait.until(ready, max(0.0, min(look, until) - now)):
            if self._ended:
                raise ClosedError(f"this pool of {self._task} was closed by another thread")
            now = clock()
            if now >= look:
                self._look()
                look = now + ROUND
            if now >= until:
                return ready()
        return True

    # -- workers that are lost -------------------------------------------------------------------

    def _look(self) -> None:
        """Replaces workers that have died or made no progress for ``timeout`` seconds."""
        now, control = time.monotonic(), self._control
        for worker in self._workers.dead():
            self._replace(worker, f"died ({self._workers.end(worker)})")
        for worker in self.workers:
            served = control.served[worker][0]
            reached, since = self._moved[worker]
            if served == control.asked[worker][0]:
                self._moved[worker] = served, 0.0
            elif served != reached or not since:
                self._moved[worker] = served, now
            elif now - since > self._timeout:
                self._workers.end(worker)
                self._replace(worker, f"finished no step for {self._timeout:g} s and was ended")
            elif now - since > STILL and worker not in self._told:
                self._told.add(worker)
                who = f"{self._names(worker)} in process {self._workers.pid(worker)}"
                how = "with the option worker_timeout=SECONDS the pool ends such a process"
                remark(f"{self._task}: {who} finished no step for {STILL:.0f} s; {how}")

    def _names(self, worker: int) -> str:
        first, last = self._shares[worker].first, self._shares[worker].last - 1
        return f"environments {first} to {last}" if last > first else f"environment {first}"

    def _replace(self, worker: int, words: str) -> None:
        control, share = self._control, self._shares[worker]
        held = np.arange(share.first, share.last)
        control.message[held, 1] = 0
        fruitless = control.served[worker][0] == self._began[worker]
        self._fruitless[worker] = self._fruitless[worker] + 1 if fruitless else 0
        was, them = ("were", "them") if len(held) > 1 else ("was", "it")
        what = f"{self._task}: a worker process {words}; {self._names(worker)} {was} in it"
        too_many = "" if self._deaths is None else self._deaths.one_too_many()
        if self._restart and not too_many and self._fruitless[worker] < MOST_FRUITLESS:
            self.lost[held] = True
            self._rewrite(worker)
            if self._deaths is not None:
                self._replaced.update(held.tolist())
                tell(f"{what}, whose episodes count as truncated: another process has taken over")
        else:
            control.served[worker][0] = control.asked[worker][0]
            self.gone.update(held.tolist())
            self.failures.append(EnvironmentFailure(f"{what}{too_many or f': reset {them} to go on'}"))
        self._began[worker] = control.served[worker][0]
        self._moved[worker] = control.served[worker][0], 0.0
        self.mailboxes[worker].forget()
        self._workers.start(worker)

    def _rewrite(self, worker: int) -> None:
        """Turns the steps that the lost process left unserved into requests for new episodes."""
        control, ring = self._control, self._control.requests[worker]
        for i in range(control.served[worker][0], control.asked[worker][0]):
            request = int(ring[i % len(ring)])
            if request >= 0:
                self.lost[request] = False
                if control.command[request] == codes.STEP:
                    control.command[request] = codes.RESTART
            elif request == codes.EVERYONE:
                self.lost[self._shares[worker].first : self._shares[worker].last] = False
                ring[i % len(ring)] = codes.EVERYONE_LOST
            elif request == codes.CALL:
                ring[i % len(ring)] = codes.NOTHING

    def note_restart(self, env_id: int) -> None:
        """Counts the death of a simulator's own process, unless a worker process that was lost has restarted it."""
        if env_id in self._replaced:
            self._replaced.discard(env_id)
        elif self._deaths is not None:
            who = f"{self._task}: the simulator of environment {env_id} ended"
            if too_many := self._deaths.one_too_many():
                self.failures.append(EnvironmentFailure(f"{who}{too_many}"))
            else:
                tell(f"{who}, whose episode counts as truncated: another one has taken over")

    # -- calls -----------------------------------------------------------------------------------

    def call(self, function: Callable[[Any, Any], Any], arguments: Mapping[int, Any]) -> list[Any]:
        """Returns ``function(slot, argument)`` for each environment (see `slots`), called in its worker.

        Raises:
            EnvironmentFailure: a call raised, or a worker was lost meanwhile.
        """
        asked: dict[int, list[tuple[int, Any]]] = {}
        for env_id, argument in arguments.items():
            asked.setdefault(int(self.worker_of[env_id]), []).append((env_id, argument))
        texts = {worker: dumped((function, pairs)) for worker, pairs in asked.items()}
        self.carry_out()
        self._wait_for(asked)  # they may still be reading the question of an earlier call that was interrupted
        if self.failures:  # raised again by the next receive
            raise EnvironmentFailure(f"{self.failures[-1]}; nothing was called")
        self._calls += 1
        for worker, text in texts.items():
            self._call_files[worker].ask(self._calls, text)
        self.ask({worker: [codes.CALL] for worker in asked})
        self._wait_for(asked)
        answers: dict[int, Any] = {}
        for worker, pairs in asked.items():
            text = self._call_files[worker].answer_to(self._calls)
            if text is None:
                words = str(self.failures.pop()) if self.failures else f"{self._task}: a worker process was lost"
                self.failures.clear()
                raise EnvironmentFailure(f"{words}; the call was not answered")
            answers |= zip((env_id for env_id, _ in pairs), pickle.loads(text), strict=True)
        for env_id in arguments:
            fine, answer = answers[env_id]
            if not fine:
                raise self.failure(env_id, *answer)
        return [answers[env_id][1] for env_id in arguments]

    def _wait_for(self, workers: Collection[int]) -> None:
        """Waits until these workers have served all requests; another thread may sleep on the futex meanwhile."""
        served, asked = self._control.served, self._control.asked
        look, pause = time.monotonic() + ROUND, SHORTEST
        while any(served[worker][0] < asked[worker][0] for worker in workers):
            if self._ended:
                raise ClosedError(f"this pool of {self._task} was closed by another thread")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)
            if time.monotonic() >= look:
                self._look()
                look = time.monotonic() + ROUND

    def failure(self, env_id: int, error: BaseException | None, trace: str) -> EnvironmentFailure:
        """Returns the `EnvironmentFailure` for an environment's exception, or for its traceback as text."""
        failure = EnvironmentFailure(f"{self._task}, environment {env_id} raised:\n{trace.rstrip()}")
        failure.__cause__ = error
        return failure

    # -- the end ---------------------------------------------------------------------------------

    def wake(self) -> None:
        """Makes waiting calls raise `ClosedError`."""
        self._ended = True
        self._control.caller.ring()

    def close(self) -> None:
        try:
            self.ask({worker: [codes.STOP] for worker in self.workers})
        finally:  # an exception such as a KeyboardInterrupt leaves no processes
            killed = self._workers.close()
        for worker in killed:
            remark(f"{self._task}: {self._names(worker)} did not close within {PATIENCE:.0f} s; the process was ended")
        for file in (*self.mailboxes, *self._call_files):
            file.close()

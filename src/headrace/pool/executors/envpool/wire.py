"""EnvPool's own ``send`` and ``recv``, with an exact account of what is under way.

EnvPool cannot say what it works on, nor stop waiting, and a call too many waits forever. A signal handler may raise
between any two lines of Python, but not within a call: so each of EnvPool's calls and the note of it are one.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import starmap
from operator import call
from typing import Any

import numpy as np

from headrace.errors import RecvTimeoutError

State = list[np.ndarray]
"""EnvPool's arrays of the rows of one ``recv``, in the order of its keys"""


class Wire:
    """The connection to one EnvPool.

    Args:
        pool: the EnvPool.
        num_envs: number of its environments.
        each: number of rows for which its ``recv`` waits; 0 if for all under way, as in a synchronous EnvPool.

    Attributes:
        used: whether anything was sent.
        env_id: the number of the array of env_ids in a state.
        flying: bool[num_envs], the environments under way, among them those of states that have arrived.
    """

    def __init__(self, pool: Any, num_envs: int, each: int):
        self.pool, self.used = pool, False
        self.flying = np.zeros(num_envs, np.bool_)
        self._each, self.env_id = each, pool._state_keys.index("info:env_id")
        self._arrived = deque[State]()
        self._helper: ThreadPoolExecutor | None = None
        self._waiter: Future[None] | None = None

    def send(self, actions: np.ndarray, ids: np.ndarray) -> None:
        """Starts steps; row i of the actions is for environment ``ids[i]``, int32[k]."""
        writeable = ids.copy()
        self._start(self.pool._send, [writeable, writeable, actions], ids)

    def reset(self, ids: np.ndarray) -> None:
        """Starts new episodes in the environments ``ids``, int32[k]."""
        self._start(self.pool._reset, ids.copy(), ids)

    def _start(self, begin: Any, argument: Any, ids: np.ndarray) -> None:
        self.used = True
        deque(starmap(call, [(self.flying.__setitem__, ids, True), (begin, argument)]), maxlen=0)

    def recv(self, timeout: float | None = None) -> State:
        """Returns the next state, which stays the next until `taken`; raises `RecvTimeoutError` after ``timeout`` s."""
        while not self._arrived:
            if timeout is None and self._waiter is None:
                self._arrive()
            else:
                self._wait(timeout)
        return self._arrived[0]

    def taken(self) -> None:
        """Drops the state that `recv` returned."""
        self.flying[self._arrived[0][self.env_id]] = False
        self._arrived.popleft()

    def drain(self) -> np.ndarray:
        """Waits for all that is under way, and drops it.

        Returns:
            The environments, int32[k], that had to begin new episodes, since EnvPool returns whole batches only.
        """
        if self._waiter is not None:
            self._wait(None)
        begun = [np.zeros(0, np.int32)]
        while True:
            while self._arrived:
                self.taken()
            under_way = np.count_nonzero(self.flying)
            if not under_way:
                return np.concatenate(begun)
            if (missing := self._each - under_way) > 0:
                begun.append(np.flatnonzero(~self.flying)[:missing].astype(np.int32))
                self.reset(begun[-1])
            self._arrive()

    def close(self) -> None:
        if self._helper is not None:
            self._helper.shutdown()

    def _arrive(self) -> None:
        self._arrived.extend(starmap(self.pool._recv, [()]))

    def _wait(self, timeout: float | None) -> None:
        """Waits for a thread that receives, so that the wait can end before it does."""
        if self._waiter is None:
            self._helper = self._helper or ThreadPoolExecutor(1, "headrace-envpool")
            self._waiter = self._helper.submit(self._arrive)
        try:
            self._waiter.result(timeout)
        except TimeoutError:
            raise RecvTimeoutError(
                f"EnvPool's results were not ready within {timeout} s; another recv waits for them"
            ) from None
        self._waiter = None

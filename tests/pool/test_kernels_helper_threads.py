import signal
import threading
import time

import pytest

from headrace.errors import OptionError
from headrace.pool.executors.kernels.helper_threads import HelperThreads


def test_each_job_runs_once_on_a_thread_of_its_own():
    helpers, ran = HelperThreads(3), []
    barrier = threading.Barrier(4, timeout=60)

    def job():
        barrier.wait()  # passes only if all four run at once
        ran.append(threading.get_ident())

    helpers.run([job] * 4)
    assert len(set(ran)) == 4
    assert threading.get_ident() in ran
    helpers.run([lambda: ran.append(0)])
    assert ran[-1] == 0
    helpers.close()
    helpers.close()


def test_an_interrupt_waits_for_the_helpers():
    helpers, finished = HelperThreads(1), []

    def interrupted():
        raise KeyboardInterrupt

    def slow():
        time.sleep(0.05)
        finished.append(True)

    with pytest.raises(KeyboardInterrupt):
        helpers.run([interrupted, slow])
    assert finished
    helpers.run([lambda: None, lambda: finished.append(True)])
    assert len(finished) == 2
    helpers.close()


def test_what_a_helper_raises_is_raised_and_hangs_nothing():
    helpers, ran = HelperThreads(2), []

    def fail():
        raise ValueError("of a helper")

    with pytest.raises(ValueError, match="of a helper"):
        helpers.run([lambda: ran.append(0), fail, lambda: ran.append(2)])
    assert sorted(ran) == [0, 2]
    helpers.run([lambda: ran.append(0), lambda: ran.append(1)])
    assert len(ran) == 4
    helpers.close()


@pytest.mark.parametrize("raises", [KeyboardInterrupt, ZeroDivisionError])
def test_whatever_a_signal_raises_waits_for_the_helpers(raises: type[BaseException]):
    """Signals come all the time; each run ends only when its helper is done, and the next one works."""
    helpers, inside, begun, ended, runs, interrupted = HelperThreads(1), False, 0, 0, 0, 0

    def interrupt(*_: object) -> None:
        nonlocal inside
        if inside:
            inside = False  # once a run: what handles it is not interrupted itself
            raise raises

    def help_slowly() -> None:
        nonlocal begun, ended
        begun += 1
        time.sleep(0.01)
        ended += 1

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        while interrupted < 20:
            runs += 1
            try:
                inside = True
                helpers.run([lambda: None, help_slowly])
                inside = False
                assert ended == runs
            except raises:
                interrupted += 1
            assert begun == ended
            runs = ended  # a signal just before a run leaves nothing to wait for
    finally:
        inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    helpers.close()
    assert begun == ended == runs


def test_a_thread_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch):
    start, before = threading.Thread.start, threading.active_count()

    def refused(thread: threading.Thread) -> None:
        if threading.active_count() == before + 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(OptionError, match="num_threads: the system started 2 of 3 threads"):
        HelperThreads(3)
    assert threading.active_count() == before

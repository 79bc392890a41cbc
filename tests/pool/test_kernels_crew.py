import threading
import time

import pytest

from headrace.pool.executors.kernels.crew import Crew


def test_each_job_runs_once_on_a_thread_of_its_own():
    crew, ran = Crew(3), []
    barrier = threading.Barrier(4, timeout=60)

    def job():
        barrier.wait()  # passes only if all four run at once
        ran.append(threading.get_ident())

    crew.run([job] * 4)
    assert len(set(ran)) == 4
    assert threading.get_ident() in ran
    crew.run([lambda: ran.append(0)])
    assert ran[-1] == 0
    crew.close()
    crew.close()


def test_an_interrupt_waits_for_the_helpers():
    crew, finished = Crew(1), []

    def interrupted():
        raise KeyboardInterrupt

    def slow():
        time.sleep(0.05)
        finished.append(True)

    with pytest.raises(KeyboardInterrupt):
        crew.run([interrupted, slow])
    assert finished
    crew.run([lambda: None, lambda: finished.append(True)])
    assert len(finished) == 2
    crew.close()


def test_what_a_helper_raises_is_raised_and_hangs_nothing():
    crew, ran = Crew(2), []

    def fail():
        raise ValueError("of a helper")

    with pytest.raises(ValueError, match="of a helper"):
        crew.run([lambda: ran.append(0), fail, lambda: ran.append(2)])
    assert sorted(ran) == [0, 2]
    crew.run([lambda: ran.append(0), lambda: ran.append(1)])
    assert len(ran) == 4
    crew.close()

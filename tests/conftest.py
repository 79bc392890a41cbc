"""Shared by all tests: a third party's simulator, built against the installed headers."""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from headrace.cli.main import EXTRAS
from headrace.pool.executors.threads import ThreadsExecutor
from programs import Program

NATIVE = Path(__file__).parent / "native"
BUILT = Path(__file__).parents[1] / "build" / "tests"
LEFT_OUT = {*EXTRAS, "dm_control", "stable_baselines3"}  # packages that are not to be had for every Python


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C, which some tests send to themselves: shells start what runs in the background deaf to it.

    Processes of tests that have a cache of their own find compiled kernels where all others do.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("WARP_CACHE_PATH", str(caches / "warp"))
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput") and importlib.util.find_spec("torch"):
        from headrace.train.processes.start import worker_context

        worker_context()  # of all tests: a server that a pool starts first has no torch, which each worker then imports


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that tests import is garbage: searches through it took a third of a collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """A file that imports a package of an extra that is not installed, such as torch, is skipped, and says so."""
    report = yield
    return _skipped_where_missing(report, getattr(report, "call", None), str(collector.path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """So is a test that imports one, or uses what does."""
    report = yield
    return _skipped_where_missing(report, call, str(item.path))


def _skipped_where_missing(report: Any, call: pytest.CallInfo[Any] | None, path: str) -> Any:
    error = call.excinfo.value if call is not None and call.excinfo is not None else None
    while error is not None:
        name = error.name if isinstance(error, ModuleNotFoundError) else None
        if name in LEFT_OUT and not importlib.util.find_spec(name):
            report.outcome, report.longrepr = "skipped", (path, 1, f"needs {name}")
        error = error.__cause__
    return report


@pytest.fixture(scope="module", autouse=True)
def unsearched() -> None:
    """Leaves what is there already, millions of imported objects, out of every later search for garbage.

    A search through them takes a second, and tests of lifetimes, as of kept results, search many times.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def compiled() -> Callable[[str], ModuleType]:
    """Builds a module of ``native/CMakeLists.txt``, once for all processes that test, and imports it."""
    pytest.importorskip("nanobind")

    def build(name: str) -> ModuleType:
        BUILT.mkdir(parents=True, exist_ok=True)
        with (BUILT / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
            # compiled without optimisation, in less time
            options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Debug"]
            for command in (
                ["cmake", "-S", str(NATIVE), "-B", str(BUILT), *options],
                ["cmake", "--build", str(BUILT), "-j2", "--target", name],
            ):
                done = subprocess.run(command, capture_output=True, text=True)
                assert done.returncode == 0, done.stdout + done.stderr
        (path,) = BUILT.glob(f"{name}*.so")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return build


@pytest.fixture(scope="session")
def counter_module(compiled: Callable[[str], ModuleType]) -> ModuleType:
    """The compiled simulator of ``native/counter_env.cpp``."""
    return compiled("_counter")


@pytest.fixture(scope="session")
def counter(counter_module: ModuleType) -> str:
    """The name of that simulator's task, registered as a user would."""

    def build(task: str, max_episode_steps: int = 0, **options: Any) -> headrace.Task:
        spec = headrace.TaskSpec(
            task=task,
            observation=gym.spaces.Box(-np.inf, np.inf, (4,), np.float64),
            action=gym.spaces.Discrete(1000),
            info=(headrace.Field("episode", np.dtype(np.int32)),),
            max_episode_steps=max_episode_steps,
            options=options,
        )
        simulator = counter_module.simulator(**options)
        return headrace.Task(spec, lambda *context: ThreadsExecutor(counter_module, simulator, *context))

    headrace.register("Counter-v0", build, replace=True)
    return "Counter-v0"


def closing(maker: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """A fixture's body: `maker`, closing what it made at the end of the test."""
    made: list[Any] = []

    def make_and_keep(*args: Any, **kwargs: Any) -> Any:
        made.append(maker(*args, **kwargs))
        return made[-1]

    yield make_and_keep
    for pool in made:
        pool.close()


@pytest.fixture
def make() -> Any:
    """`headrace.make`, closing what it made at the end of the test."""
    yield from closing(headrace.make)


@pytest.fixture
def make_torch() -> Any:
    """`headrace.make_torch`, closing what it made at the end of the test."""
    pytest.importorskip("torch")
    yield from closing(headrace.make_torch)


@pytest.fixture
def forked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of several runs, of seeds, of a sweep or of a leaderboard, are forked; see `programs`."""
    monkeypatch.setattr("headrace.studies.jobs.processes.Popen", Program)


@pytest.fixture(autouse=True)
def _full_precision() -> None:
    """A run sets the precision of products, and how sums are made, for the whole process; the next begins without."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_float32_matmul_precision("highest")
        if torch.are_deterministic_algorithms_enabled():  # to say so imports torch's compiler, seconds of it
            torch.use_deterministic_algorithms(False)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Networks of tests are slower on several threads, and far slower where others are busy."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


Make = Callable[..., Any]


@pytest.fixture(params=[pytest.param("envpool", marks=pytest.mark.nightly), "headrace"])
def envpool(request: pytest.FixtureRequest) -> Any:
    """What a program for EnvPool imports as ``envpool``; that EnvPool itself runs it is shown by `make nightly`."""
    return pytest.importorskip(request.param)

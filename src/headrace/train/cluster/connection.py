"""Connects to a Ray cluster, or starts one on this machine that ends with the process that started it.

Ray's usage statistics and its dashboard are off, so that nothing is sent to other hosts.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, OptionError, WorkerError
from headrace.machine import usable_cores
from headrace.pool.fork_server import heed_parent, starting
from headrace.train.cluster.code import Code
from headrace.train.processes.start import worker_context

LOCAL, AUTO = "local", "auto"
ANSWER = 5.0  # maximum wait for a connection to a cluster's port, in seconds
STORE = 128 << 20  # bytes of a local cluster's object store
STORE_EACH = 32 << 20  # further bytes for each processor
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # the priority that samplers have without a cluster
}
TRIES = {"RAY_NUM_REDIS_GET_RETRIES": "5"}  # one a second, to connect to an existing cluster
TIDY = 'cat > /dev/null; for i in 1 2 3 4 5; do sleep 1; rm -rf -- "$0"; [ -e "$0" ] || exit 0; done'
"""a shell command that removes a folder once its standard input ends, as the process that holds the pipe has ended"""


def check_address(ray: str) -> None:
    """Raises `OptionError` if the setting ``ray`` is invalid, or Ray is not installed, without importing Ray."""
    if importlib.util.find_spec("ray") is None:
        raise OptionError(f"ray={ray!r} needs Ray, which is not installed: pip install 'headrace[ray]'")
    host, _, port = ray.rpartition(":")
    if ray in (LOCAL, AUTO):
        return
    if "://" in ray or not host or not port.isdigit():
        raise OptionError(f"ray={ray!r} must be local, auto or the address of a cluster's head, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except (OSError, OverflowError) as error:  # before Ray tries for minutes
        raise _explained(ray, ConnectionError(str(error))) from error


@contextmanager
def connected(address: str, cpus: int, code: Code | None = None) -> Iterator[Any]:
    """Connects this process to a cluster within this context; yields the module `ray`.

    Args:
        address: ``"local"``, ``"auto"`` or host:port.
        cpus: the processors that the cluster must have; a local one has at least as many.
        code: files that Ray copies to all nodes.

    Raises:
        OptionError: the cluster is not there, or has too few processors, another version or an unknown token.
        WorkerError: Ray cannot be used for another reason.
    """
    for name, value in (QUIET if address == LOCAL else QUIET | TRIES).items():
        os.environ.setdefault(name, value)
    import ray
    from ray.exceptions import RayError

    how: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "error"}
    if address == LOCAL:
        how |= {"num_cpus": max(cpus, usable_cores()), "object_store_memory": STORE + cpus * STORE_EACH}
        how |= {"_temp_dir": _folder(), "include_dashboard": False}
    with tempfile.TemporaryDirectory() as copies:
        try:
            ray.init(**how, runtime_env=code.runtime_environment(copies) if code else {})
        except (RayError, RuntimeError, OSError, ValueError) as error:
            raise _explained(address, error) from error
    try:
        if (there := _cpus(ray)) < cpus:
            raise OptionError(
                f"ray={address!r}: the cluster has {there} CPUs, and the samplers need {cpus} (one for each of their "
                "threads): take fewer samplers, or add nodes with  ray start --address"
            )
        yield ray
    finally:
        ray.shutdown()


def processors(address: str) -> int:
    """Returns the number of processors of a cluster, by a separate process, so that this one does not import Ray.

    Raises:
        HeadraceError: as `connected`, or that process ended without a result.
    """
    with ProcessPoolExecutor(1, worker_context(), heed_parent) as executor, starting():
        try:
            return executor.submit(_count_processors, address).result()
        except BrokenProcessPool as error:
            raise WorkerError(f"ray={address!r} was not reached: the process that asks ended") from error


def _count_processors(address: str) -> int:
    with connected(address, 0) as ray:
        return _cpus(ray)


def _cpus(ray: Any) -> int:
    return int(ray.cluster_resources().get("CPU", 0))


def _explained(address: str, error: Exception) -> HeadraceError:
    told = " ".join(str(error).split()) or "no answer"
    if "AuthenticationError" in f"{type(error).__name__} {error.__cause__}":
        return OptionError(
            f"ray={address!r}: the cluster asks for a token, and this program sends none, or another one: copy "
            "~/.ray/auth_token from its head, and set RAY_AUTH_MODE=token"
        )
    if isinstance(error, ConnectionError):
        return OptionError(
            f"there is no Ray cluster {'on this machine' if address == AUTO else f'at {address}'} ({told}): start one "
            "with  ray start --head --port 6379, or let the run start its own with  --ray local"
        )
    if "ersion mismatch" in told:
        return OptionError(f"ray={address!r}: the cluster is of another version. {told}")
    return WorkerError(f"ray={address!r} cannot be used: {told}")


def _folder() -> str:
    """Returns a new folder for a local cluster's files; it is removed after this process has ended, even if killed."""
    root = "/tmp" if Path("/tmp").is_dir() else None  # Ray's sockets need short paths
    folder = tempfile.mkdtemp(prefix="headrace-ray-", dir=root)
    subprocess.Popen(["sh", "-c", TIDY, folder], stdin=subprocess.PIPE, start_new_session=True)
    return folder

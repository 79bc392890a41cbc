"""Connects to a Ray cluster, or starts one on this machine that ends with the process that started it.

Ray's usage statistics and its dashboard are off, so that nothing is sent to other hosts.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.errors import OptionError, WorkerError
from headrace.machine import usable_cores
from headrace.pool.executors.processes.fork_server import heed_parent, starting
from headrace.train.processes.start import Report, cause_of_death, worker_context

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
MODE = "RAY_AUTH_MODE"
TRIES = {"RAY_NUM_REDIS_GET_RETRIES": "5"}  # one a second, to connect to an existing cluster
TIDY = 'cat > /dev/null; for i in 1 2 3 4 5; do sleep 1; rm -rf -- "$0"; [ -e "$0" ] || exit 0; done'
"""a shell command that removes a folder once its standard input ends, as the process that holds the pipe has ended"""


def check_address(ray: str) -> None:
    """Checks the setting ``ray``, as far as that is possible without importing Ray.

    Args:
        ray: ``"local"``, ``"auto"`` or host:port.

    Raises:
        OptionError: Ray is not installed, the value has none of these forms, or the address refuses connections.
    """
    if importlib.util.find_spec("ray") is None:
        raise OptionError(f"ray={ray!r} needs Ray, which is not installed: pip install 'headrace[ray]'")
    if ray in (LOCAL, AUTO):
        return
    host, _, port = ray.rpartition(":")
    if "://" in ray or not host or not port.isdigit():
        raise OptionError(f"ray={ray!r} must be local, auto or the address of a cluster's head, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(ray, str(error)) from error


@contextmanager
def connected(address: str, cpus: int) -> Iterator[Any]:
    """Connects this process to a cluster within this context; yields the module `ray`.

    Args:
        address: as for `check_address`.
        cpus: the processors that the cluster must have; a local one has at least as many.

    Raises:
        OptionError: there is no cluster, it has another version of Ray or Python or too few processors, or it requires
            a token that this machine does not have.
        WorkerError: Ray cannot be used for another reason.
    """
    for name, value in (QUIET if address == LOCAL else QUIET | TRIES).items():
        os.environ.setdefault(name, value)
    import ray

    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "include_dashboard": None}
    folder = None
    if address == LOCAL:
        folder = _folder()
        store = STORE + cpus * STORE_EACH
        how |= {"num_cpus": max(cpus, usable_cores()), "object_store_memory": store, "include_dashboard": False}
        how |= {"_temp_dir": folder, "address": LOCAL}
    else:
        how["address"] = address
    try:
        _init(ray, address, how)
        try:
            _check_processors(ray, address, cpus)
            yield ray
        finally:
            ray.shutdown()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def processors(address: str) -> int:
    """Returns the number of processors of a cluster, by a separate process, so that this one does not import Ray.

    Raises:
        OptionError: as `connected`.
        WorkerError: that process ended without a result.
    """
    context = worker_context()
    pipe, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_count_processors, args=(theirs, address), name="headrace-cluster")
    with pipe:
        with starting():
            process.start()
        theirs.close()
        try:
            report: Report = pipe.recv()
        except EOFError:
            process.join()
            raise WorkerError(f"ray={address!r} was not reached: {cause_of_death(process.exitcode)}") from None
        finally:
            process.kill()
            process.join()
    if report.trace:
        report.raise_as("the process that asks the cluster")
    return report.result


def _count_processors(pipe: Any, address: str) -> None:
    heed_parent()
    try:
        with connected(address, 0) as ray:
            report = Report(_cpus(ray))
    except BaseException as error:
        report = Report.of(error)
    pipe.send(report)


def _cpus(ray: Any) -> int:
    return int(ray.cluster_resources().get("CPU", 0))


def _init(ray: Any, address: str, how: dict[str, Any]) -> None:
    try:
        ray.init(**how)
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        if not _asks_for_token(error):
            raise _unreachable(address, str(error)) from error
        if not _use_token():
            raise _no_token(address) from error
        _init(ray, address, how)
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            told = " ".join(str(error).split())
            raise OptionError(f"ray={address!r}: the cluster is of another version. {told}") from error
        raise WorkerError(f"ray={address!r} cannot be used: {error}") from error
    except (OSError, ValueError, TimeoutError) as error:
        raise WorkerError(f"ray={address!r} cannot be used: {error}") from error


def _unreachable(address: str, reason: str) -> OptionError:
    where = "on this machine" if address == AUTO else f"at {address}"
    first = reason.strip().splitlines()[0] if reason.strip() else "no answer"
    return OptionError(
        f"there is no Ray cluster {where} ({first}): start one with  ray start --head --port 6379, "
        "or let the run start its own with  --ray local"
    )


def _no_token(address: str) -> OptionError:
    return OptionError(
        f"ray={address!r}: the cluster asks for a token, and there is none here, or another one: "
        "copy ~/.ray/auth_token from its head, or set RAY_AUTH_TOKEN to what  ray get-auth-token  prints there"
    )


def _asks_for_token(error: Exception) -> bool:
    return "AuthenticationError" in f"{type(error).__name__} {error.__cause__}"


def _use_token() -> bool:
    """Makes Ray send this machine's token from now on; returns whether there is one that was not sent before.

    By default Ray sends it only for the address ``auto``. It is not sent to a cluster that requires none, as this
    process would then require one from actors that have none.
    """
    if MODE in os.environ:
        return False
    with suppress(ImportError):  # versions of Ray without token authentication
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available

        return maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    return False


def _check_processors(ray: Any, address: str, cpus: int) -> None:
    there = _cpus(ray)
    if there < cpus:
        raise OptionError(
            f"ray={address!r}: the cluster has {there} CPUs, and the samplers need {cpus} (one for each of their "
            "threads): take fewer samplers, or add nodes with  ray start --address"
        )


def _folder() -> str:
    """Returns a new folder for a local cluster's files; it is removed after this process has ended, even if killed."""
    root = "/tmp" if Path("/tmp").is_dir() else None  # Ray's sockets need short paths
    folder = tempfile.mkdtemp(prefix="headrace-ray-", dir=root)
    subprocess.Popen(
        ["sh", "-c", TIDY, folder], stdin=subprocess.PIPE, start_new_session=True, stdout=subprocess.DEVNULL
    )
    return folder

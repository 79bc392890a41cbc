"""Two "machines" on one: network namespaces, joined by a wire with delay and loss, train together by torchrun.

Each has its own torchrun with --nnodes=2 and one process. A run must end with all its steps, at any delay; and when one
machine is killed in its middle the other may not hang. The wire is this program: it reads packets at one end, waits,
loses some, and writes the others at the other end, so that the kernel needs no netem. Needs root, iproute2 and
/dev/net/tun; says so where they are not permitted, and ends with status 0.
"""

from __future__ import annotations

import fcntl
import os
import random
import secrets
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, heading, tell
from headrace.train.runs.metrics import read_metrics

ADDRESSES = ("10.213.7.1", "10.213.7.2")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h


@dataclass
class NetworkArgs:
    """Training over a network with delay and loss."""

    steps: int = 4096
    """agent steps of each run"""
    delays: tuple[float, ...] = (0.0, 1.0, 10.0)
    """milliseconds that a packet takes"""
    loss: float = 0.5
    """per cent of the packets that are lost, where there is a delay"""
    out: Path = RESULTS
    """folder for the JSON file"""


def ip(*words: str) -> None:
    """Call a command of iproute2."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Wire:
    """What joins two network devices (TUN): a thread that carries packets from each to the other.

    Attributes:
        delay: seconds that a packet takes.
        loss: share of the packets that are lost.
    """

    def __init__(self, names: tuple[str, str]):
        self.delay, self.loss, self._over = 0.0, 0.0, False
        self._ends = [_tun(name) for name in names]
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def _carry(self) -> None:
        one, two = self._ends
        under_way: deque[tuple[float, int, bytes]] = deque()
        chance = random.Random(1)
        while not self._over:
            wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else 0.1
            for end in select.select(self._ends, [], [], min(wait, 0.1))[0]:
                packet = os.read(end, 1 << 16)
                if chance.random() >= self.loss:
                    under_way.append((time.monotonic() + self.delay, two if end == one else one, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, end, packet = under_way.popleft()
                with suppress(OSError):  # a device that is not up yet
                    os.write(end, packet)

    def close(self) -> None:
        """End the thread, and with its ends the devices."""
        self._over = True
        self._thread.join()
        for end in self._ends:
            os.close(end)


def _tun(name: str) -> int:
    """A new network device, and where its packets are read and written."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22s", name.encode(), IFF_TUN | IFF_NO_PI, b""))
    return descriptor


@contextmanager
def two_machines() -> Iterator[tuple[tuple[str, str], Wire]]:
    """The names of two namespaces and the wire between them; all are gone afterwards.

    Raises:
        OSError: they are not permitted here.
    """
    mark = secrets.token_hex(2)
    names, devices = (f"hr{mark}a", f"hr{mark}b"), (f"hrt{mark}a", f"hrt{mark}b")
    wire = None
    try:
        wire = Wire(devices)
        for number, (name, device) in enumerate(zip(names, devices, strict=True)):
            ip("netns", "add", name)
            ip("link", "set", device, "netns", name)
            ip("-n", name, "address", "add", ADDRESSES[number], "peer", ADDRESSES[1 - number], "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names, wire
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise OSError(f"network namespaces are not permitted here: {said.strip()}") from error
    finally:
        if wire is not None:
            wire.close()
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def start(names: tuple[str, str], folder: Path, steps: int) -> list[subprocess.Popen[bytes]]:
    """A torchrun on each machine; only the first can have the run folder."""
    found = []
    for node, name in enumerate(names):
        home = folder / str(node)
        home.mkdir(exist_ok=True)
        launcher = ["--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1", "--master-port=29777"]
        small = ["--num-envs=8", "--num-steps=32", "--minibatch-size=64", "--torch-threads=1", "--num-threads=1"]
        command = [sys.executable, "-m", "torch.distributed.run", *launcher, f"--master-addr={ADDRESSES[0]}"]
        command += ["-m", "headrace", "train", "CartPole-v1", "--run-dir=run", f"--total-steps={steps}", *small]
        command += ["--no-video", "--no-viewer", "--quiet", "--log-steps=1"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = ["ip", "netns", "exec", name, *command]
        with (home / "said").open("wb") as said:
            found.append(subprocess.Popen(command, cwd=home, env=environment, stdout=said, stderr=said))
    return found


def trained(names: tuple[str, str], steps: int) -> dict[str, float]:
    """Train, and return the steps that were done, and how long they took."""
    with tempfile.TemporaryDirectory() as folder:
        both = start(names, Path(folder), steps)
        codes = [process.wait(600) for process in both]
        if any(codes):
            raise SystemExit(f"ended with {codes}:\n" + "".join(p.read_text() for p in Path(folder).glob("*/said")))
        assert not Path(folder, "1", "run").exists(), "the second machine needs no run folder"
        last = read_metrics(Path(folder, "0", "run", "metrics.jsonl"))[-1]
    return {"steps": last["step"], "seconds": last["time"]["seconds"]}


def lost_machine(names: tuple[str, str]) -> float:
    """Seconds until the first machine's torchrun has ended, after the second one was killed."""
    with tempfile.TemporaryDirectory() as folder:
        both = start(names, Path(folder), 100_000_000)
        metrics = Path(folder, "0", "run", "metrics.jsonl")
        while not metrics.exists() or not metrics.read_text():
            if any(process.poll() is not None for process in both):
                raise SystemExit("".join(p.read_text() for p in Path(folder).glob("*/said")))
            time.sleep(0.1)
        pids = subprocess.run(["ip", "netns", "pids", names[1]], capture_output=True, text=True, check=True).stdout
        for pid in pids.split():
            os.kill(int(pid), signal.SIGKILL)
        began = time.monotonic()
        both[0].wait(600)
        both[1].wait(60)
        return time.monotonic() - began


def rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A line a wire, then how long the run of a lost machine goes on."""
    found = [
        {"wire": f"{run['delay_ms']:g} ms, {run['loss_percent']:g} % lost", **{k: run[k] for k in ("steps", "seconds")}}
        for run in record["runs"]
    ]
    last = {"wire": "the other machine is killed: the run ends", "steps": None}
    return [*found, last | {"seconds": record["seconds_after_a_lost_machine"]}]


def main(args: NetworkArgs) -> None:
    """Measure, print a table and write the JSON file."""
    found = []
    try:
        with two_machines() as (names, wire):
            for delay in args.delays:
                loss = args.loss if delay else 0.0
                wire.delay, wire.loss = delay / 1000, loss / 100
                found.append({"delay_ms": delay, "loss_percent": loss, **trained(names, args.steps)})
            seconds = lost_machine(names)
    except OSError as error:
        print(f"skipped: {error}")
        return
    record = heading("torchrun_network", "Torchrun over a wire with delay and loss")
    record |= {"runs": found, "seconds_after_a_lost_machine": round(seconds, 1)}
    tell(args.out, record | {"rows": rows(record)})


if __name__ == "__main__":
    main(tyro.cli(NetworkArgs))

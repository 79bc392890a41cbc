"""Two "machines" on one: network namespaces, joined by a link with delay and loss, train together by torchrun.

Each has its own torchrun with --nnodes=2 and one process. A run must end with all its steps, at any delay; and with one
machine's torchrun killed in its middle nobody may hang. Needs root and iproute2; says so where namespaces are not
permitted, and ends with status 0.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from common import RESULTS, machine
from headrace.train.logging.metrics import read_metrics

ADDRESSES = ("10.213.7.1", "10.213.7.2")


@dataclass
class NetworkArgs:
    """Training over a network with delay and loss."""

    steps: int = 8192
    """agent steps of each run"""
    delays: tuple[float, ...] = (0.0, 1.0, 10.0)
    """milliseconds that a packet takes"""
    loss: float = 0.5
    """per cent of the packets that are lost, where there is a delay"""
    out: Path = RESULTS
    """folder for the JSON file"""


def ip(*words: str) -> None:
    """Call a command of iproute2."""
    subprocess.run(words, check=True, capture_output=True, text=True)


@contextmanager
def two_machines() -> Iterator[tuple[str, str]]:
    """The names of two namespaces that reach each other, and are gone afterwards.

    Raises:
        OSError: they are not permitted here.
    """
    mark = secrets.token_hex(2)
    names = (f"hr{mark}a", f"hr{mark}b")
    try:
        for name in names:
            ip("ip", "netns", "add", name)
        ip("ip", "link", "add", f"v{mark}a", "netns", names[0], "type", "veth", "peer", f"v{mark}b", "netns", names[1])
        for name, link, address in zip(names, (f"v{mark}a", f"v{mark}b"), ADDRESSES, strict=True):
            ip("ip", "-n", name, "address", "add", f"{address}/24", "dev", link)
            ip("ip", "-n", name, "link", "set", link, "up")
            ip("ip", "-n", name, "link", "set", "lo", "up")
        yield names
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise OSError(f"network namespaces are not permitted here: {said.strip()}") from error
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def hinder(names: tuple[str, str], delay: float, loss: float) -> bool:
    """Delay and lose packets in both directions; returns whether the kernel can."""
    for name in names:
        link = f"v{name[2:-1]}{name[-1]}"
        words = ["tc", "-n", name, "qdisc", "replace", "dev", link, "root", "netem"]
        done = subprocess.run([*words, "delay", f"{delay}ms", "loss", f"{loss}%"], capture_output=True, check=False)
        if done.returncode:
            return False
    return True


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
        with (home / "said").open("wb") as said:
            found.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, *command],
                    cwd=home,
                    env=os.environ | {"OMP_NUM_THREADS": "1"},
                    stdout=said,
                    stderr=said,
                )
            )
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


def main(args: NetworkArgs) -> None:
    """Measure, print a table and write the JSON file."""
    console, found = Console(), []
    try:
        with two_machines() as names:
            for delay in args.delays:
                if delay and not hinder(names, delay, args.loss):
                    console.print("this kernel has no netem: no delay, no loss")
                    break
                loss = args.loss if delay else 0.0
                found.append({"delay_ms": delay, "loss_percent": loss, **trained(names, args.steps)})
            seconds = lost_machine(names)
    except OSError as error:
        console.print(f"skipped: {error}")
        return
    table = Table("delay", "lost", "steps", "seconds")
    for each in found:
        words = (
            f"{each['delay_ms']:g} ms",
            f"{each['loss_percent']:g} %",
            f"{each['steps']:,}",
            f"{each['seconds']:.1f}",
        )
        table.add_row(*words)
    console.print(table)
    console.print(f"a machine that is killed ends the other's run after {seconds:.1f} s")
    record = {"name": "torchrun_network", "command": "python benchmarks/torchrun_network.py", "machine": machine()}
    record |= {"runs": found, "seconds_after_a_lost_machine": round(seconds, 1)}
    (args.out / "torchrun_network.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(NetworkArgs))

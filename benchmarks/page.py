"""What an open page costs training, and how soon it answers, in a real browser without a window.

Training runs in a process of its own, as a user starts it, with the page's server and a browser beside it on the same
cores; in turns the page is open, with all charts that fit its window, and closed. Rates are those of the run's own
metrics. For the answers, a hundred runs are listed, twenty of them have 10,000 measurements and are drawn over each
other: an interaction has been answered when the browser has drawn what follows from it.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro
from playwright.sync_api import Page, sync_playwright

from common import OURS, Args, Case, Report, alternate
from headrace.train.config.settings import make_config

CLOSED = "page closed"
LEAST = 0.99  # of the rate without a page
MOST = 50.0  # milliseconds until an interaction is answered
RUNS, LONG = 100, 20
TASKS = {"CartPole-v1": "ppo", "HalfCheetah-v5": "sac"}
SETTLE = 2.0  # seconds for a page to open or close
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
BUSY = """() => { // the longest time in which the page could not have answered
  const channel = new MessageChannel();
  let last = performance.now();
  window.longest = 0;
  channel.port1.onmessage = () => {
    const now = performance.now();
    window.longest = Math.max(window.longest, now - last);
    last = now;
    channel.port2.postMessage(0);
  };
  channel.port2.postMessage(0);
}"""


@dataclass
class PageArgs(Args):
    """What an open page costs, and how soon it answers."""

    tasks: list[str] = field(default_factory=lambda: list(TASKS))
    """what is trained beside it; none to measure its answers alone"""
    points: int = 10_000
    """measurements of each run that is drawn"""
    agent: bool = False
    """let the agent play on the page, too"""
    repeats: int = 12
    seconds: float = 15.0


def write_runs(folder: Path, points: int) -> None:
    """A hundred runs with curves that rise, of which twenty are long."""
    for index in range(RUNS):
        path = folder / f"run-{index:03}"
        path.mkdir()
        config = make_config("CartPole-v1", seed=index, learning_rate=1e-3 * (1 + index % 7))
        (path / "config.json").write_text(config.to_json())
        chance = random.Random(index)
        with (path / "metrics.jsonl").open("w") as file:
            for i in range(1, 1 + (points if index < LONG else 50)):
                noise = chance.gauss(0, 10)
                losses = {name: noise + math.sin(i / 900) for name in ("policy_loss", "value_loss", "entropy", "kl")}
                seconds = {"seconds": 0.5 * i, "env": 0.1 * i, "learning": 0.3 * i}
                returns = 400 * (1 - math.exp(-i / 2000)) + noise
                file.write(json.dumps({"step": 500 * i, "return": returns, "loss": losses, "time": seconds}) + "\n")


@contextmanager
def watched(runs: Path) -> Iterator[str]:
    """The server, and its address."""
    command = [sys.executable, "-m", "headrace.cli.main", "watch", str(runs), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().split()[1]
        finally:
            server.terminate()


@contextmanager
def browser() -> Iterator[Page]:
    """A window of a browser without a screen."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit("no Chromium is installed: apt-get install chromium")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium.new_page(viewport={"width": 1440, "height": 900})
        chromium.close()


def answers(points: int) -> dict[str, dict[str, float]]:
    """Interaction → milliseconds until it was answered: ``median`` and ``longest``."""
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), points)
        with watched(Path(folder)) as address, browser() as page:
            page.goto(address)
            page.locator("#count", has_text=f"{RUNS} runs").wait_for()
            page.locator("#join").uncheck()
            page.locator("#filter").fill(f"seed<{LONG}")
            page.locator("#count", has_text=f"{LONG} of").wait_for()
            page.locator("#clear").click()
            for box in page.locator("#list input").all():
                box.click()
            page.locator("section[aria-label=Return] .key button").nth(LONG - 1).wait_for()
            time.sleep(SETTLE)
            return {name: timed(page, act) for name, act in interactions(page).items()}


def interactions(page: Page) -> dict[str, Callable[[int], None]]:
    """What a person does, each to be done several times."""
    box = page.locator("section[aria-label=Return] .u-over").bounding_box()
    assert box is not None
    left, top, width = box["x"], box["y"], box["width"]

    def zoom(turn: int) -> None:
        page.mouse.move(left + width * 0.3, top + 40)
        page.mouse.down()
        page.mouse.move(left + width * (0.5 + turn % 5 / 20), top + 60)
        page.mouse.up()

    return {
        "pointer moves over a chart": lambda turn: page.mouse.move(left + 7 * turn % width, top + 30 + turn % 50),
        "zoom": zoom,
        "another axis": lambda turn: page.locator(f"[data-axis={('seconds', 'step')[turn % 2]}]").click(),
        "a run less, or more": lambda _: page.locator("#list input").nth(3).click(),
        "a letter in the filter": lambda turn: page.locator("#filter").fill(f"seed<{LONG}" + " c" * (turn % 2)),
        "scroll": lambda turn: page.mouse.wheel(0, (300, -300)[turn % 2]),
    }


def timed(page: Page, act: Callable[[int], None], times: int = 20) -> dict[str, float]:
    """How long the page could not have answered at most, each time, until all was drawn."""
    page.evaluate(BUSY)
    took = []
    for turn in range(times):
        page.evaluate("window.longest = 0")
        act(turn)
        for _ in range(6):
            page.evaluate(DRAWN)
        took.append(page.evaluate("window.longest"))
    return {"median": round(statistics.median(took), 1), "longest": round(max(took), 1)}


def cost(task: str, args: PageArgs) -> Case:
    """Training's agent steps a second with the page open and closed, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "headrace.cli.main",
            "train",
            task,
            "--algo",
            TASKS[task],
            "--run-dir",
            str(run),
        ]
        command += ["--total-steps", "1000000000", "--stop-at-return", "1e9", "--quiet", "--no-video"]
        command += [] if TASKS[task] == "ppo" else ["--tune", "none"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as training, watched(run.parent) as address:
            try:
                with browser() as page:
                    return Case(f"{task} {TASKS[task]}", turns(page, address, run, args), {CLOSED: LEAST})
            finally:
                training.kill()


def turns(page: Page, address: str, run: Path, args: PageArgs) -> dict[str, list[float]]:
    """Rates in turns with the page open and closed."""
    while len(measurements(run)) < 5:
        time.sleep(1.0)

    def opened(seconds: float) -> float:
        page.goto(address)
        page.locator(".chip", has_text="running").wait_for()
        if args.agent:
            page.locator("[data-key=live]").click()
        time.sleep(SETTLE)
        return rate(page, run, seconds)

    def closed(seconds: float) -> float:
        page.goto("about:blank")
        time.sleep(SETTLE)
        return rate(page, run, seconds)

    return alternate({OURS: opened, CLOSED: closed}, args)


def rate(page: Page, run: Path, seconds: float) -> float:
    """Agent steps a second of training, over the measurements that fall into so many seconds."""
    before = measurements(run)[-1]
    page.wait_for_timeout(1000 * seconds)
    while (after := measurements(run)[-1])["step"] == before["step"]:
        page.wait_for_timeout(100)
    return (after["step"] - before["step"]) / (after["time"]["seconds"] - before["time"]["seconds"])


def measurements(run: Path) -> list[dict[str, Any]]:
    """The newest lines of a run's metrics."""
    try:
        with (run / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - (1 << 15)))
            return [json.loads(line) for line in file.read().split(b"\n")[1:-1]]
    except FileNotFoundError:
        return []


def main() -> None:
    args = tyro.cli(PageArgs)
    found = answers(args.points)
    for name, times in found.items():
        print(f"{name}: median {times['median']} ms, longest {times['longest']} ms")
    settings = {"repeats": args.repeats, "seconds": args.seconds, "points": args.points, "agent": args.agent}
    report = Report("page", "Training with its page open, beside training with it closed", settings)
    report.cases = [cost(task, args) for task in args.tasks]
    passed = {name: times["median"] < MOST for name, times in found.items()}
    report.extra |= {"answers": found, "passed": passed}
    report.write(args.out)


if __name__ == "__main__":
    main()

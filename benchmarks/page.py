"""What an open page costs training, and how soon it answers, in a real browser without a window.

Training runs in a process of its own, as a user starts it, with the page's server and a browser beside it on the same
cores; in turns the page is open, with all charts that fit its window, and closed. Rates are those of the run's own
metrics. They say little on a machine that has other things to do: the share of the processors' time that the open page
takes, server and browser together, is measured as well.

For the answers, a hundred runs are listed, twenty of them have 10,000 measurements and are drawn over each other: an
interaction has been answered when the browser has drawn what follows from it. The processor time of all that is drawn
for it, piece by piece, is given, too.
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

import psutil
import tyro
from playwright.sync_api import CDPSession, Page, sync_playwright

from common import Args, Comparison, Contender, measure
from headrace.machine import usable_cores
from headrace.train.recipes.make import make_config

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
    """How long the page could not have answered at most, each time, until all was drawn, and what all that computed."""
    page.evaluate(BUSY)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    took, computed = [], []
    for turn in range(times):
        page.evaluate("window.longest = 0")
        before = computing(devtools)
        act(turn)
        for _ in range(6):
            page.evaluate(DRAWN)
        took.append(page.evaluate("window.longest"))
        computed.append(1000 * (computing(devtools) - before))
    found = {"median": statistics.median(took), "longest": max(took), "processor": statistics.median(computed)}
    return {name: round(value, 1) for name, value in found.items()}


def computing(devtools: CDPSession) -> float:
    """Seconds of processor time of a page's main thread in script, style and layout."""
    values = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return values["ScriptDuration"] + values["RecalcStyleDuration"] + values["LayoutDuration"]


def comparisons(args: PageArgs, all_shares: dict[str, list[float]]) -> Iterator[Comparison]:
    """Training's agent steps a second with the page open and closed; and the page's share of the processors' time."""
    for task in args.tasks:
        with tempfile.TemporaryDirectory() as folder:
            run, algo = Path(folder) / "run", TASKS[task]
            words = f"train {task} --algo {algo} --run-dir {run} --total-steps 1000000000 --stop-at-return 1e9 --quiet"
            words += " --no-video" if algo == "ppo" else " --no-video --tune none"
            command = [sys.executable, "-m", "headrace.cli.main", *words.split()]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as training, watched(run.parent) as address:
                try:
                    with browser() as page:
                        shares = all_shares[task] = []
                        opened, closed = ways(page, address, run, training.pid, shares, args)
                        yield Comparison(f"{task} {algo}", opened, {CLOSED: closed}, wanted={CLOSED: LEAST})
                        del shares[0]  # which warmed up
                        print(f"{task}: the page takes {statistics.median(shares):.2%} of the processors' time")
                finally:
                    training.kill()


def ways(
    page: Page, address: str, run: Path, training: int, shares: list[float], args: PageArgs
) -> tuple[Contender, Contender]:
    """Contenders with the page open, which notes its share of the processors' time, and with the page closed."""
    while len(measurements(run)) < 5:
        time.sleep(1.0)

    def opened(seconds: float) -> float:
        page.goto(address)
        page.locator(".chip", has_text="running").wait_for()
        if args.agent:
            page.locator("[data-key=live]").click()
        time.sleep(SETTLE)
        began, before = time.monotonic(), beside(training)
        found = rate(page, run, seconds)
        shares.append(round((beside(training) - before) / (time.monotonic() - began) / usable_cores(), 4))
        return found

    def closed(seconds: float) -> float:
        page.goto("about:blank")
        time.sleep(SETTLE)
        return rate(page, run, seconds)

    return opened, closed


def beside(training: int) -> float:
    """Seconds that the processes below this one have computed so far, without those of the training."""
    without = {training, *(process.pid for process in psutil.Process(training).children(recursive=True))}
    others = (process for process in psutil.Process().children(recursive=True) if process.pid not in without)
    return sum(sum(process.cpu_times()[:2]) for process in others)


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
    args, shares = tyro.cli(PageArgs), dict[str, list[float]]()
    found = answers(args.points)
    for name, times in found.items():
        print(f"{name}: median {times['median']} ms, longest {times['longest']} ms, processor {times['processor']} ms")
    passed = {name: times["median"] < MOST for name, times in found.items()}
    title, extra = "Training with its page open", {"answers": found, "passed": passed}
    measure("page", title, comparisons(args, shares), args, extra | {"shares": shares})


if __name__ == "__main__":
    main()

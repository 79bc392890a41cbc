"""Run folders as training leaves them, and the page's server as a user starts it, for the tests of the page."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.studies.sweep.plan import Plan
from headrace.studies.sweep.space import space_of
from headrace.studies.sweep.study import begin_study, load_study
from headrace.train.recipes.make import make_config
from headrace.train.runs.events import EventLog
from programs import Program


def line(step: int, seconds: float, earned: float, **more: Any) -> dict[str, Any]:
    """One measurement, as a run writes it."""
    return {
        "step": step, "updates": step // 100, "episodes": step // 200, "return": earned, "length": 200.0,
        "loss": {"policy_loss": 1 / (1 + step / 1000), "entropy": 1.0, "gradient_norm": 0.5 + math.sin(step / 5000)},
        "time": {"seconds": seconds, "env": 0.3 * seconds, "learning": 0.6 * seconds, "cores": 1.2,
                 "memory": {"resident": 400 << 20}},
        **more,
    }  # fmt: skip


def write_run(path: Path, *, lines: int = 50, end: str | None = "finished", **settings: Any) -> Path:
    """A run folder: settings, metrics that rise, and a log that ends as is said; None for one that was killed."""
    path.mkdir(parents=True)
    config = make_config("CartPole-v1", **settings)
    (path / "config.json").write_text(config.to_json())
    chance = random.Random(config.seed)
    rows = [
        line(200 * (i + 1), 0.5 * (i + 1), 400 * (1 - math.exp(-4 * i / lines)) + chance.gauss(0, 8))
        for i in range(lines)
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = EventLog(path / "events.jsonl")
    log.note("began", "ppo on CartPole-v1", 0, 0.0)
    if end is not None:
        log.note(end, f"it has {end}", 200 * lines, 0.5 * lines)  # type: ignore[arg-type]
    return path


@contextmanager
def serving(*arguments: str | Path, cwd: Path | None = None) -> Iterator[str]:
    """``headrace watch`` with these arguments, in a process of its own; the address that it prints."""
    command = [sys.executable, "-m", "headrace.cli.main", "watch", "--no-browser", "--port", "0", *map(str, arguments)]
    with Program(command, stdout=subprocess.PIPE, text=True, cwd=cwd) as server:
        try:
            assert server.stdout
            said = server.stdout.readline()
            assert said.startswith("watch http://"), said
            yield said.split()[1]
        finally:
            server.terminate()
            server.wait(60)


def get(address: str, *, put: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """What a server answers, also to content that is ``put``: status, headers by lower-case name, and content."""
    request = urllib.request.Request(address, put, headers, method="GET" if put is None else "PUT")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
    try:
        with opener.open(request, timeout=20) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def write_sweep(path: Path, trials: int = 12) -> Path:
    """A sweep whose trials are the better, the closer their learning rate is to 1e-3; the last one still runs."""
    plan = Plan(
        task="CartPole-v1",
        settings={"algo": "ppo"},
        space={"learning_rate": {"low": 1e-5, "high": 1e-1, "log": True}, "num_steps": [16, 32]},
        total_steps=10_000,
        trials=20,
        sampler="random",
    )
    path.mkdir(parents=True)
    plan.write(path)
    begin_study(path)
    study = load_study(path, plan)
    for number in range(trials):
        settings = {"learning_rate": 10 ** (-5 + 4 * number / trials), "num_steps": (16, 32)[number % 2]}
        study.enqueue_trial(settings)
        trial = study.ask(space_of(plan.space, plan.algo))
        trial.set_user_attr("steps", 10_000)
        trial.set_user_attr("seconds", 5.0)
        runs = number == trials - 1
        if not runs:
            study.tell(trial, 400 - 100 * abs(math.log10(settings["learning_rate"]) + 3))
        write_run(path / f"trial-{number}", end=None if runs else "finished", **settings)
    return path


CHART = "section[aria-label=Return] .chart"


def label(page: Any) -> str:
    """What the large chart says of itself to those who cannot see it."""
    return page.locator(CHART).get_attribute("aria-label") or ""


def is_drawn(page: Any, place: str) -> bool:
    """Whether a canvas has anything on it."""
    return page.locator(f"{place} canvas").first.evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((each) => each !== 0)"
    )


def choose(page: Any, *words: str) -> None:
    for word in words:
        page.locator("#list .item", has_text=word).locator("input").first.click()

"""The page in a real browser, as a person sees and uses it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import CHART, choose, is_drawn, label, line, serving, write_run, write_sweep

from headrace.studies.tuning.measure import Probe, Size
from headrace.studies.tuning.tune import Tuning
from headrace.train.runs.events import EventLog
from programs import Program, wait_for

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
Open = Callable[..., Any]


def train(path: Path, *arguments: str, task: str = "CartPole-v1") -> Program:
    command = [sys.executable, "-m", "headrace.cli.main", "train", task, "--run-dir", str(path), "--quiet",
               "--no-video", "--no-tensorboard", *arguments]  # fmt: skip
    return Program(command, stdout=subprocess.DEVNULL)


def status(page: Any) -> str:
    return page.locator(".chip").inner_text()


def rows(page: Any) -> list[str]:
    return page.locator("#list .item").all_inner_texts()


def test_the_page_shows_a_run_that_learns_and_then_is_killed(tmp_path: Path, open_page: Open) -> None:
    with serving(tmp_path) as address:
        page = open_page(address)
        page.get_by_text("no runs yet in").wait_for()
        training = train(tmp_path / "run", "--total-steps", "100000000", "--stop-at-return", "100000")
        try:
            page.locator(".chip", has_text="running").wait_for(timeout=60_000)
            wait_for(lambda: "steps: CartPole-v1 ppo" in label(page), 60)
            before = label(page)
            wait_for(lambda: is_drawn(page, "section[aria-label=Return]"))
            wait_for(lambda: page.locator("[data-figure] canvas").count() > 3)
            assert page.locator("[data-figure]", has_text="Entropy").count() == 1
            page.locator("section[aria-label='Where the time goes'] .key", has_text="learning").wait_for()
            wait_for(lambda: label(page) != before, 30)
            assert page.locator(".fig", has_text="left").count() == 1
        finally:
            training.kill()
            training.wait()
        page.locator(".chip", has_text="killed").wait_for(timeout=20_000)
        assert page.locator(".state", has_text="last seen").count() == 1
        assert "killed · last seen" in rows(page)[0]


def test_the_page_shows_every_end_and_explains_a_damaged_run(tmp_path: Path, open_page: Open) -> None:
    for end in ("solved", "finished", "failed"):
        write_run(tmp_path / end, end=end)
    write_run(tmp_path / "paused", end="interrupted", learning_rate=0.1)
    (tmp_path / "paused" / "checkpoints" / "step-000000010000").mkdir(parents=True)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text('{"task": ')
    write_run(tmp_path / "torn", seed=9)
    with (tmp_path / "torn" / "metrics.jsonl").open("a") as more:
        more.write("\0\0\0\0\n")
    with serving(tmp_path, "--host", "127.0.0.1") as address:
        page = open_page(address)
        page.locator("#join").uncheck()
        page.locator("#list .item", has_text="broken").click()
        page.locator(".state.bad", has_text="config.json cannot be read").wait_for()
        assert status(page) == "damaged"
        page.locator("#list .item", has_text="seed 9").click()
        page.locator(".state.bad", has_text="metrics.jsonl is damaged").wait_for()
        page.locator(CHART + "[aria-label*='CartPole-v1 ppo · seed 9']").wait_for()  # what could be read is drawn
        page.locator("section", has_text="What happened").get_by_text("metrics.jsonl, line 51").wait_for()
        page.locator("#list .item", has_text="interrupted").click()
        page.locator("code", has_text=f"headrace train --resume {tmp_path}/paused").wait_for()
        page.locator("#list .item", has_text="it has failed").click()
        page.locator(".state.bad", has_text="it has failed").wait_for()


def test_names_are_never_markup(tmp_path: Path, open_page: Open) -> None:
    path = write_run(tmp_path / HOSTILE.replace("/", "∕"), end="failed")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(
        json.dumps(config | {"task": HOSTILE, "algo": HOSTILE, "env_options": {HOSTILE: HOSTILE}})
    )
    with (path / "metrics.jsonl").open("a") as more:
        more.write(json.dumps(line(20_000, 60, 1.0, loss={HOSTILE: 3.0}, policies={HOSTILE: {"return": 1.0}})) + "\n")
    with (path / "events.jsonl").open("a") as more:
        more.write(json.dumps({"time": 1.0, "step": 1, "seconds": 1.0, "kind": HOSTILE, "text": HOSTILE}) + "\n")
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("h1", has_text=HOSTILE).wait_for()
        page.get_by_text("show all").last.click()
        page.locator("main .log", has_text=HOSTILE).wait_for()
        page.locator("section[aria-label=Return] .u-over").hover()
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1


def test_seeds_are_joined_and_runs_compared(tmp_path: Path, open_page: Open) -> None:
    for seed in (1, 2, 3):
        write_run(tmp_path / f"a{seed}", seed=seed)
    write_run(tmp_path / "b", seed=1, learning_rate=0.1)
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("#list .item", has_text="× 3 seeds").wait_for()
        page.locator("#clear").click()
        choose(page, "× 3 seeds", "seed 1")
        page.locator("section[aria-label=Return] .key", has_text="3 seeds, mean and 95 % interval").wait_for()
        page.locator("section[aria-label=Return] .key", has_text="learning_rate 0.1").wait_for()
        settings = page.locator("section[aria-label=Settings]")
        assert settings.locator("tbody tr").count() == 1 and "learning_rate" in settings.inner_text()
        settings.get_by_text("show all").click()
        assert settings.locator("tbody tr").count() > 30
        page.locator(".more").click()
        assert len([row for row in rows(page) if re.search(r"seed \d · a\d", row)]) == 3
        page.reload()  # what is chosen is in the address
        page.locator("section[aria-label=Return] .key", has_text="3 seeds, mean and 95 % interval").wait_for()
        page.locator("#join").uncheck()
        wait_for(lambda: page.locator("section[aria-label=Return] .key button").count() == 4)


def test_lines_have_names_of_their_own(tmp_path: Path, open_page: Open) -> None:
    """Also where the algorithm tells some of them apart, and the rest have the same one."""
    write_run(tmp_path / "a", algo="a2c")
    for name, rate in (("b", 0.1), ("c", 0.01), ("d", 0.01)):
        write_run(tmp_path / name, learning_rate=rate)
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("#list .item").first.wait_for()
        page.locator("#join").uncheck()
        wait_for(lambda: len(rows(page)) == 4)
        page.locator("#clear").click()
        for box in page.locator("#list input").all():
            box.click()
        keys = page.locator("section[aria-label=Return] .key button")
        wait_for(lambda: keys.count() == 4)
        names = sorted(keys.all_inner_texts())
        assert names == [
            "a2c · seed 1", "ppo · seed 1 · learning_rate 0.01 · c", "ppo · seed 1 · learning_rate 0.01 · d",
            "ppo · seed 1 · learning_rate 0.1",
        ]  # fmt: skip


def test_runs_are_named_by_their_varied_settings_and_the_best_trial_is_first(tmp_path: Path, open_page: Open) -> None:
    """Each in a colour of its own, and no name cut, however long their folders are called."""
    sweep = write_sweep(tmp_path / f"a-sweep-with-a-name-{'that-is-long-' * 5}")
    for number, earned in ((2, 390.0), (9, 480.0)):
        with (sweep / f"trial-{number}" / "metrics.jsonl").open("a") as more:
            more.write(json.dumps(line(20_000, 60, 1.0, evaluation={"return": earned, "step": 20_000})) + "\n")
    for rate in (0.1, 0.01):
        write_run(tmp_path / f"{'long-' * 20}{rate}", learning_rate=rate)
    with serving(tmp_path) as address:
        page = open_page(address, width=1400)
        page.locator("#list .item", has_text="ppo seed 1 · learning_rate 0.01").wait_for()
        page.locator("#list .item", has_text="ppo seed 1 · learning_rate 0.1").wait_for()
        page.locator("#list .item", has_text="sweep of 12").click()
        page.locator(".more").click()
        listed = page.locator("#list .item.inner")
        assert listed.nth(0).inner_text().splitlines()[:2] == [
            "learning_rate 0.01 · num_steps 32", "trial-9 · finished · 480",
        ]  # fmt: skip
        assert "trial-2 · finished · 390" in listed.nth(1).inner_text()
        keys = page.locator("section[aria-label=Return] .key button")
        wait_for(lambda: keys.count() == 12)
        assert keys.first.inner_text() == "trial-9 · learning_rate 0.01 · num_steps 32"
        told = "each => getComputedStyle(each.querySelector('i')).backgroundColor"
        assert len({key.evaluate(told) for key in keys.all()}) == 12
        for name in page.locator("#list .item b").all():
            assert name.evaluate("each => each.scrollWidth <= each.clientWidth")


@pytest.mark.nightly
def test_charts_that_move_between_rows_go_on(tmp_path: Path, open_page: Open) -> None:
    """Runs with an age of data have it where others have memory."""
    write_run(tmp_path / "a")
    path = write_run(tmp_path / "b", seed=2)
    with (path / "metrics.jsonl").open("a") as more:
        more.write(json.dumps(line(20_000, 60, 1.0, staleness={"steps": 3.0, "updates": 2.0})) + "\n")
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("#join").uncheck()
        for name in ("seed 1", "seed 2", "seed 1", "seed 2"):
            page.locator("#list .item", has_text=name).click()
            page.locator(CHART + f"[aria-label*='{name}']").wait_for()
        page.locator("[data-figure]", has_text="Age of the data").first.wait_for()
        page.locator("[data-figure]", has_text="Memory resident").scroll_into_view_if_needed()
        wait_for(lambda: page.locator("[data-figure]", has_text="Memory resident").locator("canvas").count() == 1)


def test_measurements_of_the_tuner_are_a_table_with_bars(tmp_path: Path, open_page: Open) -> None:
    path = write_run(tmp_path / "run")
    sizes = [Size(samplers=1, num_envs=envs, num_threads=1, torch_threads=1) for envs in (1, 8, 64)]
    probes = [Probe(size, sampling=1000.0 * (i + 1), updates=10.0 - i) for i, size in enumerate(sizes[:2])]
    probes.append(Probe(sizes[2], note="too little memory"))
    record = Tuning(probes[1], tuple(probes), ()).record()
    EventLog(path / "events.jsonl").note("tuned", record["text"], 0, 0.0, record["data"])
    with serving(tmp_path) as address:
        page = open_page(address)
        card = page.locator("section[aria-label='What the tuner measured']")
        card.locator("tbody tr").nth(2).wait_for()
        assert card.locator("thead th").all_inner_texts()[:2] == ["num envs", "steps a second"]
        assert card.locator("tr.best").inner_text().split() == ["8", "2,000", "9", "chosen"]
        widths = [bar.evaluate("each => each.style.getPropertyValue('--part')") for bar in card.locator(".bar").all()]
        assert sorted(map(float, widths))[:2] == [0.0, 0.0] and max(map(float, widths)) == 1.0
        assert "too little memory" in card.inner_text()


def test_processes_that_train_together_are_listed(tmp_path: Path, open_page: Open) -> None:
    """With where each is and how fast; runs of one process have no such list."""
    write_run(tmp_path / "alone")
    path = write_run(tmp_path / "together", seed=2)
    with (path / "metrics.jsonl").open("a") as more:
        for step in (20_000, 30_000):
            told = line(step, step / 500, 1.0)
            told["time"]["ranks"] = {
                str(rank): {"host": f"node-{rank // 2}{HOSTILE}", "device": f"cuda:{rank % 2}"}
                | {"steps_per_second": 1500 + rank, "cores": 0.5 * rank, "gpu": 0.25}
                for rank in range(4)
            }
            more.write(json.dumps(told) + "\n")
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("#join").uncheck()
        page.locator("#list .item", has_text="seed 2").click()
        card = page.locator("section[aria-label=Processes]")
        card.get_by_text("4 on 2 machines").wait_for()
        rows = card.locator("tbody tr").all_inner_texts()
        assert rows[3].split("\t") == ["3", f"node-1{HOSTILE}", "cuda:1", "1,503", "1.5", "25 %"]
        rates = page.locator("[data-figure]", has_text="Steps per second, by rank")
        rates.scroll_into_view_if_needed()
        wait_for(lambda: "rank 3" in (rates.locator(".chart").get_attribute("aria-label") or ""))
        page.locator("#list .item", has_text="seed 1").click()
        card.wait_for(state="hidden")


def test_the_numbers_of_a_cluster_are_drawn(tmp_path: Path, open_page: Open) -> None:
    path = write_run(tmp_path / "run")
    with (path / "metrics.jsonl").open("a") as more:
        for step in (20_000, 30_000):
            told = line(step, step / 500, 1.0) | {"staleness": {"versions": 1.5, "seconds": 0.25}}
            told["cluster"] = {"nodes": 2, "actors": 33, "restarts": 1, "received_bytes": 1 << 20, "sent_bytes": 4096}
            more.write(json.dumps(told) + "\n")
    EventLog(path / "events.jsonl").note("restart", "the sampler 3 was lost", 20_000, 40.0)
    with serving(tmp_path) as address:
        page = open_page(address)
        drawn = ("nodes", "actors", "restarts", "received a second", "sent a second")
        for title in (*(f"Cluster, {name}" for name in drawn), "Age of the data, versions", "Age of the data, seconds"):
            figure = page.locator("[data-figure]", has_text=title)
            figure.scroll_into_view_if_needed()
            wait_for(lambda each=figure: each.locator(".chart").get_attribute("aria-label"))
        page.get_by_text("a worker was restarted").wait_for()


@pytest.mark.nightly
def test_a_sweep_is_one_row_with_its_trials_as_parallel_coordinates(tmp_path: Path, open_page: Open) -> None:
    sweep = write_sweep(tmp_path / "sweep")
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("#list .item", has_text="sweep of 12").click()
        card = page.locator("section[aria-label='The sweep']")
        card.locator("polyline.trial").nth(11).wait_for()
        assert card.locator("polyline.trial").count() == 12 and card.locator("polyline.running").count() == 1
        assert card.locator(".label b").all_inner_texts() == ["learning_rate", "num_steps", "return"]
        card.locator(".shares .bars div", has_text="learning_rate").wait_for()
        best = card.locator("tbody tr").first
        assert "trial-6" in best.inner_text() and "best" in best.inner_text()
        best.locator("button").click()
        page.locator(".head .soft", has_text="sweep/trial-6").wait_for()
        card.locator("tbody tr.on", has_text="trial-6").wait_for()
        box = card.locator(".plane svg").bounding_box()
        page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 1)  # the best one's return
        card.locator(".said", has_text="trial-6: 40").wait_for()
        (sweep / "sweep.json").write_text("{")
        card.locator("p", has_text="sweep.json").wait_for()
        page.locator("#join").uncheck()
        wait_for(lambda: len(rows(page)) == 12)


def test_a_sweep_is_loading_until_its_lines_are_there_with_their_varied_settings(
    tmp_path: Path, open_page: Open
) -> None:
    write_sweep(tmp_path / "sweep")
    write_run(tmp_path / "before")
    with serving(tmp_path) as address:
        page = open_page(address)
        empty = page.locator("section[aria-label=Return] > p").first
        page.locator("#list .item", has_text="seed 1").click()
        page.locator("section[aria-label=Return] .key button").first.wait_for(state="attached")
        observer = "new MutationObserver(() => said.push(p.textContent)).observe(p, {childList: true})"
        empty.evaluate(f"p => {{ window.said = []; {observer} }}")
        page.locator("#list .item", has_text="sweep of 12").click()
        keys = page.locator("section[aria-label=Return] .key button")
        wait_for(lambda: keys.count() == 12 and not empty.inner_text())
        assert not any("no episode" in said for said in page.evaluate("said"))
        assert "trial-6 · learning_rate 0.001 · num_steps 16" in keys.all_inner_texts()


def test_evaluations_come_before_the_returns_of_training(tmp_path: Path, open_page: Open) -> None:
    path = write_run(tmp_path / "replay", lines=2)
    measured = line(600, 9.0, -209.0, evaluation={"return": 1012.0, "length": 200.0, "step": 500, "version": 3})
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(measured) + "\n")
    with serving(tmp_path) as address:
        page = open_page(address)
        figures = page.locator(".head .fig")
        wait_for(lambda: figures.count() > 1)
        assert figures.nth(0).inner_text().split("\n") == ["1,012", "evaluated at step 500, without exploration"]
        assert figures.nth(1).inner_text().startswith("−209\ntraining return")
        assert "1,012" in page.locator("#list .item").inner_text()
        newer = json.dumps(measured | {"step": 6700, "return": 350.0})
        with (path / "metrics.jsonl").open("a") as file:
            file.write(newer + "\n")
        wait_for(lambda: figures.nth(0).inner_text().startswith("350\ntraining return"))
        assert figures.nth(1).inner_text().split("\n") == ["1,012", "evaluated at step 500, without exploration"]
        wait_for(lambda: "350" in page.locator("#list .item").inner_text())


@pytest.mark.nightly
def test_a_hundred_runs_are_listed_and_filtered(tmp_path: Path, open_page: Open) -> None:
    ends = ("finished", "solved", "interrupted", "failed", None)
    for index in range(100):
        write_run(tmp_path / f"run-{index}", seed=index, learning_rate=0.001 * (1 + index % 4), end=ends[index % 5])
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("#count", has_text="100 runs").wait_for()
        assert len(rows(page)) == 4
        page.locator("#join").uncheck()
        wait_for(lambda: len(rows(page)) == 100)
        for words, number in (
            ("killed", 20), ("status=solved", 20), ("learning_rate=0.002", 25), ("learning_rate>0.002 failed", 10),
            ("seed=7", 1), ("CARTPOLE ppo", 100), ("nothing=1", 0), ("run-99", 1),
        ):  # fmt: skip
            page.locator("#filter").fill(words)
            wait_for(lambda number=number: len(rows(page)) == number)
        page.locator("#filter").fill("seed<20")
        page.locator("#clear").click()
        for box in page.locator("#list input").all():
            box.click()
        wait_for(lambda: page.locator("section[aria-label=Return] .key button").count() == 20)
        wait_for(lambda: is_drawn(page, "section[aria-label=Return]"))


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (640, "dark"), (1280, "dark")])
def test_nothing_sticks_out_on_small_screens(tmp_path: Path, open_page: Open, width: int, scheme: str) -> None:
    """640 pixels are also what 1280 are at 200 %."""
    write_run(tmp_path / "run", end="interrupted")
    with serving(tmp_path) as address:
        page = open_page(address, width=width, scheme=scheme)
        wait_for(lambda: is_drawn(page, "section[aria-label=Return]"))
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        ink, ground = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert (brightness(ink) > brightness(ground)) == (scheme == "dark")
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


def brightness(colour: str) -> int:
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def test_the_page_comes_back_with_its_server(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "run")
    with serving(tmp_path) as address:
        page = open_page(address, lost=True)
        page.locator("h1", has_text="CartPole").wait_for()
    page.locator("#link", has_text="does not answer").wait_for()
    write_run(tmp_path / "other", seed=2, learning_rate=0.1)
    with serving(tmp_path, "--port", address.rpartition(":")[2].strip("/")):
        page.locator("#count", has_text="2 runs").wait_for(timeout=20_000)
        page.locator("#link").wait_for(state="hidden")


@pytest.mark.nightly
def test_the_agent_plays_as_long_as_its_page_is_open(tmp_path: Path, open_page: Open) -> None:
    assert train(tmp_path / "run", "--total-steps", "20000").wait(120) == 0
    with serving(tmp_path) as address:
        page = open_page(address)
        card = page.locator("section[aria-label='The agent']")
        card.get_by_role("tab", name="best, at play").click()
        card.locator("canvas").wait_for(timeout=90_000)
        assert is_drawn(page, "section[aria-label='The agent']")
        card.locator(".bars b", has_text="%").first.wait_for()
        assert "weights of step" in card.locator(".value").inner_text()
        assert players(tmp_path)
        page.context.close()
        wait_for(lambda: not players(tmp_path))


@pytest.mark.nightly
def test_a_robot_is_steered_by_sliders_keys_and_pushes(tmp_path: Path, open_page: Open) -> None:
    pytest.importorskip("mujoco")
    expect = pytest.importorskip("playwright.sync_api").expect
    assert train(tmp_path / "run", "--total-steps", "256", "--num-envs", "4", task="Go1Flat-v0").wait(240) == 0
    with serving(tmp_path) as address:
        page = open_page(address)
        card = page.locator("section[aria-label='The agent']")
        card.get_by_role("tab", name="best, at play").click()
        steer = card.get_by_role("group", name="Steer the robot")
        steer.wait_for(timeout=90_000)
        box, values = steer.get_by_label("steer", exact=True), steer.locator(".ranges b")
        assert not box.is_checked() and steer.locator("input[type=range]").count() == 3
        steer.get_by_label("forwards, m/s").fill("0.5")
        expect(values.first).to_have_text("0.5")
        expect(box).to_be_checked()
        page.wait_for_timeout(1500)
        expect(values.first).to_have_text("0.5")  # what the player says, too
        card.locator(".screen").click()
        keys = {"Space": "0 0 0", "w": "0.38 0 0", "ArrowLeft": "0.38 0.2 0", "e": "0.38 0.2 −0.3"}
        for key, shown in keys.items():
            page.keyboard.press(key)
            for value, wanted in zip(values.all(), shown.split(), strict=True):
                expect(value).to_have_text(wanted)
        steer.get_by_role("button", name="push").click()
        page.keyboard.press("p")
        behind = steer.get_by_label("from behind")
        behind.check()
        page.wait_for_timeout(2500)
        assert behind.is_checked() and box.is_checked()  # as the player says, too
        box.uncheck()
        page.wait_for_timeout(1500)
        assert not box.is_checked() and steer.locator("[role=status]").text_content() == ""
        page.evaluate("window.scrollTo(0, 0)")
        page.locator("#filter").fill("w")  # which is no command
        assert not box.is_checked()


def players(folder: Path) -> list[int]:
    """The processes that play runs of a folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"headrace.watch.player" in command and str(folder).encode() in command:
            found.append(int(process.name))
    return found


@pytest.mark.nightly
def test_an_agent_that_cannot_play_says_why(tmp_path: Path, open_page: Open) -> None:
    path = write_run(tmp_path / "run")
    (path / "checkpoints" / "step-000000010000").mkdir(parents=True)
    with serving(tmp_path) as address:
        page = open_page(address)
        card = page.locator("section[aria-label='The agent']")
        card.get_by_role("tab", name="best, at play").click()
        card.locator(".words", has_text="checkpoint").wait_for(timeout=90_000)

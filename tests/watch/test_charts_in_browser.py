"""The page's charts in a real browser: read, zoomed, smoothed, loaded and taken home."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import CHART, choose, is_drawn, label, line, serving, write_run, write_sweep

from headrace.studies.plots.bands import smoothed
from headrace.train.recipes.make import make_config
from programs import wait_for

Open = Callable[..., Any]


def test_charts_are_read_and_zoomed_by_pointer_and_by_keys(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "run", lines=5000)
    with serving(tmp_path) as address:
        page = open_page(address)
        chart = page.locator("section[aria-label=Return] .chart")
        wait_for(lambda: "1,000,000 steps" in label(page))
        wait_for(lambda: is_drawn(page, "section[aria-label=Return]"))
        box = chart.locator(".u-over").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
        chart.locator(".tip", has_text="steps").wait_for()
        assert re.search(r"49\d,\d{3} steps|50\d,\d{3} steps", chart.locator(".tip").inner_text())
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=3)
        page.mouse.up()
        all_of_it = page.locator("section[aria-label=Return]").get_by_text("show all")
        all_of_it.wait_for()
        page.mouse.move(box["x"] + 2, box["y"] + 50)
        wait_for(lambda: re.search(r"(49|50)\d,\d{3} steps", chart.locator(".tip").inner_text()))
        all_of_it.click()
        all_of_it.wait_for(state="hidden")
        chart.focus()
        page.keyboard.press("ArrowRight")
        chart.locator(".tip").wait_for()
        page.keyboard.press("+")
        all_of_it.wait_for()
        page.keyboard.press("0")
        all_of_it.wait_for(state="hidden")
        page.get_by_role("button", name="seconds").click()
        wait_for(lambda: "against seconds" in label(page))


def test_each_task_has_a_chart_of_its_own(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "pole")
    config = make_config("Pendulum-v1").to_json()
    (write_run(tmp_path / "pendulum", lines=80) / "config.json").write_text(config)
    with serving(tmp_path) as address:
        page = open_page(address)
        choose(page, "CartPole")
        charts = page.locator(CHART)
        wait_for(lambda: charts.count() == 2)
        said = [lambda n=n: charts.nth(n).get_attribute("aria-label") or "" for n in range(2)]
        wait_for(lambda: "10,000 steps" in said[0]() + said[1]() and "16,000 steps" in said[0]() + said[1]())
        assert {each().split(" against")[0] for each in said} == {"Return of CartPole-v1", "Return of Pendulum-v1"}
        assert all(("10,000" in each()) == ("CartPole-v1" in each()) for each in said), "each has its own runs alone"
        losses = page.locator("section[aria-label^='Policy loss']")
        wait_for(lambda: losses.count() == 2)
        names = [losses.nth(n).get_attribute("aria-label") for n in range(2)]
        assert sorted(names) == ["Policy loss, CartPole", "Policy loss, Pendulum"]
        choose(page, "CartPole")
        wait_for(lambda: charts.count() == 1 and "Return against steps" in said[0]())


def test_the_marks_of_an_axis_differ(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "run", lines=3)
    with serving(tmp_path) as address:
        page = open_page(address)

        def marks(values: list[float], write: str) -> list[str]:
            return page.evaluate(f"import('./static/words.js').then((words) => words.marks({values}, words.{write}))")

        assert marks([622.3, 622.305, 622.31], "number") == ["622.3", "622.305", "622.31"]
        assert marks([0, 200, 400], "number") == ["0", "200", "400"]
        assert marks([1_000_000, 1_000_500, 1_001_000], "count") == ["1 M", "1.0005 M", "1.001 M"]
        assert marks([-3600.5, -3600.25, -3600], "number") == ["−3,600.5", "−3,600.25", "−3,600"]
        assert marks([100.2, 100.4], "duration") == ["100.2 s", "100.4 s"]


def test_further_columns_are_announced_and_shown_on_request(tmp_path: Path, open_page: Open) -> None:
    for index in range(10):
        write_run(
            tmp_path / f"run-{index}", lines=3, learning_rate=0.001 * (1 + index), gamma=0.9 if index == 9 else 0.99
        )
    with serving(tmp_path) as address:
        page = open_page(address)
        page.get_by_label("Group by").select_option("task")
        page.locator("#list .group button").click()
        page.locator("#join").uncheck()
        settings = page.locator("section[aria-label=Settings]")
        settings.locator("h2", has_text="8 of 10 columns").wait_for()
        assert settings.locator("thead th").count() == 9
        assert "gamma" in settings.inner_text(), "whatever differs is told, also in a column that is not shown"
        settings.get_by_role("button", name="show 2 more").click()
        wait_for(lambda: settings.locator("thead th").count() == 11)


def test_self_play_shows_its_elo(tmp_path: Path, open_page: Open) -> None:
    run = write_run(tmp_path / "run")
    rows = [line(200 * i, 0.5 * i, 0.0, elo=10.0 * i, points_against_random=0.9) for i in range(1, 51)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator("section[aria-label=Return] h2", has_text="Elo").wait_for()
        page.locator(".fig", has_text="Elo").wait_for()
        assert page.locator(".fig", has_text="Elo").inner_text().split() == ["500", "Elo"]
        assert is_drawn(page, "section[aria-label=Return]")


@pytest.mark.nightly
def test_curves_are_smoothed_as_plots_are(tmp_path: Path, open_page: Open) -> None:
    path = write_run(tmp_path / "run", lines=400)
    rows = [json.loads(row) for row in (path / "metrics.jsonl").read_text().splitlines()]
    x, y = (np.array([row[name] for row in rows], float) for name in ("step", "return"))
    before, after = (CHART + f"[aria-label*=' {each[-1]:.4g} at 80,000 steps']" for each in (y, smoothed(x, y, 0.15)))
    assert before != after
    with serving(tmp_path) as address:
        page = open_page(address)
        page.locator(before).wait_for()
        slider = page.get_by_role("slider", name="smooth")
        slider.fill("15")
        page.locator(after).wait_for()
        page.reload()  # it is in the address
        page.locator(after).wait_for()
        assert slider.input_value() == "15" and page.locator(".slider span").inner_text() == "15 %"
        told = page.evaluate(
            """async () => (await import("./static/smooth.js")).smoothed(
                 {x: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], y: [1, 1e30, 1, 1, 1, 1, 1, 1, 1, 1, 2]}, 0.2).y"""
        )
        assert told[4:] == [1, 1, 1, 1, 1, 1, 4 / 3]  # once a huge value is out of the window, nothing is left of it


def test_parts_that_have_not_come_yet_are_shown_as_loading(tmp_path: Path, open_page: Open) -> None:
    """Not that there is nothing: the messages of the server are held back on their way."""
    write_sweep(tmp_path / "sweep", trials=2)
    with serving(tmp_path) as address:
        page, held = open_page(address), []

        def hold(client: Any) -> None:
            client.connect_to_server().on_message(lambda message: held.append((client, message)))

        def send(count: int) -> None:
            for client, message in held[:count]:
                client.send(message)
            del held[:count]

        page.route_web_socket(re.compile("/live$"), hold)
        page.goto("about:blank")
        page.goto(address)
        page.locator("#list", has_text="loading …").wait_for()
        wait_for(lambda: page.title() and held)
        send(1)
        page.locator("#list .item").wait_for()
        for card in ("Return", "Where the time goes", "Steps a second", "The sweep", "What happened"):
            page.locator(f"section[aria-label='{card}']", has_text="loading …").wait_for()
        wait_for(lambda: page.title() and any('"kind": "sweep"' in str(message) for _, message in held))
        send(len(held))
        wait_for(lambda: not page.locator(".waits").count())
        page.locator("section[aria-label='The sweep'] polyline.trial").nth(1).wait_for(state="attached")
        wait_for(lambda: "loading" not in page.locator("main").inner_text())


def test_curves_can_be_downloaded(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "run")
    with serving(tmp_path) as address:
        page = open_page(address)
        wait_for(lambda: is_drawn(page, "section[aria-label=Return]"))
        card = page.locator("section[aria-label=Return]")
        with page.expect_download() as table:
            card.get_by_text("CSV").click()
        assert len(Path(table.value.path()).read_text().splitlines()) == 51
        with page.expect_download() as picture:
            card.get_by_text("PNG").click()
        assert Path(picture.value.path()).read_bytes().startswith(b"\x89PNG")

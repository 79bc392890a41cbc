"""The page's charts in a real browser: read, zoomed, smoothed, loaded and taken home."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import CHART, is_drawn, label, line, serving, write_run, write_sweep

from headrace.studies.plots.bands import smoothed
from programs import wait_for

Open = Callable[..., Any]


def test_charts_are_read_and_zoomed_by_pointer_and_by_keys(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "run", lines=5000)
    with serving(tmp_path) as address:
        page = open_page(address)
        chart = page.locator("section[aria-label=Return] .chart")
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


def test_what_has_yet_to_come_is_said_to_load(tmp_path: Path, open_page: Open) -> None:
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
        for card in ("Return", "The sweep", "What happened"):
            page.locator(f"section[aria-label='{card}']", has_text="loading …").wait_for()
        wait_for(lambda: page.title() and any('"kind": "sweep"' in str(message) for _, message in held))
        send(len(held))
        page.locator("section[aria-label='The sweep'] polyline.trial").nth(1).wait_for(state="attached")
        wait_for(lambda: "loading" not in page.locator("main").inner_text())


def test_curves_can_be_taken_home(tmp_path: Path, open_page: Open) -> None:
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

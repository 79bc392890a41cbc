"""Names, tags and notes of runs, which the page's server keeps in their folders; groups and hidden runs in the list."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pages import get, serving, write_run

from headrace.watch.notes import FILE, NONE, read_notes
from headrace.watch.run import Run
from programs import wait_for

NOTES = {"name": "<b>mine</b>", "tags": ["good", "first"], "text": "a\nb", "hidden": True}


def put(address: str, run: str, body: bytes, **headers: str) -> int:
    """The status of the answer."""
    return get(f"{address}runs/{run}/notes", put=body, **headers)[0]


def test_notes_are_kept_in_the_runs_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    run = Run(folder, "a")
    run.refresh()
    assert run.summary["notes"] == NONE
    with serving(tmp_path) as address:
        assert put(address, run.id, json.dumps(NOTES | {"other": 1}).encode()) == 204
        assert read_notes(folder) == NOTES
        run.refresh()
        assert run.summary["notes"] == NOTES
        assert put(address, run.id, json.dumps(NONE).encode(), Origin="http://evil.example") == 403
        assert put(address, run.id, b" " * 100_001) == 413
        assert put(address, "0" * 12, json.dumps(NONE).encode()) == 404
        assert put(address, run.id, json.dumps({"name": "x" * 1000, "tags": ["t"] * 50}).encode()) == 204
        assert read_notes(folder) == NONE | {"name": "x" * 100, "tags": ["t"]}
        (folder / FILE).unlink()
        (folder / FILE).mkdir()
        assert put(address, run.id, json.dumps(NOTES).encode()) == 409


def test_notes_that_come_in_parts_are_bounded_while_they_are_read(tmp_path: Path) -> None:
    """The length of a request is only what it says."""
    folder = write_run(tmp_path / "a")
    said = json.dumps(NOTES).encode()
    with serving(tmp_path) as address:
        where = urlsplit(address)

        def put_in_parts(blanks: int, headers: str = "") -> str:
            parts = [*[b" " * 10_000] * blanks, said]
            with socket.create_connection((str(where.hostname), int(where.port or 0)), timeout=20) as server:
                head = f"PUT /runs/{Run(folder, 'a').id}/notes HTTP/1.1\r\nHost: {where.netloc}\r\n{headers}"
                server.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
                with suppress(OSError):  # the server may have ended the connection
                    for part in (*parts, b""):
                        server.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                return server.recv(12).decode()

        for headers in ("", "Content-Length: 5\r\n"):
            assert put_in_parts(20, headers) == "HTTP/1.1 413"
            assert not (folder / FILE).exists()
        assert put_in_parts(1) == "HTTP/1.1 204"
        assert read_notes(folder) == NOTES


@pytest.mark.parametrize(
    "body", ["", "[" * 9999, "[]", '{"name": 1}', '{"tags": "a"}', '{"tags": [1]}', '{"hidden": 0}']
)
def test_malformed_notes_are_refused_and_read_as_none(tmp_path: Path, body: str) -> None:
    folder = write_run(tmp_path / "a")
    (folder / FILE).write_text(body)
    assert read_notes(folder) == NONE
    (folder / FILE).unlink()
    with serving(tmp_path) as address:
        assert put(address, Run(folder, "a").id, body.encode()) == 400
    assert not (folder / FILE).exists()


def test_runs_are_named_tagged_hidden_and_grouped(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    for rate in (0.1, 0.01):
        for seed in (1, 2):
            write_run(tmp_path / f"{rate}-{seed}", learning_rate=rate, seed=seed)
    with serving(tmp_path) as address:
        page = open_page(address)
        items, keys = page.locator("#list .item"), page.locator("section[aria-label=Return] .key button")
        page.locator("#list .item", has_text="learning_rate 0.1").click()
        page.get_by_text("Name, tags, notes").click()
        page.get_by_label("Name").fill("<b>mine</b>")
        page.get_by_label("Tags").fill("good, first ,")
        page.get_by_label("Notes").fill("as it was")
        page.get_by_label("Notes").blur()
        page.locator("h1", has_text="<b>mine</b>").wait_for()
        page.locator(".head .state", has_text="good, first · as it was").wait_for()
        page.locator("#list .item", has_text="<b>mine</b>").get_by_text("good, first").wait_for()
        assert read_notes(tmp_path / "0.1-1") == read_notes(tmp_path / "0.1-2")  # of both seeds of the line
        page.locator("#filter").fill("first")
        wait_for(lambda: items.count() == 1)
        page.locator("#filter").fill("")

        page.get_by_label("Group by").select_option("learning_rate")
        headings = page.locator("#list .group")
        wait_for(lambda: headings.all_inner_texts() == ["learning_rate 0.01", "learning_rate 0.1"])
        page.get_by_label("Group by").select_option("task")
        wait_for(lambda: headings.all_inner_texts() == ["task CartPole-v1"])
        page.locator("#list .group button").click()  # all of the group, as one line
        wait_for(lambda: keys.all_inner_texts() == ["task CartPole-v1 · 4 runs, mean and 95 % interval"])
        page.reload()
        wait_for(lambda: keys.all_inner_texts() == ["task CartPole-v1 · 4 runs, mean and 95 % interval"])
        page.get_by_label("Group by").select_option("tags")  # a run of several tags is in the group of each
        wait_for(lambda: headings.all_inner_texts() == ["tags first", "tags good", "tags none"])
        page.get_by_role("button", name="tags good", exact=True).click()
        wait_for(lambda: sorted(each[:11] for each in keys.all_inner_texts()) == ["tags first ", "tags good ·"])
        page.get_by_label("Group by").select_option("")
        wait_for(lambda: items.count() == 2)

        page.locator("#list .item", has_text="<b>mine</b>").click()
        page.get_by_text("Name, tags, notes").click()
        page.get_by_label("hide in the list").check()
        wait_for(lambda: items.count() == 1)
        assert page.locator("#count").inner_text() == "2 of 4 runs"
        page.get_by_label("hidden", exact=True).check()
        wait_for(lambda: items.count() == 2)

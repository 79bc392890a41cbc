"""Where there are no runs yet, the page shows the zoo's agents, and plays them live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import get, serving

from headrace.errors import StorageError
from headrace.train.runs import zoo
from headrace.watch.notes import NONE, write_notes
from programs import wait_for

NAME = "CartPole-v1"
PATIENCE = 300.0  # seconds until a player has imported torch, on a machine that has other things to do


def test_without_runs_the_agents_are_shown_and_played(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    with serving(cwd=tmp_path) as address:
        page = open_page(address)
        assert page.locator(".card").count() == len(zoo.agents())
        card = page.locator(f".card[aria-label='{NAME}']")
        assert f"headrace train {NAME} --seed" in card.locator("code").inner_text()
        wait_for(lambda: card.locator("img").evaluate("each => each.complete && each.naturalWidth > 50"))
        card.locator("a").click()
        page.locator("h1", has_text="CartPole").wait_for()
        page.get_by_role("tab", name="best, at play").click()
        agent = page.locator("section[aria-label='The agent']")
        wait_for(lambda: agent.locator(".bars b", has_text="%").count() == 2, PATIENCE)
    assert not (zoo.agent_folder(NAME) / "watched").exists()


def test_pictures_are_of_agents_alone(tmp_path: Path) -> None:
    with serving(f"zoo:{NAME}", cwd=tmp_path) as address:
        status, headers, content = get(f"{address}gallery/{NAME}.gif")
        assert status == 200 and headers["content-type"] == "image/gif" and content.startswith(b"GIF89a")
        for other in ("Missing-v0", "..%2f..%2fheadrace_zoo%2fCartPole-v1%2fagent", f"%2e%2e%2f{NAME}"):
            assert get(f"{address}gallery/{other}.gif")[0] == 404
        assert b"main.js" in get(address)[2] == get(f"{address}runs")[2]


def test_an_agent_takes_no_notes() -> None:
    with pytest.raises(StorageError, match=f"zoo:{NAME} is an agent of the zoo, which takes no notes"):
        write_notes(zoo.agent_folder(NAME), NONE)

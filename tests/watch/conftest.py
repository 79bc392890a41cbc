"""A browser without a window, for the tests of the page; what it complains about fails the test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

SLOW = 120_000  # milliseconds until a page that a busy machine shows is given up
ENDED = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_CONNECTION_CLOSED", "ERR_EMPTY_RESPONSE")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium of the system, driven by playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a window of its own; no error in its console, and no request that leaves the machine."""
    contexts, wrong = [], []

    def look(
        address: str,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        lost: bool = False,
        also: str | None = None,
    ) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(SLOW)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        if not lost:
            page.on("console", lambda said: _is_wrong(said) and wrong.append(said.text))
        here = {urlsplit(each).netloc for each in (address, also) if each}
        page.on("request", lambda asked: _is_foreign(asked.url, here) and wrong.append(f"request: {asked.url}"))
        page.goto(address)
        return page

    yield look
    for context in contexts:
        context.close()
    assert wrong == []


def _is_wrong(said: Any) -> bool:
    """Whether the console complains; that a server has ended before its page has is no fault."""
    return said.type in ("error", "warning") and not any(each in said.text for each in ENDED)


def _is_foreign(url: str, here: set[str]) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("blob", "data") and parts.netloc not in here

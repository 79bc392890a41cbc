"""Makes the screenshots of `headrace watch`: real runs, one of them training, and a sweep, in a real browser.

python docs/images/watch.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = 1440, 1080
HEADRACE = (sys.executable, "-m", "headrace.cli.main")
OVER = {
    "seed-1": ["CartPole-v1", "--seed", "1"],
    "seed-2": ["CartPole-v1", "--seed", "2"],
    "seed-3": ["CartPole-v1", "--seed", "3"],
    "slower": ["CartPole-v1", "--learning-rate", "0.0005"],
    "acrobot": ["Acrobot-v1"],
}
SWEEP = ["--space", "learning_rate=1e-4..3e-2:log", "num_steps=16,32,64", "gamma=0.9..0.999", "entropy_coef=0..0.05",
         "--trials", "24", "--total-steps", "40000", "--sampler", "random"]  # fmt: skip
LIVE = ["Pendulum-v1", "--algo", "sac", "--total-steps", "300000", "--stop-at-return", "0"]
LEARNT = 45.0  # seconds of training before the pictures


def command(folder: Path, what: str, name: str, arguments: list[str]) -> list[str]:
    """The command of a run, or of a sweep."""
    return [*HEADRACE, what, *arguments, "--quiet", "--run-dir", str(folder / "runs" / name)]


def shots(page: Page, address: str) -> None:
    """One of a run with its agent, light and dark, and one of several runs."""
    page.goto(address)
    page.locator(".chip", has_text="running").wait_for()
    page.locator("[data-key=live]").click()
    page.locator("section[aria-label='The agent'] canvas").wait_for(timeout=90_000)
    note(page, "baseline", "SAC as it comes")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        time.sleep(6.0)
        save(page, f"watch-{scheme}")
    page.emulate_media(color_scheme="light")
    page.locator("#list .item", has_text="× 3").click()
    note(page, "baseline", "the default rate")
    page.locator("#list .item", has_text="× 3").get_by_text("baseline").wait_for()
    page.locator("#clear").click()
    for row in page.locator("#list .item", has_text="CartPole", has_not_text="sweep").all():
        row.locator("input").click()
    page.locator("section[aria-label=Return] .key", has_text="95 %").wait_for()
    box = page.locator("section[aria-label=Return] .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.4)
    time.sleep(3.0)
    save(page, "watch-compare")
    page.locator("#list .item", has_text="sweep of").click()
    card = page.locator("section[aria-label='The sweep']")
    card.locator(".shares .bars").wait_for()
    card.scroll_into_view_if_needed()
    card.screenshot(path=HERE / "watch-sweep.png")


def note(page: Page, tags: str, text: str) -> None:
    """Tag and describe the run that is shown."""
    page.get_by_text("Name, tags, notes").click()
    page.get_by_label("Tags").fill(tags)
    page.get_by_label("Notes").fill(text)
    page.get_by_label("Notes").blur()
    page.locator(".head .state", has_text=f"{tags} · {text}").wait_for()
    page.get_by_text("Name, tags, notes").click()


def save(page: Page, name: str) -> None:
    """Write what the window shows."""
    page.screenshot(path=HERE / f"{name}.png")


def main() -> None:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit("no Chromium is installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, arguments in OVER.items():
            subprocess.run(command(folder, "train", name, arguments), check=True, stdout=subprocess.DEVNULL)
        sweep = command(folder, "sweep", "sweep", ["CartPole-v1", *SWEEP])
        subprocess.run(sweep, check=True, stdout=subprocess.DEVNULL)
        watch = [*HEADRACE, "watch", "--no-browser", "--port", "0"]
        with (
            subprocess.Popen(command(folder, "train", "first", LIVE)) as training,
            subprocess.Popen(watch, stdout=subprocess.PIPE, text=True, cwd=folder) as server,
            sync_playwright() as driver,
        ):
            try:
                assert server.stdout
                address = server.stdout.readline().split()[1]
                time.sleep(LEARNT)
                browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
                shots(browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}), address)
                browser.close()
            finally:
                training.terminate()
                server.terminate()


if __name__ == "__main__":
    main()

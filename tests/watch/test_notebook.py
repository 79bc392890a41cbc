"""The page in a notebook: a frame over a server that ends with the kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import get, write_run

from headrace.errors import OptionError
from headrace.watch.notebook import show
from programs import wait_for


def test_a_frame_shows_the_page_until_it_is_closed(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    page = show(tmp_path / "runs", height=500)
    assert get(page.address)[0] == 200
    assert f'src="{page.address}"' in page._repr_html_() and 'height="500"' in page._repr_html_()
    page.close()
    assert not answers(page.address)


@pytest.mark.parametrize("end", ["", "import os; os.kill(os.getpid(), 9)"])
def test_the_server_ends_with_its_python(tmp_path: Path, end: str) -> None:
    code = f"from headrace.watch.notebook import show; print(show().address, flush=True); {end}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (tmp_path / "runs").is_dir()  # where runs are going to be
    wait_for(lambda: not answers(done.stdout.strip()))


def answers(address: str) -> bool:
    try:
        return get(address)[0] == 200
    except OSError:
        return False


def test_a_file_is_no_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="is not a folder of runs"):
        show(tmp_path / "file")


def test_another_page_of_this_machine_may_frame_it(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    write_run(tmp_path / "runs" / "a")
    page, around = show(tmp_path / "runs"), tmp_path / "around"
    around.mkdir()
    (around / "index.html").write_text(f"<link rel=icon href=data:,>{page._repr_html_()}")
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(around)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout
            port = server.stdout.readline().split(" port ")[1].split()[0]
            shown = open_page(f"http://127.0.0.1:{port}/", also=page.address)
            frame = shown.frame_locator("iframe")
            frame.locator("h1", has_text="CartPole").wait_for()
            wait_for(lambda: frame.locator("section[aria-label=Return] canvas").count() == 1)
        finally:
            server.terminate()
            page.close()

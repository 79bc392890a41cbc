"""The page of trained agents shows those of the zoo, each with a small picture that moves."""

from __future__ import annotations

import runpy
from pathlib import Path

from PIL import Image

from headrace.train.runs import zoo

HOME = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(HOME / "docs" / "gallery.py"))
MOST, MOST_OF_ALL = 400_000, 5_000_000  # bytes of pictures


def test_the_page_shows_the_agents_of_now() -> None:
    text = SCRIPT["PAGE"].read_text()
    assert text == SCRIPT["page"](text), "run docs/gallery.py"
    assert f"[{len(zoo.agents())}](docs/gallery.md)" in (HOME / "README.md").read_text()


def test_every_agent_has_a_small_picture_that_moves() -> None:
    sizes = []
    for folder in zoo.agents().values():
        picture = folder / zoo.PICTURE
        sizes.append(picture.stat().st_size)
        with Image.open(picture) as frames:
            assert getattr(frames, "n_frames", 1) >= 10 and max(frames.size) >= 150
    assert max(sizes) < MOST and sum(sizes) < MOST_OF_ALL

"""The documentation describes every task as the tasks describe themselves."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from headrace.envs import FAMILIES
from headrace.errors import OptionError
from nightly import rest_nightly

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "families.py"))
PAGES = SCRIPT["PAGES"]
LARGE = ("atari", "dm_control")  # a hundred tasks, each of which is made
MOST, MOST_OF_ALL = 200_000, 1_500_000  # bytes of pictures


@pytest.mark.parametrize("family", rest_nightly(PAGES, *(name for name in PAGES if name not in LARGE)))
def test_a_page_describes_the_tasks_of_its_family(family: str) -> None:
    text = PAGES[family].read_text()
    try:
        wanted = SCRIPT["with_section"](text, family)
    except (ImportError, OptionError) as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error))
    assert text == wanted, "run docs/families.py"
    assert SCRIPT["facts"](family).get("options") != "table" or not SCRIPT["untold"](family, text), (
        "in the page's table of options"
    )


def test_every_family_has_a_small_picture_in_its_page() -> None:
    sizes = []
    assert PAGES.keys() == {name for name, family in FAMILIES.items() if family.tasks}
    for family, page in PAGES.items():
        picture = SCRIPT["picture"](family)
        sizes.append(picture.stat().st_size)
        assert f"](images/{picture.name})" in page.read_text()
    assert max(sizes) < MOST and sum(sizes) < MOST_OF_ALL

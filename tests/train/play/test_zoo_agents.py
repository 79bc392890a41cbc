"""Every agent of the zoo plays as well as its card says, and holds files of moderate size that are no code."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

import pytest

from headrace.train.play.evaluate import evaluate
from headrace.train.play.ladder import evaluate_against_random
from headrace.train.runs import zoo

GAMES, SEED = 4, 9_000
KINDS = {".json", ".jsonl", ".safetensors", ".gif", ""}
"""suffixes of the files of an agent; SHA256SUMS has none"""

NEEDED = {"Craftax-Classic-Pixels-v1": "craftax"}
"""tasks → packages that no extra installs, as they would bring too much with them"""


@pytest.mark.parametrize("name", zoo.agents())
def test_an_agent_earns_what_its_card_says(name: str) -> None:
    if name in NEEDED and find_spec(NEEDED[name]) is None:
        pytest.skip(f"needs {NEEDED[name]}")
    card = zoo.read_card(zoo.agents()[name])
    points = evaluate_against_random(f"zoo:{name}", GAMES, seed=SEED)
    assert (points is not None) == card.against_random
    played = points or evaluate(f"zoo:{name}", GAMES, seed=SEED)
    chance = 4 * card.deviation / math.sqrt(GAMES)
    assert abs(played.mean_return - card.mean) <= 0.05 * abs(card.mean) + chance
    assert len(card.returns) == 100 and card.licence == "MIT" and f"train {card.task} " in card.command


def test_the_zoo_is_small_and_holds_no_code() -> None:
    (home,) = {folder.parent for folder in zoo.agents().values()}
    files = [file for folder in zoo.agents().values() for file in folder.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= KINDS
    assert max(file.stat().st_size for file in files) < 1 << 20
    assert sum(file.stat().st_size for file in files if file.suffix != ".gif") < 8 << 20
    assert [path.name for path in home.glob("*.py")] == ["__init__.py"]
    assert all(folder.name == zoo.read_card(folder).task for folder in map(Path, zoo.agents().values()))

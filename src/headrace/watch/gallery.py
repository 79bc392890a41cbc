"""The page of the zoo's agents at play, which ``headrace watch`` opens where there are no runs yet."""

from __future__ import annotations

from html import escape
from pathlib import Path

from headrace.train.runs import zoo
from headrace.train.runs.words import return_text
from headrace.watch.files import identity

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Trained agents · Headrace</title>
<link rel="icon" href="static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="static/style.css">
<link rel="stylesheet" href="static/parts.css">
</head>
<body>
<main class="gallery">
<h1>Trained agents</h1>
<p class="soft">There are no runs here yet: <code>headrace train CartPole-v1</code> makes the first one. These agents
come with Headrace; a click opens the page of one, which plays it live. Seconds are those of a processor, returns the
mean of 100 games.</p>
<div class="row">
{cards}
</div>
</main>
</body>
</html>
"""
CARD = """<section class="card s3" aria-label="{name}">
<h2>{name}<span>{earned} after {spent}</span></h2>
<a href="runs#runs={run}"><img src="gallery/{name}.gif" alt="{name} at play" loading="lazy"></a>
<code>{command}</code>
</section>"""


def page() -> str:
    """Returns the page as HTML, with a card for each agent."""
    cards = [_card(name, folder) for name, folder in zoo.agents().items()]
    return PAGE.replace("{cards}", "\n".join(cards))


def picture(name: str) -> Path | None:
    """Returns the picture of an agent at play; None if there is no agent of this name, or no picture of it."""
    folder = zoo.agents().get(name)
    return folder / zoo.PICTURE if folder is not None and (folder / zoo.PICTURE).is_file() else None


def _card(name: str, folder: Path) -> str:
    card = zoo.read_card(folder)
    spent = "-" if card.processor_seconds is None else f"{card.processor_seconds:,.0f} s"
    earned = f"{card.mean:.0%} against random moves" if card.against_random else return_text(card.mean)
    told = {"name": name, "earned": earned, "spent": spent, "command": card.command}
    return CARD.format(run=identity(folder), **{key: escape(value) for key, value in told.items()})

"""Draws the zoo's agents at play, and writes the page that shows them.

    python docs/gallery.py                     # the page
    python docs/gallery.py --draw              # and all pictures
    python docs/gallery.py --draw Ant-v5       # or some

A picture is a GIF beside the agent's card, of its first seconds on a seed that training has not seen, in real time. It
is drawn for fewer seconds, smaller or with fewer colours until it has at most `LARGEST` bytes.
"""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from headrace.envs import FAMILIES
from headrace.pool.registry import family_of
from headrace.train.runs import zoo
from headrace.train.runs.words import return_text

PAGE = Path(__file__).with_name("gallery.md")
BEGIN, END = "<!-- agents: docs/gallery.py writes this -->", "<!-- /agents -->"
ACROSS = 3  # agents in a row
SEED, SEEDS = 5, {"G1Nano-v0": 11}  # by the first the robot is told to stand
FOLLOWED = {"CheetahRun-v1": 0, "QuadrupedWalk-v1": 1, "WalkerWalk-v1": 0}
"""robots that run away from the default camera → the number of one that follows"""
LOOKS = tuple(itertools.product((240, 200, 160), (64, 32), (6.0, 4.0)))
"""largest side in pixels, number of colours, and seconds; the first that is small enough is taken"""
RATE = 12.5  # pictures per second
LARGEST = 250_000  # bytes of a picture


def page(text: str) -> str:
    """The page's text with the agents of now, those of a family beside each other."""
    cells = [_cell(name) for name in sorted(zoo.agents(), key=lambda name: ([*FAMILIES].index(_family(name)), name))]
    cells += [""] * (-len(cells) % ACROSS)
    rows = [f"| {' | '.join(cells[i : i + ACROSS])} |" for i in range(0, len(cells), ACROSS)]
    table = ["|" + " |" * ACROSS, "|" + "---|" * ACROSS, *rows]
    head, rest = text.split(BEGIN)
    return "\n".join([head + BEGIN, "", *table, "", END + rest.split(END)[1]])


def _cell(name: str) -> str:
    card = zoo.read_card(zoo.agent_folder(name))
    picture = f"![{name} at play](../zoo/{zoo.PACKAGE}/{name}/{zoo.PICTURE})"
    spent = f"{card.processor_seconds:,.0f} s" if card.processor_seconds is not None else "-"
    earned = f"{return_text(card.mean)} ± {return_text(card.deviation)}"
    if card.against_random:
        earned = f"{card.mean:.0%} of the points against random moves"
    return f"{picture}<br>**{name}** ({_family(name)}): {earned} after {spent}<br>`{card.command}`"


def _family(task: str) -> str:
    family = family_of(task)
    assert family is not None
    return family.name


def draw(name: str) -> int:
    """Draws an agent at play; returns the size of the picture in bytes."""
    frames = list(_frames(name, max(seconds for _, _, seconds in LOOKS)))
    content = b""
    for side, colours, seconds in LOOKS:
        content = _gif(frames[: round(seconds * RATE)], side, colours)
        if len(content) <= LARGEST:
            break
    (zoo.agent_folder(name) / zoo.PICTURE).write_bytes(content)
    return len(content)


def _frames(name: str, seconds: float) -> Iterator[np.ndarray]:
    """Yields what an agent does in whole games, one after the other, as pictures uint8[height, width, 3].

    Many agents sample their actions, as in training: without, those that see the same would all do the same.
    """
    from headrace.train.modules.action_masks import MASK
    from headrace.train.play.agent import Agent, load_checkpoint
    from headrace.train.play.evaluate import playing_pool
    from headrace.train.play.video import plain
    from headrace.train.runs.folder import RunFolder

    run, config = RunFolder.open(f"{zoo.PREFIX}{name}")
    looks = plain(config) | ({"render_camera_id": FOLLOWED[name]} if name in FOLLOWED else {})
    with playing_pool(config, lives=True, num_envs=1, seed=SEEDS.get(config.task, SEED), **looks) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(run))
        obs, info = pool.reset()
        yield pool.render()[0]
        shown = 1
        for step in range(1, round(seconds * pool.spec.render_fps) + 1):
            actions = agent.act(obs, not pool.spec.agents, info.get(MASK))
            obs, _, terminated, truncated, info = pool.step(actions)
            agent.reset(terminated | truncated)
            if step / pool.spec.render_fps >= shown / RATE:
                shown += 1
                yield pool.render()[0]


def _gif(frames: list[np.ndarray], side: int, colours: int) -> bytes:
    """Returns pictures as a GIF that repeats, with one palette, so that what does not move costs nothing."""
    height, width = frames[0].shape[:2]
    scale = side / max(height, width)
    size = (round(width * scale), round(height * scale))
    how = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS
    small = [Image.fromarray(frame).resize(size, how) for frame in frames]
    every = Image.fromarray(np.concatenate([np.asarray(each) for each in small[:: max(1, len(small) // 8)]]))
    palette = every.quantize(colours, Image.Quantize.MEDIANCUT)
    pictures = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in small]
    file = io.BytesIO()
    times = {"duration": round(1000 / RATE), "loop": 0, "optimize": True}
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], **times)
    return file.getvalue()


if __name__ == "__main__":
    asked = sys.argv[1:]
    if asked[:1] == ["--draw"]:
        for agent in asked[1:] or zoo.agents():
            print(f"{agent}: {draw(agent):,} bytes", flush=True)
    PAGE.write_text(page(PAGE.read_text()))

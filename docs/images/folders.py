"""Draws ``folders.svg``, the folders of Headrace in the order of their imports: python docs/images/folders.py

Each folder may import those below it, and none above.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

WIDTH, LEFT, ROW, GAP = 900, 20, 34, 6
BLUE, GREEN, SAND, GREY = "#dbe9f6", "#e3f1e1", "#f7efdc", "#eeeeee"
# from the last folder to import to the first: folder, contents, the question that it answers
STUDIES = [
    ("leaderboard", "seconds to a return, for a list of tasks", ""),
    ("sweep", "searches for settings", ""),
    ("tuning", "measures a machine, and chooses settings", ""),
    ("jobs", "several runs at once, in processes", "where several seeds are trained"),
    ("plots", "curves of many runs, bands over seeds", ""),
]
TRAIN = [
    ("launch", "checks settings, begins or goes on", "what train() does first"),
    ("runners", "the training loop", "where a run is trained"),
    ("cluster", "samplers as Ray actors on other nodes", ""),
    ("workers", "samplers, learners, evaluator", "what a worker process does"),
    ("play", "evaluation, videos, logged episodes", ""),
    ("collect", "pools and policies fill rollouts", "where an episode ends"),
    ("recipes", "algorithms by name, the best of their presets", "what a run begins with"),
    ("algorithms", "PPO, A2C, PQN, DQN, SAC, TD3, …", "where a loss is computed"),
    ("storage", "samples, minibatches, replays, priorities", "where a batch is formed"),
    ("modules", "networks, distributions, normalisation", ""),
    ("processes", "start, supervise, share memory", "where a process is started"),
    ("logging", "metrics, dashboard, timers, a run's plot", ""),
    ("runs", "run folder, checkpoints, lock, trust", "where a run is written"),
    ("settings", "records of settings, and who has them", ""),
]
POOL = [
    ("views", "Gymnasium, EnvPool, dm_env, players, xla"),
    ("executors", "threads, processes, kernels, mujoco, device"),
    ("torch", "pools of tensors on one device"),
]


def text(x: float, y: float, words: str, style: str = "") -> str:
    """A line of text whose baseline is at y."""
    return f'<text x="{x:g}" y="{y:g}"{" " + style if style else ""}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A rectangle with rounded corners."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="#888888"/>'


def row(x: float, y: float, width: float, fill: str, name: str, contents: str, answer: str = "") -> list[str]:
    """A folder: its name, what it contains, and on the right what is decided there."""
    parts = [box(x, y, width, ROW, fill), text(x + 14, y + 22, name, 'font-weight="bold"')]
    parts.append(text(x + 130, y + 22, contents))
    if answer:
        parts.append(text(x + width - 14, y + 22, answer, 'text-anchor="end" font-style="italic" fill="#8a3b12"'))
    return parts


def picture() -> str:
    """The whole drawing as SVG."""
    inner, parts, y = WIDTH - 2 * LEFT - 40, [], 20.0
    parts += row(LEFT, y, WIDTH - 2 * LEFT, SAND, "cli/", "the command headrace, a module for each subcommand")
    y += ROW + GAP
    for package, folders in (("studies/", STUDIES), ("train/", TRAIN)):
        parts.append(box(LEFT, y, WIDTH - 2 * LEFT, 34 + len(folders) * (ROW + GAP) + 6, "#ffffff"))
        parts.append(text(LEFT + 14, y + 22, package, 'font-weight="bold"'))
        y += 34
        top = y
        for name, contents, answer in folders:
            parts += row(LEFT + 44, y, inner - 20, BLUE, name, contents, answer)
            y += ROW + GAP
        arrow = f"M {LEFT + 24} {top + 4:g} V {y - GAP - 12:g}"
        parts.append(f'<path d="{arrow}" stroke="#555555" fill="none" marker-end="url(#head)"/>')
        middle = (top + y) / 2
        turned = f'text-anchor="middle" transform="rotate(-90 {LEFT + 18} {middle:g})" fill="#555555"'
        parts.append(text(LEFT + 18, middle, "imports", turned))
        y += 6 + GAP
    third = (WIDTH - 2 * LEFT - 2 * GAP) / 3
    names = [("testing/", "checks of a task"), ("adapters/", "other libraries"), ("envs/", "task families")]
    for i, (name, contents) in enumerate(names):
        x = LEFT + i * (third + GAP)
        parts += [box(x, y, third, ROW, SAND), text(x + 14, y + 22, name, 'font-weight="bold"')]
        parts.append(text(x + 110, y + 22, contents))
    y += ROW + GAP
    parts.append(box(LEFT, y, WIDTH - 2 * LEFT, 34 + len(POOL) * (ROW + GAP) + 6, "#ffffff"))
    parts.append(text(LEFT + 14, y + 22, "pool/", 'font-weight="bold"'))
    parts.append(text(LEFT + 80, y + 22, "batches of environments behind one API; independent of learning"))
    y += 34
    for name, contents in POOL:
        parts += row(LEFT + 44, y, inner - 20, GREEN, name, contents)
        y += ROW + GAP
    y += 6 + GAP
    parts += row(LEFT, y, WIDTH - 2 * LEFT, GREY, "native/", "C++: engine, atari, mujoco")
    head = (
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="4" refY="4" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 Z" fill="#555555"/></marker></defs>'
    )
    size = f'width="{WIDTH}" height="{y + ROW + 20:g}" viewBox="0 0 {WIDTH} {y + ROW + 20:g}"'
    style = 'font-family="Helvetica, Arial, sans-serif" font-size="14"'
    white = f'<rect width="{WIDTH}" height="{y + ROW + 20:g}" fill="#ffffff"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', head, white, *parts, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture())

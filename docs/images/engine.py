"""Draws how each executor takes a step: python docs/images/engine.py

Boxes bring their own light background, and what stands outside of them is grey, so the pictures read on white and on
black.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
PROGRAM, POOL, ENVS, MEMORY, CODE = "#f6ead2", "#dce8f6", "#dff0d8", "#e9e1f4", "#f9dfdb"
INK, OUTSIDE, EDGE = "#1f2328", "#7b808a", "#9aa0a8"
THREADS = ("#8ec07c", "#7aa6da", "#e0a458")
WIDTH = 760


class Drawing:
    """Boxes, arrows and words on a transparent ground."""

    def __init__(self, height: float):
        self.height = height
        self.parts: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, fill: str, *lines: str, bold: bool = True) -> None:
        """A rounded box with centred lines of text, the first in bold."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" fill="{fill}" stroke="{EDGE}"/>'
        )
        top = y + h / 2 - (len(lines) - 1) * 9 + 5
        for i, line in enumerate(lines):
            weight = ' font-weight="bold"' if bold and i == 0 else ""
            place = f'x="{x + w / 2:g}" y="{top + 18 * i:g}" text-anchor="middle"'
            self.parts.append(f'<text {place} fill="{INK}"{weight}>{escape(line)}</text>')

    def panel(self, x: float, y: float, w: float, h: float, title: str) -> None:
        """A dashed frame around what belongs together, with a title above its left corner."""
        dashed = f'fill="none" stroke="{OUTSIDE}" stroke-dasharray="5 4"'
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="8" {dashed}/>')
        self.words(x + 8, y - 7, title, anchor="start")

    def words(self, x: float, y: float, text: str, anchor: str = "middle") -> None:
        """A line of grey text outside of boxes."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{OUTSIDE}">{escape(text)}</text>')

    def arrow(self, points: Sequence[tuple[float, float]], both: bool = False) -> None:
        """A line through points, with a head at its end."""
        path = "M " + " L ".join(f"{x:g} {y:g}" for x, y in points)
        heads = 'marker-end="url(#end)"' + (' marker-start="url(#start)"' if both else "")
        self.parts.append(f'<path d="{path}" fill="none" stroke="{OUTSIDE}" stroke-width="1.6" {heads}/>')

    def rows(self, x: float, y: float, w: float, fills: Sequence[str], height: float = 16) -> None:
        """Rows of an array, one below the other."""
        for i, fill in enumerate(fills):
            place = f'x="{x:g}" y="{y + i * height:g}" width="{w:g}" height="{height:g}"'
            self.parts.append(f'<rect {place} fill="{fill}" stroke="{EDGE}"/>')

    def save(self, name: str) -> None:
        """Write ``engine-<name>.svg``."""
        triangle = f'<path d="M 0 0 L 8 4 L 0 8 Z" fill="{OUTSIDE}"/></marker>'
        size = 'markerWidth="8" markerHeight="8" refY="4" orient="auto-start-reverse"'
        ends = "".join(f'<marker id="{each}" {size} refX="7">{triangle}' for each in ("end", "start"))
        head = f'viewBox="0 0 {WIDTH} {self.height:g}" width="{WIDTH}" height="{self.height:g}"'
        font = 'font-family="Helvetica, Arial, sans-serif" font-size="13"'
        body = "\n".join(self.parts)
        text = f'<svg xmlns="http://www.w3.org/2000/svg" {head} {font}>\n<defs>{ends}</defs>\n{body}\n</svg>\n'
        (HERE / f"engine-{name}.svg").write_text(text)


def threads() -> None:
    """Native simulators on threads."""
    d = Drawing(270)
    d.box(10, 60, 130, 60, PROGRAM, "your program", "step(actions)")
    d.box(10, 160, 130, 46, CODE, "one counter", "next chunk", bold=True)
    d.words(75, 226, "each thread claims")
    d.words(75, 242, "chunks until none is left")
    d.panel(190, 40, 240, 190, "threads: the caller, and helpers")
    for i, name in enumerate(("calling thread", "helper 1", "helper 2")):
        d.box(205, 55 + 58 * i, 96, 46, THREADS[i], *name.split(" ", 1))
        d.box(317, 55 + 58 * i, 98, 46, ENVS, "environments", f"{4 * i} … {4 * i + 3}", bold=False)
        d.arrow([(301, 78 + 58 * i), (316, 78 + 58 * i)])
    d.arrow([(140, 90), (189, 90)])
    d.arrow([(140, 183), (189, 183)])
    d.words(600, 33, "the batch: the arrays that you receive")
    for x, name in ((500, "obs"), (590, "reward"), (660, "info")):
        d.rows(x, 62, {"obs": 80}.get(name, 60), [THREADS[i // 4] for i in range(12)], 13)
        d.words(x + {"obs": 40}.get(name, 30), 54, name)
    for i in range(3):
        d.arrow([(415, 78 + 58 * i), (499, 88 + 52 * i)])
    d.words(610, 236, "row i is environment i's,")
    d.words(610, 252, "written in place, never copied")
    d.save("threads")


def kernels() -> None:
    """Environments that are functions over arrays."""
    d = Drawing(262)
    d.box(10, 90, 130, 60, PROGRAM, "your program", "step(actions)")
    d.words(245, 33, "state: arrays, one row each")
    for x, name in ((185, "x"), (225, "speed"), (275, "episode")):
        d.rows(x, 62, 36, [MEMORY] * 9, 17)
        d.words(x + 18, 54, name)
    d.panel(345, 40, 130, 190, "one launch")
    for i, line in enumerate(("step", "count, truncate", "reset if over", "observe")):
        d.box(357, 52 + 44 * i, 106, 34, CODE, line, bold=False)
        if i < 3:
            d.arrow([(410, 86 + 44 * i), (410, 95 + 44 * i)])
    d.words(410, 250, "compiled by Warp, for all rows")
    d.arrow([(140, 120), (180, 120)])
    d.arrow([(314, 138), (344, 138)], both=True)
    d.words(620, 33, "the batch: the arrays that you receive")
    for x, name in ((525, "obs"), (605, "reward"), (675, "info")):
        d.rows(x, 62, 60, [ENVS] * 9, 17)
        d.words(x + 30, 54, name)
    d.arrow([(475, 138), (524, 138)])
    d.words(235, 236, "many: threads share them")
    d.save("kernels")


def processes() -> None:
    """Environments that are Python objects."""
    d = Drawing(270)
    d.box(10, 60, 140, 60, PROGRAM, "your program", "step(actions)")
    d.words(80, 150, "sleeps on a futex")
    d.words(80, 166, "while nothing is done")
    d.panel(200, 40, 260, 200, "shared memory, without a name")
    for i in range(2):
        d.box(215, 58 + 52 * i, 230, 42, MEMORY, f"requests of worker {i}", "made 7 · served 6", bold=True)
    d.rows(215, 168, 230, [ENVS] * 4, 14)
    d.words(330, 236, "rows of the batch")
    d.panel(520, 40, 230, 200, "worker processes")
    for i in range(2):
        d.box(
            535, 58 + 92 * i, 200, 72, ENVS, f"worker {i}", f"env {2 * i}: reset, step", f"env {2 * i + 1}: reset, step"
        )
    d.arrow([(150, 79), (214, 79)])
    d.arrow([(445, 79), (534, 79)])
    d.arrow([(445, 131), (500, 131), (500, 180), (534, 180)])
    d.arrow([(534, 205), (447, 195)])
    d.arrow([(534, 112), (485, 112), (485, 180), (447, 180)])
    d.arrow([(214, 196), (80, 196), (80, 176)])
    d.words(120, 216, "the arrays that you receive")
    d.words(380, 262, "a worker that dies takes nothing with it: memory and counters outlive it")
    d.save("processes")


def mujoco() -> None:
    """Robots: MuJoCo's physics on threads, a task's functions behind it."""
    d = Drawing(290)
    d.words(95, 33, "states: compact rows")
    d.rows(20, 50, 150, [THREADS[0], THREADS[1], MEMORY, MEMORY, MEMORY, MEMORY, MEMORY], 20)
    for i in range(7):
        d.parts.append(f'<text x="95" y="{65 + 20 * i}" text-anchor="middle" fill="{INK}">environment {i}</text>')
    d.box(20, 222, 150, 44, MEMORY, "one mjModel", "for all")
    d.panel(230, 40, 340, 200, "each thread lends an environment its mjData for a step")
    for i in range(2):
        y = 58 + 92 * i
        d.box(245, y, 92, 72, THREADS[i], f"thread {i}", "mjData")
        d.box(355, y, 84, 72, CODE, "mj_step", "× frame_skip")
        d.box(457, y, 100, 72, ENVS, "your functions", "reward, end,", "observation")
        d.arrow([(337, y + 36), (354, y + 36)])
        d.arrow([(439, y + 36), (456, y + 36)])
    d.arrow([(170, 60), (228, 82)], both=True)
    d.arrow([(170, 80), (228, 174)], both=True)
    d.words(400, 262, "the functions are Python, compiled by Warp, and called by their address:")
    d.words(400, 279, "no Python in a step")
    d.words(675, 33, "the batch")
    d.rows(620, 50, 110, [THREADS[0], THREADS[1], *[ENVS] * 5], 20)
    d.arrow([(557, 94), (619, 62)])
    d.arrow([(557, 186), (619, 84)])
    d.words(675, 212, "row i is")
    d.words(675, 228, "environment i's")
    d.save("mujoco")


def device() -> None:
    """Tensors on a GPU."""
    d = Drawing(262)
    d.box(10, 60, 130, 76, PROGRAM, "your program", "(on the host)", "graph.replay()")
    d.words(75, 158, "one call a rollout;")
    d.words(75, 174, "nothing is copied")
    d.panel(190, 40, 560, 178, "GPU: one CUDA graph, num_steps times")
    d.box(205, 58, 110, 60, POOL, "policy", "torch")
    d.box(345, 58, 110, 60, CODE, "kernel 1", "check actions")
    d.box(485, 58, 250, 60, CODE, "kernel 2", "step, reset if over, observe")
    d.box(205, 150, 250, 50, MEMORY, "actions", "a tensor")
    d.box(485, 150, 120, 50, MEMORY, "state", "arrays")
    d.box(615, 150, 120, 50, ENVS, "rollout", "row t")
    d.arrow([(140, 110), (189, 110)])
    d.arrow([(260, 118), (260, 149)])
    d.arrow([(400, 149), (400, 119)])
    d.arrow([(455, 88), (484, 88)])
    d.arrow([(545, 149), (545, 119)], both=True)
    d.arrow([(675, 118), (675, 149)])
    d.arrow([(675, 200), (675, 232), (178, 232), (178, 76), (204, 76)])
    d.words(440, 252, "what was observed is what the policy reads next")
    d.save("device")


if __name__ == "__main__":
    for draw in (threads, kernels, processes, mujoco, device):
        draw()

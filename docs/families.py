"""Writes what a family's page says of each task, from the tasks themselves, and draws a picture of all of them.

    python docs/families.py                    # the tables
    python docs/families.py --draw             # and all pictures
    python docs/families.py --draw tag atari   # or some

A table stands between two marks in its page. The first may say, as `name=value`, what this script cannot see:

- options: where the page tells of them: in a `table`; in words, where it is `told` which tasks have which; or in the
  docstring of a class, by its import path, from which their table is written.
- across, height: tasks in a row of the picture, and the height of each over its width.
- steps, every: random actions before a task is drawn, and between the views of which the most varied is drawn.

What all tasks of a family share is above it, and tasks that differ in
nothing have one row. The pictures show each task after some random actions.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from PIL import Image, ImageDraw, ImageFont

import headrace
from headrace.envs import FAMILIES
from headrace.errors import OptionError
from headrace.pool.family import imported
from headrace.pool.meanings import action_meanings
from headrace.pool.structure import count_text, space_text

DOCS = Path(__file__).parent
BEGIN = re.compile(r"<!-- tasks of (\w+): docs/families.py writes this((?:;(?: \w+=\S+)+)?) -->")
END = "<!-- /tasks -->"
PAGES = {  # family → the page that has its mark
    found[1]: page for page in sorted(DOCS.glob("*.md")) for found in BEGIN.finditer(page.read_text())
}
LONG = 4000  # characters from which a table is shown on demand
OWN, OBSERVATION, LIMIT, FRAMES = "options of its own", "observation", "limit of an episode", "frames in a step"
LENGTH = r"\[\d+\]$"  # of a part of an observation
Row = dict[str, str]


def facts(family: str) -> dict[str, str]:
    """What the mark in its page says of a family, name → value."""
    mark = next(found for found in BEGIN.finditer(PAGES[family].read_text()) if found[1] == family)
    return dict(fact.split("=") for fact in mark[2].removeprefix(";").split())


def section(family: str) -> str:
    """What a page says of a family's tasks."""
    place = facts(family).get("options", "")  # where the page tells of options
    specs = {task: spec for task in FAMILIES[family].tasks if (spec := _spec(task)) is not None}
    shared = _shared([dict(spec.options) for spec in specs.values()], place == "told")
    told = [_fields(spec) for spec in specs.values()]
    fields = [field for field in told[0] if all(field in each for each in told)]
    rows = {task: _row(task, spec, shared, fields) for task, spec in specs.items()}
    first = next(iter(rows.values()))
    for row in rows.values() if FRAMES in first else ():
        row.setdefault(FRAMES, "1")
    parts = _shared_parts(rows)
    usual = {name: value for name in first if (value := _usual([row[name] for row in rows.values()])) is not None}
    common = {name: value for name, value in usual.items() if all(row[name] == value for row in rows.values())}
    added = "" if all(row[OBSERVATION] == "none" for row in rows.values()) else ", and what a row adds"
    lines = [f"- {OBSERVATION}: {', '.join(parts)}{added}"] if parts else []
    for name, value in usual.items():
        if value != "none":
            lines.append(f"- {name}{'' if name in common else ', unless a row says otherwise'}: {value}")
    if fields:
        lines.append(f"- info: {_info(fields)}" + ("" if "info" in common else ", and what a row adds"))
    if shared and not place:
        lines.append(f"- options, unless a row says otherwise: {_options_text(shared)}")
    lines = ["All tasks share:", "", *lines, ""] if lines else []
    varied = [name for name in first if name not in common and (name != OWN or place != "table")]
    if varied or len(rows) > 1:
        heads = [f"{name}, steps" if name == LIMIT else name for name in varied]
        table = ["| task | " + " | ".join(heads) + " |", "|---" * (len(varied) + 1) + "|"]
        alike: dict[str, list[str]] = {}
        for task, row in rows.items():
            cells = [
                "" if row[name] == usual.get(name, "none" if name != LIMIT else "") else row[name] for name in varied
            ]
            alike.setdefault(" | ".join(cell.removesuffix(" steps") for cell in cells), []).append(f"`{task}`")
        table += [f"| {', '.join(tasks)} | {text} |" for text, tasks in alike.items()]
        if len("\n".join(table)) > LONG:
            table = [
                '<details markdown="1">',
                f"<summary>All {len(rows)} tasks</summary>",
                "",
                *table,
                "",
                "</details>",
            ]
        lines += table
    if ":" in place:
        lines += ["", "All have these options:", "", *_meanings(imported(place))]
    return "\n".join(lines)


def untold(family: str, text: str) -> set[str]:
    """The options of a family whose row in a page's table is missing, or has another default."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    specs = filter(None, map(_spec, FAMILIES[family].tasks))
    options = [item for spec in specs for item in spec.options.items() if not isinstance(item[1], Mapping)]
    told = {(name, _value(value).strip("\"'")) for name, value in options}
    return {name for name, value in told if not any(f"`{name}`" in row and value in row for row in rows)}


def _spec(task: str) -> Any:
    try:
        return headrace.make_spec(task)
    except OptionError as error:
        if "needs cfg_path" in str(error):  # a scenario of one's own
            return None
        raise


def _shared(options: list[dict[str, Any]], described: bool) -> dict[str, Any]:
    """The options that all tasks have, and their most common defaults, if three in four tasks have these.

    With ``described``, where the page says which tasks have an option, those count that have it.
    """
    shared = {}
    for name in dict.fromkeys(name for each in options for name in each):
        values = [each[name] for each in options if name in each]
        most = max(values, key=lambda value: sum(repr(each) == repr(value) for each in values))
        if (described or len(values) == len(options)) and sum(
            repr(each) == repr(most) for each in values
        ) >= 0.75 * len(values):
            shared[name] = most
    return shared


def _usual(values: list[str]) -> str | None:
    """The value that three in four of a column's cells have, if there is one."""
    (most, count), *_ = Counter(values).most_common()
    return most if count >= 0.75 * len(values) else None


def _shared_parts(rows: Mapping[str, Row]) -> list[str]:
    """The parts that all observations have, if these differ and are dictionaries; they are taken out of the rows.

    Of a part whose length alone differs, it is n.
    """
    told = [[re.sub(LENGTH, "[n]", part) for part in row[OBSERVATION].split("; ")] for row in rows.values()]
    exact = {part for row in rows.values() for part in row[OBSERVATION].split("; ")}
    found = [part for part in told[0] if all(part in each for each in told)]
    if not found or len({row[OBSERVATION] for row in rows.values()}) == 1:
        return []
    for row, parts in zip(rows.values(), told, strict=True):
        kept = zip(parts, row[OBSERVATION].split("; "), strict=True)
        row[OBSERVATION] = "; ".join(text for part, text in kept if part not in found) or "none"
    lengths = {re.sub(LENGTH, "[n]", part): part for part in exact}
    alike = {part for part in found if sum(re.sub(LENGTH, "[n]", each) == part for each in exact) == 1}
    return [lengths[part] if part in alike else part for part in found]


def _fields(spec: Any) -> list[tuple[str, str]]:
    """The type and the name of each field of a task's info."""
    return [(f"{field.dtype}{list(field.shape) if field.shape else ''}", field.name) for field in spec.info]


def _row(task: str, spec: Any, shared: Mapping[str, Any], fields: Collection[tuple[str, str]]) -> Row:
    """What is to be known of a task, column → text; ``shared`` and ``fields`` are options and info of all."""
    limit = f"{spec.max_episode_steps:,} steps" if spec.max_episode_steps else "none"
    given = spec.options.items()
    own = {name: value for name, value in given if name not in shared or repr(shared[name]) != repr(value)}
    kinds = spec.agents
    observation, action = _code(spec.observation), _actions(task, spec)
    if kinds:
        who = [count_text(kind) for kind in kinds]
        observation = _of_kinds(who, [f"`{space_text(kind.observation)}`" for kind in kinds], "each ")
        action = _of_kinds([kind.name for kind in kinds], [_choices(task, spec, kind.action) for kind in kinds])
    row = {OBSERVATION: observation, "actions": action, LIMIT: limit}
    if spec.frame_skip > 1:
        row[FRAMES] = str(own.pop("frame_skip", spec.frame_skip))
    row["info"] = _info([field for field in _fields(spec) if field not in fields])
    row[OWN] = _options_text(own)
    return row


def _of_kinds(who: list[str], texts: list[str], each: str = "") -> str:
    """A text of each type of agents; once, if it is the same for all."""
    if len(set(texts)) > 1:
        return "; ".join(f"{name} {text}" for name, text in zip(who, texts, strict=True))
    return f"{', '.join(who)}, {each}{texts[0]}" if each else texts[0]


def _code(space: Any) -> str:
    parts = getattr(space, "spaces", None)
    if isinstance(parts, Mapping):
        kinds = {part.dtype if isinstance(part, Box) else None for part in parts.values()}
        if len(kinds) == 1 and None not in kinds:
            return f"{kinds.pop()}: " + ", ".join(f"`{key}{list(part.shape) or ''}`" for key, part in parts.items())
        return "; ".join(f"`{key}` {space_text(part)}" for key, part in parts.items())
    text = space_text(space)
    return text if "choices" in text else f"`{text}`"


def _actions(task: str, spec: Any) -> str:
    return _choices(task, spec, spec.action)


def _choices(task: str, spec: Any, space: Any) -> str:
    """A space of actions; of choices that have names, these."""
    names = action_meanings(task, spec.options, space)
    if names is None or all(re.fullmatch(r"-?\d+", name) for name in names):
        return _code(space)
    return f"{len(names)}: {', '.join(names)}"


def _info(fields: Collection[tuple[str, str]]) -> str:
    """Fields of an info, those of one type together."""
    kinds: dict[str, list[str]] = {}
    for kind, name in fields:
        kinds.setdefault(kind, []).append(f"`{name}`")
    return "; ".join(f"{', '.join(names)} {kind}" for kind, names in kinds.items()) or "none"


def _options_text(options: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={_value(value)}`" for name, value in options.items()) or "none"


def _value(value: Any) -> str:
    if isinstance(value, Mapping) and len(value) > 2:
        return "{…}"
    text = f"{value:.4g}" if isinstance(value, float) else repr(value) if value != "" else '""'
    return text if len(text) < 40 else "…"


def _meanings(kind: type[Any]) -> Iterator[str]:
    """The table of the options that are attributes of a class, with what it says of them."""
    text = inspect.cleandoc(kind.__doc__ or "")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", text, re.M)
    yield "| option | default | what it does |"
    yield "|---|---|---|"
    for name, words in entries:
        meaning = " ".join(words.split()).replace("``", "`").removesuffix(".")
        yield f"| `{name}` | {getattr(kind, name)} | {meaning} |"


def with_section(text: str, family: str) -> str:
    """A page's text with its tables anew."""
    begin = next(found[0] for found in BEGIN.finditer(text) if found[1] == family)
    before, _, rest = text.partition(begin)
    _, mark, after = rest.partition(END)
    assert mark, f"{PAGES[family].name} needs {END}"
    return f"{before}{begin}\n\n{section(family)}\n\n{END}{after}"


def picture(family: str) -> Path:
    """The file of a family's picture."""
    return DOCS / "images" / f"tasks-{family.replace('_', '-')}.webp"


# -- pictures ------------------------------------------------------------------------------------

WIDTH = 1200
BACKGROUND, INK, FRAME = (255, 255, 255), (60, 60, 60), (225, 225, 225)
FOLLOWED = (
    "DogS",
    "DogW",
    "DogT",
    "DogR",
    "QuadrupedW",
    "QuadrupedR",
    "Swimmer",
)  # out of sight of dm_control's own view
SIDES = ("render_width", "render_height")
LIKE, FAMILY = re.compile(r"-v\d+$"), re.compile(r"^(MiniGrid|BabyAI)-")


def draw(family: str) -> Path:
    """Draws a family's tasks, of several versions of one the last, and returns the file."""
    tasks = list({LIKE.sub("", task): task for task in FAMILIES[family].tasks if _spec(task) is not None}.values())
    known = facts(family)
    across, tall = int(known.get("across", 5)), float(known.get("height", 1))
    gap, side = 8, (WIDTH - 8) // across - 8
    height, shown = round(side * tall), [FAMILY.sub("", LIKE.sub("", task)) for task in tasks]
    size, font, names = next(fit for size in range(19, 8, -1) if (fit := _fitting(shown, size, side)))
    words = max(len(lines) for lines in names) * (size + 3) + 4
    down, across = -(-len(tasks) // across), min(across, len(tasks))
    sheet = Image.new("RGB", (across * (side + gap) + gap, down * (height + words + gap) + gap), BACKGROUND)
    pen = ImageDraw.Draw(sheet)
    for i, task in enumerate(tasks):
        x, y = gap + i % across * (side + gap), gap + i // across * (height + words + gap)
        frame = Image.fromarray(_frame(task, int(known.get("steps", 20)), int(known.get("every", 0))))
        scale = min(side / frame.width, height / frame.height)
        frame = frame.resize((round(frame.width * scale), round(frame.height * scale)), Image.Resampling.LANCZOS)
        sheet.paste(frame, (x + (side - frame.width) // 2, y + (height - frame.height) // 2))
        pen.rectangle((x - 1, y - 1, x + side, y + height), outline=FRAME)
        pen.multiline_text(
            (x + side / 2, y + height + 3), "\n".join(names[i]), INK, font, anchor="ma", spacing=1, align="center"
        )
    out = picture(family)
    sheet.save(out, quality=72, method=6)
    return out


def _fitting(names: list[str], size: int, width: int) -> tuple[int, Any, list[list[str]]] | None:
    """A font of this size, and every name on one line or two that are not too long; None if that cannot be."""
    font = ImageFont.load_default(size)
    lines = [_lines(name, font, width) for name in names]
    fits = all(len(each) <= 2 and font.getlength(line) <= width for each in lines for line in each)
    return (size, font, lines) if fits else None


def _lines(name: str, font: Any, width: int) -> list[str]:
    """A name, parted before a capital letter where it is too long for a line."""
    lines = [""]
    for part in re.findall(r"[A-Z0-9]+[a-z]*|[a-z]+|\W", name):
        if lines[-1] and font.getlength(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return lines


def _frame(task: str, steps: int, every: int) -> np.ndarray:
    """A task after some random actions, uint8[height, width, 3]; ``every`` so many, the most varied of its views."""
    options: dict[str, Any] = {name: 320 for name in SIDES if name in _spec(task).options}
    random = np.random.default_rng(1)
    with headrace.make(task, num_envs=1, seed=3, num_threads=1, **options) as pool:
        pool.action_space.seed(int(random.integers(1000)))
        _, info = pool.reset()
        frames = []
        for step in range(steps):
            drawn = pool.action_space.sample()
            dicts = isinstance(drawn, Mapping)
            action = {key: part[None] for key, part in drawn.items()} if dicts else np.asarray(drawn)[None]
            if "action_mask" in info:  # where only some moves are allowed
                action = (info["action_mask"] * random.random(info["action_mask"].shape)).argmax(-1)
            *_, info = pool.step(action)
            if every and step % every == 0:
                frames.append(pool.render([0])[0])
        return max(frames or [pool.render([0])[0]], key=np.std)  # a view that is no wall


def main() -> None:
    """Write the tables; draw what is asked for."""
    for family, page in PAGES.items():
        try:
            page.write_text(with_section(page.read_text(), family))
        except (ImportError, OptionError) as error:
            print(f"{page.name} stays as it is: {error}")
    if "--draw" in sys.argv:
        for family in sys.argv[sys.argv.index("--draw") + 1 :] or PAGES:
            out = draw(family)
            print(f"{out.name}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

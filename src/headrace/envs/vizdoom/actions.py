"""Discrete actions from buttons: EnvPool's table, in its order.

A button is pressed or not. Of buttons that undo each other (left and right, weapon after weapon) at most one is. A
"delta" button has a number beside it, of which some values between two ends are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

Choice = tuple[tuple[str, float], ...]  # buttons and their values; others stay as they are
Delta = tuple[int, float, float]

# of each group at most one button is pressed, where all of it are there; else each is by itself
PAIRS = (
    ("MOVE_RIGHT", "MOVE_LEFT"),
    ("MOVE_BACKWARD", "MOVE_FORWARD"),
    ("TURN_RIGHT", "TURN_LEFT"),
    ("LOOK_UP", "LOOK_DOWN"),
    ("MOVE_UP", "MOVE_DOWN"),
    ("SELECT_NEXT_WEAPON", "SELECT_PREV_WEAPON"),
    ("SELECT_NEXT_ITEM", "SELECT_PREV_ITEM"),
)
WEAPONS = tuple(f"SELECT_WEAPON{i}" for i in (1, 2, 3, 4, 5, 6, 7, 8, 9, 0))


def action_table(
    buttons: Sequence[str], order: Sequence[str], deltas: Mapping[str, Delta], force_speed: bool
) -> list[list[float]]:
    """Every action as a value for each button; the first presses none.

    Args:
        buttons: those of the scenario, in its order.
        order: all that there are, in ViZDoom's order; the last of them that vary do so first.
        deltas: delta button → how many values, the least and the greatest; other delta buttons stay 0.
        force_speed: the button SPEED is always pressed.
    """
    there, groups, taken = set(buttons), list[list[Choice]](), set[str]()
    pairs = {pair[0]: pair for pair in PAIRS if there.issuperset(pair)}
    for name in order:
        if name not in there or name in taken:
            continue
        group = pairs.get(name) or (tuple(w for w in WEAPONS if w in there) if name in WEAPONS else (name,))
        taken.update(group)
        if name.endswith("_DELTA"):
            groups.append([((name, value),) for value in _values(deltas.get(name))])
        elif name == "SPEED" and force_speed:
            groups.append([((name, 1.0),)])
        else:
            groups.append([(), *(((button, 1.0),) for button in group)])
    place = {button: i for i, button in enumerate(buttons)}
    table = []
    for choices in product(*groups):
        action = [0.0] * len(buttons)
        for button, value in (pressed for choice in choices for pressed in choice):
            action[place[button]] = value
        table.append(action)
    return table


def _values(delta: Delta | None) -> list[float]:
    """The values of a delta button, evenly from the least to the greatest; 0 alone where there is but one."""
    if delta is None or delta[0] <= 1:
        return [0.0]
    count, least, greatest = delta
    return [least + i * (greatest - least) / (count - 1) for i in range(count)]

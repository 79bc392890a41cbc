"""The table of discrete actions as combinations of buttons, in EnvPool's order.

A binary button is pressed or not; of buttons that exclude each other (left and right, or the weapons), at most one is
pressed. A "delta" button has a number, which takes evenly spaced values of a range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

Choice = tuple[tuple[str, float], ...]  # (button, value) pairs; the buttons not listed are 0
Delta = tuple[int, float, float]  # number of values, least and greatest value

# pairs of which at most one button is pressed; in a scenario with only one button of a pair, it is independent
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
    """Returns the table of actions, each a list of values of the scenario's buttons; the first presses no button.

    Args:
        buttons: the scenario's buttons, in its order.
        order: all buttons, in ViZDoom's order; the last of them vary fastest in the table.
        deltas: delta button → number of values, least and greatest value; other delta buttons are always 0.
        force_speed: whether the button SPEED is always pressed.
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
    """Returns the evenly spaced values of a delta button; 0 if there is only one."""
    if delta is None or delta[0] <= 1:
        return [0.0]
    count, least, greatest = delta
    return [least + i * (greatest - least) / (count - 1) for i in range(count)]

"""How a task looks in a mirror, so that an algorithm can learn of one side what holds of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import OptionError

Side = tuple[Sequence[int], Sequence[float]]
"""for each element of what the mirror shows: the index of the element that it shows, and the sign that this gets"""


@dataclass(frozen=True)
class Mirror:
    """What a mirror shows of a symmetric task: another step of the same task, with the same reward.

    Attributes:
        observation: indices and signs, one of each for each element: a mirrored observation's element i is ``signs[i]``
            times element ``indices[i]``. Where observations are stacked, they are those of one of the stack.
        action: the same of the elements of an action.
        critic: the same of what only a critic sees; None if a task does not say it.

    Raises:
        OptionError: indices and signs differ in number, a sign is not 1 or -1, or what is mirrored twice is not what it
            was.
    """

    observation: Side
    action: Side
    critic: Side | None = None

    def __post_init__(self) -> None:
        for name in ("observation", "action", *(["critic"] if self.critic is not None else [])):
            indices, signs = (tuple(each) for each in getattr(self, name))
            object.__setattr__(self, name, (indices, signs))
            where = f"the mirror of the {name}" + "'s part" * (name == "critic")
            if len(indices) != len(signs):
                raise OptionError(f"{where} has {len(indices)} indices but {len(signs)} signs: give one of each")
            for i, (index, sign) in enumerate(zip(indices, signs, strict=True)):
                if sign not in (1, -1):
                    raise OptionError(f"{where} has the sign {sign!r} of element {i}, which must be 1 or -1")
                if not 0 <= index < len(indices):
                    raise OptionError(f"{where} has the index {index!r} of element {i}, of {len(indices)} elements")
                if indices[index] != i or signs[index] != sign:
                    raise OptionError(
                        f"{where} does not give back what is mirrored twice: elements {i} and {index} must show each "
                        "other, with the same sign"
                    )

"""The levels of BabyAI by name, as the package registers them: their rooms, things and limits of steps."""

from __future__ import annotations

from typing import Any

from headrace.envs.minigrid.babyai import language, levels
from headrace.envs.minigrid.babyai.instructions import GO_TO, NOTES, OPEN_IT, PICK_UP_IT, PUT_NEXT
from headrace.envs.minigrid.babyai.things import CARRYING, making
from headrace.envs.minigrid.babyai.verifier import step, truncates
from headrace.envs.minigrid.level import Level
from headrace.envs.minigrid.room_grid import rooms_of
from headrace.pool.executors.kernels import KernelTask

PLACE = 4  # words of a place: in front of you
ORDER = 2  # words of an order: after you


def level(name: str, maker: Any, words: int) -> Level:
    """Returns the level of a maker, whose missions have up to so many words."""
    words_of_all = " ".join(["{}"] * words)
    return Level(f"BabyAI{name}", making(maker), step, words_of_all, notes=NOTES, marked=True, truncates=truncates)


SEARCH, IN_THE_MIDDLE = level("Search", levels.search, 5), level("InTheMiddle", levels.in_the_middle, 5)
MOVE = level("Search", levels.search, 9)
DOOR, DOORS = level("Doors", levels.doors, 3 + PLACE), level("Doors", levels.doors, 4 + ORDER + 4)
FIND = level("PickUp", levels.pick_up, 5)
CARRY, CARRY_TWO = level("PutNext", levels.put_next, 9), level("PutNext", levels.put_next, 9 + ORDER + 9)
UNLOCK, BEHIND_LOCK = level("Unlocking", levels.unlocking, 5), level("BehindLock", levels.behind_lock, 5)
LANGUAGE = {words: level("Language", language.language, words) for words in (9, 17, 24, 72)}


def task(
    level: Level, size: int, rows: int, columns: int, variant: Any, count: int = 0, limit: int = 0, tasks: int = 1
) -> KernelTask:
    """Returns a task; without a limit of steps, it is one for each cell, times the most ``tasks`` of a mission."""
    cells = size**2 * rows * columns
    per_task = cells if level in LANGUAGE.values() else 0
    return rooms_of(
        level,
        size,
        rows,
        columns,
        limit or tasks * cells,
        count=count,
        variant=int(variant),
        steps_per_task=0 if limit else per_task,
    )


def one_room(size: int, count: int, how: Any, level: Level = SEARCH) -> KernelTask:
    return task(level, size, 1, 1, how, count)


def nine_rooms(level: Level, how: Any, count: int = 0, size: int = 8, limit: int = 0) -> KernelTask:
    return task(level, size, 3, 3, how, count, limit)


GO, PICK_UP, PUT = int(GO_TO), int(PICK_UP_IT), int(PUT_NEXT)
RED, UNIQUE = int(levels.RED_BALL), int(levels.UNIQUE)
GO_TO_LEVELS = {
    "GoToRedBallGrey-v0": one_room(8, 7, GO | RED | int(levels.GREYED)),
    "GoToRedBall-v0": one_room(8, 7, GO | RED),
    "GoToRedBallNoDists-v0": one_room(8, 0, GO | RED),
    "GoToRedBlueBall-v0": one_room(8, 7, GO | int(levels.RED_OR_BLUE)),
    "GoToObj-v0": one_room(8, 1, GO),
    "GoToObjS4-v0": one_room(4, 1, GO),
    "GoToObjS6-v1": one_room(6, 1, GO),
    "GoToLocal-v0": one_room(8, 8, GO),
    **{
        f"GoToLocalS{size}N{count}-v0": one_room(size, count, GO)
        for size, counts in ((5, (2,)), (6, (2, 3, 4)), (7, (4, 5)), (8, range(2, 8)))
        for count in counts
    },
    "GoTo-v0": nine_rooms(SEARCH, GO, 18),
    "GoToOpen-v0": nine_rooms(SEARCH, GO | int(levels.OPENED), 18),
    "GoToObjMaze-v0": nine_rooms(SEARCH, GO, 1),
    "GoToObjMazeOpen-v0": nine_rooms(SEARCH, GO | int(levels.OPENED), 1),
    "GoToObjMazeS4R2-v0": task(SEARCH, 4, 2, 2, GO, 1),
    **{f"GoToObjMazeS{size}-v0": nine_rooms(SEARCH, GO, 1, size) for size in range(4, 8)},
    "GoToDoor-v0": nine_rooms(IN_THE_MIDDLE, levels.TO_A_DOOR, size=7),
    "GoToObjDoor-v0": nine_rooms(IN_THE_MIDDLE, levels.TO_ANYTHING, 8),
    "GoToImpUnlock-v0": nine_rooms(BEHIND_LOCK, GO_TO, 2),
}
STRICTLY = int(levels.STRICTLY)
OPEN_LEVELS = {
    "Open-v0": nine_rooms(SEARCH, OPEN_IT, 18),
    "OpenRedDoor-v0": task(DOOR, 5, 1, 2, levels.RED_DOOR),
    "OpenDoor-v0": nine_rooms(DOOR, levels.BY_EITHER),
    "OpenDoorDebug-v0": nine_rooms(DOOR, int(levels.BY_EITHER) | STRICTLY),
    "OpenDoorColor-v0": nine_rooms(DOOR, levels.BY_COLOR),
    "OpenDoorLoc-v0": nine_rooms(DOOR, levels.BY_PLACE),
    "OpenTwoDoors-v0": nine_rooms(DOORS, levels.TWO, size=6, limit=720),
    "OpenRedBlueDoors-v0": nine_rooms(DOORS, levels.RED_THEN_BLUE, size=6, limit=720),
    "OpenRedBlueDoorsDebug-v0": nine_rooms(DOORS, int(levels.RED_THEN_BLUE) | STRICTLY, size=6, limit=720),
    **{
        f"OpenDoorsOrderN{count}{name}-v0": nine_rooms(DOORS, int(levels.IN_ORDER) | how, count, 6, 720)
        for count in (2, 4)
        for name, how in (("", 0), ("Debug", STRICTLY))
    },
}
PICK_UP_LEVELS = {
    "Pickup-v0": nine_rooms(SEARCH, PICK_UP, 18),
    "UnblockPickup-v0": nine_rooms(SEARCH, PICK_UP | int(levels.BLOCKED), 20),
    "PickupDist-v0": one_room(7, 5, levels.DIFFERENT, FIND),
    "PickupDistDebug-v0": one_room(7, 5, int(levels.DIFFERENT) | STRICTLY, FIND),
    "PickupAbove-v0": nine_rooms(FIND, levels.ABOVE, size=6, limit=288),
    **{f"FindObjS{size}-v0": nine_rooms(FIND, levels.SOMEWHERE, size=size, limit=20 * size**2) for size in (5, 6, 7)},
    **{f"OneRoomS{size}-v0": one_room(size, 0, levels.A_BALL, FIND) for size in (8, 12, 16, 20)},
    "KeyCorridor-v0": nine_rooms(FIND, levels.CORRIDOR, size=6, limit=1080),
    **{
        f"KeyCorridorS{size}R{rows}-v0": task(FIND, size, rows, 3, levels.CORRIDOR, limit=30 * size**2)
        for size, rows in ((3, 1), (3, 2), (3, 3), (4, 3), (5, 3), (6, 3))
    },
    "ActionObjDoor-v0": nine_rooms(IN_THE_MIDDLE, levels.ANY_TASK, 5, 7),
}
PUT_NEXT_LEVELS = {
    "PutNextLocal-v0": task(MOVE, 8, 1, 1, PUT | UNIQUE, 8, tasks=2),
    "PutNextLocalS5N3-v0": task(MOVE, 5, 1, 1, PUT | UNIQUE, 3, tasks=2),
    "PutNextLocalS6N4-v0": task(MOVE, 6, 1, 1, PUT | UNIQUE, 4, tasks=2),
    **{
        f"PutNextS{size}N{count}{name}-v0": task(CARRY, size, 1, 2, int(levels.ONE_PAIR) | how, count, 8 * size**2)
        for size, count, names in ((4, 1, 1), (5, 1, 1), (5, 2, 2), (6, 3, 2), (7, 4, 2))
        for name, how in (("", 0), ("Carrying", int(CARRYING)))[:names]
    },
    **{
        f"MoveTwoAcrossS{size}N{count}-v0": task(CARRY_TWO, size, 1, 2, levels.TWO_PAIRS, count, 16 * size**2)
        for size, count in ((5, 2), (8, 9))
    },
}
UNLOCK_LEVELS = {
    "Unlock-v0": nine_rooms(BEHIND_LOCK, OPEN_IT, 3),
    "UnlockLocal-v0": nine_rooms(UNLOCK, levels.HERE),
    "UnlockLocalDist-v0": nine_rooms(UNLOCK, levels.HERE, 3),
    "KeyInBox-v0": nine_rooms(UNLOCK, levels.IN_BOX),
    "UnlockPickup-v0": task(UNLOCK, 6, 1, 2, levels.BOX_BEHIND),
    "UnlockPickupDist-v0": task(UNLOCK, 6, 1, 2, levels.BOX_BEHIND, 4),
    "BlockedUnlockPickup-v0": task(UNLOCK, 6, 1, 2, levels.BLOCKED_BOX, limit=576),
    "UnlockToUnlock-v0": task(UNLOCK, 6, 1, 3, levels.BETWEEN, limit=1080),
}
SINGLE, PLACES, UNBLOCKING, IN_REACH = (
    int(bit) for bit in (language.SINGLE, language.PLACES, language.UNBLOCKING, language.NOT_BEHIND_LOCK)
)
QUARTER = 1 << int(language.QUARTERS)
SYNTH = SINGLE | UNBLOCKING | IN_REACH | 2 * QUARTER
LANGUAGE_LEVELS = {
    "PickupLoc-v0": task(LANGUAGE[9], 8, 1, 1, PICK_UP | SINGLE | PLACES, 8),
    "GoToSeq-v0": task(LANGUAGE[24], 8, 3, 3, GO, 18, tasks=4),
    "GoToSeqS5R2-v0": task(LANGUAGE[24], 5, 2, 2, GO, 4, tasks=4),
    "Synth-v0": task(LANGUAGE[9], 8, 3, 3, SYNTH, 18, tasks=2),
    "SynthS5R2-v0": task(LANGUAGE[9], 5, 2, 3, SYNTH, 18, tasks=2),
    "SynthLoc-v0": task(LANGUAGE[17], 8, 3, 3, SYNTH | PLACES, 18, tasks=2),
    "SynthSeq-v0": task(LANGUAGE[72], 8, 3, 3, (SYNTH | PLACES) & ~SINGLE, 18, tasks=8),
    "MiniBossLevel-v0": task(LANGUAGE[72], 5, 2, 2, PLACES | UNBLOCKING | QUARTER, 7, tasks=8),
    "BossLevel-v0": task(LANGUAGE[72], 8, 3, 3, PLACES | UNBLOCKING | 2 * QUARTER, 18, tasks=8),
    "BossLevelNoUnlock-v0": task(LANGUAGE[72], 8, 3, 3, PLACES | UNBLOCKING | IN_REACH, 18, tasks=8),
}
TASKS = {
    f"BabyAI-{name}": each
    for levels_of_a_kind in (GO_TO_LEVELS, OPEN_LEVELS, PICK_UP_LEVELS, PUT_NEXT_LEVELS, UNLOCK_LEVELS, LANGUAGE_LEVELS)
    for name, each in levels_of_a_kind.items()
}

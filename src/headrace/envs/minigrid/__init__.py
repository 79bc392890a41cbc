"""The tasks of MiniGrid and BabyAI as kernel environments: grids with walls, doors and things, seen from inside.

`headrace.envs.minigrid.world` has the rules, `sight` and `pixels` what is observed, `layouts` and `room_grid` what
makers of levels share; the levels are in `goals`, `objects`, `rooms` and, those of BabyAI, `babyai`.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.envs.minigrid.words import WORDS, text
from headrace.pool.family import Family
from headrace.pool.task import Task

__all__ = ["TASKS", "WORDS", "build", "text"]

_NAMES = {
    "goals": """
        Empty-5x5 Empty-6x6 Empty-8x8 Empty-16x16 Empty-Random-5x5 Empty-Random-6x6
        DoorKey-5x5 DoorKey-6x6 DoorKey-8x8 DoorKey-16x16 DistShift1 DistShift2 FourRooms LockedRoom
        LavaCrossingS9N1 LavaCrossingS9N2 LavaCrossingS9N3 LavaCrossingS11N5 LavaGapS5 LavaGapS6 LavaGapS7
        SimpleCrossingS9N1 SimpleCrossingS9N2 SimpleCrossingS9N3 SimpleCrossingS11N5
        Dynamic-Obstacles-5x5 Dynamic-Obstacles-6x6 Dynamic-Obstacles-8x8 Dynamic-Obstacles-16x16
        Dynamic-Obstacles-Random-5x5 Dynamic-Obstacles-Random-6x6
    """,
    "objects": """
        Fetch-5x5-N2 Fetch-6x6-N2 Fetch-8x8-N3 GoToDoor-5x5 GoToDoor-6x6 GoToDoor-8x8 GoToObject-6x6-N2
        GoToObject-8x8-N2 MemoryS7 MemoryS9 MemoryS11 MemoryS13 MemoryS13Random MemoryS17Random Playground
        PutNear-6x6-N2 PutNear-8x8-N3 RedBlueDoors-6x6 RedBlueDoors-8x8
    """,
    "rooms": """
        KeyCorridorS3R1 KeyCorridorS3R2 KeyCorridorS3R3 KeyCorridorS4R3 KeyCorridorS5R3 KeyCorridorS6R3 Unlock
        UnlockPickup BlockedUnlockPickup MultiRoom-N2-S4 MultiRoom-N4-S5 MultiRoom-N4-S5-v1 MultiRoom-N6
        ObstructedMaze-1Dl ObstructedMaze-1Dlh ObstructedMaze-1Dlhb ObstructedMaze-2Dl ObstructedMaze-2Dlh
        ObstructedMaze-2Dlhb ObstructedMaze-2Dlhb-v1 ObstructedMaze-1Q ObstructedMaze-1Q-v1 ObstructedMaze-2Q
        ObstructedMaze-2Q-v1 ObstructedMaze-Full ObstructedMaze-Full-v1
    """,
    "babyai.tasks": """
        GoToRedBallGrey GoToRedBall GoToRedBallNoDists GoToRedBlueBall GoToObj GoToObjS4 GoToObjS6-v1 GoToLocal
        GoToLocalS5N2 GoToLocalS6N2 GoToLocalS6N3 GoToLocalS6N4 GoToLocalS7N4 GoToLocalS7N5 GoToLocalS8N2
        GoToLocalS8N3 GoToLocalS8N4 GoToLocalS8N5 GoToLocalS8N6 GoToLocalS8N7 GoTo GoToOpen GoToObjMaze
        GoToObjMazeOpen GoToObjMazeS4R2 GoToObjMazeS4 GoToObjMazeS5 GoToObjMazeS6 GoToObjMazeS7 GoToDoor GoToObjDoor
        GoToImpUnlock Open OpenRedDoor OpenDoor OpenDoorDebug OpenDoorColor OpenDoorLoc OpenTwoDoors OpenRedBlueDoors
        OpenRedBlueDoorsDebug OpenDoorsOrderN2 OpenDoorsOrderN2Debug OpenDoorsOrderN4 OpenDoorsOrderN4Debug Pickup
        UnblockPickup PickupDist PickupDistDebug PickupAbove FindObjS5 FindObjS6 FindObjS7 OneRoomS8 OneRoomS12
        OneRoomS16 OneRoomS20 KeyCorridor KeyCorridorS3R1 KeyCorridorS3R2 KeyCorridorS3R3 KeyCorridorS4R3
        KeyCorridorS5R3 KeyCorridorS6R3 ActionObjDoor PutNextLocal PutNextLocalS5N3 PutNextLocalS6N4 PutNextS4N1
        PutNextS5N1 PutNextS5N2 PutNextS5N2Carrying PutNextS6N3 PutNextS6N3Carrying PutNextS7N4 PutNextS7N4Carrying
        MoveTwoAcrossS5N2 MoveTwoAcrossS8N9 Unlock UnlockLocal UnlockLocalDist KeyInBox UnlockPickup UnlockPickupDist
        BlockedUnlockPickup UnlockToUnlock PickupLoc GoToSeq GoToSeqS5R2 Synth SynthS5R2 SynthLoc SynthSeq
        MiniBossLevel BossLevel BossLevelNoUnlock
    """,
}
"""module → the names of its tasks; of those without a version, it is v0"""
_MODULES = {
    f"{'BabyAI' if module == 'babyai.tasks' else 'MiniGrid'}-{name}{'' if name.endswith('-v1') else '-v0'}": module
    for module, names in _NAMES.items()
    for name in names.split()
}
TASKS: tuple[str, ...] = tuple(sorted(_MODULES))
_ACTIONS = ("turn left", "turn right", "forward", "pick up", "drop", "toggle", "done")


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Args:
        task: one of `TASKS`.
        options: ``full_observation`` (False by default; whether the whole grid is observed, not only what the agent
            sees), ``flat_observation`` (False by default; whether observations are one array of zeros and ones),
            ``from_pixels`` (False by default; whether the image is a picture, which ``flat_observation="pictures"``
            keeps) with ``tile_size`` pixels for the side of a cell (8 by default), and ``max_episode_steps``, which
            rewards depend on.

    Raises:
        OptionError: an option is unknown, or its value is of the wrong type or out of range.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "minigrid",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.minigrid.presets:PRESETS",
    meanings={task: _ACTIONS[:3] if "Dynamic-Obstacles" in task else _ACTIONS for task in TASKS},
)

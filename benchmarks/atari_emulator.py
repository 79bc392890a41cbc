"""Headrace's Atari machine beside the emulator's own: one emulator, one thread, no pool, frame skip 4.

The same random actions on both, new ones at every step, resets where a game is over. Rates are of processor time, not
of the clock's, so that other work on the machine disturbs them less; turns alternate. A pool's limit moves with it.

Of each game the mark is 1.5 times the emulator's own, of the geometric mean 2 (goals: 1.8 and 2.5).
`docs/images/machine.py` draws them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tyro
from ale_py import roms
from headrace_atari import _atari

from common import Args, Comparison, Contender, measure

FRAME_SKIP = 4
ORIGINAL = "ale-py's machine"
SLOWEST, MEAN = 1.5, 2.0
GAMES = (
    "alien", "amidar", "assault", "asterix", "asteroids", "atlantis", "bank_heist", "battle_zone", "beam_rider",
    "berzerk", "bowling", "boxing", "breakout", "centipede", "chopper_command", "crazy_climber", "defender",
    "demon_attack", "double_dunk", "enduro", "fishing_derby", "freeway", "frostbite", "gopher", "gravitar", "hero",
    "ice_hockey", "jamesbond", "kangaroo", "krull", "kung_fu_master", "montezuma_revenge", "ms_pacman",
    "name_this_game", "phoenix", "pitfall", "pong", "private_eye", "qbert", "riverraid", "road_runner", "robotank",
    "seaquest", "skiing", "solaris", "space_invaders", "star_gunner", "surround", "tennis", "time_pilot", "tutankham",
    "up_n_down", "venture", "video_pinball", "wizard_of_wor", "yars_revenge", "zaxxon",
)  # fmt: skip
"""the 57 games of the Arcade Learning Environment's benchmarks (Mnih et al. 2015 and later), by its own names"""


@dataclass
class EmulatorArgs(Args):
    """Headrace's Atari machine beside the emulator's own."""

    games: tuple[str, ...] = GAMES
    """games, by the emulator's names"""
    repeats: int = 5
    seconds: float = 0.3


def emulator(game: str, original: bool) -> Contender:
    """Agent steps a second of processor time."""
    rom = str(roms.get_rom_path(game))

    def run(seconds: float) -> float:
        begin = time.process_time()
        steps, _ = _atari.bare_emulator(rom, num_threads=1, seconds=seconds, frame_skip=FRAME_SKIP, original=original)
        return steps / (time.process_time() - begin)

    return run


def comparisons(args: EmulatorArgs, extra: dict[str, Any]) -> Iterator[Comparison]:
    """One for each game; then their mean and the slowest."""
    ratios = {}
    for game in args.games:
        case = Comparison(
            game, emulator(game, False), {ORIGINAL: emulator(game, True)}, wanted={ORIGINAL: SLOWEST},
            frame_skip=FRAME_SKIP, warm_up=0.05,
        )  # fmt: skip
        yield case
        ratios[game] = case.ratio(ORIGINAL)
    mean, slowest = statistics.geometric_mean(ratios.values()), min(ratios, key=ratios.__getitem__)
    extra |= {"geometric mean": round(mean, 3), "wanted": MEAN, "slowest": slowest}
    print(f"geometric mean {mean:.2f} x, slowest {slowest} {ratios[slowest]:.2f} x")


if __name__ == "__main__":
    chosen, found = tyro.cli(EmulatorArgs), dict[str, Any]()
    title = "Atari's emulator alone, of processor time"
    measure("atari_emulator", title, comparisons(chosen, found), chosen, found, num_threads=1, frame_skip=FRAME_SKIP)

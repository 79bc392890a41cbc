"""EnvPool's rewards: a price for what each game variable gains, another for what it loses, and for a weapon in hand.

The scenario's own rewards (``living_reward`` and the rest of its ``.cfg``) count for nothing, as in EnvPool, unless
``scenario_reward`` asks for those alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Prices = Mapping[str, tuple[float, float]]

REWARDS: dict[str, tuple[float, float]] = {
    "FRAGCOUNT": (1.0, -1.5),
    "KILLCOUNT": (1.0, 0.0),
    "DEATHCOUNT": (-0.75, 0.75),
    "HITCOUNT": (0.01, -0.01),
    "DAMAGECOUNT": (0.003, -0.003),
    "HEALTH": (0.005, -0.003),
    "ARMOR": (0.005, -0.001),
    **{f"WEAPON{i}": (0.02, -0.01) for i in range(3)},
    **{f"WEAPON{i}": (0.1, -0.05) for i in range(3, 6)},
    **{f"WEAPON{i}": (0.2, -0.1) for i in range(6, 8)},
    **{f"AMMO{i}": (0.0002, -0.0001) for i in range(3)},
    **{f"AMMO{i}": (0.001, -0.0005) for i in range(3, 6)},
    **{f"AMMO{i}": (0.002, -0.001) for i in range(6, 8)},
}
"""game variable → reward for each that is gained, and (below 0) for each that is lost"""
WEAPON_REWARDS: dict[int, float] = {0: 0.0002, 1: 0.0002, 2: 0.0002, 3: 0.001, 4: 0.001, 5: 0.001, 6: 0.002, 7: 0.002}
"""selected weapon → reward of a step"""

KEPT = ("HITCOUNT", "DAMAGECOUNT", "DEATHCOUNT")  # which a new episode does not set to 0
MOST = {"DAMAGECOUNT": 200.0, "HITCOUNT": 5.0}  # of one step: else only the largest guns would be used


class Rewards:
    """The game variables of an episode, and what their changes earn.

    Args:
        names: the variables that are observed, SELECTED_WEAPON, SELECTED_WEAPON_AMMO and HEALTH among them.
        prices: see `REWARDS`; those of variables that are not observed count for nothing.
        weapons: see `WEAPON_REWARDS`; others earn nothing.
        duration: steps after which a weapon in hand, with ammunition, begins to earn.

    Attributes:
        values: float64[V] of the newest step; counters begin at 0 in every episode.
    """

    def __init__(self, names: Sequence[str], prices: Prices, weapons: Mapping[int, float], duration: int):
        place = {name: i for i, name in enumerate(names)}
        self._gain, self._loss = np.array([prices.get(name, (0.0, 0.0)) for name in names], np.float64).T.copy()
        self._most = np.array([MOST.get(name, np.inf) for name in names])
        self._kept = np.array([place[name] for name in KEPT if name in place], np.intp)
        self._health, self._weapon, self._ammo = (
            place[name] for name in ("HEALTH", "SELECTED_WEAPON", "SELECTED_WEAPON_AMMO")
        )
        self._weapons, self._duration = dict(weapons), duration
        self._before = np.zeros(len(names))
        self.values = np.zeros(len(names))
        self._held, self._held_for = -1, 0

    def begin(self, variables: np.ndarray) -> None:
        """An episode's first values."""
        self._before[self._kept] = variables[self._kept]
        self.values = variables - self._before
        if self.values[self._health] < 0:  # as the engine has it until there is a player
            self.values[self._health] = 100.0
        self._held, self._held_for = int(self.values[self._weapon]), 1

    def step(self, variables: np.ndarray) -> float:
        """What the step to these values earns."""
        values, last = variables - self._before, self.values
        if values[self._health] < 0:
            values[self._health] = last[self._health]
        change = np.minimum(values - last, self._most)
        earned = float(np.dot(change, np.where(change >= 0, self._gain, -self._loss)))
        self.values = values
        return earned + self._weapon_reward()

    def _weapon_reward(self) -> float:
        weapon = int(self.values[self._weapon])
        self._held_for = self._held_for + 1 if weapon == self._held else 1
        self._held = weapon
        earns = weapon >= 0 and self._held_for >= self._duration and int(self.values[self._ammo]) > 0
        return self._weapons.get(weapon, 0.0) if earns else 0.0

"""EnvPool's rewards, for increases and decreases of game variables and for the selected weapon.

The scenario's own rewards (``living_reward`` and others in its ``.cfg``) are ignored, as in EnvPool. With the option
``scenario_reward``, they are the only rewards.
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
"""game variable → reward per unit of increase, and reward (usually negative) per unit of decrease"""
WEAPON_REWARDS: dict[int, float] = {0: 0.0002, 1: 0.0002, 2: 0.0002, 3: 0.001, 4: 0.001, 5: 0.001, 6: 0.002, 7: 0.002}
"""number of the selected weapon → reward of a step"""

KEPT = ("HITCOUNT", "DAMAGECOUNT", "DEATHCOUNT")  # variables that a new episode does not reset to 0
MOST = {"DAMAGECOUNT": 200.0, "HITCOUNT": 5.0}  # largest increase that is rewarded in a step, to not favor large guns


class Rewards:
    """The game variables of an episode and the rewards for their changes.

    Args:
        names: names of the observed variables, which include SELECTED_WEAPON, SELECTED_WEAPON_AMMO and HEALTH.
        prices: rewards as in `REWARDS`; those of variables that are not observed are ignored.
        weapons: rewards as in `WEAPON_REWARDS`; the reward of other weapons is 0.
        duration: number of steps after which a selected weapon with ammunition is rewarded.

    Attributes:
        values: float64[variables], values after the latest step; counters begin at 0 in every episode.
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
        """Sets the variables at the beginning of an episode, float64[variables]."""
        self._before[self._kept] = variables[self._kept]
        self.values = variables - self._before
        if self.values[self._health] < 0:  # the engine's value until the player has spawned
            self.values[self._health] = 100.0
        self._held, self._held_for = int(self.values[self._weapon]), 1

    def step(self, variables: np.ndarray) -> float:
        """Returns the reward of the step that led to these variables, float64[variables]."""
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

"""The textures of Craftax-Classic's pictures: files of the package craftax, which are read where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from headrace.errors import OptionError

TILE, ICON, DIGIT = 7, 5, 4  # pixels: the sides of a place, of a thing, of a number
ROWS, COLUMNS = 7, 9  # places that the player sees
REMEDY = "pip install --no-deps craftax==1.6.1"
BLOCKS = (
    *("debug_tile", "", "grass", "water", "stone", "tree", "wood", "path", "coal", "iron", "diamond", "table"),
    *("furnace", "sand", "lava", "plant_on_grass", "ripe_plant_on_grass"),
)  # by the block's number; what is outside the map is grey
FIGURES = (*(f"player-{way}" for way in ("left", "right", "up", "down", "sleep")), "zombie", "cow", "skeleton")
OPAQUE = tuple("health food drink energy wood stone coal iron diamond sapling wood_pickaxe".split())
THINGS = (*OPAQUE, "stone_pickaxe", "iron_pickaxe", "wood_sword", "stone_sword", "iron_sword")
FIRST_FIGURE = len(BLOCKS) * TILE**2
FIRST_THING = FIRST_FIGURE + (len(FIGURES) + 4) * TILE**2  # after four arrows
FIRST_DIGIT = FIRST_THING + len(THINGS) * ICON**2
FIRST_NIGHT = FIRST_DIGIT + 10 * DIGIT**2


def folder() -> Path:
    """Returns the folder of the package's textures.

    Raises:
        OptionError: the package is not installed.
    """
    found = find_spec("craftax")
    if found is None or found.origin is None:
        raise OptionError(f"the pictures are drawn with the textures of craftax, which is not installed: {REMEDY}")
    return Path(found.origin).parent / "craftax_classic" / "assets"


def texture(name: str, side: int, smooth: bool = False) -> np.ndarray:
    """Returns a texture as the package scales it: red, green, blue 0 to 255 and opacity 0 to 1, float32[side, side, 4].

    Opacity is 0 or 1 unless it is ``smooth``.
    """
    from PIL import Image

    pixels = np.array(Image.open(folder() / f"{name}.png").convert("RGBA"))
    if not smooth:
        pixels[..., 3] //= 255
    pixels = np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.NEAREST), np.float32)
    return pixels / np.array([1, 1, 1, 255 if smooth else 1], np.float32)


def cut(pixels: np.ndarray) -> np.ndarray:
    """Returns a texture that is black where it is transparent."""
    return pixels * np.concatenate([pixels[..., 3:]] * 3 + [np.ones_like(pixels[..., 3:])], -1)


def night() -> np.ndarray:
    """Returns how strong the noise of the night is at each pixel of the map, as red: float32[49, 63, 4]."""
    rows, columns = np.linspace(-1, 1, ROWS * TILE)[:, None], np.linspace(-1, 1, COLUMNS * TILE)
    strength = 1 - np.exp(-0.5 * (rows**2 + columns**2) / 0.5**2)
    return np.pad(strength.astype(np.float32)[..., None], ((0, 0), (0, 0), (0, 3)))


def all_textures() -> np.ndarray:
    """Returns blocks, figures, things, digits and the night's noise, one pixel after the other: float32[K, 4]."""
    grey = np.full((TILE, TILE, 4), 128, np.float32)
    up = cut(texture("arrow-up", TILE))
    down = up[::-1]
    tiles = [texture(name, TILE) if name else grey for name in BLOCKS]
    tiles += [texture(name, TILE, smooth=True) for name in FIGURES]
    tiles += [up.transpose(1, 0, 2), down.transpose(1, 0, 2), up, down]  # arrows to the left, right, up, down
    things = [texture(name, ICON) for name in THINGS]
    things = [icon if name in OPAQUE else cut(icon) for name, icon in zip(THINGS, things, strict=True)]
    digits = [np.zeros((DIGIT, DIGIT, 4), np.float32), *(cut(texture(str(n), DIGIT)) for n in range(1, 10))]
    return np.concatenate([each.reshape(-1, 4) for each in (*tiles, *things, *digits, night())])


class Tables(Mapping[str, np.ndarray]):
    """An environment's tables, of which ``textures`` is read when a pool is made.

    Args:
        others: all tables, and any ``textures``.
    """

    def __init__(self, others: Mapping[str, np.ndarray]):
        self._others = others

    def __getitem__(self, name: str) -> np.ndarray:
        return all_textures() if name == "textures" else self._others[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._others)

    def __len__(self) -> int:
        return len(self._others)

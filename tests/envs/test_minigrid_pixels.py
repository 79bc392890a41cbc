"""MiniGrid's tasks from pictures: what the package's wrappers of RGB images draw, in every mode of pools."""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

from typing import Any

import numpy as np
import pytest

import headrace
from headrace.envs.minigrid import TASKS, text
from headrace.envs.minigrid.picture import LOOKS, tile
from headrace.envs.minigrid.pixels import tiles
from headrace.envs.minigrid.words import WORDS
from headrace.errors import OptionError
from nightly import rest_nightly

DOOR_KEY, FETCH = "MiniGrid-DoorKey-8x8-v0", "MiniGrid-Fetch-5x5-N2-v0"
SEE_THROUGH = "MiniGrid-PutNear-6x6-N2-v0"
COMPARED = sorted({*TASKS[::9], DOOR_KEY, SEE_THROUGH, "BabyAI-MiniBossLevel-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0"})


@pytest.mark.parametrize("size", rest_nightly([*range(1, 33)], 2, 6, 8))
def test_tiles_of_any_size_equal_those_of_the_package(size):
    grids, things = pytest.importorskip("minigrid.core.grid"), pytest.importorskip("minigrid.core.world_object")
    worlds = pytest.importorskip("minigrid_worlds")
    shown = [None, things.Goal(), things.Lava(), things.Floor("red"), things.Key("blue"), things.Ball("purple")]
    shown += [things.Box("green"), things.Wall("grey")]
    shown += [things.Door("grey", *state) for state in ((True, False), (False, False), (False, True))]
    for i, thing in enumerate(shown):
        look = int(LOOKS[worlds.byte_of(thing)]) & 0xFFFFFF
        for agent, lit in ((-1, False), (-1, True), (i % 4, i % 2 > 0)):
            theirs = grids.Grid.render_tile(thing, None if agent < 0 else agent, lit, size)
            np.testing.assert_array_equal(tile(look, agent, lit, size), theirs.astype(np.uint8))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("task", rest_nightly(COMPARED, DOOR_KEY, SEE_THROUGH))
def test_pictures_equal_those_of_the_packages_wrappers(task, full):
    wrappers, worlds = pytest.importorskip("minigrid.wrappers"), pytest.importorskip("minigrid_worlds")
    wrapper = wrappers.RGBImgObsWrapper if full else wrappers.RGBImgPartialObsWrapper
    rng, n, differ = np.random.default_rng(0), 6, set()
    envs = [worlds.official(task, i) for i in range(n)]
    for size in (8, 5):
        options: dict[str, Any] = {"from_pixels": True, "full_observation": full, "tile_size": size}
        with headrace.make(task, num_envs=n, seed=1, autoreset="disabled", **options) as pool:
            pool.reset()
            for i, env in enumerate(envs):
                env.reset(seed=i)
                if i % 2:
                    worlds.scatter(env, rng)
                vars(env).pop("place_obj", None)
                worlds.synchronise(pool, i, env)
            for _ in range(12):
                actions = rng.integers(0, min(6, pool.action_space.n), n)
                obs, _, terminated, truncated, _ = pool.step(actions)
                for i, env in enumerate(envs):
                    if "Dynamic" in task:
                        worlds.follow(env, pool, i)
                    seen = env.step(int(actions[i]))[0]
                    drawn = wrapper(env, size).observation(seen)["image"]
                    np.testing.assert_array_equal(obs["image"][i], drawn.transpose(2, 0, 1))
                    assert obs["direction"][i] == seen["direction"]
                    assert text(obs["mission"][i]) == seen["mission"]
                    differ.add(drawn.tobytes())
                for i in np.flatnonzero(terminated | truncated):
                    pool.reset([i])
                    envs[i].reset(seed=int(i))
                    worlds.synchronise(pool, i, envs[i])
    assert len(differ) > 4 * n


def test_one_array_is_the_picture_alone_or_has_the_direction_and_the_mission_before_it():
    plain: dict[str, Any] = {"num_envs": 3, "seed": 2, "from_pixels": True}
    joined: dict[str, Any] = plain | {"flat_observation": "pictures"}
    for task in (DOOR_KEY, FETCH):
        with headrace.make(task, **plain) as parts, headrace.make(task, **joined) as pool:
            seen, rows = parts.reset()[0], pool.reset()[0]
            for step in range(9):
                assert rows.dtype == np.uint8 and rows[0] in pool.spec.observation
                if task == DOOR_KEY:
                    np.testing.assert_array_equal(rows, seen["image"])
                else:
                    np.testing.assert_array_equal(rows[:, -seen["image"][0].size :], seen["image"].reshape(3, -1))
                    np.testing.assert_array_equal(rows[:, :4], np.eye(4)[seen["direction"]])
                    words = rows[:, 4 : pool.spec.observation.numbers].reshape(3, -1, len(WORDS))
                    np.testing.assert_array_equal(words, np.eye(len(WORDS))[seen["mission"]])
                    np.testing.assert_array_equal(rows, pool.spec.observation.rows({(k,): v for k, v in seen.items()}))
                seen, rows = parts.step([step % 3] * 3)[0], pool.step([step % 3] * 3)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"from_pixels": True, "flat_observation": True}, "one array with pixels: flat_observation='pictures'"),
        ({"flat_observation": "pictures"}, "one array with no pixels: flat_observation=True"),
        ({"flat_observation": "picture"}, "flat_observation .* True or False or 'pictures', not 'picture'"),
        ({"from_pixels": True, "tile_size": 1}, r"tile_size .* \[2, 32\], not 1"),
        ({"from_pixels": 1}, "from_pixels .* True or False"),
    ],
)
def test_options_that_do_not_fit_pictures_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        headrace.make(DOOR_KEY, **options)


def test_the_table_has_a_picture_of_every_cell_in_every_light_with_and_without_the_agent():
    table = tiles(2).reshape(2, 5, 256, 3, 2, 2)
    assert (table[1, :, 1] != table[0, :, 1]).any((1, 2, 3)).all()
    assert len({picture.tobytes() for picture in tiles(8).reshape(2, 5, 256, -1)[1, :, 1]}) == 5


@pytest.mark.parametrize("options", [{}, {"full_observation": True}, {"flat_observation": "pictures"}])
def test_debug_mode_draws_the_pictures_of_compiled_kernels(options):
    rng = np.random.default_rng(1)
    chosen: dict[str, Any] = {"seed": 4, "from_pixels": True, "tile_size": 2, **options}
    with headrace.make(FETCH, **chosen) as one, headrace.make(FETCH, debug=True, **chosen) as other:
        for step in range(9):
            actions = rng.integers(0, 7, 1)
            first, second = (pool.step(actions)[0] if step else pool.reset()[0] for pool in (one, other))
            if "flat_observation" not in options:
                first, second = first["image"], second["image"]
            np.testing.assert_array_equal(first, second)

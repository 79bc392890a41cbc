"""Robots may be drawn with the meshes of published files, which changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robot_sources import menagerie_of

import headrace
from headrace.errors import OptionError

NAMES = {"Go1Flat-v0": "unitree_go1", "G1Nano-v0": "unitree_g1", "T1Flat-v0": "booster_t1"}


def played(task: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Observations of some steps [20, 2, size], and the last picture."""
    seen = []
    with headrace.make(
        task, num_envs=2, seed=3, render_mode="rgb_array", render_width=96, render_height=96, **options
    ) as pool:
        pool.reset()
        actions = np.random.default_rng(0).uniform(-0.3, 0.3, (20, 2, *pool.action_space.shape))
        for action in actions:
            seen.append(pool.step(action)[0].copy())
        return np.array(seen), pool.render(0)[0]


@pytest.mark.parametrize("task", NAMES)
def test_meshes_change_the_picture_and_no_bit_of_a_step(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = menagerie_of(NAMES[task])
    shapes, drawn = played(task)
    by_file, with_meshes = played(task, render_looks=str(file))
    assert np.array_equal(shapes, by_file)
    assert (drawn != with_meshes).any(-1).mean() > 0.01
    monkeypatch.setenv("MENAGERIE_ROOT", str(file.parents[1]))
    _, by_name = played(task, render_looks=NAMES[task])
    assert np.array_equal(by_name, with_meshes)


def test_the_whole_body_may_collide_beneath_meshes() -> None:
    file = menagerie_of("unitree_go1")
    shapes, _ = played("Go1Flat-v0", collisions="all")
    meshes, _ = played("Go1Flat-v0", collisions="all", render_looks=str(file))
    assert np.array_equal(shapes, meshes)


def test_a_state_goes_from_one_look_to_another() -> None:
    file = str(menagerie_of("unitree_go1"))
    with headrace.make("Go1Flat-v0", num_envs=1) as shapes, headrace.make("Go1Flat-v0", render_looks=file) as meshes:
        shapes.reset(seed=2)
        meshes.reset(seed=3)
        meshes.load_state([0], shapes.save_state([0]))
        action = np.full((1, 12), 0.1)
        assert np.array_equal(shapes.step(action)[0], meshes.step(action)[0])


def test_looks_that_do_not_fit_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = menagerie_of("unitree_g1")
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("MENAGERIE_ROOT", str(empty))
    for looks, words in (
        ("./nowhere.xml", "there is no file nowhere.xml"),
        (str(other), "has no meshes for the bodies of this robot, such as 'trunk'"),
        ("unitree_go3", "unitree_go3"),
        ("unitree_go1", "not found under MENAGERIE_ROOT"),
    ):
        with pytest.raises(OptionError, match=words):
            headrace.make("Go1Flat-v0", render_looks=looks)
    bare = tmp_path / "bare.xml"
    bare.write_text("<mujoco/>")
    with pytest.raises(OptionError, match=r"has no meshes for the bodies of this robot$"):
        headrace.make("Go1Flat-v0", xml_file=str(bare), render_looks=str(other))
    with pytest.raises(OptionError, match="must be a file's path, or the name of a robot"):
        headrace.make("Go1Flat-v0", render_looks=1)

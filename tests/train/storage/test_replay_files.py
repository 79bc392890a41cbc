"""A replay on disk: a save writes new rows alone, a load finds all of them, and a kill at any moment loses none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.errors import StateError
from headrace.train.storage import files as saving
from headrace.train.storage.files import ReplayFiles
from headrace.train.storage.step_replay import StepReplay
from killing import kill_again_and_again, started

STEPS, ENVS, SEGMENTS = 64, 2, 2
STRIDE = ENVS * SEGMENTS
IMAGES = gym.spaces.Box(0, 255, (1, 3, 3), np.uint8)


def new(**more) -> StepReplay:
    layout: dict[str, Any] = {"segments": SEGMENTS, "steps": STEPS, "envs": ENVS, "frame_stack": 3} | more
    return StepReplay(IMAGES, gym.spaces.Discrete(7), **layout)


def go_on(replay: StepReplay, rows: int) -> None:
    """Rows whose contents follow from their numbers, as of a writer that was started just now."""
    for index in range(SEGMENTS):
        writer = replay.writer(index)
        writer.begin()
        for _ in range(rows + index):
            t, row = writer.written, writer.row
            numbers = t * STRIDE + index * ENVS + np.arange(ENVS)
            row.observation[...] = (numbers % 256)[:, None, None, None]
            row.action[...], row.reward[...] = numbers % 7, numbers
            writer.publish(numbers % 11 == 3, numbers % 13 == 5, t)


def assert_as(replay: StepReplay, other: StepReplay) -> None:
    """That the same can be drawn and read from both."""
    assert replay.ranges() == other.ranges() and replay.held == other.held and replay.steps == other.steps
    numbers = replay.draw((300,), torch.Generator().manual_seed(0))
    assert torch.equal(numbers, other.draw((300,), torch.Generator().manual_seed(0)))
    for one, two in zip(replay.read(numbers)[:5], other.read(numbers)[:5], strict=True):
        assert torch.equal(one, two)
    assert torch.equal(replay.staleness(numbers, 9).versions, other.staleness(numbers, 9).versions)


def test_a_saved_replay_is_loaded_equal(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "BYTES", 1000)  # several files a save
    replay = new()
    files, before = ReplayFiles(replay, tmp_path / "replay"), None
    for rows in (10, 3, 0, 30, 40, 5, 1, 60, 20, 200, 7):
        go_on(replay, rows)
        at = files.save()
        loaded = new()
        ReplayFiles(loaded, tmp_path / "replay").load(at)
        assert_as(loaded, replay)
        if before is not None:  # so is what was saved before
            earlier = new()
            ReplayFiles(earlier, tmp_path / "replay").load(before[1])
            assert_as(earlier, before[0])
        before = loaded, at


def test_a_save_writes_new_rows_alone_and_removes_overwritten_ones(tmp_path):
    replay = new()
    files = ReplayFiles(replay, tmp_path)

    def chunks() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")}

    go_on(replay, 40)
    files.save()
    first = chunks()
    assert len(first) == SEGMENTS
    go_on(replay, 3)
    files.save()
    assert len(chunks()) == 2 * SEGMENTS and first.items() <= chunks().items()
    (tmp_path / ".left-behind.tmp").write_bytes(b"of a save that was killed")
    for _ in range(12):
        go_on(replay, 10)
        files.save()
    assert not first.keys() & chunks().keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*chunks(), "replay.json"])
    assert len(chunks()) <= SEGMENTS * (STEPS // 10 + 3)


def test_a_resumed_replay_goes_on_saving(tmp_path):
    one = new()
    files = ReplayFiles(one, tmp_path)
    go_on(one, 50)
    at = files.save()
    go_on(one, 9)
    files.save()  # newer than the state that is resumed
    two = new()
    resumed = ReplayFiles(two, tmp_path)
    resumed.load(at)
    go_on(two, 30)
    resumed.save()
    three = new()
    ReplayFiles(three, tmp_path).load()
    assert_as(three, two)
    go_on(three, 2)
    go_on(two, 2)
    assert_as(three, two)


def live(folder: Path, restarts: int) -> None:
    """Resume, and save as often as possible."""
    replay = new()
    files = ReplayFiles(replay, folder)
    if (folder / saving.MANIFEST).exists():
        files.load()
    while True:
        go_on(replay, 5 + restarts % 30)
        files.save()


def saved(folder: Path) -> int:
    path = folder / saving.MANIFEST
    return sum(json.loads(path.read_text())["written"]) if path.exists() else 0


def check(folder: Path) -> None:
    """Assert that all rows are there, whole: their contents follow from their numbers."""
    if not saved(folder):
        return
    replay = new()
    ReplayFiles(replay, folder).load()
    for written, begin in zip(replay.arrays["written"].tolist(), replay.arrays["begin"].tolist(), strict=True):
        assert begin <= max(0, written + 4 - STEPS)
    numbers = replay.draw((300,), torch.Generator().manual_seed(0))
    read = replay.read(numbers.clone())
    assert torch.equal(read.rewards, numbers.float())
    assert torch.equal(read.actions, numbers % 7)
    assert torch.equal(read.inputs[:, -1, 0, 0].long(), numbers % 256)
    assert torch.equal(read.next_observations[:, -1, 0, 0].long(), (numbers + STRIDE) % 256)


def raise_savers(folder: Path) -> None:
    kill_again_and_again(live, folder, 60, lambda: saved(folder), seed=3, after=lambda: check(folder))
    assert saved(folder) > 4 * STEPS


@pytest.mark.nightly
def test_a_kill_while_saving_loses_nothing_that_was_saved(tmp_path):
    process = started(raise_savers, tmp_path)
    process.join()
    assert process.exitcode == 0


def test_damaged_or_foreign_files_are_named(tmp_path):
    with pytest.raises(StateError, match="cannot be read"):
        ReplayFiles(new(), tmp_path).load()
    replay = new()
    go_on(replay, 10)
    ReplayFiles(replay, tmp_path).save()
    with pytest.raises(StateError, match="another task, size"):
        ReplayFiles(new(steps=65), tmp_path).load()
    next(tmp_path.glob("*.safetensors")).write_bytes(b"")
    with pytest.raises(StateError, match="cannot be read"):
        ReplayFiles(new(), tmp_path).load()


def test_files_of_other_folders_are_not_read(tmp_path):
    replay = new()
    go_on(replay, 10)
    files = ReplayFiles(replay, tmp_path / "replay")
    files.save()
    manifest = tmp_path / "replay" / saving.MANIFEST
    values = json.loads(manifest.read_text())
    name = values["chunks"][0][3]
    values["chunks"][0][3] = f"../{name}"
    (tmp_path / "replay" / name).rename(tmp_path / name)
    manifest.write_text(json.dumps(values))
    with pytest.raises(StateError, match="names files of other folders"):
        ReplayFiles(new(), tmp_path / "replay").load()
    values["chunks"][0][3] = name
    (tmp_path / "replay" / name).symlink_to(tmp_path / name)
    manifest.write_text(json.dumps(values))
    with pytest.raises(StateError, match="it is a link"):
        ReplayFiles(new(), tmp_path / "replay").load()
    (tmp_path / "replay" / f".{saving.MANIFEST}.tmp").symlink_to(tmp_path / "outside")
    files.save()
    assert not (tmp_path / "outside").exists()

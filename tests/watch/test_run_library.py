"""Runs are found, followed and summed up from their folders alone."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import line, write_run, write_sweep

from headrace.errors import OptionError
from headrace.studies.sweep.plan import Plan
from headrace.studies.sweep.study import load_study
from headrace.train.runs import lock
from headrace.watch.library import Library
from headrace.watch.run import Run
from headrace.watch.sweep import Sweep


def summaries(library: Library) -> dict[str, dict]:
    library._scanned = float("-inf")  # as if some seconds had passed
    library.look()
    return {run.name: run.summary for run in library.runs.values()}


def test_runs_are_found_in_folders_and_below(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "sweep" / "trial-1")
    (tmp_path / "a" / "inner").mkdir()
    shutil.copytree(tmp_path / "sweep", tmp_path / "a" / "inner" / "sweep")  # of a run nothing below is another
    (tmp_path / "notes").mkdir()
    library = Library([tmp_path])
    assert sorted(summaries(library)) == ["a", "sweep/trial-1"]
    write_run(tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    assert sorted(summaries(library)) == ["b", "sweep/trial-1"]
    assert sorted(summaries(Library([tmp_path / "b", tmp_path / "sweep"]))) == ["b", "trial-1"]
    assert sorted(summaries(Library([tmp_path, tmp_path / "b"]))) == ["b", "sweep/trial-1"]  # none twice
    with pytest.raises(OptionError, match="is not a folder"):
        Library([tmp_path / "none"])


def test_every_run_has_its_status(tmp_path: Path) -> None:
    for end in ("finished", "solved", "interrupted", "failed"):
        write_run(tmp_path / end, end=end)
    (tmp_path / "interrupted" / "checkpoints" / "step-000000010000").mkdir(parents=True)
    write_run(tmp_path / "dead", end=None)
    write_run(tmp_path / "alive", end=None)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    shutil.copytree(tmp_path / "finished", tmp_path / "torn")
    with (tmp_path / "torn" / "metrics.jsonl").open("a") as more:
        more.write("x\n")
    with lock.held(tmp_path / "alive" / "train.lock"):
        found = summaries(Library([tmp_path]))
    kinds = {name: summary["status"]["kind"] for name, summary in found.items()}
    assert kinds == {
        "finished": "finished", "solved": "solved", "interrupted": "interrupted", "failed": "failed",
        "dead": "killed", "alive": "running", "broken": "damaged", "torn": "damaged",
    }  # fmt: skip
    assert found["interrupted"]["status"]["resume"] == f"headrace train --resume {tmp_path}/interrupted"
    assert "config.json" in found["broken"]["status"]["text"]
    assert "metrics.jsonl" in found["torn"]["status"]["text"]
    assert found["failed"]["status"]["text"] == "it has failed"
    assert found["finished"]["step"] == 10_000 and found["finished"]["spark"]


def test_a_run_that_has_just_begun_is_not_damaged(tmp_path: Path) -> None:
    (tmp_path / "young").mkdir()
    (tmp_path / "young" / "config.json").touch()
    assert not summaries(Library([tmp_path]))
    os.utime(tmp_path / "young" / "config.json", (1.0, time.time() - 60))
    assert summaries(Library([tmp_path]))["young"]["status"]["kind"] == "damaged"


def test_runs_that_differ_in_their_seed_alone_belong_together(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"seed-{seed}", seed=seed)
    write_run(tmp_path / "other", seed=1, learning_rate=0.1)
    found = summaries(Library([tmp_path]))
    assert found["seed-1"]["group"] == found["seed-2"]["group"] != found["other"]["group"]


def test_trials_belong_to_their_sweep(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "all" / "sweep", trials=3)
    write_run(tmp_path / "all" / "other")
    library = Library([tmp_path / "all"])
    found = summaries(library)
    (sweep,) = {run.sweep for run in library.runs.values() if run.sweep is not None}
    assert {found[name]["sweep"] for name in found} == {sweep.id, None} and found["other"]["sweep"] is None
    sweep.refresh()
    assert [trial["id"] for trial in sweep.told["trials"]] == [found[f"sweep/trial-{i}"]["id"] for i in range(3)]
    version = sweep.version
    load_study(path, Plan.read(path)).tell(2, 5.0)
    sweep.refresh()
    assert sweep.version == version + 1 and sweep.told["trials"][2]["value"] == 5.0
    sweep.refresh()
    assert sweep.version == version + 1
    (path / "trials.journal").write_text("{}\n{}\n")
    sweep.refresh()
    assert "trials.journal" in sweep.told["problem"]
    assert summaries(Library([path / "trial-0"]))["trial-0"]["sweep"] is None  # its folder was not named


ODD: list[Any] = [None, 3, "x", [], {}, {"low": "a", "high": 2}, [[]], float("nan"), True, -1]


def test_a_damaged_sweep_is_explained(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "sweep", trials=3)
    plan = json.loads((path / "sweep.json").read_text())
    journal = [json.loads(text) for text in (path / "trials.journal").read_text().splitlines()]
    for odd in ODD:
        for name in plan:
            (path / "sweep.json").write_text(json.dumps({**plan, name: odd}))
            Sweep(path, "sweep").refresh()  # raises nothing, whatever is wrong
        (path / "sweep.json").write_text(json.dumps(odd))
        sweep = Sweep(path, "sweep")
        sweep.refresh()
        assert "sweep.json" in sweep.told["problem"]
    (path / "sweep.json").write_text(json.dumps(plan))
    for odd in ODD:
        for number, before in enumerate(journal):
            for name in before:
                changed = [*journal[:number], {**before, name: odd}, *journal[number + 1 :]]
                (path / "trials.journal").write_text("".join(f"{json.dumps(each)}\n" for each in changed))
                Sweep(path, "sweep").refresh()


def test_policies_have_returns_of_their_own(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    with (path / "metrics.jsonl").open("a") as more:
        policies = {"cat": {"return": 2.0}, "mouse": {"return": -1.0}, "dog": {"return": None}, "owl": 3}
        more.write(json.dumps(line(20_000, 60, 2.0, policies=policies)) + "\n")
    assert summaries(Library([path]))["run"]["returns"] == {"cat": 2.0, "mouse": -1.0}
    assert summaries(Library([write_run(tmp_path / "alone")]))["alone"]["returns"] == {}


def test_nothing_is_read_again_while_nothing_changes(tmp_path: Path) -> None:
    run = Run(write_run(tmp_path / "run"), "run")
    run.refresh()
    summary = run.summary
    run.refresh()
    assert run.summary is summary and run.version == 1
    with (run.path / "metrics.jsonl").open("a") as more:
        more.write(json.dumps({"step": 99_999, "return": 7.0}) + "\n")
    run.refresh()
    assert run.version == 2 and run.summary["step"] == 99_999 and run.summary["return"] == 7.0


def test_only_videos_of_the_run_itself_are_given_out(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    for folder in ("episodes", "videos"):
        (path / folder).mkdir()
    (path / "episodes" / "episode-5.mp4").write_bytes(b"film")
    (path / "episodes" / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    (path / "videos" / "step-000000000005.mp4").write_bytes(b"film")
    names = ["episode-5.mp4", "link.mp4", "../../secret.mp4", "none.mp4", 3, None, ["x"]]
    lines = [json.dumps({"file": name, "step": 5, "return": 1.5, "kind": "best"}) for name in names]
    (path / "episodes" / "episodes.jsonl").write_text("\n".join([*lines, "x", "[]"]) + "\n")
    run = Run(path, "run")
    assert run.video("episodes", "episode-5.mp4")
    for folder, name in (
        ("episodes", "link.mp4"), ("episodes", "../config.json"), (".", "config.json"), ("..", "secret.mp4"),
        ("episodes", ".."), ("checkpoints", "x.mp4"), ("episodes", "../../secret.mp4"),
    ):  # fmt: skip
        assert run.video(folder, name) is None
    shown = run.details()["episodes"]
    assert [(each["folder"], each["file"], each["step"]) for each in shown] == [
        ("episodes", "episode-5.mp4", 5), ("videos", "step-000000000005.mp4", 5),
    ]  # fmt: skip


def _pipe(run: Path) -> None:
    (run / "events.jsonl").unlink()
    os.mkfifo(run / "events.jsonl")


def _huge_line(run: Path) -> None:
    with (run / "metrics.jsonl").open("a") as more:
        more.write(json.dumps({"step": 10**400, "return": 1.0, "time": {"seconds": 10**400}}) + "\n")


def _deep(run: Path) -> None:
    values = json.loads((run / "config.json").read_text())
    nested = "[" * 900 + "]" * 900
    (run / "config.json").write_text(json.dumps(values | {"seed": "?"}).replace('"?"', nested))


BROKEN: dict[str, Callable[[Path], object]] = {
    "pipe": _pipe,
    "locked": lambda run: os.mkfifo(run / "train.lock"),
    "endless": lambda run: ((run / "metrics.jsonl").unlink(), (run / "metrics.jsonl").symlink_to("/dev/zero")),
    "device": lambda run: ((run / "config.json").unlink(), (run / "config.json").symlink_to("/dev/urandom")),
    "folder": lambda run: (run / "episodes").symlink_to("/"),
    "vast": lambda run: os.truncate(run / "config.json", 1 << 40),
    "long": lambda run: os.truncate(run / "metrics.jsonl", 1 << 40),
    "huge": _huge_line,
}
"""what makes a folder one that is told about as damaged"""
OF_VALUES: dict[str, Callable[[Path], object]] = {
    "deep": _deep,
    "goal": lambda run: (run / "config.json").write_text(
        json.dumps({"task": "x", "seed": 10**400, "stop_at_return": 10**400, "total_steps": 10**400})
    ),
    "events": lambda run: (run / "events.jsonl").write_text(
        f'{{"time": 1, "step": {10**400}, "kind": "began"}}\n'
        f'{{"time": 1, "kind": "began", "data": {"[" * 900 + "]" * 900}}}\n{{"time": {10**400}, "kind": "began"}}\n'
    ),
    "return": lambda run: (run / "metrics.jsonl").write_text(
        f'{{"step": 1, "return": {10**400}, "time": {{"seconds": {10**400}}}, "loss": {{"a": {10**400}}}}}\n'
    ),
}
"""what makes a folder one of odd values"""


def test_a_folder_that_cannot_be_read_is_one_row_and_the_others_are_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "good")
    for name, damage in (BROKEN | OF_VALUES).items():
        damage(write_run(tmp_path / name))
    library = Library([tmp_path])
    found = summaries(library)
    assert found.keys() == {"good", *BROKEN, *OF_VALUES}
    assert found["good"]["status"]["kind"] == "finished"
    for name in BROKEN:
        assert found[name]["status"]["kind"] == "damaged", name
        assert found[name]["status"]["text"], name
    keys = set(found["good"])
    for name, summary in found.items():
        assert set(summary) == keys, name
        json.dumps(summary, allow_nan=False)
        assert "0" * 400 not in json.dumps(summary)
    assert "events.jsonl is not a regular file" in found["pipe"]["status"]["text"]
    assert "metrics.jsonl is a link" in found["endless"]["status"]["text"]
    for run in library.runs.values():
        run.series.refresh()


def test_a_link_to_a_folder_of_folders_is_not_searched(tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere" / "inner" / "run")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "all").symlink_to(tmp_path)
    (tmp_path / "runs" / "one").symlink_to(tmp_path / "elsewhere" / "inner" / "run")
    assert sorted(summaries(Library([tmp_path / "runs"]))) == ["one"]


def test_showing_a_sweep_runs_no_code(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = write_sweep(tmp_path / "sweep", trials=2)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    plan = json.loads((folder / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps(plan | {"settings": {"algo": f"{tmp_path}/evil.py:Algorithm"}}))
    sweep = Sweep(folder, "sweep")
    sweep.refresh()
    assert "runs code of" in sweep.told["problem"]
    for space in ([], {"gamma": 10**400}, {"gamma": {"low": 10**400, "high": 1}}):
        (folder / "sweep.json").write_text(json.dumps(plan | {"space": space}))
        os.utime(folder / "sweep.json", (1, len(str(space))))
        sweep.refresh()
        assert sweep.told["problem"]
    assert not (tmp_path / "ran").exists()

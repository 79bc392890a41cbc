"""Which runs are found, read, and joined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import OptionError
from headrace.studies.plots.baselines import read_baselines
from headrace.studies.plots.curves import grouped, labels_of, read_curves
from headrace.train.logging.plot import Curve
from headrace.train.recipes.make import make_config
from headrace.train.runs.choice import find_runs
from headrace.train.runs.folder import RunFolder


def run(folder: Path, lines: list[dict[str, Any]] | None = None, task: str = "CartPole-v1", **settings: Any) -> Path:
    made = RunFolder.create(folder, make_config(task, **settings))
    lines = [{"step": s, "return": float(s), "time": {"seconds": s / 10}} for s in (10, 20)] if lines is None else lines
    made.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made.path


def test_runs_are_found_in_named_folders_and_below(tmp_path: Path) -> None:
    for seed in (10, 9, 2):
        run(tmp_path / "parent" / f"seed-{seed}", seed=seed)
    alone = run(tmp_path / "alone")
    names = [path.name for path in find_runs([tmp_path, alone, tmp_path / "parent"])]
    assert names == ["alone", "seed-2", "seed-9", "seed-10"]
    (tmp_path / "none").mkdir()
    for wrong in ("none", "nowhere"):
        with pytest.raises(OptionError, match=wrong):
            find_runs([tmp_path / wrong])


def test_old_runs_are_read_and_damaged_ones_named(tmp_path: Path) -> None:
    lines = [{"step": 1}, {"step": 2, "return": None}, {"step": 3, "return": 4.0}, {"step": 5, "return": float("nan")}]
    run(tmp_path / "old", lines)
    (run(tmp_path / "torn") / "metrics.jsonl").open("a").write('{"step": 30, "retu')
    (run(tmp_path / "odd") / "metrics.jsonl").write_text("[]\n")
    (run(tmp_path / "bad") / "config.json").write_text("{")
    run(tmp_path / "empty", [])
    told: list[str] = []
    old, torn = read_curves(find_runs([tmp_path]), skipped=told.append)
    assert (list(old.steps), list(old.returns)) == ([3], [4]) and list(torn.steps) == [10, 20]
    assert list(torn.seconds) == [1, 2]
    assert len(told) == 3 and all(any(name in words for words in told) for name in ("odd", "bad", "empty"))


def test_a_repeated_evaluation_counts_once(tmp_path: Path) -> None:
    first = {"step": 5, "return": 100.0}
    lines = [{"step": s, "return": 1.0, "evaluation": e} for s, e in ((6, first), (8, first), (9, first | {"step": 7}))]
    (curve,) = read_curves([run(tmp_path / "run", lines)], "evaluation")
    assert list(curve.steps) == [5, 7] and list(curve.returns) == [100, 100]


def test_groups_differ_in_more_than_their_seed(tmp_path: Path) -> None:
    for seed in (2, 1):
        run(tmp_path / f"ppo {seed}", seed=seed, video=bool(seed - 1))
        run(tmp_path / f"fast {seed}", seed=seed, learning_rate=0.5)
    run(tmp_path / "a2c", algo="a2c")
    run(tmp_path / "other", task="Acrobot-v1")
    tasks = grouped(read_curves(find_runs([tmp_path])))
    found = {group.label: [curve.config.seed for curve in group.curves] for group in tasks["CartPole-v1"]}
    assert found == {"A2C": [1], "PPO, learning rate 0.5": [1, 2], "PPO, learning rate 0.002": [1, 2]}
    assert [group.label for group in tasks["Acrobot-v1"]] == ["PPO"]
    counted = {group.label: group.counted(2) for group in tasks["CartPole-v1"]}
    assert counted["PPO, learning rate 0.5"] == "2 seeds" and tasks["Acrobot-v1"][0].counted(1) == "1 seed"
    twice = grouped(read_curves([run(tmp_path / "again", seed=2), tmp_path / "ppo 2"]))["CartPole-v1"]
    assert twice[0].counted(2) == "2 runs", "of one seed"
    named = grouped(read_curves([tmp_path / "a2c", tmp_path / "ppo 1"]), ["theirs", "ours"])
    assert [group.label for group in named["CartPole-v1"]] == ["theirs", "ours"]
    with pytest.raises(OptionError, match="1 labels were given, but CartPole-v1 has 2 groups"):
        grouped(read_curves([tmp_path / "a2c", tmp_path / "ppo 1"]), ["ours"])


def test_baselines_are_curves_and_levels(tmp_path: Path) -> None:
    file = tmp_path / "baselines.csv"
    file.write_text("name, step, return, low, high\nTheirs, 20, 5, 4, 6\nTheirs, 10, 3, 2, 4\nHuman,, 9,,\n")
    theirs, human = read_baselines(file)
    assert list(theirs.steps) == [10, 20] and list(theirs.high) == [4, 6] and not theirs.is_level
    assert human.is_level and human.returns[0] == 9
    for text, told in (
        ("name, step\nA, 1\n", "has no column return"),
        ("name, return, colour\nA, 1, red\n", "has a column 'colour' that means nothing"),
        ("name, step, return\nA, ten, 1\n", "line 2: step must be a number, not 'ten'"),
        ("name, step, return\nA, 10,\n", "line 2: the return is missing"),
        ("name, step, return\nA, , 1\nA, , 2\n", "'A' has several rows"),
    ):
        file.write_text(text)
        with pytest.raises(OptionError, match=told):
            read_baselines(file)
    with pytest.raises(OptionError, match="cannot be read"):
        read_baselines(tmp_path / "nowhere.csv")


def test_a_label_names_swept_settings_before_other_differences(tmp_path):
    names = ("num_envs", "num_steps", "epochs", "learning_rate", "gamma")
    values = [(8 * i, i, i, 10**-i, 1 - 0.1**i) for i in (1, 2)]
    settings = [{"algo": "ppo", **dict(zip(names, each, strict=True))} for each in values]
    assert labels_of(settings)[0].endswith("and 2 more")
    assert labels_of(settings, ["learning_rate"])[0] == "learning rate 0.1, num envs 8, num steps 1, and 2 more"
    assert labels_of(settings, names)[0] == "num envs 8, num steps 1, epochs 1, learning rate 0.1, gamma 0.9"
    (tmp_path / "sweep.json").write_text('{"space": {"gamma": {}}}')
    curves = []
    for i, given in enumerate(settings):
        config = make_config("CartPole-v1", **given)
        curves.append(Curve(tmp_path / f"trial-{i}", config, np.zeros(1), np.zeros(1), np.zeros(1)))
    (groups,) = grouped(curves).values()
    assert groups[0].label.startswith("gamma 0.9, ")

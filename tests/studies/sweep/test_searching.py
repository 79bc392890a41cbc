"""Which settings trials get, when they end early, and what their files say."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import OptionError, StateError
from headrace.studies.sweep.pruning import Pruner
from headrace.studies.sweep.samplers import Name, RandomSampler, find_sampler
from headrace.studies.sweep.space import Choice, Range, Space
from headrace.studies.sweep.summary import importance, summary
from headrace.studies.sweep.trials import Plan, Trial, append, drop_incomplete_line, read_trials, value_of

SPACE: Space = {"learning_rate": Range(1e-4, 1e-2, log=True), "num_steps": Choice((16, 32, 64))}


def trials_of(sampler: Any, count: int) -> list[Trial]:
    """Trials whose value is best at a learning rate of 1e-3, and does not depend on the steps."""
    trials: list[Trial] = []
    for number in range(count):
        settings = sampler.ask(number, trials)
        value = -abs(np.log10(settings["learning_rate"]) + 3)
        trials.append(Trial(number, settings, "complete", float(value), 100))
    return trials


def test_random_trials_depend_on_their_number_alone() -> None:
    one, other = RandomSampler(SPACE, 1), RandomSampler(SPACE, 1)
    assert one.ask(7, []) == other.ask(7, trials_of(other, 3)) != one.ask(8, [])
    assert RandomSampler(SPACE, 2).ask(7, []) != one.ask(7, [])


@pytest.mark.parametrize("name", ["tpe", pytest.param("gp", marks=pytest.mark.nightly)])
def test_optunas_samplers_ask_within_the_space(name: Name) -> None:
    pytest.importorskip("optuna")
    trials = trials_of(find_sampler(name, SPACE, 1), 14)
    assert all(1e-4 <= trial.settings["learning_rate"] <= 1e-2 for trial in trials)
    assert all(trial.settings["num_steps"] in (16, 32, 64) for trial in trials)
    assert len({trial.settings["learning_rate"] for trial in trials}) == 14


def test_tpe_finds_the_better_half_and_copes_with_every_state() -> None:
    pytest.importorskip("optuna")
    sampler = find_sampler("tpe", SPACE, 3)
    later = [trial.value or 0.0 for trial in trials_of(sampler, 40)[20:]]
    assert np.median(later) > -0.25, "at random it would be -0.5"
    told = [
        Trial(0, {"learning_rate": 1e-3, "num_steps": 16}, "running"),
        Trial(1, {"learning_rate": 1e-3, "num_steps": 32}, "failed", note="no memory"),
        Trial(2, {"learning_rate": 2e-3, "num_steps": 64}, "pruned", 3.0, 50),
        Trial(3, {"learning_rate": 2e-3, "num_steps": 64}, "pruned"),
        Trial(4, {"learning_rate": 2e-3, "num_steps": 64}, "complete"),
    ]
    assert sampler.ask(5, told) == find_sampler("tpe", SPACE, 3).ask(5, told)


def test_without_optuna_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(OptionError, match=r"headrace\[sweep\]"):
        find_sampler("tpe", SPACE, 1)
    find_sampler("random", SPACE, 1)


def lines(*returns: float | None) -> list[dict[str, Any]]:
    """A return after each hundred steps."""
    return [{"step": 100 * i, "return": earned} for i, earned in enumerate(returns, 1)]


def test_a_trial_below_the_median_ends() -> None:
    pruner = Pruner("median", 1000)
    for number in range(4):
        assert not pruner.note(number, lines(number, 10 * number)), "there is nothing to compare it with yet"
    assert not pruner.note(4, lines(0)), "it is too early"
    assert "after 200 steps its return 14.0 was below the others' median 15.0" in pruner.note(5, lines(0, 14))
    assert not pruner.note(6, lines(None, 16)) and not pruner.note(7, lines(None, None))
    assert not pruner.note(6, lines(None, 16)), "once for each rung"


def test_halving_keeps_the_best_third() -> None:
    pruner = Pruner("halving", 900)
    pruned = [bool(pruner.note(number, lines(score))) for number, score in enumerate((5, 4, 3, 2, 6, 5.5, 7))]
    assert pruned == [False, False, False, True, False, False, False]
    assert not any(Pruner("none", 900).note(number, lines(1)) for number in range(9))


def test_the_files_survive_a_kill(tmp_path: Path) -> None:
    one = Trial(0, {"gamma": 0.9})
    append(tmp_path, one)
    append(tmp_path, Trial(0, {"gamma": 0.9}, "complete", 5.0, 100, 1.0))
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('{"number": 1, "sett')
    (known,) = read_trials(tmp_path, {"gamma"})
    assert known.state == "complete" and known.value == 5
    drop_incomplete_line(tmp_path)
    append(tmp_path, Trial(1, {"gamma": 0.8}))
    assert [trial.number for trial in read_trials(tmp_path, {"gamma"})] == [0, 1]
    for wrong in ("{}", "[]", json.dumps(asdict(Trial(1, {"other": 3})))):
        (tmp_path / "trials.jsonl").write_text(f"{wrong}\n")
        with pytest.raises(StateError, match="line 1: no trial"):
            read_trials(tmp_path, {"gamma"})
    for wrong in ("{", "[]", "{}", '{"task": "a", "settings": {}, "space": {}, "total_steps": 1}'):
        (tmp_path / "sweep.json").write_text(wrong)
        with pytest.raises(StateError, match=r"sweep\.json"):
            Plan.read(tmp_path)


def test_the_final_and_the_area_value_of_a_trial() -> None:
    assert value_of("final", lines(None, 1, 5, None)) == 5 and value_of("final", lines(None)) is None
    assert value_of("area", lines(0, 2, 4)) == 2 and value_of("area", lines(3)) == 3


def test_importance_names_what_decides() -> None:
    trials = trials_of(RandomSampler(SPACE, 1), 30)
    assert importance(SPACE, trials[:3]) is None
    found = importance(SPACE, trials)
    assert found is not None and found["values"]["learning_rate"] > 0.8
    assert sum(found["values"].values()) == pytest.approx(1)


def test_ranks_serve_where_optuna_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    draws = [RandomSampler(SPACE, 1).ask(number, []) for number in range(40)]
    trials = [Trial(n, own, "complete", float(own["num_steps"] == 32)) for n, own in enumerate(draws)]
    found = importance(SPACE, trials)
    assert found is not None and "rank" in found["measure"] and found["values"]["num_steps"] > 0.65
    trials = [Trial(n, own, "complete", own["learning_rate"] ** 3) for n, own in enumerate(draws)]
    found = importance(SPACE, trials)
    assert found is not None and found["values"]["learning_rate"] > 0.75


def test_a_summary_needs_no_torch(tmp_path: Path) -> None:
    Plan("CartPole-v1", {"algo": "ppo"}, {"gamma": [0.9, 0.99]}, 1000).write(tmp_path)
    append(tmp_path, Trial(0, {"gamma": 0.9}, "complete", 5.0, 1000, 1.0))
    append(tmp_path, Trial(1, {"gamma": 0.99}))
    (tmp_path / "trial-1").mkdir()
    (tmp_path / "trial-1" / "metrics.jsonl").write_text('{"step": 10, "return": 3.0}\n')
    code = (
        "import json, sys; from headrace.studies.sweep.summary import summary; found = summary(sys.argv[1]); "
        "assert not {'torch', 'warp', 'matplotlib'} & sys.modules.keys(); print(json.dumps(found))"
    )
    told = json.loads(
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=True).stdout
    )
    assert told == json.loads(json.dumps(summary(tmp_path)))
    assert told["best"] == 0 and told["space"] == {"gamma": {"values": [0.9, 0.99]}} and told["importance"] is None
    assert [(trial["run"], trial["value"], trial["steps"]) for trial in told["trials"]] == [
        ("trial-0", 5.0, 1000), ("trial-1", 3.0, 10),
    ]  # fmt: skip

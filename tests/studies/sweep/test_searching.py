"""The settings of trials, their early ends, and their files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.trial import TrialState

from headrace.cli.main import main
from headrace.errors import OptionError, StateError
from headrace.studies.sweep.plan import JOURNAL, Plan, PrunerName, SamplerName
from headrace.studies.sweep.search import RunningTrial, Sweep
from headrace.studies.sweep.study import begin_study, best_of, load_study, repair, return_at, value_of
from headrace.studies.sweep.summary import importance, summary

SPACE: dict[str, Any] = {"learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "num_steps": [16, 32, 64]}


def plan_of(sampler: SamplerName = "random", pruner: PrunerName = "none", total_steps: int = 1000) -> Plan:
    return Plan("CartPole-v1", {"algo": "ppo"}, SPACE, total_steps, 99, sampler, pruner)


def begun(folder: Path, plan: Plan) -> Sweep:
    """A sweep in a new folder, whose study is loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    plan.write(folder)
    begin_study(folder)
    return loaded(folder, plan)


def loaded(folder: Path, plan: Plan) -> Sweep:
    sweep = Sweep(folder, plan)
    sweep.study = load_study(folder, plan)
    return sweep


def run_trials(sweep: Sweep, count: int) -> list[dict[str, Any]]:
    """Ends trials whose value is best at a learning rate of 1e-3, and does not depend on the steps."""
    drawn = []
    for _ in range(count):
        trial = sweep._new().trial
        sweep.study.tell(trial, -abs(math.log10(trial.params["learning_rate"]) + 3))
        drawn.append(trial.params)
    return drawn


@pytest.mark.parametrize("name", ["random", "tpe", pytest.param("gp", marks=pytest.mark.nightly)])
def test_settings_depend_on_the_seed_and_on_earlier_trials_also_after_an_interruption(
    tmp_path: Path, name: SamplerName
) -> None:
    plan = plan_of(name)
    drawn = run_trials(begun(tmp_path / "one", plan), 14)
    assert all(1e-4 <= each["learning_rate"] <= 1e-2 and each["num_steps"] in (16, 32, 64) for each in drawn)
    assert len({each["learning_rate"] for each in drawn}) == 14
    again = run_trials(begun(tmp_path / "other", plan), 10)
    assert again + run_trials(loaded(tmp_path / "other", plan), 4) == drawn


def test_tpe_finds_the_better_half(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan_of("tpe"))
    run_trials(sweep, 40)
    assert np.median([trial.value or 0.0 for trial in sweep.study.trials[20:]]) > -0.25, "at random it would be -0.5"


def test_a_sweep_without_optuna_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("headrace.studies.sweep", "headrace.cli.s"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["sweep", "CartPole-v1"]) == 1
    assert "pip install 'headrace[sweep]'" in capsys.readouterr().err
    assert main(["sweep", "--help"]) == 0
    assert "--space" in capsys.readouterr().out


def lines(*returns: float | None) -> list[dict[str, Any]]:
    """A return after each hundred steps."""
    return [{"step": 100 * i, "return": earned} for i, earned in enumerate(returns, 1)]


class Told:
    """A job that has written some lines of metrics."""

    stopping = False

    def __init__(self, lines: list[dict[str, Any]]):
        self.metrics, self.step = self, lines[-1]["step"]
        self.lines = lines

    def stop(self) -> None:
        self.stopping = True


def reported(sweep: Sweep, *returns: float | None) -> RunningTrial:
    """A new trial that has reported these returns."""
    each = sweep._new()
    sweep._report(each, Told(lines(*returns)))  # type: ignore[arg-type]
    return each


def test_a_trial_below_the_median_of_complete_ones_ends(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan_of(pruner="median"))
    for number in range(4):
        each = reported(sweep, number, 10 * number)
        assert not each.pruned_after, "there is nothing to compare it with yet"
        sweep.study.tell(each.trial, 10.0 * number)
    assert not reported(sweep, 0).pruned_after, "it is too early"
    assert reported(sweep, 0, 14).pruned_after == 200 and not reported(sweep, None, 16).pruned_after
    assert not reported(sweep, None, None).pruned_after


def test_a_trial_is_compared_by_its_return_at_the_step(tmp_path: Path) -> None:
    """A run that writes few lines is not judged by one that is long past."""
    sweep = begun(tmp_path, plan_of(pruner="median"))
    for number in range(4):
        sweep.study.tell(reported(sweep, *[10.0 * step for step in range(1, 10)]).trial, 10.0 * number)
    rare = [{"step": 40, "return": 4.0}, {"step": 540, "return": 54.0}]
    each = sweep._new()
    sweep._report(each, Told(rare))  # type: ignore[arg-type]
    assert sweep.study.trials[-1].intermediate_values == {100 * n: 10.0 * n for n in range(1, 6)}
    assert not each.pruned_after


@pytest.mark.parametrize(("step", "earned"), [(99, None), (100, 1.0), (250, 2.5), (300, 3.0)])
def test_the_return_at_a_step_is_interpolated_between_lines(step: int, earned: float | None) -> None:
    assert return_at(step, [{"step": 50, "return": None}, *lines(1.0, 2.0, 3.0)]) == earned
    assert return_at(step, [{"step": 1000, "return": None}]) is None


def test_halving_keeps_the_best_third(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan_of(pruner="halving", total_steps=2700))
    pruned = [bool(reported(sweep, score).pruned_after) for score in (5, 4, 3, 2, 6, 5.5, 7)]
    assert pruned == [False, True, True, True, False, False, False]
    other = begun(tmp_path / "none", plan_of())
    assert not any(reported(other, 1).pruned_after for _ in range(9))


def test_a_resumed_trial_reports_its_missing_returns(tmp_path: Path) -> None:
    plan = plan_of(pruner="median")
    before = reported(begun(tmp_path, plan), 1, 2, 3)
    sweep = loaded(tmp_path, plan)
    (trial,) = sweep._interrupted()
    each = sweep._resumed(trial)
    assert each.trial.params == before.trial.params and list(each.waiting) == list(range(400, 1000, 100))
    sweep._report(each, Told(lines(1, 2, 3, 4)))  # type: ignore[arg-type]
    assert sweep.study.trials[0].intermediate_values == {100: 1, 200: 2, 300: 3, 400: 4}


def test_the_files_survive_a_kill(tmp_path: Path) -> None:
    plan = plan_of()
    run_trials(begun(tmp_path, plan), 1)
    journal = tmp_path / JOURNAL
    journal.write_text(journal.read_text() + '{"op_code":4,"work')
    assert summary(tmp_path)["best"] == 0
    (tmp_path / f"{JOURNAL}.lock").symlink_to(journal)
    repair(tmp_path)
    loaded(tmp_path, plan)._new()
    *_, last = journal.read_text().splitlines(keepends=True)
    journal.write_text(journal.read_text().removesuffix(last))  # killed before the second of the trial's settings
    sweep = loaded(tmp_path, plan)
    assert sweep._interrupted() == [] and sweep.study.trials[1].state == TrialState.FAIL
    assert best_of(sweep.study) is not None


def test_damaged_files_are_named(tmp_path: Path) -> None:
    plan = plan_of()
    run_trials(begun(tmp_path, plan), 2)
    whole = (tmp_path / JOURNAL).read_text()
    for wrong in ("{}\n", "[]\n{}\n", whole.replace("16", "17"), whole.replace("0.01", "0.02"), ""):
        (tmp_path / JOURNAL).write_text(wrong)
        with pytest.raises(StateError, match=JOURNAL):
            load_study(tmp_path, plan)
    (tmp_path / "trials.jsonl").touch()
    with pytest.raises(OptionError, match="earlier version"):
        load_study(tmp_path, plan)
    for wrong in ("{", "[]", "{}", '{"task": "a", "settings": {}, "space": {}, "total_steps": 1}'):
        (tmp_path / "sweep.json").write_text(wrong)
        with pytest.raises(StateError, match=r"sweep\.json"):
            Plan.read(tmp_path)


def test_a_trial_is_valued_by_its_final_return_or_its_mean_over_the_steps() -> None:
    assert value_of("final", lines(None, 1, 5, None)) == 5 and value_of("final", lines(None)) is None
    assert value_of("area", lines(0, 2, 4)) == 2 and value_of("area", lines(3)) == 3


def test_importance_names_the_setting_that_decides(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan_of())
    run_trials(sweep, 7)
    assert importance(sweep.study) is None
    run_trials(sweep, 23)
    found = importance(sweep.study)
    assert found is not None and found["values"]["learning_rate"] > 0.8
    assert sum(found["values"].values()) == pytest.approx(1)


def test_a_summary_needs_no_torch(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan_of())
    (first,) = run_trials(sweep, 1)
    second = sweep._new().trial.params
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
    assert told["best"] == 0 and told["space"]["num_steps"] == {"values": [16, 32, 64]} and told["importance"] is None
    assert [trial["settings"] for trial in told["trials"]] == [first, second]
    assert [(trial["run"], trial["state"], trial["value"], trial["steps"]) for trial in told["trials"]] == [
        ("trial-0", "complete", sweep.study.trials[0].value, 0), ("trial-1", "running", 3.0, 10),
    ]  # fmt: skip

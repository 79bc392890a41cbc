"""A run folder that somebody sent runs no code that was not agreed to."""

from __future__ import annotations

import importlib
import json
import os
import pty
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

import headrace
import programs
from headrace import studies
from headrace.cli.main import main
from headrace.errors import HeadraceError, StateError, TrustError
from headrace.studies.leaderboard.board import Row, read_board
from headrace.studies.leaderboard.scores import Measured, TimeToReturn
from headrace.studies.leaderboard.training import entries
from headrace.studies.sweep.plan import Plan
from headrace.studies.sweep.space import space_of
from headrace.studies.sweep.study import begin_study, load_study
from headrace.train.play.evaluate import evaluate
from headrace.train.play.video import record
from headrace.train.runs import trust
from headrace.train.runs.folder import RunFolder
from headrace.watch.library import Library
from headrace.watch.sweep import Sweep
from nightly import rest_nightly

TASK = """
import os, pathlib
pathlib.Path(os.environ["MARK"]).write_text("ran")
import headrace
from headrace.envs.classic_control import build
headrace.register("Sent-v0", lambda task, **options: build("CartPole-v1", **options), replace=True)
"""
NETWORK = """
import os, pathlib
pathlib.Path(os.environ["MARK"]).write_text("ran")
import torch

class Net(torch.nn.Module):
    def __init__(self, space, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(4, outputs + 1)

    def forward(self, x):
        y = self.layer(x)
        return y[:, :-1], y[:, -1]
"""
GAMES = """
import gymnasium as gym
import numpy as np

class Game(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=5):
        self.length, self.steps = length, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps >= self.length, False, {}

def make(length=5):
    return Game(length)
"""
TINY = {"num_envs": 4, "num_steps": 8, "minibatch_size": 32, "total_steps": 64, "video": False, "quiet": True}
TRAIN = f"import sys, headrace; headrace.train(sys.argv[1], run_dir=sys.argv[2], network=sys.argv[3], **{TINY})"


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Lets another user train a run of each kind, once; returns the folder that holds it and its code."""

    @cache
    def train(kind: str) -> Path:
        home = tmp_path_factory.mktemp(kind)
        task, network = "CartPole-v1", "mlp"
        if kind == "task":
            task = "sent_task.py"
            (home / task).write_text(TASK)
        else:
            (home / f"sent_{kind}.py").write_text(NETWORK)
            network = "sent_network.py:Net" if kind == "network" else "sent_module:Net"
        environment = os.environ | {"XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(home), "MARK": "ran"}
        command = [sys.executable, "-c", TRAIN, task, "sent", network]
        programs.run(command, check=True, env=environment, cwd=home)
        assert (home / "ran").exists()
        return home

    return train


@pytest.fixture
def sent(
    theirs: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> tuple[Path, Path]:
    """A run that another user trained, and the file that its code writes."""
    mark = tmp_path / "ran"
    shutil.copytree(theirs(request.param), tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("ran", "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARK", str(mark))
    if request.param == "module":
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    return tmp_path / "sent", mark


every_kind = pytest.mark.parametrize("sent", ["task", "network", "module"], indirect=True)


@every_kind
def test_no_function_that_opens_a_sent_run_runs_its_code(sent, capsys):
    run, mark = sent
    for act in (headrace.train.resume, evaluate, record, headrace.train.log_episode, RunFolder.open):
        with pytest.raises(TrustError, match=r"runs code of .*sent_(task|network|module)\.py"):
            act(run)
    for argv in (["play", str(run)], ["train", "--resume", str(run)], ["play", str(run), "--log", "all"]):
        assert main(argv) == 1
        assert "--trust" in capsys.readouterr().err
    library = Library([run])
    library.look()
    assert [each.summary["task"] != "" for each in library.runs.values()] == [True]
    RunFolder.read(run)
    assert not mark.exists()


@every_kind
def test_an_agreement_ends_with_a_change_of_the_code(sent):
    run, mark = sent
    with pytest.raises(TrustError, match="runs code of"):
        RunFolder.open(run)
    RunFolder.open(run, trust=True)
    RunFolder.open(run)
    for file in run.parent.glob("sent_*.py"):
        file.write_text(file.read_text() + "\n# more\n")
    with pytest.raises(TrustError, match="which has changed since you ran it last"):
        RunFolder.open(run)
    assert not mark.exists()


@pytest.mark.parametrize("sent", rest_nightly(["task", "network", "module"], "task"), indirect=True)
def test_an_agreement_holds_until_the_code_changes(sent):
    run, mark = sent
    script = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"

    def played(*more: str) -> int:
        command = [sys.executable, "-c", script, "play", str(run), "--no-film", *more]
        return programs.run(command, capture_output=True).returncode

    assert played() == 1 and not mark.exists()
    assert played("--trust") == 0 and mark.exists()
    assert played() == 0
    for file in run.parent.glob("sent_*.py"):
        file.write_text(file.read_text() + "\n# more\n")
    mark.unlink()
    assert played() == 1 and not mark.exists()


@pytest.mark.parametrize("sent", ["network"], indirect=True)
def test_a_run_of_ones_own_goes_on_without_a_word(sent, tmp_path):
    run, mark = sent
    shutil.rmtree(run)
    command = [sys.executable, "-c", TRAIN, "CartPole-v1", str(run), "sent_network.py:Net"]
    programs.run(command, check=True)  # what its user names is trusted, and remembered
    mark.unlink()
    resumed = "headrace.train.resume(sys.argv[1], quiet=True, total_steps=96); evaluate(sys.argv[1], 1)"
    again = f"import sys, headrace; from headrace.train.play.evaluate import evaluate; {resumed}"
    programs.run([sys.executable, "-c", again, str(run)], check=True)
    assert mark.exists()


@pytest.mark.parametrize("sent", ["network"], indirect=True)
@pytest.mark.parametrize(("answer", "status"), [("n", 1), ("", 1), ("y", 0)])
@pytest.mark.parametrize("asked", ["play --no-film", "train --total-steps 96 --no-video --resume"])
def test_a_command_on_a_terminal_asks_for_agreement_once(sent, asked, answer, status, monkeypatch):
    run, mark = sent
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")  # nothing can be remembered
    ours, theirs = pty.openpty()
    script = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, *asked.split(), str(run)]
    process = programs.Program(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 1024)
    assert b"sent_network.py" in shown
    assert not mark.exists()
    os.write(ours, f"{answer}\n".encode())
    try:
        while os.read(ours, 1024):
            pass
    except OSError:  # it has gone
        pass
    assert process.wait() == status
    assert mark.exists() == (status == 0)
    os.close(ours)


@pytest.fixture
def asking(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a copy of a run of an installed task, which somebody sent with other settings."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def ask(**settings: Any) -> Path:
        run = tmp_path / "asking"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(trained, run)
        values = json.loads((run / "config.json").read_text()) | settings
        (run / "config.json").write_text(json.dumps(values))
        return run

    return ask


INSTALLED = [
    {"task": "os:system", "env_options": {"command": "touch ran"}},
    {"task": "posix:system", "env_options": {"command": "touch ran"}},  # of no file
    {"task": "subprocess:Popen", "env_options": {"args": ["touch", "ran"]}},
    {"task": "runpy:run_path", "env_options": {"path_name": "asking/evil.py"}},
    {"task": "http.server:SimpleHTTPRequestHandler"},  # a class, but of no environment
    {"task": "antigravity.part:Env"},
    {"task": "this:Env"},
    {"network": "json:loads"},
    {"reward": "os:abort"},
    {"algo": "this:Algorithm"},
    {"policies": {"a": {"network": "json:loads"}}},
    {"policies": {"a": {"algo": "this:Algorithm"}}},
    {"task": "gymnasium:make", "env_options": {"id": "evil:Env-v0"}},
    {"task": "gymnasium.wrappers:TimeLimit", "env_options": {"env": "evil:Env", "more": 1}},
]


@pytest.mark.parametrize("settings", INSTALLED, ids=str)
def test_installed_code_is_not_called_with_a_strangers_arguments(asking, settings, capsys):
    run = asking(**settings)
    (run / "evil.py").write_text("open('ran', 'w')")
    loaded = {*sys.modules}
    for act in (headrace.train.resume, evaluate, headrace.load, RunFolder.open):
        with pytest.raises(TrustError, match="it may do whatever you may do"):
            act(run)
    for argv in (["play", str(run)], ["train", "--resume", str(run)], ["export", str(run), "policy.pt"]):
        assert main(argv) == 1
        assert "--trust" in capsys.readouterr().err
    assert not Path("ran").exists()
    assert not {"this", "antigravity"} & ({*sys.modules} - loaded)


HIDDEN = [
    {"task": "envpool:asking/evil.py"},
    {"task": "envpool:asking/evil.py:Env"},
    {"task": "envpool:hidden_module:Env"},
    {"task": "gymnasium:hidden_module:Env-v0"},
    {"algo": "<given>:asking/evil.py:Algorithm"},
    {"policies": {"a": {"algo": "<given>:asking/evil.py:Algorithm"}}},
    {"network": "hidden_module:x.py"},
    {"reward": "hidden_module:x.py"},
    {"reward": "<given>:asking/evil.py:reward"},
    {"network": "a/../hidden_module:Net"},
    {"task": "hidden_module :Env"},
]


@pytest.mark.parametrize("settings", HIDDEN, ids=str)
def test_no_name_hides_a_file_or_a_module(asking, settings, tmp_path, monkeypatch):
    run = asking(**settings)
    evil = "open('ran', 'w')"
    for folder in (run, tmp_path / "envpool:asking", tmp_path / "<given>:asking"):
        folder.mkdir(exist_ok=True)
        (folder / "evil.py").write_text(evil)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hidden_module.py").write_text(evil)
    for act in (headrace.load, RunFolder.open, RunFolder.read, headrace.train.resume):
        with suppress(HeadraceError):
            act(run)
    for argv in (["play", str(run), "--no-film"], ["export", str(run), "policy.pt"]):
        main(argv)
    assert not Path("ran").exists() and "hidden_module" not in sys.modules


@pytest.mark.parametrize("name", ["task", "algo", "network", "reward", "preset", "load", "none of the settings"])
def test_a_name_of_any_length_is_answered_at_once(asking, name):
    """Similar names are looked for in a time that grows with the square of a name's length."""
    run = asking(**{name: "CartPole-v1" * 40_000})
    for act in (headrace.load, RunFolder.read):
        with suppress(HeadraceError):
            act(run)
    for wrong in ({"schedules": {"x" * 400_000: [[0, 1.0]]}}, {"env_options": {"x" * 400_000: 1}}):
        with pytest.raises(HeadraceError):
            headrace.load(asking(**wrong))


OPTIONS = [
    {"task": "HalfCheetah-v5", "env_options": {"xml_file": "asking/evil.xml"}},
    {"task": "Ant-v5", "curriculum": {"xml_file": [[0, "ant"], [10, "../evil.xml"]]}},
    {"task": "D1Basic-v1", "env_options": {"wad_path": "here"}},  # there is a file of this name
    {"task": "D1Basic-v1", "env_options": {"game_args": "+map evil"}},
    {"task": "GymV21Environment-v0", "env_options": {"env_id": "evil"}},
    {"task": "gymnasium:CarRacing-v3", "env_options": {"no_such_option": 1}},
    {"task": "FrozenLake-v1", "env_options": {"executor": "processes", "desc": ["S:F", "F/G"]}},
    {"task": "headrace/CartPole-v1", "env_options": {"task": "os:system"}},
    {"task": "gymnasium.envs.mujoco:MujocoEnv", "env_options": {"model_path": "/evil.xml"}},
]


@pytest.mark.parametrize("settings", OPTIONS, ids=str)
def test_options_that_name_files_or_code_are_agreed_to_first(asking, settings):
    Path("here").touch()
    run = asking(**settings)
    with pytest.raises(TrustError, match=f"makes {settings['task']} with "):
        RunFolder.open(run)
    RunFolder.open(run, trust=True)
    RunFolder.open(run)
    other = {name: ["and", "others"] for name in settings.get("env_options", {"xml_file": None})}
    with pytest.raises(TrustError):
        RunFolder.open(asking(**settings | {"env_options": other | {"x": ":"}}))


@pytest.mark.parametrize(
    "settings",
    [
        {"task": "Acrobot-v1"},
        {"task": "Pong-v5", "env_options": {"frame_skip": 2, "episodic_life": True}},
        {"task": "FrozenLake-v1", "env_options": {"executor": "processes", "map_name": "8x8", "max_episode_steps": 9}},
        {"task": "CliffWalking-v1", "env_options": {"is_slippery": True}, "curriculum": {"is_slippery": [[0, False]]}},
        {"task": "gymnasium.envs.classic_control:CartPoleEnv", "env_options": {"sutton_barto_reward": True}},
        {"task": "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv", "env_options": {"map_name": "8x8"}},
        {"network": "cnn", "algo": "a2c", "policies": {"a": {"network": "gru"}}},
    ],
    ids=str,
)
def test_registered_tasks_and_classes_of_environments_need_no_agreement(asking, settings):
    values = json.loads((asking(**settings) / "config.json").read_text())
    assert not trust.unagreed(values, training=True)


def test_a_record_that_other_users_can_write_is_no_agreement(asking, tmp_path):
    """A folder of caches that others can write, as in /tmp, may hold what they wrote."""
    settings = {"task": "os:system"}
    trust.remember(settings)
    assert not trust.unagreed(settings)
    (record,) = (tmp_path / "cache" / "headrace").glob("trusted.json")
    record.chmod(0o666)
    assert trust.unagreed(settings)


def test_a_run_asks_before_it_connects_sends_or_reads(asking):
    for name, value, words in (
        ("ray", "10.0.0.1:6379", "connects to the Ray cluster at 10.0.0.1:6379"),
        ("log", ["wandb"], "sends its metrics to wandb"),
        ("load", "/their/run", "reads the run /their/run"),
    ):
        run = asking(**{name: value})
        with pytest.raises(TrustError, match=words):
            headrace.train.resume(run, total_steps=96)
        assert main(["train", "--resume", str(run)]) == 1
        RunFolder.open(run)  # which is only played
        RunFolder.open(run, trust=True, training=True)
        RunFolder.open(run, training=True)
    with pytest.raises(TrustError, match=r"10\.0\.0\.2:6379"):  # it is this address that was agreed to
        RunFolder.open(asking(ray="10.0.0.2:6379"), training=True)
    for here in ("", "local", "auto"):
        assert not trust.unagreed({"ray": here}, training=True)


def test_a_run_makes_no_connection_before_agreement(asking):
    with socket.create_server(("127.0.0.1", 0)) as there:
        there.settimeout(0.2)
        run = asking(ray=f"127.0.0.1:{there.getsockname()[1]}", algo="sac")
        with pytest.raises(TrustError, match="connects to the Ray cluster"):
            headrace.train.resume(run)
        with pytest.raises(TimeoutError):
            there.accept()


def test_plans_of_seeds_and_sweeps_are_asked_about_as_runs_are(asking, tmp_path, capsys):
    settings = {"algo": "ppo", "env_options": {"command": "touch ran"}}
    seeds, sweep = tmp_path / "seeds", tmp_path / "sweep"
    plan = Plan("CartPole-v1", {"algo": "ppo"}, {"network": ["mlp", "json:loads"]}, 64)
    for folder in (seeds, sweep):
        folder.mkdir()
    (seeds / "seeds.json").write_text(json.dumps({"task": "os:system", "settings": settings, "seeds": [1]}))
    assert main(["train", "--resume", str(seeds)]) == 1
    assert "os:system" in capsys.readouterr().err
    with pytest.raises(TrustError, match="os:system"):
        studies.resume_seeds(seeds)
    plan.write(sweep)
    assert main(["sweep", "--resume", str(sweep)]) == 1
    assert "calls json:loads" in capsys.readouterr().err
    (sweep / "evil.py").write_text("open('ran', 'w')")
    replace(plan, settings={"algo": f"{sweep}/evil.py:Algorithm"}, space={"gamma": [0.9, 1.0]}).write(sweep)
    page = Sweep(sweep, "sweep")
    page.refresh()  # as the page does
    assert "evil.py" in page.told["problem"]
    assert main(["sweep", "--resume", str(sweep), "--space", "gamma=0.9,1.0"]) == 1
    assert not Path("ran").exists()


BOARD = '[[row]]\nname = "one"\ngoals = [1]\nminutes = 0.01\ntotal_steps = 64\n'
ROWS = [
    'task = "os:system"\nsettings = {env_options = {command = "touch ran"}}',
    'task = "own_code.py"',
    'task = "CartPole-v1"\nalgo = "own_code.py:Algorithm"',
    'task = "CartPole-v1"\nsettings = {network = "own_code.py:Net"}',
    'task = "CartPole-v1"\nsettings = {ray = "10.0.0.1:6379"}',
]


@pytest.mark.parametrize("row", ROWS)
def test_a_board_runs_no_code_that_was_not_agreed_to(asking, row, tmp_path, capsys):
    board = tmp_path / "sent.toml"
    board.write_text(BOARD + row)
    (tmp_path / "own_code.py").write_text("open('ran', 'w')")
    assert main(["leaderboard", "--board", "sent.toml", "--list"]) == 0
    assert "one" in capsys.readouterr().out
    with pytest.raises(TrustError, match=r"sent\.toml .*it may do whatever you may do"):
        read_board(board)
    assert main(["leaderboard", "--board", "sent.toml", "--quiet"]) == 1
    assert "--trust" in capsys.readouterr().err
    assert not Path("ran").exists()
    with suppress(HeadraceError):
        read_board(board, trust=True)
    with suppress(HeadraceError):  # it is known now, and its rows are made
        read_board(board)


def test_results_of_a_board_run_no_code_that_was_not_agreed_to(asking, tmp_path):
    row = Row("one", "CartPole-v1", (1.0,), total_steps=64, minutes=1)
    kept = row.kept() | {"task": "os:system", "env_options": {"command": "touch ran"}}
    for name, values in (("one", kept), ("other", row.kept())):
        folder = tmp_path / "out" / name
        folder.mkdir(parents=True)
        (folder / "row.json").write_text(json.dumps(values))
        Measured(1, (TimeToReturn(1.0),), 5, 1.0).write(folder / "seed-1.json")
    for board in ([row], []):
        with pytest.raises(TrustError, match=r"row\.json makes os:system with command='touch ran'"):
            entries(tmp_path / "out", board)
    assert main(["leaderboard", "acrobot", "--out", "out", "--quiet"]) == 1
    shutil.rmtree(tmp_path / "out" / "one")
    assert [entry.row.task for entry in entries(tmp_path / "out", [])] == ["CartPole-v1"]
    assert not Path("ran").exists()


def test_files_among_options_run_no_code_that_was_not_agreed_to(asking, tmp_path, capsys):
    (tmp_path / "own_code.py").write_text("open('ran', 'w')")
    choices = {"network": ["mlp", "own_code.py:Net"], "reward": [None, "own_code.py:reward"]}
    (tmp_path / "space.json").write_text(json.dumps(choices))
    (tmp_path / "space.toml").write_text('network = ["own_code.py:Net"]')
    own = {"cats": {"agents": ["tagger"], "algo": "own_code.py:Algorithm"}, "mice": {"agents": ["runner"]}}
    (tmp_path / "policies.json").write_text(json.dumps(own))
    (tmp_path / "curriculum.json").write_text(json.dumps({"xml_file": [[0, "own.xml"]]}))
    for argv in (
        ["sweep", "CartPole-v1", "--space", "space.json"],
        ["sweep", "CartPole-v1", "--space", "space.toml", "gamma=0.9,0.99"],
        ["sweep", "TagGridWorld-v0", "--policies", "policies.json", "--space", "gamma=0.9,0.99"],
        ["train", "TagGridWorld-v0", "--policies", "policies.json"],
        ["train", "TagGridWorld-v0", "--policies=policies.json", "--help"],
        ["train", "HalfCheetah-v5", "--curriculum", "curriculum.json"],
    ):
        assert main(argv) == 1, argv
        assert "--trust" in capsys.readouterr().err
        assert not Path("ran").exists()
    assert main(["train", "TagGridWorld-v0", "--policies", "policies.json", "--trust"]) == 2  # it is no algorithm
    assert Path("ran").exists()


@pytest.mark.nightly
def test_a_task_named_by_the_user_is_remembered_with_its_options(asking, tmp_path):
    (tmp_path / "own_games.py").write_text(GAMES)
    script = (
        f"import headrace; headrace.train('own_games.py:make', run_dir='own', env_options={{'length': 7}}, **{TINY})"
    )
    programs.run([sys.executable, "-c", script], check=True)
    again = "import headrace; headrace.train.resume('own', quiet=True, total_steps=96); headrace.load('own')"
    programs.run([sys.executable, "-c", again], check=True)
    config = tmp_path / "own" / "config.json"
    config.write_text(config.read_text().replace('"length": 7', '"length": 8'))
    with pytest.raises(TrustError, match=r"own_games\.py:make with length=8"):
        RunFolder.open("own")


def test_an_own_environment_that_the_program_has_imported_needs_no_agreement(asking, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_games.py").write_text(GAMES)
    settings = {"task": "imported_games:Game", "env_options": {"length": 3}}
    assert trust.unagreed(settings)
    importlib.import_module("imported_games")
    assert not trust.unagreed(settings)
    assert trust.unagreed(settings | {"env_options": {"width": 3}})  # none that it declares
    assert trust.unagreed(settings | {"task": "imported_games:make"})  # no class


SCREEN = "\x1b]0;owned\x07\x1b[2J"  # it sets a terminal's title, and clears it


@pytest.mark.parametrize(
    "settings",
    [
        {"task": SCREEN},
        {"task": f"{SCREEN}:x"},
        {"network": SCREEN},
        {"algo": SCREEN},
        {"load": SCREEN},
        {"log": [SCREEN]},
        {SCREEN: 1},
        {"preset": SCREEN},
        {"policies": {SCREEN: {}}},
        {"env_options": {SCREEN: SCREEN}},
        {"schedules": {SCREEN: [[0, 1.0]]}},
        {"curriculum": {SCREEN: [[0, 1.0]]}},
    ],
    ids=str,
)
def test_text_of_a_sent_run_does_not_act_on_a_terminal(asking, settings, capfd):
    run = asking(**settings)
    for argv in (
        ["play", str(run), "--no-film"],
        ["train", "--resume", str(run)],
        ["plot", str(run), "--out", "x.png"],
    ):
        assert main(argv) >= 0
    said = "".join(capfd.readouterr())
    assert said and "\x1b" not in said and "\x07" not in said


def test_text_of_a_sweeps_trials_does_not_act_on_a_terminal(asking, tmp_path, capfd):
    plan = Plan("CartPole-v1", {"algo": "ppo"}, {"gamma": [0.9, 0.99]}, 64, trials=1)
    plan.write(tmp_path)
    begin_study(tmp_path)
    study = load_study(tmp_path, plan)
    trial = study.ask(space_of(plan.space, plan.algo))
    trial.set_user_attr("note", SCREEN)
    study.tell(trial, state=TrialState.FAIL)
    assert main(["sweep", "--resume", str(tmp_path), "--quiet"]) == 1
    said = "".join(capfd.readouterr())
    assert "trial-0 failed: \\x1b" in said and "\x1b" not in said


def test_a_question_hides_nothing_on_a_terminal(asking):
    for settings in ({"task": "os:\x1b[2Ksystem"}, {"task": "os:system", "env_options": {"\x1b[2K": "\x1b[2K"}}):
        with pytest.raises((TrustError, StateError), match="os:") as refused:
            RunFolder.open(asking(**settings))
        assert str(refused.value).replace("\n", "").isprintable()


def test_missing_code_is_an_error_that_names_it(asking):
    for name in ("no_such_module:x", "json.no_such_part:x", "no_such_file.py:x"):
        with pytest.raises(HeadraceError, match=name.partition(":")[0]):
            evaluate(asking(network=name), 1)


@pytest.mark.parametrize("deep", [50, 900])
def test_settings_of_any_form_are_refused_in_a_sentence(asking, deep):
    nested: Any = 1
    for _ in range(deep):
        nested = [nested]
    for wrong in ({"env_options": {"x": nested}}, {"env_options": 3}, {"policies": [1]}, {"curriculum": {"x": nested}}):
        with pytest.raises(HeadraceError):
            evaluate(asking(**wrong), 1)
    for odd in ([], {}, 3, None, "\0.py", "\0:x", "a..b:x", "é:x"):
        for name in ("task", "algo", "network"):
            run = asking(**{name: odd}, policies={"a": {name: odd}})
            for read in (RunFolder.open, RunFolder.read):
                with suppress(HeadraceError):
                    read(run)
    for wrong in ({"algo": 3}, {"network": {}}, {"reward": []}, {"ray": 1}, {"log": "wandb"}, {"load": 1}):
        with pytest.raises(HeadraceError):
            headrace.train.resume(asking(**wrong))


def test_a_run_asks_for_agreement_to_a_service_in_any_form(asking):
    for log in ("wandb", ["wandb"], ["tensorboard", "wandb"]):
        with pytest.raises(TrustError, match="sends its metrics to wandb"):
            headrace.train.resume(asking(log=log))


def test_files_from_elsewhere_of_any_form_are_refused_in_a_sentence(asking, tmp_path, capsys):
    deep = "[" * 100_000
    for name in ("deep.toml", "deep.json", "space.toml"):
        (tmp_path / name).write_text(f"network = {deep}" if name.endswith(".toml") else deep)
    for argv in (
        ["leaderboard", "--board", "deep.toml", "--list"],
        ["sweep", "CartPole-v1", "--space", "deep.json"],
        ["sweep", "CartPole-v1", "--space", "space.toml"],
        ["train", "CartPole-v1", "--schedules", "deep.json"],
    ):
        assert main(argv) == 2
        assert "recursion" in capsys.readouterr().err
    file = tmp_path / "seed-1.json"
    for wrong in (deep, "[]", '{"reached": [{"goal": "1"}], "seed": 1, "steps": 1, "seconds": 1}', '{"reached": [1]}'):
        file.write_text(wrong)
        with pytest.raises(StateError, match=r"seed-1\.json cannot be read"):
            Measured.read(file)


def test_a_pipe_in_place_of_a_sweep_is_not_waited_for(asking, tmp_path):
    run = asking()
    os.mkfifo(tmp_path / "sweep.json")
    assert main(["plot", str(run), "--out", "curves.png"]) == 0

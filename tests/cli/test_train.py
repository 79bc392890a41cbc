"""``headrace train`` and ``headrace play``: from a task's name to a film."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.cli.play import PlayArgs
from headrace.cli.train import RunArgs, overrides
from headrace.cli.train import parse as parse_words
from headrace.errors import OptionError
from headrace.train.play.evaluate import evaluate
from headrace.train.play.video import plain, record
from headrace.train.recipes.make import make_config

pytest.importorskip("torch")
TINY = [
    "--num-envs",
    "4",
    "--num-steps",
    "16",
    "--minibatch-size",
    "32",
    "--stop-at-return",
    "None",
    "--no-tensorboard",
]


@pytest.mark.parametrize("word", ["--sutton-barto-reward", "--env.sutton_barto_reward", "--no-sutton-barto-reward=1"])
def test_train_answers_an_option_of_the_task_with_the_way_to_give_it(word: str, capsys: Any) -> None:
    assert main(["train", "CartPole-v1", word, "3"]) == 2
    told = capsys.readouterr().err
    assert "is an option of CartPole-v1: give --option sutton_barto_reward=…" in told
    assert main(["train", "CartPole-v1", "--env-options", "sutton_barto_reward=True"]) == 2
    assert "--env-options is --option NAME=VALUE here" in capsys.readouterr().err


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 640 steps, made by the command."""
    path = tmp_path_factory.mktemp("runs") / "run"
    words = ["train", "CartPole-v1", "--total-steps", "640", "--seed", "5", "--run-dir", str(path), *TINY]
    assert main([*words, "--option", "max_episode_steps=50"]) == 0
    return path


def parse(*argv: str) -> RunArgs:
    return parse_words(list(argv))


def settings(*argv: str) -> Any:
    return SimpleNamespace(**parse(*argv).values)


def test_the_tasks_defaults_hold_wherever_the_task_stands() -> None:
    first, last = parse("CartPole-v1", "--seed", "2"), parse("--seed", "2", "CartPole-v1")
    assert first == last
    assert first.values["stop_at_return"] == 475
    assert first.values["seed"] == 2


def test_the_algorithms_defaults_hold_wherever_the_option_stands() -> None:
    first, last = parse("Pendulum-v1", "--algo", "ddpg"), parse("--algo=ddpg", "Pendulum-v1")
    assert first == last
    assert first.values["activation"] == "relu" != settings("Pendulum-v1").activation
    assert settings("Pendulum-v1", "--algo", "ddpg", "--activation", "tanh").activation == "tanh"
    recurrent = parse("--network=gru", "CartPole-v1")
    assert recurrent.values["normalise_rewards"] and overrides(recurrent)["network"] == "gru"


def test_options_of_the_task_choose_its_recipe() -> None:
    """That of pictures is another algorithm here; runs of several seeds are given its name."""
    pictured = parse("Go1Flat-v0", "--option", "render_width=84", "--option=from_pixels=True", "--n-step", "2")
    options = {"render_width": 84, "from_pixels": True}
    chosen = {"algo": "sac", "network": "auto", "preset": "default"}
    assert overrides(pictured) == chosen | {"n_step": 2, "env_options": options}
    assert pictured.values["trunk"] == make_config("Go1Flat-v0", env_options=options).trunk == "strided"
    assert overrides(parse("Go1Flat-v0"))["algo"] == "ppo"


def test_a_preset_gives_the_defaults_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    fast = parse("Ant-v5", "--preset", "fast")
    assert fast == parse("--preset=fast", "Ant-v5")
    assert fast.values["epochs"] < settings("Ant-v5", "--preset", "default").epochs
    assert overrides(fast) == {"algo": "ppo", "network": "auto", "preset": "fast"}
    with pytest.raises(SystemExit):
        parse("Ant-v5", "--preset", "fast", "--help")
    assert "{default,fast}" in capsys.readouterr().out
    with pytest.raises(OptionError, match="preset='quick' must be one that ppo has"):
        parse("Ant-v5", "--preset", "quick")


def test_help_shows_common_settings_and_help_all_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    for word, shows in (("--help", False), ("--help-all", True)):
        with pytest.raises(SystemExit):
            parse("CartPole-v1", "--algo", "ppo", word)
        told = capsys.readouterr().out
        assert "--learning-rate" in told
        assert ("--gae-lambda" in told) is shows
    assert parse("CartPole-v1", "--algo", "ppo", "--gae-lambda", "0.5").values["gae_lambda"] == 0.5


@pytest.mark.parametrize(
    ("written", "steps"),
    [
        ("100000", 100_000),
        ("100_000", 100_000),
        ("1e5", 100_000),
        ("100k", 100_000),
        ("2M", 2_000_000),
        ("0.5m", 500_000),
    ],
)
def test_steps_are_given_as_people_write_them(written: str, steps: int) -> None:
    assert settings("CartPole-v1", "--total-steps", written).total_steps == steps
    assert settings("CartPole-v1", f"--total-steps={written}", "--samplers", "-1").total_steps == steps


def test_the_recipe_chooses_algorithm_and_preset_of_a_task() -> None:
    assert (settings("Pong-v5").algo, settings("Pong-v5").preset) == ("ppo", "fast")
    assert settings("Pong-v5", "--algo", "dqn").preset == "default"


def test_train_uses_the_algorithm_of_its_option(tmp_path: Path) -> None:
    words = ["train", "Pendulum-v1", "--algo", "ddpg", "--total-steps", "128", "--run-dir", str(tmp_path / "run")]
    assert main([*words, "--num-envs", "4", "--no-tensorboard", "--no-video"]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["algo"], config["activation"], config["num_envs"]) == ("ddpg", "relu", 4)


def test_policies_and_schedules_are_given_as_json_or_as_a_file(tmp_path: Path) -> None:
    schedules = {"entropy_coef": [[0, 0.1], [500, 0.0]]}
    policies = {"cats": {"agents": ["tagger"], "hidden": [8]}, "mouse": {"agents": ["runner"], "frozen": True}}
    file = tmp_path / "policies.json"
    file.write_text(json.dumps(policies))
    words = ["TagGridWorld-v0", "--schedules", json.dumps(schedules), "--policies"]
    for how in (json.dumps(policies), str(file)):
        assert (args := settings(*words, how)).policies == policies and args.schedules == schedules
    run = tmp_path / "run"
    more = ["--total-steps", "128", "--run-dir", str(run), "--no-video", *TINY]
    assert main(["train", *words, str(file), *more]) == 0
    config = json.loads((run / "config.json").read_text())
    assert config["policies"] == policies and config["schedules"] == schedules
    assert main(["train", "--resume", str(run), "--total-steps", "256"]) == 0


@pytest.mark.parametrize("algo", ["a2c", "dqn", "pqn"])
def test_a_run_of_several_algorithms_goes_on(tmp_path: Path, algo: str, capsys: pytest.CaptureFixture[str]) -> None:
    policies = {"mouse": {"agents": ["runner"], "algo": algo}, "cats": {"agents": ["tagger"]}}
    run, tiny = tmp_path / "run", ["--total-steps", "128", "--no-video", *TINY]
    assert main(["train", "TagGridWorld-v0", "--policies", json.dumps(policies), "--run-dir", str(run), *tiny]) == 0
    assert main(["train", "--resume", str(run), "--total-steps", "256"]) == 0
    assert "256 steps" in capsys.readouterr().out
    assert main(["train", "--resume", str(run), "--help"]) == 0


def test_train_leaves_a_run_folder(run_dir: Path) -> None:
    config = json.loads((run_dir / "config.json").read_text())
    assert config["seed"] == 5
    assert config["env_options"] == {"max_episode_steps": 50}
    assert {"metrics.jsonl", "checkpoints"} <= {path.name for path in run_dir.iterdir()}


def test_resume_goes_on_to_a_new_number_of_steps(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(run_dir), "--total-steps", "1280", "--no-video"]) == 0
    assert "1,280 steps" in capsys.readouterr().out


def test_resume_refuses_another_seed(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(run_dir), "--seed", "7"]) == 2
    assert "seed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--option", "max_episode_steps=7"], "--option max_episode_steps cannot change in the middle of a run"),
        (["--option", "nonsense=3"], "--option nonsense cannot change"),
        (["--run-dir", "elsewhere"], "--run-dir is for new runs: leave it out, or --resume"),
        (["--seeds", "1,2"], "--seeds is for new runs"),
        (["--total-steps", "10"], "total_steps=10 is less than the"),
    ],
)
def test_resume_refuses_what_a_run_that_goes_on_would_ignore(
    run_dir: Path, capsys: pytest.CaptureFixture[str], argv: list[str], named: str
) -> None:
    before = (run_dir / "config.json").read_bytes()
    assert main(["train", "--resume", str(run_dir), *argv]) == 2
    assert named in capsys.readouterr().err
    assert (run_dir / "config.json").read_bytes() == before


def test_a_run_that_went_on_beyond_its_steps_takes_the_same_number_again(run_dir: Path) -> None:
    first = headrace.train.resume(run_dir, quiet=True, total_steps=1301)
    assert first.steps > 1301, "its last rollout is whole"
    assert headrace.train.resume(run_dir, quiet=True, total_steps=1301).steps == first.steps


def test_resume_takes_the_options_of_the_command_that_began_the_run(run_dir: Path) -> None:
    same = ["--option", "max_episode_steps=50", "--run-dir", str(run_dir)]
    assert main(["train", "CartPole-v1", "--resume", str(run_dir), *same]) == 0


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "which task"),
        (["CartPole-v1", "--num-envs", "0"], "num_envs"),
        (["CartPole-v1", "--algo", "alchemy"], "algo"),
        (["CartPole-v1", "--hidden", "99999999"], "hidden=99999999 must be between 1 and 65536"),
        (["CartPole-v1", "--algo"], "algo"),
        (["CartPole-v1", "--learning-rate", "inf"], "learning_rate=inf must be a finite number"),
        (["Pendulum-v1", "--algo", "sac", "--target-entropy", "nan"], "target_entropy=nan must be a finite number"),
        (["CartPole-v1", "--frozen"], "with frozen=True no policy would learn"),
        (["CartPole-v1", "--option", "max_episode_stepz=3"], "max_episode_steps"),
        (["--resume", "nowhere"], "nowhere"),
        (["TagGridWorld-v0", "--policies", '{"all": {"agents": ["tager"]}}'], "tager"),
        (["TagGridWorld-v0", "--policies", '{"all": ["tagger"]}'], "must be a dict"),
        (["TagGridWorld-v0", "--policies", '{"all": '], "not JSON"),
        (["TagGridWorld-v0", "--policies", "nowhere.json"], "nowhere.json"),
        (["CartPole-v1", "--schedules", '{"entropy": [[0, 1]]}'], "entropy"),
        (["CartPole-v1", "--lr", "1e-3"], "--lr is called --learning-rate here\n"),
        (["CartPole-v1", "--timesteps=100"], "--timesteps is called --total-steps here"),
        (["CartPole-v1", "--n-envs", "4"], "--n-envs is called --num-envs here"),
        (["CartPole-v1", "--batch", "64"], "--batch is called --minibatch-size here"),
        (["CartPole-v1", "--no-anneal-lr"], "--no-anneal-lr is called --anneal-learning-rate here"),
        (["CartPole-v1", "--callbacks", "x"], "--callbacks is for Python"),
        (
            ["Pendulum-v1", "--algo", "sac", "--clip-coef", "0.2"],
            "--clip-range here, and not used by sac: it is for ppo",
        ),
        (["Pendulum-v1", "--algo", "sac", "--batch-size", "256"], "the samples of an update are minibatch_size"),
        (["CartPole-v1", "--total-steps", "1.5"], "'1.5' is not a whole number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_invalid_arguments_of_train_are_errors(
    argv: list[str], named: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *argv]) == 2
    assert named in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        *(["tune", "Pendulum-v1", "--seconds", value] for value in ("nan", "inf", "-1", "0")),
        *(["tune", "Pendulum-v1", "--limit", value] for value in ("nan", "-1", "0")),
    ],
    ids=" ".join,
)
def test_invalid_arguments_of_tune_are_errors(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "must be" in capsys.readouterr().err


def test_a_rollout_beyond_the_memory_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "CartPole-v1", "--num-steps", "1000000000000"]) == 2
    assert "num_steps=1000000000000 and num_envs=" in capsys.readouterr().err


def test_tune_refuses_an_unknown_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "Pendulum-v1", "--device", "foo"]) == 2
    assert "device must be cpu, cuda or cuda:i, not 'foo'" in capsys.readouterr().err


def test_play_shows_returns_and_films(run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = tmp_path / "film.mp4"
    assert main(["play", str(run_dir), "--episodes", "2", "--video", str(film), "--max-steps", "20"]) == 0
    told = capsys.readouterr().out
    assert "mean return" in told and f"video {film}: 20 steps of CartPole-v1" in told.splitlines()[-1]
    assert film.stat().st_size > 0


@pytest.mark.parametrize(
    "more",
    [
        ["--episodes", "0"],
        ["--max-steps", "0"],
        ["--video", "/nowhere/x.mp4"],
        ["--video", "/tmp"],
        ["--video", "film.avi"],
        ["--log-file", "/nowhere/x.npz", "--log", "x"],
        ["--log-file", "/tmp", "--log", "x"],
    ],
    ids=" ".join,
)
def test_invalid_arguments_of_play_are_errors(
    run_dir: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(run_dir), *more]) == 2
    assert more[0] in capsys.readouterr().err


def test_play_shows_as_many_episodes_of_the_best_weights_as_asked_for(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(evaluate(run_dir, 20).returns) == 20  # in 16 environments
    assert main(["play", str(run_dir), "--episodes", "20", "--no-film"]) == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]) == 20
    acts: list[Any] = [evaluate, record, headrace.train.log_episode]
    for act in acts:
        assert inspect.signature(act).parameters["which"].default == PlayArgs(run_dir).checkpoint == "best"
        with pytest.raises(OptionError, match="'best' or 'newest'"):
            act(run_dir, which="bset")
    with pytest.raises(OptionError, match="episodes"):
        evaluate(run_dir, 0)


def test_play_names_its_film_which_lasts_as_long_as_the_game(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    av = pytest.importorskip("av")
    assert main(["play", str(run_dir), "--max-steps", "30"]) == 0
    out = capsys.readouterr().out
    assert "recording a video (--no-film: none)" in out
    steps: list[int] = []
    path = record(run_dir, max_steps=30, shown=steps.append)
    assert str(path) in out.replace("\n", "")
    with av.open(str(path)) as film:
        frames, rate = sum(1 for _ in film.decode(video=0)), film.streams.video[0].average_rate
    assert rate <= 30 and frames == len(steps) + 1
    assert abs(frames / float(rate) - (steps[-1] + 1) / 50) <= 1 / float(rate)  # 50 steps a second
    assert not list(path.parent.glob(".*"))


def test_pictures_for_films_are_plain_unless_the_user_chose_effects(run_dir: Path) -> None:
    assert plain(make_config("CartPole-v1")) == {}
    assert plain(make_config("HalfCheetah-v5")) == {"render_effects": False}
    assert plain(make_config("HalfCheetah-v5", env_options={"render_effects": True})) == {}


def test_a_run_that_ends_with_a_whole_rollout_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "CartPole-v1", "--total-steps", "100", "--no-video", *TINY]
    assert main([*words, "--run-dir", str(tmp_path / "odd")]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith("ppo, recipe CartPole-v1: a return of 475 in about ")
    assert out.splitlines()[2] == "ends after 128 steps, not 100: it collects 64 at a time"
    assert "after 128 steps" in out
    assert main([*words[:3], "128", *words[4:], "--run-dir", str(tmp_path / "even")]) == 0
    assert "ends after" not in capsys.readouterr().out


def test_play_logs_an_episode(run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    words = ["play", str(run_dir), "--no-film", "--log-env", "3"]
    assert main([*words, "--log", "x, theta", "--log-file", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    with np.load(file) as log:
        assert set(log) == {"x", "theta", "action", "reward", "terminated", "truncated"}
        steps = len(log["reward"])
        assert log["x"].shape == (steps + 1,) and 0 < steps <= 50
    assert main([*words, "--log", "all"]) == 0
    with np.load(run_dir / "episode.npz") as log:
        assert {"x", "theta", "reward"} < set(log)
    assert main([*words, "--log", "x,y"]) == 2
    assert "no state array 'y'" in capsys.readouterr().err


def test_play_needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(tmp_path)]) == 2
    assert "config.json" in capsys.readouterr().err

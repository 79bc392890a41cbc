"""Episodes of a run that are kept as videos: of its end, of its way, and no more than a handful."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace.train
from headrace.cli.main import main
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import playing_pool
from headrace.train.play.video import best_film, record
from headrace.train.runs.episodes import LIST, MOST, KeptEpisode, file_name, keep, kept
from headrace.train.runs.folder import RunFolder
from headrace.train.workers import evaluator
from headrace.train.workers.evaluator import Camera

TINY: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "hidden": [8], "total_steps": 64, "tensorboard": False}
TINY |= {"stop_at_return": None, "viewer": False}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    pytest.importorskip("av")
    path = tmp_path_factory.mktemp("runs") / "run"
    result = headrace.train.train("CartPole-v1", run_dir=path, quiet=True, **TINY)
    assert result.video is not None and result.video.parent == path / "episodes"
    return RunFolder(path)


def frames(file: Path) -> int:
    import av

    with av.open(str(file)) as container:
        return sum(1 for _ in container.decode(video=0))


def test_an_episode_of_the_best_checkpoint_is_kept_with_its_return(trained):
    (episode,) = kept(trained.episodes)
    line = json.loads((trained.episodes / LIST).read_text())
    assert line.keys() == {"file", "step", "return", "length", "time", "kind", "complete"}
    assert (line["kind"], line["complete"], line["return"]) == ("best", True, line["length"])  # a reward of 1 a step
    assert episode.file == file_name(load_checkpoint(trained).counters["step"])
    assert abs(episode.time - time.time()) < 600
    assert (
        frames(trained.episodes / episode.file) == 1 + episode.length // 2 + episode.length % 2
    )  # 50 steps/s, 25 shown
    assert best_film(trained) == trained.episodes / episode.file


def test_a_video_that_gets_too_long_is_cut(trained):
    path = record(trained.path, max_steps=3, which="newest", trust=True)
    (episode,) = [one for one in kept(trained.episodes) if one.file == path.name]
    assert (episode.length, episode.complete, episode.kind) == (3, False, "newest")


def test_play_copies_the_video_to_the_named_file(trained, tmp_path, capsys):
    assert main(["play", str(trained.path), "--video", str(tmp_path / "mine.mp4")]) == 0
    assert frames(tmp_path / "mine.mp4") > 1
    assert f"video {tmp_path / 'mine.mp4'}" in capsys.readouterr().out


def test_the_number_of_kept_episodes_is_limited(tmp_path):
    def add(step: int, kind: str) -> None:
        (tmp_path / file_name(step)).write_bytes(b"video")
        keep(tmp_path, KeptEpisode(file_name(step), step, 1.0, 2, float(step), kind))

    add(1, "best")
    add(2, "progress")
    for step in range(3, 3 + MOST):
        add(step, "newest")
    steps = [one.step for one in kept(tmp_path)]
    assert len(steps) == MOST and {1, 2, 2 + MOST} <= set(steps)
    assert sorted(path.name for path in tmp_path.glob("*.mp4")) == [file_name(step) for step in steps]
    add(2, "best")  # in the place of the other
    assert [one.kind for one in kept(tmp_path) if one.step == 2] == ["best"]


def test_damaged_lines_and_missing_videos_are_left_out(tmp_path):
    assert kept(tmp_path) == []
    (tmp_path / file_name(1)).write_bytes(b"video")
    keep(tmp_path, KeptEpisode(file_name(1), 1, -1.5, 2, 3.0, "best"))
    outside = json.dumps({"file": "../config.json", "step": 1, "return": 0, "length": 1, "time": 0, "kind": "best"})
    with (tmp_path / LIST).open("a") as file:
        file.write(f'{outside}\n{outside.replace("../config.json", file_name(9))}\n[]\nnot JSON\n{{"file": 3}}\n')
    (episode,) = kept(tmp_path)
    assert (episode.step, episode.return_, episode.complete) == (1, -1.5, True)


def test_a_run_without_pyav_has_no_video_and_says_so_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "av", None)
    result = headrace.train.train("CartPole-v1", run_dir=tmp_path / "run", **TINY)
    assert result.video is None
    assert capsys.readouterr().out.count("no video: it needs av: pip install") == 1
    assert not list((tmp_path / "run").glob("episodes/*"))


def test_some_points_of_a_long_run_are_filmed_within_their_share(trained, monkeypatch, tmp_path):
    _, config = RunFolder.read(trained.path)
    run, stop = RunFolder(tmp_path), lambda: False
    with playing_pool(config, num_envs=1, seed=1) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(trained))
    camera = Camera(config, run)
    camera.film_if_due(agent, 40, 1, stop)  # of a short run nothing
    assert not kept(run.episodes)
    monkeypatch.setattr(evaluator, "FILM_SHARE", 1e6)
    camera.film_if_due(agent, 3, 1, stop)  # too early
    assert not kept(run.episodes)
    for step in (7, 9, 40, 50, 64):
        camera.film_if_due(agent, step, 1, stop)
    assert [(one.step, one.kind, one.complete) for one in kept(run.episodes)] == [
        (7, "progress", True),
        (40, "progress", True),
    ]
    monkeypatch.setattr(evaluator, "FILMED", (0.1, 0.5, 0.9))
    again = Camera(config, run)  # of a run that goes on: what was filmed is not filmed again
    again.film_if_due(agent, 50, 1, stop)
    assert len(kept(run.episodes)) == 2
    again.film_if_due(agent, 60, 1, lambda: True)  # the run ends meanwhile
    assert [one.complete for one in kept(run.episodes)] == [True, True, False]
    none = Camera(headrace.train.make_config("CartPole-v1", **TINY, video=False), run)
    none.film_if_due(agent, 40, 1, stop)
    assert len(kept(run.episodes)) == 3


def test_an_evaluator_films_beside_training(tmp_path, monkeypatch):
    """In a process of its own, whose settings are those of the module: only the folder is looked at."""
    pytest.importorskip("av")
    settings = {"samplers": 1, "num_envs": 2, "learning_starts": 64, "hidden": (8,), "evaluate_seconds": 0.0}
    settings |= {"tensorboard": False, "viewer": False, "stop_at_return": None, "evaluate_episodes": 1}
    result = headrace.train.train("Pendulum-v1", "sac", run_dir=tmp_path, quiet=True, total_steps=600, **settings)
    (episode,) = kept(tmp_path / "episodes")  # of so short a run only its end
    assert episode.kind == "best" and result.video is not None and np.isfinite(episode.return_)

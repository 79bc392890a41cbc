"""Pickles in a checkpoint are loaded only where this user wrote them, or says so."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from headrace.cli.main import main
from headrace.errors import StateError, TrustError
from headrace.pool.state import seal as checked
from headrace.studies import resume_seeds, train_seeds
from headrace.train import resume, train
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import is_sealed, sealed
from nightly import rest_nightly
from python_games import COUNT
from whole_runs import SMALL, assert_same_run

TINY: dict[str, Any] = SMALL | {"num_envs": 2, "num_steps": 8, "minibatch_size": 16, "log_steps": 1, "quiet": True}
TINY |= {"anneal_learning_rate": False}
DQN: dict[str, Any] = {"num_envs": 2, "samplers": 0, "video": False, "quiet": True, "total_steps": 32}


def tiny(total_steps: int) -> dict[str, Any]:
    return TINY | {"total_steps": total_steps}


class Opened:
    """A pickle of it makes the file ``mark`` when it is loaded."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes this process one of another user's, of this name."""

    def be(name: str) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))

    be("mine")
    return be


def last_of(run: Path) -> Path:
    newest = checkpoints.newest(run / "checkpoints")
    assert newest is not None
    return newest


def forge(run: Path, mark: Path) -> None:
    """Puts a pickle in place of each environment, with all the checksums right."""
    path = last_of(run)
    state = load_file(path / "state.safetensors")
    blobs = [checked(pickle.dumps(Opened(mark)), blob[4:12], False) for blob in checkpoints.unpack_blobs(state)]
    save_file(state | checkpoints.pack_blobs(blobs), path / "state.safetensors")
    sums = [line.split("  ") for line in (path / "SHA256SUMS").read_text().splitlines()]
    right = [f"{hashlib.sha256((path / name).read_bytes()).hexdigest()}  {name}\n" for _, name in sums]
    (path / "SHA256SUMS").write_text("".join(right))


def test_the_key_is_this_users_alone(caches: Any, tmp_path: Path) -> None:
    seals: list[str | None] = []
    threads = [threading.Thread(target=lambda: seals.append(sealed(b"text"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (seal,) = set(seals)  # all have found the key of the first
    assert seal is not None and is_sealed(b"text", seal.encode())
    assert not is_sealed(b"other", seal.encode()) and not is_sealed(b"text", b"")
    (folder,) = (tmp_path / "mine" / "headrace").iterdir()
    (key,) = folder.iterdir()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, key)] == [0o700, 0o600]
    caches("theirs")
    assert not is_sealed(b"text", seal.encode())
    (tmp_path / "theirs" / "headrace" / "seal" / "key").write_bytes(b"")  # an empty key is none
    assert sealed(b"text") is None and not is_sealed(b"text", seal.encode())


def test_text_stays_unsealed_without_a_place_for_the_key(caches: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("no folder")
    assert sealed(b"text") is None and not is_sealed(b"text", b"0" * 64)


def test_an_own_run_goes_on_exactly_and_a_sent_one_needs_trust(caches: Any, tmp_path: Path) -> None:
    train(COUNT, run_dir=tmp_path / "whole", **tiny(64))
    train(COUNT, run_dir=tmp_path / "own", **tiny(32))
    shutil.copytree(tmp_path / "own", tmp_path / "sent")
    caches("theirs")
    with pytest.raises(TrustError, match=r"sent/checkpoints has no seal of yours .*\n.*--trust .*trust=True"):
        resume(tmp_path / "sent", quiet=True, total_steps=64)
    assert main(["train", "--resume", str(tmp_path / "sent"), "--quiet", "--total-steps", "64", "--trust"]) == 0
    assert_same_run(tmp_path / "whole", tmp_path / "sent")
    resume(tmp_path / "sent", quiet=True, total_steps=80)  # its newest checkpoint is this user's now
    caches("mine")
    resume(tmp_path / "own", quiet=True, total_steps=64)
    assert_same_run(tmp_path / "whole", tmp_path / "own")


@pytest.mark.parametrize("algo", rest_nightly(["ppo", "dqn"], "ppo"))
@pytest.mark.parametrize("seal", ["theirs", "none", "stolen"])
def test_a_forged_pickle_is_not_loaded(caches: Any, tmp_path: Path, algo: str, seal: str) -> None:
    run, mark = tmp_path / "run", tmp_path / "mark"
    train(COUNT, algo, run_dir=run, **(tiny(32) if algo == "ppo" else DQN))
    forge(run, mark)
    if seal == "none":
        (last_of(run) / "SEAL").unlink()
    if seal == "theirs":
        caches("theirs")
        (last_of(run) / "SEAL").write_text(sealed((last_of(run) / "SHA256SUMS").read_bytes()) or "")
        caches("mine")
    for go_on in (resume, lambda run, **how: train(COUNT, algo, run_dir=run, resume=True, **how)):
        with pytest.raises(TrustError, match="pickles"):
            go_on(run, quiet=True, total_steps=64)
    assert not mark.exists()
    with pytest.raises(StateError, match="cannot be restored"):
        resume(run, quiet=True, total_steps=64, trust=True)
    assert mark.exists()  # so that it was a pickle that is loaded


def test_a_run_without_pickles_goes_on_without_trust(caches: Any, tmp_path: Path) -> None:
    train("CartPole-v1", run_dir=tmp_path / "run", **tiny(32))
    caches("theirs")
    assert resume(tmp_path / "run", quiet=True, total_steps=64).steps == 64
    (last_of(tmp_path / "run") / "SEAL").unlink()
    assert resume(tmp_path / "run", quiet=True, total_steps=96).steps == 96


@pytest.mark.nightly
@pytest.mark.usefixtures("forked_runs")
def test_runs_of_several_seeds_go_on_if_they_are_trusted(caches: Any, tmp_path: Path) -> None:
    train_seeds(COUNT, seeds=[3], run_dir=tmp_path / "runs", **tiny(32))
    (tmp_path / "runs" / "results.jsonl").unlink()  # as of runs that were stopped
    caches("theirs")
    (failed,) = resume_seeds(tmp_path / "runs", quiet=True, total_steps=64)
    assert failed.reason == "failed" and "--trust" in failed.error
    (done,) = resume_seeds(tmp_path / "runs", quiet=True, total_steps=64, trust=True)
    assert (done.reason, done.steps) == ("finished", 64)


def test_a_checkpoint_of_another_user_is_not_trusted(caches: Any, tmp_path: Path) -> None:
    point = checkpoints.Checkpoint({"a": torch.ones(1)}, {}, {}, {"step": 1})
    path = checkpoints.save(tmp_path, "step-1", point)
    assert checkpoints.load(path).trusted
    caches("theirs")
    assert not checkpoints.load(path).trusted
    assert checkpoints.load(path, trust=True).trusted


def test_a_key_that_others_can_write_seals_nothing(caches, tmp_path):
    caches("shared")
    seal = sealed(b"content")
    assert seal is not None and is_sealed(b"content", seal.encode())
    (folder,) = (tmp_path / "shared" / "headrace").iterdir()
    folder.chmod(0o777)
    assert sealed(b"content") is None and not is_sealed(b"content", seal.encode())

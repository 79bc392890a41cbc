"""Several processes train one network: as one would from all their samples, and nothing is left when one fails."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import platform
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import headrace
from headrace.errors import OptionError, WorkerError
from headrace.train import resume
from headrace.train.algorithms.rates import Rates
from headrace.train.collect.policies import make_policies
from headrace.train.collect.pools import make_collector, training_pool
from headrace.train.modules.normalisation import RunningStatistics
from headrace.train.processes.process_group import ProcessGroup, _parcel
from headrace.train.processes.start import worker_context
from headrace.train.recipes.make import make_config
from headrace.train.runners import data_parallel as parallel
from headrace.train.runners.assembly import make_trainer
from headrace.train.runners.data_parallel import _store
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from headrace.train.settings.config import Config
from headrace.train.storage.samples import minibatches
from nightly import rest_nightly
from programs import Program, is_alive
from whole_runs import SMALL, assert_same_run, facts, wait_for_lines, weights

train: Any = headrace.train
CPU = torch.device("cpu")
TWO: dict[str, Any] = SMALL | {"devices": ("cpu", "cpu"), "torch_threads": 1}
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"  # a terminal's cursor
SCRIPT = """
import json, sys, headrace
if __name__ == "__main__":
    headrace.train.train(sys.argv[1], run_dir=sys.argv[2], quiet=True, **json.loads(sys.argv[3]))
"""


def start(folder: Path, task: str, options: dict[str, Any]) -> Program:
    """A run, its processes in a group of their own, as in a terminal."""
    script = folder / "run.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script), task, str(folder / "run"), json.dumps(options)]
    return Program(words, stderr=subprocess.PIPE, text=True, start_new_session=True)


def workers(parent: int) -> list[int]:
    """The training processes of a run, in their order: they are forked from a server of its own."""
    (server,) = (c for c in children(parent) if b"forkserver" in Path(f"/proc/{c}/cmdline").read_bytes())
    return children(server)


def children(parent: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, "processes were left behind"
        time.sleep(0.01)


def collected(config: Config, rank: int) -> tuple[list[Any], list[Any]]:
    """What one of the processes collects first, with the first one's networks: policies, and samples of each."""
    own = config.replace(seed=config.seed + rank * config.num_envs)
    pool = training_pool(own)
    policies = make_policies(config, pool, CPU)
    collector = make_collector(own, pool, policies, CPU)
    for experience in collector.experiences:
        experience.static = True
    collector.start()
    collector.draw(torch.Generator().manual_seed(own.seed))
    samples = collector.collect()
    pool.close()
    return policies, samples


def test_one_update_equals_that_of_all_samples_together(tmp_path):
    """Also where agents are out of the game: in one process more of them than in the other."""
    options = TWO | {"algo": "a2c", "num_envs": 4, "num_steps": 32, "total_steps": 256, "normalise_advantages": False}
    del options["minibatch_size"]
    options["env_options"] = {"num_taggers": 2, "num_runners": 5, "tagging_distance": 0.2, "max_episode_steps": 50}
    train("TagContinuous-v0", run_dir=tmp_path / "run", quiet=True, **options)
    config = make_config("TagContinuous-v0", **options)
    found, left_out = weights(tmp_path / "run"), []
    for policies in zip(*(zip(*collected(config, rank), strict=True) for rank in range(2)), strict=True):
        gradient, rows = 0.0, 0.0
        for policy, samples in policies:
            (batch,) = minibatches(samples, None, config.normalise_advantages)
            policy.backward(batch, Rates.of(config, 0), measure=False)
            count = float(samples.weights.sum())
            left_out.append(len(samples.weights) - count)
            gradient, rows = gradient + policy.optimiser.gradient * count, rows + count
        policy = policies[0][0]
        policy.optimiser.gradient.copy_(gradient / rows)
        policy.optimiser.step(Rates.of(config, 0).learning_rate, config.max_grad_norm)
        learnt = {name: tensor for name, tensor in policy.model().items() if name.startswith("network")}
        for name, tensor in learnt.items():
            torch.testing.assert_close(found[name], tensor, atol=1e-6, rtol=1e-5)
    assert len(set(left_out)) > 2, "the two processes must differ in who is out of the game"


def test_statistics_are_those_of_all_observations(tmp_path):
    options = TWO | {"total_steps": 256, "normalise_observations": True, "normalise_rewards": True, "log_steps": 1}
    options |= {"normalise_values": True}
    train("Pendulum-v1", run_dir=tmp_path / "run", quiet=True, **options)
    config = make_config("Pendulum-v1", **options)
    # nothing is known of them yet when the first are seen, so the network's inputs are what they are
    seen = torch.cat([collected(config, rank)[1][0].inputs for rank in range(2)])
    assert len(seen.unique(dim=0)) == 256, "no two environments are the same"
    expected = RunningStatistics((3,))
    expected.update(seen)
    found = weights(tmp_path / "run")
    for name, tensor in expected.state().items():
        torch.testing.assert_close(found[f"normaliser.{name}"], tensor, atol=1e-9, rtol=1e-9)
    assert found["values.count"] == 256 and found["values.variance"] > 0
    (line,) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert line["step"] == 256
    ranks = line["time"]["ranks"]
    assert list(ranks) == ["0", "1"] and ranks["0"]["host"] == ranks["1"]["host"] == platform.node()
    assert all(each["steps_per_second"] > 0 and each["device"] == "cpu" for each in ranks.values())


def twin(rank: int, port: int, folder: Path, config: Config) -> None:
    """One of two processes that keeps what it has learnt."""
    dist.init_process_group("gloo", store=_store(port), rank=rank, world_size=2)
    trainer: Any = make_trainer(config, RunFolder(folder), None, ProcessGroup(rank, 2))
    for _ in range(4):
        trainer.iterate()
    policy = trainer.policies[0]
    kept = {"episodes": torch.tensor(trainer.tracker.episodes), "own": trainer.tracker.totals()[0]}
    kept |= {"losses": policy.losses} | policy.optimisers()
    for experience in trainer.source.collector.experiences:
        kept |= experience.policy.model()
        kept |= {name: tensor for name, tensor in experience.policy.state().items() if name.endswith("mean")}
        kept["observations"] = trainer.source.collector.observations["obs"]
    torch.save(kept, folder / f"{rank}.pt")
    trainer.close()
    dist.destroy_process_group()


COUNTING = """
import torch
class Counting(torch.nn.Module):
    def __init__(self, space, outputs):
        super().__init__()
        self.normal, self.layer = torch.nn.BatchNorm1d(space.shape[0]), torch.nn.Linear(space.shape[0], outputs + 1)
    def forward(self, x):
        x = self.layer(self.normal(x))
        return x[:, :-1], x[:, -1]
"""


def test_both_processes_hold_the_same_network(tmp_path):
    """Also what it counts itself; for the networks of all algorithms see `test_torchrun`."""
    (tmp_path / "mine.py").write_text(COUNTING)
    options = TWO | {"normalise_observations": True, "normalise_rewards": True, "target_kl": 0.02, "num_steps": 64}
    options["network"] = f"{tmp_path / 'mine.py'}:Counting"
    config = make_config("Pendulum-v1", **options, env_options={"max_episode_steps": 50})
    store = _store()
    context = worker_context()
    both = [context.Process(target=twin, args=(rank, store.port, tmp_path, config)) for rank in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
        assert process.exitcode == 0
    one, two = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert one["episodes"] == one["own"] + two["own"] > 0
    assert not torch.equal(one.pop("observations"), two.pop("observations"))
    for name, tensor in one.items():
        assert name == "own" or torch.equal(tensor, two[name]), name


@pytest.mark.nightly
@pytest.mark.parametrize("told", ["one process", "a terminal's processes"])
def test_ctrl_c_ends_all_processes_and_a_resumed_run_is_the_same(tmp_path, told):
    options = TWO | {"normalise_observations": True, "epochs": 2, "log_steps": 1, "anneal_learning_rate": False}
    process = start(tmp_path, "Pendulum-v1", options | {"total_steps": 100_000_000})
    wait_for_lines(tmp_path / "run", 5)
    pids = workers(process.pid)
    assert len(pids) == 2
    (os.kill if told == "one process" else os.killpg)(process.pid, signal.SIGINT)
    assert process.wait(60) == 0, process.stderr and process.stderr.read()
    wait_until_gone(pids)
    lines = facts(tmp_path / "run")
    total_steps = lines[-1]["step"] + 1024
    assert resume(tmp_path / "run", quiet=True, total_steps=total_steps).reason == "finished"
    train("Pendulum-v1", run_dir=tmp_path / "alone", quiet=True, **(options | {"total_steps": total_steps}))
    assert 5 <= len(lines) < len(facts(tmp_path / "alone"))
    assert_same_run(tmp_path / "alone", tmp_path / "run")


@pytest.mark.parametrize("who", rest_nightly([0, 1, None], None))
def test_a_killed_process_takes_the_others_with_it(tmp_path, who):
    process = start(tmp_path, "CartPole-v1", TWO | {"total_steps": 100_000_000})
    wait_for_lines(tmp_path / "run", 2)
    pids = workers(process.pid)
    os.kill(process.pid if who is None else pids[who], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    wait_until_gone(pids)
    if who is not None:
        assert f"WorkerError: training process {who} (on cpu) died: killed by SIGKILL" in said


@pytest.mark.nightly
def test_a_terminal_is_left_as_it_was(tmp_path):
    """The first process hides the cursor while it draws; killed, it cannot show it again."""
    script = SCRIPT.replace("quiet=True", "quiet=False")
    (tmp_path / "run.py").write_text(script)
    words = ["CartPole-v1", str(tmp_path / "run"), json.dumps(TWO | {"total_steps": 100_000_000})]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "run.py"), *words],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the terminal is closed at the end
        while part := os.read(ours, 1 << 16):
            if HIDE not in said and HIDE in said + part:
                os.kill(workers(process.pid)[0], signal.SIGKILL)
            said += part
    os.close(ours)
    assert process.wait(60) == 1
    assert 0 <= said.rindex(HIDE) < said.rindex(SHOW)


def test_a_process_that_raises_ends_the_run_with_its_words(tmp_path):
    (tmp_path / "mine.py").write_text("def broken(space, outputs):\n    raise ValueError('no such network today')\n")
    with pytest.raises(WorkerError, match=r"on cpu\) raised:(.|\n)*ValueError: no such network today"):
        train("CartPole-v1", run_dir=tmp_path / "a", quiet=True, **TWO, network=f"{tmp_path / 'mine.py'}:broken")
    with pytest.raises(OptionError, match="abacus"):  # its own kind of error, if it is one of ours
        train("CartPole-v1", run_dir=tmp_path / "b", quiet=True, **(TWO | {"devices": ("abacus:0", "abacus:1")}))


BROKEN = """
import multiprocessing, os, signal, torch
class Broken(torch.nn.Module):
    def __init__(self, space, outputs):
        super().__init__()
        self.layer, self.calls = torch.nn.Linear(space.shape[0], outputs + 1), 0
    def forward(self, x):
        self.calls += 1
        if self.calls > 100 and multiprocessing.current_process().name == "headrace-1":
            if HOW == "raises":
                raise ValueError("no more today")
            os.kill(os.getpid(), signal.SIGABRT)
        return self.layer(x)[:, :-1], self.layer(x)[:, -1]
"""


@pytest.mark.parametrize(
    ("how", "said"), [("raises", r"raised:(.|\n)*ValueError: no more today"), ("dies", r"died: killed by SIGABRT")]
)
def test_the_failed_process_is_named_rather_than_the_others(tmp_path, how, said):
    """In the middle of a run, when the others wait for its gradients."""
    (tmp_path / "mine.py").write_text(BROKEN.replace("HOW", repr(how)))
    with pytest.raises(WorkerError, match=r"training process 1 \(on cpu\) " + said):
        train("CartPole-v1", run_dir=tmp_path / "run", quiet=True, **TWO, network=f"{tmp_path / 'mine.py'}:Broken")
    assert not multiprocessing.active_children()


@pytest.mark.nightly
def test_a_run_finishes_even_if_its_parent_process_looks_late(tmp_path, monkeypatch):
    """All may have ended between two looks, as on a machine that was put to sleep."""

    def late(workers: Any, reports: Any) -> Any:
        dead = listen(workers, reports)
        if reports:
            for worker in workers:
                worker.process.join()
        return dead

    listen = parallel._listen
    monkeypatch.setattr(parallel, "_listen", late)
    result = train("CartPole-v1", run_dir=tmp_path / "run", quiet=True, **(TWO | {"total_steps": 256}))
    assert result.reason == "finished"


def test_the_store_of_processes_listens_at_one_address_alone():
    store = _store()
    socket.create_connection(("127.0.0.1", store.port)).close()
    with pytest.raises(ConnectionRefusedError):  # as from any other address of this machine
        socket.create_connection(("127.0.0.2", store.port))


def test_a_sent_view_holds_its_own_rows_alone():
    sent = _parcel({"rows": torch.arange(1_000_000)[-3:]})
    assert sent["rows"].tolist() == [999_997, 999_998, 999_999] and len(pickle.dumps(sent)) < 2000


def test_devices_must_fit_together():
    with pytest.raises(OptionError, match="of one kind"):
        make_config("CartPole-v1", devices=("cpu", "cuda:0"))
    with pytest.raises(OptionError, match="each GPU once"):
        make_config("CartPole-v1", devices=["cuda", "cuda:0"])
    with pytest.raises(OptionError, match="devices"):
        make_config("CartPole-v1", devices=3)
    assert make_config("CartPole-v1", devices=["cpu", "cpu"]).devices == ("cpu", "cpu")

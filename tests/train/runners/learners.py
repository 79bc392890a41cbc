"""What each of two processes does in the tests of torchrun: as if it had started them, so that they start at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import headrace
from headrace.errors import HeadraceError
from headrace.train import resume
from headrace.train.algorithms.rates import Rates, UpdateRates
from headrace.train.collect.policies import make_policy
from headrace.train.launch.torchrun import connect, store_of
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.processes.place import place
from headrace.train.processes.process_group import ProcessGroup, leave
from headrace.train.processes.start import worker_context
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.samples import Samples, minibatches, normalised, pick
from headrace.train.storage.transitions import Transitions
from whole_runs import SMALL

train: Any = headrace.train
CPU = torch.device("cpu")
REPLAY = {"learning_starts": 128, "replay_size": 2000, "replay_ratio": 0.25}
ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", {"num_steps": 32, "target_kl": 0.05, "normalise_rewards": True, "curiosity": 0.1}),
    "a2c": ("Pendulum-v1", {"num_steps": 2, "normalise_observations": True, "normalise_advantages": True}),
    "sac": ("Pendulum-v1", REPLAY | {"normalise_observations": True}),
    "td3": ("Pendulum-v1", REPLAY),
    "ddpg": ("Pendulum-v1", REPLAY | {"normalise_rewards": True}),
    "dqn": ("CartPole-v1", REPLAY),
    "dqn on images": (
        "MinAtar-Breakout-v1",
        REPLAY | {"algo": "dqn", "n_step": 3, "prioritised": True, "num_envs": 4, "num_steps": 8, "minibatch_size": 16},
    ),
    "dqn on standardised images": (
        "Pong-v5",
        REPLAY | {"algo": "dqn", "preset": "fast", "num_envs": 2, "num_steps": 8, "minibatch_size": 16},
    ),
    "sac on standardised images": (
        "CheetahRun-v1",
        REPLAY
        | {
            "algo": "sac",
            "env_options": {"from_pixels": True},
            "num_envs": 2,
            "num_steps": 8,
            "minibatch_size": 16,
            "hidden": (16,),
        },
    ),
    "ppo on standardised images": (
        "Pong-v5",
        {
            "algo": "ppo",
            "trunk": "strided",
            "standardise_pixels": True,
            "num_envs": 2,
            "num_steps": 8,
            "minibatch_size": 8,
        },
    ),
    "pqn": ("CartPole-v1", {}),
    "my_algo.py:Reinforce": ("CartPole-v1", {"num_steps": 4}),
}
"""algorithm → task and settings of a small run"""
MINIBATCHES = ("ppo", "sac", "td3", "ddpg", "dqn", "pqn")
"""those that have minibatches"""
HALVES = ("ppo", "a2c", "sac", "td3", "ddpg", "dqn")
"""those of which an update from two halves is that from the whole"""


def both(work: Callable[..., None], *arguments: Any) -> None:
    """Call ``work(*arguments)`` in two processes, which are told that they are two, and wait for them."""
    context = worker_context()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    processes = [context.Process(target=_as_rank, args=(rank, port, work, arguments)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(1000)
        assert process.exitcode == 0


def _as_rank(rank: int, port: int, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in told.items()} | {"MASTER_ADDR": "127.0.0.1"}
    torch.set_num_threads(1)
    work(*arguments)


def settings_of(algo: str) -> tuple[str, dict[str, Any]]:
    """The task and the settings of a small run of one of `ALGORITHMS`."""
    task, own = ALGORITHMS[algo]
    name = own.get("algo", algo)
    small = {each: value for each, value in SMALL.items() if each != "minibatch_size" or name in MINIBATCHES}
    file = Path(__file__).parents[1] / name
    return task, small | own | {"algo": str(file) if ":" in name else name, "torch_threads": 1}


def learn_100_times(folder: Path, algorithms: list[str]) -> None:
    """With each of these, at least 100 updates; what it has learnt then is left in the folder."""
    where = place()
    assert where is not None
    store, found = store_of(where), {}
    for algo in algorithms:
        task, options = settings_of(algo)
        group = connect(where, store, lambda: False)
        trainer: Any = make_trainer(make_config(task, samplers=0, **options), RunFolder(folder), None, group)
        (policy,) = trainer.policies
        while updates(policy) < 100:
            trainer.iterate()
        shared = {name: tensor for name, tensor in policy.state().items() if name.startswith("curiosity")}
        shared.pop("curiosity.scaler.running", None)  # of a process's own environments
        seen = {"seen": trainer.source.collector.observations["obs"][-1]}
        found[algo] = policy.model() | policy.optimisers() | shared | seen
        trainer.close()
        leave()
    torch.save(found, folder / f"{where.rank}.pt")


def updates(policy: Any) -> int:
    """Gradient steps of a policy so far."""
    return max(int(value) for name, value in policy.optimisers().items() if name.endswith("steps"))


def learn_from_halves(folder: Path) -> None:
    """With each algorithm one update from half a batch, together with the other process; and alone from all of it.

    Advantages are normalised, also where some rows do not count; so they are in pieces, of which each is half.
    """
    where = place()
    assert where is not None
    group, found = connect(where, store_of(where), lambda: False), {}
    half = slice(where.rank * 32, where.rank * 32 + 32)
    for algo, weighted in (*((algo, False) for algo in HALVES), ("ppo", True)):
        for name, rows in (("together", half), ("alone", slice(0, 64))):
            policy = a_policy(algo)
            if name == "together":
                policy.join_group(group)
            learn_once(policy, rows, weighted)
            learnt = {n: x for n, x in policy.model().items() if n.startswith("network")}
            found[f"{algo}{' weighted' * weighted}", name] = learnt
    gains, weights = uneven_advantages(3)
    for name, counted in (("advantages", None), ("weighted advantages", weights)):
        mine = None if counted is None else counted[:, half]
        found[name, "together"] = {"all": normalised(gains[:, half], mine, group)}
        found[name, "alone"] = {"all": normalised(gains, counted)[:, half]}
    torch.save(found, folder / f"{where.rank}.pt")
    group.barrier()
    leave()


def learn_in_halves(folder: Path) -> None:
    """Be one of two processes that train as one would, with the same chance; what is learnt is left in the folder."""
    where = place()
    assert where is not None
    group = connect(where, store_of(where), lambda: False)
    torch.save(learnt_with_shared_chance(folder, group), folder / f"{where.rank}.pt")
    leave()


def learnt_with_shared_chance(folder: Path, group: ProcessGroup) -> dict[str, torch.Tensor]:
    """What PPO has learnt after some rollouts of 16 environments in all, whose chance does not depend on the group.

    All processes draw the noise of all actions, and the order of all rows, and take their part.
    """
    options: dict[str, Any] = SMALL | {"num_envs": 16 // group.size, "minibatch_size": 64 // group.size, "epochs": 2}
    options |= {"normalise_observations": True, "normalise_rewards": True, "normalise_advantages": True}
    config = make_config("CartPole-v1", **options, samplers=0)
    trainer: Any = make_trainer(config, RunFolder(folder), None, group)
    (policy,) = trainer.policies
    own, steps, chance = config.num_envs, config.num_steps, torch.Generator().manual_seed(3)

    def draw(noise: torch.Tensor, _: torch.Generator) -> torch.Tensor:
        everyones = policy.distribution.draw(torch.empty(steps, 16, *noise.shape[2:]), chance)
        return noise.copy_(everyones[:, group.rank * own : (group.rank + 1) * own])

    def draw_orders(*_: Any) -> list[torch.Tensor]:
        found = []
        for _epoch in range(config.epochs):
            halves = [torch.randperm(8 * steps, generator=chance).view(-1, 32) for _ in range(2)]  # minibatches of each
            whole = torch.cat([rows // 8 * 16 + rows % 8 + 8 * half for half, rows in enumerate(halves)], 1)
            found.append(whole if group.size == 1 else halves[group.rank])
        return found

    policy.draw, policy.draw_orders = draw, draw_orders  # type: ignore[method-assign]
    for _ in range(6):
        trainer.iterate()
    trainer.close()
    return policy.model()


def uneven_advantages(pieces: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and weights [pieces, 64] whose halves have other means and deviations; the halves' first are alike."""
    chance = torch.Generator().manual_seed(7)
    gains = 20 + torch.randn(pieces, 64, generator=chance) * torch.linspace(0.5, 4, 64) + torch.linspace(0, 9, 64)
    weights = (torch.rand(pieces, 64, generator=chance) < torch.linspace(0.9, 0.3, 64)).float()
    gains[:, 32], weights[:, (0, 32)] = gains[:, 0], 1.0
    return gains, weights


def a_policy(algo: str) -> Any:
    """A policy that begins the same in every process."""
    task, _ = ALGORITHMS[algo]
    config, spec = make_config(task, algo=algo, hidden=(16, 12), anneal_learning_rate=False), headrace.make_spec(task)
    torch.manual_seed(5)
    return make_policy("", config, AgentGroup(spec.observation_space, spec.action_space), CPU)


def learn_once(policy: Any, rows: slice, weighted: bool = False) -> None:
    """One update from some rows of a batch of 64 that is the same in every process; some do not count, if weighted."""
    chance = torch.Generator().manual_seed(3)
    inputs, following = torch.randn(2, 64, policy.agent_group.observation.shape[0], generator=chance)
    discrete = not policy.distribution.action_shape
    actions = torch.randint(0, 2, (64,), generator=chance) if discrete else torch.randn(64, 1, generator=chance)
    first, second, third, fourth = torch.randn(4, 64, generator=chance)
    if hasattr(policy, "optimiser"):
        (gains,), (weights,) = uneven_advantages(1)
        known = Samples(inputs, actions, first - 1, gains, third, fourth, weights=weights if weighted else None)
        (batch,) = minibatches(pick(known, rows), None, True, policy.process_group)
        policy.backward(batch, Rates.of(policy.config, 0), True)
        policy.optimiser.step(policy.config.learning_rate, policy.config.max_grad_norm)
        return
    policy.noise = lambda _: third.view(64, 1)[rows].clone()
    batch = inputs, actions.view(64, 1).float().clamp(-1, 1), first, (second > 0) * 0.9, following
    policy.improve(Transitions(*(each[rows] for each in batch)), UpdateRates.of(policy.config, 0))


def run(folder: Path, task: str, options: dict[str, Any]) -> None:
    """Train in a folder that only the first process can have."""
    where = place()
    assert where is not None
    path = folder if where.leads else folder.with_name("nowhere")
    result = train(task, run_dir=path, quiet=True, **options)
    assert result.run_dir == folder and (where.leads or not path.exists())


def go_on(folder: Path, options: dict[str, Any]) -> None:
    """Go on with a run of which only the first process has the folder."""
    where = place()
    assert where is not None
    resume(folder if where.leads else folder.with_name("nowhere"), quiet=True, **options)


def run_not_alike(folder: Path) -> None:
    """Be started with another seed than the other process."""
    where = place()
    assert where is not None
    try:
        train("CartPole-v1", run_dir=folder / "run", quiet=True, **SMALL, seed=where.rank + 1)
    except HeadraceError as error:
        (folder / f"{where.rank}.txt").write_text(f"{type(error).__name__}: {error}")

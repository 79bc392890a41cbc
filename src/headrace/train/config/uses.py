"""Which settings a run uses: the one table of who uses what, and the error for a setting that nobody would use.

Settings that somebody chose are looked at, not the defaults of a task or an algorithm, of which some are for other ways
of training it. Values that ask for nothing (False, 0, None, none of them) are kept to by whoever does without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import OptionError
from headrace.train.config.settings import ACTOR_CRITICS, OFF_POLICY, Config, brought, make_config

ROLLOUTS = ("ppo", "a2c")
EVERYBODY = (*ROLLOUTS, *OFF_POLICY)
IN_TURN, WORKERS = "samplers=0", "samplers"
"""the two ways of training: everything in turn in one process (or one a device), and with workers"""
KINDS = ("mlp", "cnn", "gru", "own")
"""of networks"""


@dataclass(frozen=True)
class Player:
    """A policy of a run, as far as it decides which settings are used.

    Attributes:
        config: the run's settings, nothing left open, with those of the policy.
        network: its kind: mlp, cnn, gru, or own, for a user's.
        continuous: whether its actions are.
        agents: how many of an environment it plays.
    """

    config: Config
    network: str = "mlp"
    continuous: bool = True
    agents: int = 1

    @property
    def way(self) -> str:
        """In which way it is trained."""
        return WORKERS if self.config.samplers > 0 else IN_TURN

    def uses(self, name: str) -> bool:
        """Whether it uses a setting."""
        return any(use.covers(self) for use in USES[name])


@dataclass(frozen=True)
class Use:
    """Who uses a setting.

    Attributes:
        algos: by which algorithms.
        ways: in which ways of training.
        networks: for which kinds of networks.
        continuous: whether for continuous actions only.
        given: other settings that it needs, name → value; a value of True stands for all that are not nothing.
    """

    algos: tuple[str, ...] = EVERYBODY
    ways: tuple[str, ...] = (IN_TURN, WORKERS)
    networks: tuple[str, ...] = KINDS
    continuous: bool = False
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def covers(self, player: Player) -> bool:
        """Whether a policy uses the setting so."""
        config = player.config
        if config.algo not in self.algos or player.way not in self.ways or player.network not in self.networks:
            return False
        if self.continuous and not player.continuous:
            return False
        return all(
            bool(getattr(config, name)) if value is True else getattr(config, name) == value
            for name, value in self.given.items()
        )

    def __str__(self) -> str:
        words = [", ".join(self.algos) if self.algos != EVERYBODY else "runs"]
        words += ["with continuous actions"] if self.continuous else []
        words += [f"with a network that is {' or '.join(self.networks)}"] if self.networks != KINDS else []
        words += [f"with {self.ways[0]}"] if len(self.ways) == 1 else []
        words += [f"with {name}" + ("" if value is True else f"={value!r}") for name, value in self.given.items()]
        return " ".join(words)


_ANY = Use()
_LEARNT_FROM_ROLLOUTS = Use(ROLLOUTS)
_CLIPPED = Use(("ppo",))
_REPLAY = Use(OFF_POLICY)
_PRIORITIES = Use(("dqn",), (WORKERS,), given={"prioritised": True})
_LAYERS = Use(networks=("mlp", "gru"))
_PPO_WORKERS = Use(("ppo",), (WORKERS,))
_COLLECTED = (_LEARNT_FROM_ROLLOUTS, Use(OFF_POLICY, (IN_TURN,)))

USES: dict[str, tuple[Use, ...]] = {
    **dict.fromkeys(
        (
            "task",
            "algo",
            "total_steps",
            "stop_at_return",
            "stop_episodes",
            "seed",
            "deterministic",
            "num_envs",
            "num_threads",
            "env_options",
            "action_masks",
            "network",
            "torch_threads",
            "matmul_precision",
            "graphs",
            "learning_rate",
            "gamma",
            "adam_epsilon",
            "schedules",
            "load",
            "samplers",
            "log_steps",
            "checkpoint_seconds",
            "keep_checkpoints",
            "tensorboard",
            "video",
        ),
        (_ANY,),
    ),
    **dict.fromkeys(("devices", "batch_size", "policies", "host_random", "frozen", "copies"), (Use(ways=(IN_TURN,)),)),
    "device": (Use(given={"devices": ()}),),
    "anneal_learning_rate": (_ANY,),
    **dict.fromkeys(("hidden", "activation"), (_LAYERS,)),
    "shared": (Use(ROLLOUTS, networks=("mlp",)),),
    "log_std_init": (Use(ROLLOUTS, continuous=True),),
    "bf16": (Use((*ROLLOUTS, "dqn"), networks=("cnn",)),),
    # learning from rollouts
    **dict.fromkeys(
        ("gae_lambda", "value_coef", "entropy_coef", "normalise_advantages"),
        (_LEARNT_FROM_ROLLOUTS,),
    ),
    **dict.fromkeys(("epochs", "clip_range", "value_clip_range", "target_kl"), (_CLIPPED,)),
    **dict.fromkeys(("num_steps", "compile", "normalise_observations", "normalise_rewards"), _COLLECTED),
    **dict.fromkeys(("rollout_slots", "rho_clip", "trace_clip"), (_PPO_WORKERS,)),
    "minibatch_size": (Use(("ppo", *OFF_POLICY)),),
    "max_grad_norm": (Use((*ROLLOUTS, "ddpg", "dqn")),),
    # learning from a replay
    **dict.fromkeys(("replay_size", "replay_ratio", "learning_starts", "save_replay"), (_REPLAY,)),
    "target_rate": (Use(ACTOR_CRITICS), Use(("dqn",), given={"target_update": 0})),
    "n_step": (Use(OFF_POLICY, (WORKERS,)),),
    "critic_learning_rate": (Use(ACTOR_CRITICS),),
    "exploration_noise": (Use(("ddpg", "td3")),),
    **dict.fromkeys(("policy_delay", "target_noise", "target_noise_clip"), (Use(("td3",)),)),
    **dict.fromkeys(("initial_temperature", "target_entropy"), (Use(("sac",)),)),
    **dict.fromkeys(
        ("double", "dueling", "loss", "target_update", "epsilon_start", "epsilon_end", "epsilon_fraction"),
        (Use(("dqn",)),),
    ),
    "prioritised": (Use(("dqn",), (WORKERS,)),),
    **dict.fromkeys(("priority_exponent", "importance_exponent"), (_PRIORITIES,)),
    # workers
    "publish_every": (Use(OFF_POLICY, (WORKERS,)),),
    **dict.fromkeys(("actor_device", "critic_device"), (Use(ACTOR_CRITICS, (WORKERS,)),)),
    # those of an evaluator or a viewer that is switched off are no mistake: somebody did that
    **dict.fromkeys(
        ("evaluate_episodes", "evaluate_seconds", "evaluate_share", "viewer", "viewer_share"), (Use(ways=(WORKERS,)),)
    ),
    # several policies
    **dict.fromkeys(("copy_every", "copies_kept"), (Use(ways=(IN_TURN,), given={"copies": True}),)),
}
"""setting → who uses it; each of `Config` is here"""


def check_used(config: Config, given: Mapping[str, Any], players: Mapping[str, Player], why: str | None = None) -> None:
    """Refuse settings that a run would not use.

    Args:
        config: what the run is to begin with, nothing left open.
        given: settings that somebody chose, of which those of the same value as the defaults are no mistake.
        players: the run's policies by name.
        why: what the run has no samplers for, where nobody chose that.

    Raises:
        OptionError: nobody uses one of them, one with a schedule, or one of a policy's own; and who would.
    """
    plain = make_config(config.task, algo=config.algo)
    everybody = list(players.values())
    for name in sorted(given):
        if (value := getattr(config, name)) and value != getattr(plain, name):
            _check(name, value, everybody, why)
    for name, points in sorted(config.schedules.items()):
        _check(name, points, everybody, why, "a schedule of ")
    for policy, own in sorted(given.get("policies", {}).items()):
        theirs = brought(config.task, config.algo, config.network, own)
        for name in sorted(own.keys() - {"agents", "copies"}):
            if own[name] and own[name] not in (getattr(config, name), theirs.get(name)):
                _check(name, own[name], [players[policy]], why, f"policy {policy!r}: ")


def check_learns(config: Config, given: Collection[str], players: Mapping[str, Player], why: str | None = None) -> None:
    """Refuse a run in which nobody would learn; arguments as for `check_used`.

    Raises:
        OptionError: all policies are frozen, one has no pace to learn at, or one was told to begin after the end.
    """
    if all(player.config.frozen for player in players.values()):
        raise OptionError("frozen=True would let nobody learn: it is for one of several policies, beside one that does")
    for name, player in players.items():
        own, whose = player.config, f"policy {name!r}: " if name else ""
        if own.algo not in OFF_POLICY or own.frozen:
            continue
        if own.replay_ratio is None and player.way == IN_TURN:
            way = IN_TURN + (f" (as it is since {why})" if why else "")
            words = f"replay_ratio=None lets samplers and learner run free; with {way} it must be a number"
            raise OptionError(whose + words)
        chosen = "learning_starts" in {*given, *config.policies.get(name, {})}
        if chosen and (words := learns_nothing(player)):
            raise OptionError(f"{whose}{words}")


def learns_nothing(player: Player) -> str | None:
    """In words, why a policy with a replay collects until the end of a run, and learns nothing; None if it learns."""
    own = player.config
    collected = own.total_steps * player.agents
    if own.algo not in OFF_POLICY or own.frozen or own.learning_starts <= collected:
        return None
    return f"with learning_starts={own.learning_starts} and total_steps={own.total_steps} nothing would be learnt"


def check_asked_for(player: Player) -> None:
    """Refuse what asks for something that by default nobody does, and that will not be done, whoever asked for it."""
    for field in dataclasses.fields(Config):
        nothing = not (field.default if field.default_factory is dataclasses.MISSING else field.default_factory())
        if nothing and (value := getattr(player.config, field.name)):
            _check(field.name, value, [player], None)


def _check(name: str, value: Any, players: list[Player], why: str | None, before: str = "") -> None:
    if any(player.uses(name) for player in players):
        return
    last = players[-1]
    way = "samplers" if last.way == WORKERS else IN_TURN + (f" (as it is since {why})" if why else "")
    kind = "" if last.network == "mlp" else f" for a network that is {last.network}"
    who = "; ".join(str(use) for use in USES[name])
    words = f"{before}{name}={value!r} would not be used by {last.config.algo} with {way}{kind}"
    raise OptionError(f"{words}: it is for {who}")


def unused_defaults(player: Player) -> Iterator[tuple[str, Any]]:
    """What is learnt by default otherwise than this run does, name → value; nobody chose it, so that it is no error."""
    for name in ("n_step", "prioritised"):
        value = getattr(player.config, name)
        if value != Config.__dataclass_fields__[name].default and not player.uses(name):
            yield name, value

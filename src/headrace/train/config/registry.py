"""Algorithms by name: the record of an algorithm's settings, and its class, which imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

from headrace.errors import OptionError, UnknownTaskError
from headrace.pool.sources import module_of, split
from headrace.pool.suggestions import close_names, nearest
from headrace.train.config.fields import IN_TURN, KINDS, ONE_AGENT, WORKERS, settings_of

ALGORITHMS = {
    "ppo": "PPO", "a2c": "A2C", "pqn": "PQN", "ddpg": "DDPG", "td3": "TD3", "sac": "SAC", "dqn": "DQN",
    "crossq": "CrossQ",
}  # fmt: skip
"""name → class in the module of this name in `headrace.train.algorithms`"""
EXAMPLES = {"xqc": "examples/algorithms/xqc.py:XQC", "flashsac": "examples/algorithms/flash_sac.py:FlashSAC"}
"""algorithms of earlier versions that are examples"""
OTHER_NAMES = {
    "learning_rate": "lr alpha_lr policy_lr actor_lr pi_lr",
    "critic_learning_rate": "critic_lr q_lr qf_lr vf_lr",
    "anneal_learning_rate": "anneal_lr lr_schedule lr_decay",
    "total_steps": "timesteps total_timesteps n_timesteps num_timesteps max_timesteps total_frames max_steps steps",
    "num_envs": "n_envs num_env envs num_actors nenvs n_env",
    "num_steps": "n_steps nsteps horizon horizon_length rollout_length rollout_steps unroll_length",
    "minibatch_size": "batch batch_size mini_batch_size num_minibatches n_minibatches minibatches sgd_minibatch_size",
    "epochs": "update_epochs n_epochs num_epochs mini_epochs ppo_epochs noptepochs",
    "entropy_coef": "ent_coef entropy_coeff ent entropy_cost",
    "initial_temperature": "ent_coef alpha init_alpha",
    "value_coef": "vf_coef critic_coef value_loss_coef vf_loss_coeff",
    "clip_range": "clip_coef clip_param clip_eps clip_epsilon e_clip epsilon_clip cliprange",
    "value_clip_range": "clip_range_vf clip_vloss clip_value",
    "gae_lambda": "lam gae lambda tau lmbda",
    "max_grad_norm": "grad_norm clip_grad max_norm",
    "hidden": "net_arch policy_kwargs hidden_sizes hidden_size hidden_units units layers num_layers",
    "activation": "activation_fn",
    "replay_size": "buffer_size memory_size replay_buffer_size capacity",
    "replay_ratio": "train_freq train_frequency gradient_steps utd utd_ratio update_every",
    "learning_starts": "learn_starts warmup warmup_steps start_steps starting_steps",
    "target_rate": "tau polyak soft_update_tau",
    "target_update": "target_update_interval target_network_frequency target_update_freq",
    "policy_delay": "policy_frequency policy_freq",
    "target_noise": "policy_noise target_policy_noise",
    "target_noise_clip": "noise_clip",
    "exploration_noise": "action_noise expl_noise",
    "epsilon_start": "start_e exploration_initial_eps eps_start",
    "epsilon_end": "end_e exploration_final_eps eps_end",
    "epsilon_fraction": "exploration_fraction eps_fraction",
    "normalise_advantages": "norm_adv normalize_advantage normalize_advantages",
    "normalise_observations": "normalize_input norm_obs normalize_observations normalize_obs",
    "normalise_rewards": "norm_reward normalize_reward normalize_rewards",
    "normalise_values": "normalize_value normalize_values",
    "stop_at_return": "reward_threshold target_return",
    "env_options": "env_kwargs env_args",
    "device": "cuda gpu use_cuda",
    "run_dir": "log_dir logdir output_dir save_dir save_path",
    "log": "wandb track use_wandb",
    "tensorboard": "tensorboard_log",
    "video": "capture_video record_video",
    "evaluate_episodes": "n_eval_episodes eval_episodes num_eval_episodes",
    "evaluate_seconds": "eval_freq eval_interval",
    "checkpoint_seconds": "save_freq save_interval checkpoint_freq save_every",
    "quiet": "verbose",
    "algo": "algorithm",
    "callback": "callbacks",
}
"""setting or argument → what stable-baselines3, CleanRL, rl_games and others call it"""
ARGUMENTS = ("run_dir", "resume", "quiet", "trust", "callback")
"""arguments of `headrace.train.train` beside the settings, which a misspelt name may mean"""


def find_settings(name: str) -> type[Any]:
    """Returns the record of an algorithm's settings, without importing torch for one of Headrace's.

    Args:
        name: one of `ALGORITHMS`; or a class with an attribute ``settings``, as ``"file.py:Class"`` or
            ``"package.module:Class"``.

    Raises:
        OptionError: there is no such class, or it is not an algorithm.
    """
    if name in ALGORITHMS:
        return getattr(importlib.import_module("headrace.train.config.algorithms"), f"{ALGORITHMS[name]}Config")
    return find_algorithm(name).settings


def find_algorithm(name: str) -> Any:
    """Returns the class of an algorithm, which derives from `headrace.train.algorithms.policy.Policy`.

    Raises:
        OptionError: as `find_settings`.
    """
    if name in ALGORITHMS:
        return getattr(importlib.import_module(f"headrace.train.algorithms.{name}"), ALGORITHMS[name])
    source, attribute = split(name)
    if name in EXAMPLES:
        raise OptionError(
            f"training option algo={name!r} is an example, not an algorithm of the package: "
            f"copy the file from the repository, and give algo={EXAMPLES[name]!r}"
        )
    if source.endswith(".py") and not attribute:
        raise OptionError(f"training option algo={name!r} must name a class of that file: algo='{name}:Class'")
    if not source or not attribute:
        near = nearest(name, ALGORITHMS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ALGORITHMS)}, and file.py:Class"
        raise OptionError(f"training option algo={name!r} is not an algorithm: {hint}")
    try:
        found = getattr(module_of(source), attribute, None)
    except UnknownTaskError as error:
        raise OptionError(f"training option algo={name!r}: {error}") from error
    if not hasattr(found, "settings"):
        raise OptionError(f"training option algo={name!r}: {source} has no class {attribute} derived from Policy")
    return found


def conditions(record: type[Any]) -> set[str]:
    """Returns the conditions, see `Setting.needs`, that can hold in a run of an algorithm."""
    found = {IN_TURN, ONE_AGENT, *(f"with {kind} actions" for kind in record.action_kinds)}
    return found.union({WORKERS} if record.has_workers else (), *(KINDS[kind] for kind in record.network_kinds))


def for_others(name: str, algo: str, settings: Collection[str]) -> str:
    """Returns in words which algorithms have a setting that this one has not; empty for one of all, or an argument."""
    owners = "" if name in settings or name in ARGUMENTS else described_owners(name)
    return f", and not used by {algo}: it is for {owners}" if owners else ""


def described_owners(name: str) -> str:
    """Returns in words which of Headrace's algorithms use a setting, and when; empty if none does."""
    owners: dict[tuple[str, ...], list[str]] = {}
    for algo in ALGORITHMS:
        record = find_settings(algo)
        known = settings_of(record).get(name)
        if known is not None and conditions(record).issuperset(known.needs):
            owners.setdefault(tuple(known.words()), []).append(algo)
    return "; ".join(
        " ".join(["runs" if len(algos) == len(ALGORITHMS) else ", ".join(algos), *words])
        for words, algos in owners.items()
    )


def other_name(name: str, settings: Collection[str]) -> str | None:
    """Returns our name of what other libraries call ``name``, of those in ``settings`` if there are several."""
    ours = [each for each, theirs in OTHER_NAMES.items() if name in theirs.split()]
    return next((each for each in ours if each in settings), ours[0] if ours else None)


def unknown(name: str, value: Any, algo: str, settings: Collection[str]) -> str:
    """Returns a message that an algorithm with these settings has no such setting, and which algorithms have it."""
    if (ours := other_name(name, settings)) and name not in settings:
        return f"training option {name!r} is called {ours!r} here{for_others(ours, algo, settings)}"
    if owners := described_owners(name):
        return f"{name}={value!r} would not be used by {algo}: it is for {owners}"
    near = close_names(name, [*settings, *ARGUMENTS], 3, 0.65)
    return f"unknown training option {name!r}" + (f"; nearest: {', '.join(near)}" if near else "")

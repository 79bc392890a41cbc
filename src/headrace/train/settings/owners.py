"""Answers to a setting that a run does not have: whose it is, what it is called here, or what was meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from headrace.errors import OptionError
from headrace.pool.executors.processes.task import OWN
from headrace.pool.registry import is_python, own_options
from headrace.pool.suggestions import close_names
from headrace.train.settings.algorithm import ALGORITHMS
from headrace.train.settings.when import IN_TURN, WORKERS

OTHER_NAMES = {
    "learning_rate": "lr alpha_lr policy_lr actor_lr pi_lr",
    "critic_learning_rate": "critic_lr q_lr qf_lr vf_lr",
    "anneal_learning_rate": "anneal_lr lr_schedule lr_decay",
    "target_kl_rate": "desired_kl kl_threshold",
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


def for_others(name: str, algo: str, settings: Collection[str]) -> str:
    """Returns in words which algorithms have a setting that this one has not; empty for one of all, or an argument."""
    owners = "" if name in settings or name in ARGUMENTS else described_owners(name)
    return f", and not used by {algo}: it is for {owners}" if owners else ""


def described_owners(name: str) -> str:
    """Returns in words which of Headrace's algorithms use a setting, and when; empty if none does."""
    owners: dict[tuple[str, ...], list[str]] = {}
    for name_of_algo, algorithm in ALGORITHMS.items():
        if (known := algorithm.usable.get(name)) is not None:
            owners.setdefault(tuple(each.words for each in known.when), []).append(name_of_algo)
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


def options_to_give(task: str) -> list[str]:
    """Returns the names of a task's own options; none of a task that is not known, or whose file cannot be read."""
    try:
        return sorted({"max_episode_steps", *own_options(task), *(OWN if is_python(task) else ())}) if task else []
    except Exception:  # of a user's own code, too: what builds the task raises it again
        return []


def stranger(name: str, value: Any, algo: str, settings: Collection[str], task: str) -> str:
    """Returns as `unknown`, with the options of the task; of none where ``task`` is empty."""
    options = options_to_give(task)
    if name in options:
        return f"{name} is an option of {task}: give env_options={{{name!r}: {value!r}}}"
    words = unknown(name, value, algo, settings)
    if not options or not words.startswith("unknown"):
        return words
    return f"{words}. The task's own options go into env_options; {task} has {', '.join(options)}"


def check_asked_for(own: Any) -> None:
    """Raises `OptionError` for a setting that is off by default, turned on, even by a preset, and would not be used."""
    for name, value in vars(own).items():
        if value and name != "task" and not own.algorithm.default(name):
            check_has(name, value, [own], None)


def check_has(name: str, value: Any, policies: list[Any], why: str | None, before: str = "") -> None:
    """Raises `OptionError` unless one of the policies, each a `Config`, has a setting; it names those that have it."""
    if not any(own.has(name) for own in policies):
        own = policies[-1]
        network = "" if own.fit.network == "mlp" else f" for a network that is {own.fit.network}"
        words = f"{before}{name}={value!r} would not be used by {own.algo} {way(own, why)}{network}"
        raise OptionError(f"{words}: it is for {described_owners(name)}")


def way(config: Any, why: str | None) -> str:
    """Returns in words how a run trains, and why."""
    return WORKERS.words if WORKERS.holds(config) else IN_TURN.words + (f" (because {why})" if why else "")

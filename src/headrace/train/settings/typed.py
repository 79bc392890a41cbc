"""The settings of all algorithms as keyword arguments, so that type checkers and editors know them.

``docs/typed.py`` writes this file; docs/settings.md says what each means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import torch


class Settings(TypedDict, total=False):
    """Settings of `headrace.train.train` beside its own arguments."""

    preset: str
    stop_at_return: float | None
    stop_episodes: int
    deterministic: bool
    num_envs: int
    num_threads: int
    env_options: Mapping[str, Any]
    curriculum: Mapping[str, Sequence[Sequence[Any]]]
    option_schedules: dict[str, list[tuple[int, float]]]
    reward: Any
    action_masks: bool
    network: Any
    hidden: Sequence[int]
    activation: Literal["tanh", "relu"]
    torch_threads: int
    matmul_precision: Literal["highest", "high", "medium"]
    graphs: bool
    compile: bool
    num_steps: int
    normalise_observations: bool
    normalise_rewards: bool
    deviation_floor: float
    learning_rate: float
    anneal_learning_rate: bool
    gamma: float
    adam_epsilon: float
    schedules: Mapping[str, Sequence[Sequence[float]]]
    samplers: int
    evaluate_episodes: int
    devices: str | Sequence[str]
    batch_size: int
    host_random: bool
    ray: str
    evaluate_seconds: float
    evaluate_share: float
    policies: Mapping[str, Mapping[str, Any]]
    frozen: bool
    copies: str | None
    load: str | PathLike[str] | None
    copy_every: int
    copies_kept: int
    log_steps: int
    checkpoint_seconds: float
    keep_checkpoints: int
    metrics: str | Sequence[str]
    tensorboard: bool
    log: str | Sequence[str]
    video: bool
    viewer: bool
    max_grad_norm: float
    bf16: bool
    trunk: Literal["nature", "strided"]
    standardise_pixels: bool
    shared: bool
    log_std_init: float
    gae_lambda: float
    value_coef: float
    normalise_values: bool
    entropy_coef: float
    normalise_advantages: bool
    decisions_only: bool
    random_moves: int
    curiosity: float
    minibatch_size: int
    epochs: int
    clip_range: float
    value_clip_range: float | None
    target_kl: float | None
    target_kl_rate: float | None
    mirror: bool
    rollout_slots: int
    rho_clip: float
    trace_clip: float
    epsilon_start: float
    epsilon_end: float
    epsilon_fraction: float
    q_lambda: float
    target_rate: float
    n_step: int
    replay_size: int
    replay_ratio: float | None
    learning_starts: int
    save_replay: bool
    hindsight: float
    publish_every: int
    critic_learning_rate: float
    random_shift: int
    actor_device: str
    critic_device: str
    exploration_noise: float
    policy_delay: int
    target_noise: float
    target_noise_clip: float
    initial_temperature: float
    target_entropy: float | None
    double: bool
    dueling: bool
    loss: Literal["huber", "squared"]
    target_update: int
    prioritised: bool
    priority_exponent: float
    importance_exponent: float


class SettingsOfSeeds(Settings, total=False):
    """Settings of `headrace.studies.train_seeds`."""

    total_steps: int
    device: str | torch.device


class Changes(TypedDict, total=False):
    """Settings that may change in the middle of a run."""

    total_steps: int
    stop_at_return: float | None
    ray: str
    checkpoint_seconds: float
    keep_checkpoints: int
    metrics: str | Sequence[str]
    log: str | Sequence[str]
    video: bool
    viewer: bool

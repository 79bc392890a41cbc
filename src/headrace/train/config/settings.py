"""All settings of a training run.

One flat frozen record: it is the command line (through tyro), the keyword arguments of
`headrace.train.train`, and the run folder's ``config.json``, all with the same names.
The docstring under each field is the manual.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal, get_origin, get_type_hints

from headrace.errors import OptionError
from headrace.pool.spec import MOST_THREADS
from headrace.train.config.checks import (
    as_lists,
    check_deterministic,
    check_devices,
    check_finite,
    check_points,
    describe,
    interpolated,
    matches,
    require,
)
from headrace.train.config.presets import tuned


@dataclass(frozen=True)
class Config:
    """Settings of a run."""

    task: str
    """Name of the task, as `headrace envs` lists it."""
    algo: Literal["ppo", "a2c", "ddpg", "td3", "sac", "dqn"] = "ppo"
    """Learning algorithm; a2c makes one update a rollout, from all of it, and has no use for epochs and clipping.
    ddpg, td3 and sac are for continuous actions: they learn from a replay, and take of PPO's settings num_steps,
    minibatch_size, learning_rate, anneal_learning_rate, gamma, max_grad_norm (but for td3 and sac, which clip nothing),
    adam_epsilon and those that normalise. dqn is for one discrete action: it learns from a replay, too."""
    total_steps: int = 1_000_000
    """Agent steps to train for, all environments together."""
    stop_at_return: float | None = None
    """Stop early once the mean return of the last `stop_episodes` episodes reaches this; None trains to the end."""
    stop_episodes: int = 100
    """Episodes in the mean that `stop_at_return` looks at."""
    seed: int = 1
    """Seed of the environments, the network's initial weights, exploration and minibatch order."""
    deterministic: bool = False
    """Repeat exactly, bit for bit: two runs with the same settings have the same metrics and weights, and one that was
    stopped and went on has those of one that was not. All then takes turns in one process (samplers=0), and torch
    computes on one thread, unless torch_threads says on how many, and by algorithms that always sum alike."""
    device: str = "cpu"
    """Where the network lives: cpu, cuda or cuda:i."""
    devices: tuple[str, ...] = ()
    """Train with one process on each of these (cuda:0 cuda:1 …, or cpu several times), in place of `device`. Everything
    that says how many is then of each process: num_envs, minibatch_size; steps and episodes are counted all together.
    Updates are not CUDA graphs then."""

    # the environments
    num_envs: int = 64
    """Environments stepped together, N; of each process, where several train."""
    batch_size: int = 0
    """Rows the pool returns at once; half of `num_envs` overlaps inference with stepping, 0 steps all together."""
    num_threads: int = 0
    """Threads of the pool; 0 lets it choose."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """The task's own options, such as frame_skip or episodic_life."""
    action_masks: bool = True
    """Never take an action that info["action_mask"] forbids, where the task has one and actions are discrete: who says
    what is allowed means it. Without, it is left to rewards to teach that, as in most published curves of Taxi, whose
    mask only spares actions that change nothing."""

    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Who plays the agents of a multi-agent task: policy name → settings of its own, and agents, a list of agent types
    or numbers. By default every agent type has a policy, whose name is the type's."""

    # the network
    network: str = "auto"
    """mlp: two multilayer perceptrons; cnn: a shared CNN (the Nature-CNN, or a small one for images under 36 x 36);
    gru: a recurrent network; auto takes the cnn for images, the mlp for all else. One of your own: file.py:name or
    package.module:name of a function (observation space, outputs) -> torch.nn.Module."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of an mlp, the same for actor and critic; the last is a gru's memory."""
    shared: bool = False
    """One perceptron for actor and critic of an mlp, instead of one each."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Nonlinearity of an mlp, and of a gru's layers before the memory."""
    log_std_init: float = 0.0
    """Initial logarithm of a Gaussian policy's standard deviation, in units of half the action range."""
    bf16: bool = False
    """Run the CNN's matrix products in bfloat16, unless a CPU cannot; parameters, losses and updates stay float32."""
    torch_threads: int = 0
    """Threads inside one torch operation; 0 is 1 for an mlp over few environments and all cores for all else."""
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    """How the factors of float32 matrix products are rounded; sums stay float32. highest: not at all; high: to
    TensorFloat32, on GPUs; medium: so, and to bfloat16 on CPUs that have units for it, which there is several times as
    fast. A setting of the whole process."""
    compile: bool = False
    """Compile the network with torch.compile (a cnn, or any network on CUDA); the first steps then take long."""
    graphs: bool = True
    """On CUDA, run rollouts and updates as CUDA graphs, where the environments live there too."""
    host_random: bool = False
    """Draw exploration and the order of samples on the CPU: a run on CUDA then agrees with one on a CPU, up to
    rounding, but waits for the numbers to be copied."""

    # PPO
    num_steps: int = 32
    """Steps of every environment in one rollout, T; one iteration learns from T x N steps."""
    epochs: int = 4
    """Passes over a rollout."""
    minibatch_size: int = 256
    """Samples in one gradient step; all of them, if there are fewer."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    anneal_learning_rate: bool = True
    """Lower the learning rate linearly to zero over total_steps."""
    gamma: float = 0.99
    """Discount of future rewards."""
    gae_lambda: float = 0.95
    """Decay of generalised advantage estimation: 0 trusts the critic, 1 the returns."""
    clip_range: float = 0.2
    """The probability ratio's gain is clipped outside 1 ± this."""
    value_clip_range: float | None = None
    """Clip the value's change in the value loss to ± this; None does not."""
    value_coef: float = 1.0
    """Weight of the value loss, half the mean squared error."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this global norm."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon; ddpg, td3 and sac have 1e-8 unless another is given."""
    normalise_advantages: bool = True
    """Give the advantages of every minibatch mean 0 and standard deviation 1."""
    target_kl: float | None = None
    """Leave the epochs of an iteration once the policy has moved this far (approximate KL); None never does."""
    normalise_observations: bool = False
    """Scale observations to mean 0, standard deviation 1, by running statistics."""
    normalise_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""

    # DDPG, TD3 and SAC
    critic_learning_rate: float = 1e-3
    """Adam's step size for the critic; learning_rate is the actor's. What lowers that lowers this alike."""
    exploration_noise: float = 0.1
    """Of ddpg and td3: standard deviation of the Gaussian noise on actions, in units of half the action range. For the
    first `learning_starts` steps, when the actor knows nothing yet, actions are all but random."""
    policy_delay: int = 2
    """Of td3: updates of the critics for one of the actor and of the targets."""
    target_noise: float = 0.2
    """Of td3: standard deviation of the noise on the actions that the critics' targets are of."""
    target_noise_clip: float = 0.5
    """Of td3: that noise is clipped to ± this."""
    initial_temperature: float = 1.0
    """Of sac: weight of the entropy at the start, which is then learnt with learning_rate."""
    target_entropy: float | None = None
    """Of sac: entropy that the temperature aims at, in nats; None is minus the number of an action's dimensions."""
    replay_size: int = 1_000_000
    """Steps of a policy's agents that its replay holds, on the device; of one agent each takes 8 bytes for every number
    observed, 4 for every number of an action, and 8."""
    replay_ratio: float | None = 1.0
    """Updates for every step collected of a policy's agents; None lets samplers and learner each go as fast as they
    can."""
    learning_starts: int = 1000
    """Steps to collect of a policy's agents before its first update."""
    target_rate: float = 0.005
    """How far the target networks go towards the learning ones after each update, 1 all the way."""
    save_replay: bool = True
    """Keep the replay in checkpoints, so that a resumed run goes on with it; their files may then be as large as it is.
    Without it, a resumed run fills an empty replay with learning_starts steps before it goes on learning."""

    # workers
    samplers: int = -1
    """Processes that step num_envs environments each while this one learns. 0 takes turns in one process, which alone
    can be repeated exactly. -1 is 0 for ppo and a2c; for algorithms with a replay it is 1, or 0 for several agents or
    environments on a GPU. With ppo, whose rollouts are then a little old, advantages are V-trace's; a2c has none."""
    rollout_slots: int = 1
    """For ppo with workers: rollouts of each sampler that may wait to be learnt from, beside the one that is learnt
    from. More even out uneven speeds, and make the policy that acted older; a sampler without a free one waits."""
    rho_clip: float = 1.0
    """For ppo with workers: V-trace's limit of the importance weight of a step. The lower, the more the critic is that
    of the policy that acted."""
    trace_clip: float = 1.0
    """For ppo with workers: V-trace's limit of the weights that carry what later steps earned back to earlier ones."""
    publish_every: int = 1
    """Updates between two publications of the weights to samplers and evaluator."""
    actor_device: str = "auto"
    """Let the actor learn in a process of its own, on this device: cpu or cuda:i, also the one on which the critics
    learn. The halves of an update then run at the same time, each with what the other was publish_every updates ago.
    "" keeps them together; auto does so on a GPU, on a single core, and where replay_ratio is None."""
    critic_device: str = ""
    """Where the critics learn, if not on `device`."""
    evaluate_episodes: int = 8
    """Episodes of one evaluation, played without exploration beside training; 0 for none."""
    evaluate_seconds: float = 5.0
    """Seconds from the beginning of an evaluation to that of the next, at least."""
    evaluate_share: float = 0.01
    """The part of all cores' time that evaluations may take; where one takes long, fewer are made. 1 sets no limit."""
    viewer: bool = True
    """Let whoever is at this machine watch the newest weights play, in a browser (`headrace watch`); nothing is played
    or drawn while nobody does."""
    viewer_share: float = 0.01
    """The part of all cores' time that drawing may take; where a picture takes long, fewer are drawn, but one a second
    at least."""

    # DQN
    double: bool = True
    """Choose the action that a target values by the network, not by the target network."""
    dueling: bool = False
    """Learn a state's value and its actions' advantages apart, each from half of a last hidden layer twice as wide."""
    loss: Literal["huber", "squared"] = "huber"
    """Of an error e of an action's value: e²; or Huber's, e²/2 up to 1 and in a straight line from there."""
    target_update: int = 0
    """Copy the network into the target network after every so many updates; 0 moves it by target_rate after each."""
    n_step: int = 1
    """Rewards in a target before the value of what followed."""
    prioritised: bool = False
    """Learn more often from what was badly predicted: transitions are drawn by their error to the power of
    priority_exponent, and weigh (1 / their probability) to the power of importance_exponent."""
    priority_exponent: float = 0.5
    """How much errors count in drawing: 0 not at all."""
    importance_exponent: float = 0.4
    """How much of the bias from drawing so is taken back at first; it grows to all, 1, over the run."""
    epsilon_start: float = 1.0
    """The share of random actions at first."""
    epsilon_end: float = 0.05
    """The share of random actions in the end."""
    epsilon_fraction: float = 0.1
    """The part of total_steps over which it falls from one to the other."""

    schedules: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Settings that change with the agent steps so far: name → [(step, value), …], linear in between. Those of
    `SCHEDULED`; a schedule for learning_rate takes the place of anneal_learning_rate."""
    frozen: bool = False
    """Act, but do not learn; for one of several policies."""
    load: str | None = None
    """A run folder whose best checkpoint's network to begin with; of a policy, the one of the same name."""
    copies: str | None = None
    """Self-play: act as past versions of the policy of this name, with its settings, and do not learn; for one of
    several policies. Every rollout is played with one version, drawn from those kept."""
    copy_every: int = 50_000
    """For self-play: keep a version of a policy that others copy every so many agent steps, from its first."""
    copies_kept: int = 10
    """For self-play: how many versions of a policy are kept; of more, those go that lie closest to their neighbours."""

    # bookkeeping
    log_steps: int = 10_000
    """A line of metrics at least every so many agent steps; and a hundred in a run, or with workers one every two
    seconds, if that is more."""
    checkpoint_seconds: float = 30.0
    """A checkpoint every so many seconds, beside the one at the end."""
    keep_checkpoints: int = 2
    """How many of the newest checkpoints are kept, beside the best."""
    tensorboard: bool = True
    """Write TensorBoard events beside metrics.jsonl, if tensorboard is installed."""
    video: bool = True
    """Record a video of the trained agent at the end."""

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            check_finite(one.name, getattr(self, one.name))
        for name in _AT_LEAST_1:
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in _ABOVE_0:
            require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        for name in _BETWEEN_0_AND_1:
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "between 0 and 1")
        for name in _AT_LEAST_0:
            require(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")
        ratio = self.replay_ratio
        require(ratio is None or ratio > 0, "replay_ratio", ratio, "above 0, or None")
        require(self.samplers >= -1, "samplers", self.samplers, "at least 0, or -1")
        require(0 <= self.seed < 2**63, "seed", self.seed, "between 0 and 2**63")
        require(len(self.hidden) >= 1, "hidden", self.hidden, "at least one layer")
        require(min(self.hidden) >= 1, "hidden", self.hidden, "positive widths")
        require(self.torch_threads <= MOST_THREADS, "torch_threads", self.torch_threads, f"at most {MOST_THREADS}")
        own = ":" in self.network
        require(own or self.network in NETWORKS, "network", self.network, f"{', '.join(NETWORKS)} or file.py:name")
        batch = self.batch_size
        require(batch == 0 or self.num_envs % batch == 0, "batch_size", batch, f"a divisor of num_envs={self.num_envs}")
        check_devices(self.devices)
        if self.deterministic:
            check_deterministic(self.samplers, self.actor_device, self.batch_size)
        for name, points in self.schedules.items():
            require(name in SCHEDULED, "schedules", name, f"for one of {', '.join(SCHEDULED)}")
            check_points(name, points)
            for _, value in points:
                if value != 0 or name != "learning_rate":  # a rate may end at 0, but not be 0 throughout
                    dataclasses.replace(self, **{name: value}, schedules={})
        for name in self.policies:
            if name == "" or "." in name:  # which parts the names of tensors in a checkpoint
                raise OptionError(f"policy {name!r} must have a name, without dots")
            self.of_policy(name)

    @property
    def apart(self) -> bool:
        """Whether the actor learns in a process of its own."""
        return self.actor_device not in ("", "auto")

    def at(self, step: int) -> Config:
        """These settings after so many agent steps, as `schedules` says."""
        if not self.schedules:
            return self
        now = copy.copy(self)
        for name, points in self.schedules.items():
            object.__setattr__(now, name, interpolated(points, step))  # between points that were checked
        object.__setattr__(now, "schedules", {})
        return now

    def of_policy(self, name: str) -> Config:
        """The settings of one policy: these, with its own in their place; those of the copied one for one that copies.

        Raises:
            OptionError: it has a setting that policies share, or that is wrong, or copies what cannot be copied.
        """
        own = self._own(name)
        if "copies" in own:
            own = self._as_copied(name, own)
        if not own:
            return dataclasses.replace(self, policies={}) if self.policies else self
        return make_config(defaults=False, **{**dataclasses.asdict(self), **own, "policies": {}})

    def _own(self, name: str) -> dict[str, Any]:
        own = self.policies.get(name, {})
        if not isinstance(own, dict):
            raise OptionError(f"policy {name!r} must be a dict of settings, such as agents, not {own!r}")
        if wrong := own.keys() & SHARED:
            raise OptionError(f"policy {name!r} cannot have a {min(wrong)} of its own")
        return {key: value for key, value in own.items() if key != "agents"}

    def _as_copied(self, name: str, own: dict[str, Any]) -> dict[str, Any]:
        model = own["copies"]
        if more := own.keys() - {"copies"}:
            raise OptionError(f"policy {name!r} copies {model!r}, settings included: it cannot have a {min(more)} too")
        theirs = self._own(model) if model in self.policies else {}
        if model not in self.policies or "copies" in theirs or theirs.get("frozen", self.frozen):
            raise OptionError(f"policy {name!r} can copy one of the policies that learn, not {model!r}")
        return theirs | {"copies": model, "frozen": True, "load": None}

    def to_json(self) -> str:
        """This configuration as the text of ``config.json``."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Config:
        """The configuration that `to_json` wrote; fields it lacks keep their defaults."""
        return make_config(defaults=False, **json.loads(text))


OFF_POLICY = ("ddpg", "td3", "sac", "dqn")
"""algorithms that learn from a replay"""
ACTOR_CRITICS = ("ddpg", "td3", "sac")
"""those whose update has two halves"""

NETWORKS = ("auto", "mlp", "cnn", "gru")

_AT_LEAST_1 = (
    "total_steps", "num_envs", "num_steps", "epochs", "minibatch_size", "log_steps", "stop_episodes", "copy_every",
    "copies_kept", "rollout_slots", "replay_size", "publish_every", "n_step", "policy_delay",
)  # fmt: skip
_ABOVE_0 = (
    "learning_rate", "critic_learning_rate", "clip_range", "max_grad_norm", "adam_epsilon", "epsilon_fraction",
    "initial_temperature", "rho_clip", "trace_clip", "evaluate_share",
    "viewer_share",
)  # fmt: skip
_BETWEEN_0_AND_1 = (
    "gamma", "gae_lambda", "target_rate", "priority_exponent", "importance_exponent", "epsilon_start", "epsilon_end",
)  # fmt: skip
_AT_LEAST_0 = (
    "num_threads", "torch_threads", "keep_checkpoints", "checkpoint_seconds", "batch_size", "exploration_noise",
    "learning_starts", "evaluate_episodes", "evaluate_seconds", "target_update", "target_noise", "target_noise_clip",
)  # fmt: skip

SCHEDULED = ("learning_rate", "clip_range", "entropy_coef", "value_coef", "max_grad_norm")
"""settings that may have a schedule"""

SHARED = {
    "task", "total_steps", "stop_at_return", "stop_episodes", "seed", "device", "devices", "num_envs", "batch_size",
    "num_threads", "env_options", "policies", "torch_threads", "matmul_precision", "graphs", "host_random", "num_steps",
    "log_steps", "checkpoint_seconds", "keep_checkpoints", "tensorboard", "video", "samplers", "publish_every",
    "evaluate_episodes", "evaluate_seconds", "evaluate_share", "actor_device", "critic_device", "viewer",
    "viewer_share", "rollout_slots", "deterministic",
}  # fmt: skip
"""settings of a run that its policies share"""


def make_config(task: str, *, defaults: bool = True, **overrides: Any) -> Config:
    """The tuned configuration of a task, with ``overrides`` applied.

    ``env_options`` in the overrides are merged into the task's own. One of the ``policies`` that names an ``algo`` or a
    ``network`` of its own gets the settings tuned for that, where neither it nor ``overrides`` say otherwise.

    Raises:
        OptionError: an override has an unknown name, or a value of the wrong type or out of range.
    """
    algo, network = overrides.get("algo", "ppo"), overrides.get("network", "auto")
    values: dict[str, Any] = tuned(task, algo, network) if defaults else {}
    fields = {f.name: hint for f, hint in zip(dataclasses.fields(Config), _hints(), strict=True)}
    for name, value in overrides.items():
        if name not in fields or name == "task":
            near = difflib.get_close_matches(name, fields, n=3, cutoff=0.4)
            raise OptionError(f"unknown training option {name!r}" + (f"; nearest: {', '.join(near)}" if near else ""))
        value = tuple(value) if get_origin(fields[name]) is tuple and isinstance(value, list) else value
        if not matches(value, fields[name]):
            raise OptionError(f"training option {name}={value!r} must be {describe(fields[name])}")
        if name == "schedules" and isinstance(value, dict):  # points as a file gives them back
            value = {key: as_lists(points) for key, points in value.items()}
        values[name] = values.get(name, {}) | value if name == "env_options" else value
    if defaults and "policies" in values:
        values["policies"] = {
            name: brought(task, algo, network, own, overrides) | own if isinstance(own, dict) else own
            for name, own in values["policies"].items()
        }
    return Config(task=task, **values)


def brought(task: str, algo: str, network: str, own: dict[str, Any], given: Collection[str] = ()) -> dict[str, Any]:
    """What a policy's ``own`` algorithm or network brings along, where the run's is another; but nothing ``given``."""
    theirs, ours = tuned(task, own.get("algo", algo), own.get("network", network)), tuned(task, algo, network)
    values = {}
    for name in sorted((theirs.keys() | ours.keys()) - SHARED - set(given)):
        default = Config.__dataclass_fields__[name].default
        value, other = theirs.get(name, default), ours.get(name, default)
        if value != other:
            values[name] = list(value) if isinstance(value, tuple) else value
    return values


def _hints() -> list[Any]:
    hints = get_type_hints(Config)
    return [hints[f.name] for f in dataclasses.fields(Config)]

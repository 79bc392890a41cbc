"""The settings of a training run that all algorithms share.

One flat frozen record: the same names are the command line's, the keyword arguments of `headrace.train.train`'s and
``config.json``'s. An algorithm derives its own record from it: `headrace.train.config.rollout.RolloutConfig` or
`headrace.train.config.replay.ReplayConfig`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headrace.errors import OptionError
from headrace.pool.spec import MOST_THREADS
from headrace.train.config import given, make
from headrace.train.config.checks import check_devices, check_finite, check_points, check_stages, interpolated, require
from headrace.train.config.fields import IN_TURN, REQUIRED, WORKERS, Use, setting, settings_of
from headrace.train.config.registry import find_algorithm, unknown

LOGGERS = ("tensorboard", "wandb", "trackio")
NETWORKS = ("auto", "mlp", "cnn", "gru")
_IN_TURN, _WORKERS = Use(ways=(IN_TURN,)), Use(ways=(WORKERS,))
_LAYERS = Use(networks=("mlp", "gru"))
_COLLECTED = (Use(replay=False), Use(replay=True, ways=(IN_TURN,)))
_COPIED = Use(ways=(IN_TURN,), given=("copies", True))


@dataclass(frozen=True)
class Config:
    """Settings of a run, whatever its algorithm."""

    task: str = setting(REQUIRED, "Name of the task, as `headrace envs` lists it.", group="run", shared=True)
    algo: str = setting(
        "ppo",
        "Learning algorithm: ppo, a2c, ddpg, td3, sac or dqn; or a class of your own, file.py:Class or "
        "package.module:Class. ddpg, td3 and sac are for continuous actions, dqn is for one discrete action; these "
        "four learn from a replay.",
        group="run",
    )
    total_steps: int = setting(
        1_000_000, "Agent steps to train for, all environments together.", low=1, group="run", shared=True
    )
    stop_at_return: float | None = setting(
        None,
        "Stop once the mean return of the last stop_episodes episodes reaches this; None trains to the end.",
        group="run",
        shared=True,
    )
    stop_episodes: int = setting(
        100, "Episodes in the mean that stop_at_return looks at.", low=1, group="run", shared=True
    )
    seed: int = setting(
        1,
        "Seed of the environments, the network's initial weights, exploration and the order of minibatches.",
        low=0,
        group="run",
        shared=True,
    )
    deterministic: bool = setting(
        False,
        "Repeat exactly, bit for bit: two runs with the same settings have the same metrics and weights, and a run "
        "that was resumed has those of one that was not stopped. Everything then takes turns in one process "
        "(samplers=0), torch uses one thread unless torch_threads says otherwise, and its deterministic algorithms.",
        group="run",
        shared=True,
    )
    device: str = setting(
        "cpu",
        "Where the network is: cpu, cuda or cuda:i.",
        group="run",
        use=Use(given=("devices", ())),
        shared=True,
    )
    devices: tuple[str, ...] = setting(
        (),
        "Train with one process on each of these (cuda:0 cuda:1 …, or cpu several times), in place of device. "
        "num_envs and minibatch_size are then those of each process; steps and episodes are counted over all of them. "
        "Updates are not CUDA graphs then.",
        group="run",
        use=_IN_TURN,
        shared=True,
    )

    num_envs: int = setting(
        64,
        "Environments stepped together, N; of each process, where several train.",
        low=1,
        group="environments",
        shared=True,
    )
    batch_size: int = setting(
        0,
        "Rows the pool returns at once; half of num_envs overlaps inference with stepping, 0 steps all together.",
        low=0,
        group="environments",
        use=_IN_TURN,
        shared=True,
    )
    num_threads: int = setting(0, "Threads of the pool; 0 lets it choose.", low=0, group="environments", shared=True)
    env_options: dict[str, Any] = setting(
        {}, "Options of the task, such as frame_skip or episodic_life.", group="environments", shared=True
    )
    curriculum: dict[str, list[tuple[int, Any]]] = setting(
        {},
        "Options of the task that change with the agent steps so far: name → [(step, value), …], each value from its "
        "step on. A change makes new environments, in which new episodes begin. Evaluations, videos and play keep to "
        "env_options.",
        group="environments",
        shared=True,
    )
    reward: str | None = setting(
        None,
        "A function of your own that makes the rewards which are learnt from, file.py:name or package.module:name: of "
        "a headrace.wrappers.Step of all environments, it returns their rewards. Returns are reported, and evaluations "
        "made, with the game's own.",
        group="environments",
        shared=True,
    )
    action_masks: bool = setting(
        True,
        'Never take an action that info["action_mask"] forbids, where the task has one and actions are discrete. '
        "Without it, rewards alone teach that, as in most published curves of Taxi, whose mask only spares actions "
        "that change nothing.",
        group="environments",
    )

    network: str = setting(
        "auto",
        "mlp: two multilayer perceptrons; cnn: a shared CNN (the Nature-CNN, or a small one for images under 36 x 36); "
        "gru: a recurrent network; auto: the cnn for images, the mlp for all else. Or one of your own: file.py:name or "
        "package.module:name of a function (observation space, outputs) -> torch.nn.Module.",
        group="network",
    )
    hidden: tuple[int, ...] = setting(
        (64, 64),
        "Widths of the hidden layers of an mlp, the same for actor and critic; the last is the size of a gru's memory.",
        low=1,
        group="network",
        use=_LAYERS,
    )
    activation: Literal["tanh", "relu"] = setting(
        "tanh", "Nonlinearity of an mlp, and of a gru's layers before the memory.", group="network", use=_LAYERS
    )
    torch_threads: int = setting(
        0,
        "Threads inside one torch operation; 0 is 1 for an mlp over few environments and all cores for all else.",
        low=0,
        high=MOST_THREADS,
        group="network",
        shared=True,
    )
    matmul_precision: Literal["highest", "high", "medium"] = setting(
        "highest",
        "How the factors of float32 matrix products are rounded; sums stay float32. highest: not at all; high: to "
        "TensorFloat32 on GPUs; medium: the same, and to bfloat16 on CPUs that have units for it, where it is several "
        "times as fast. It holds for the whole process.",
        group="network",
        shared=True,
    )
    compile: bool = setting(
        False,
        "Compile the network with torch.compile (a cnn, or any network on CUDA); the first steps then take long.",
        group="network",
        use=_COLLECTED,
    )
    graphs: bool = setting(
        True,
        "On CUDA, run rollouts and updates as CUDA graphs, where the environments are on the GPU too.",
        group="network",
        shared=True,
    )
    host_random: bool = setting(
        False,
        "Draw exploration and the order of samples on the CPU: a run on CUDA then agrees with one on a CPU up to "
        "rounding, but waits for the numbers to be copied.",
        group="network",
        use=_IN_TURN,
        shared=True,
    )

    num_steps: int = setting(
        32,
        "Steps of every environment in one rollout, T; one iteration collects T x N steps.",
        low=1,
        group="learning",
        use=_COLLECTED,
        shared=True,
    )
    learning_rate: float = setting(1e-3, "Adam's step size.", above=0, group="learning", scheduled=True)
    anneal_learning_rate: bool = setting(
        True, "Lower the learning rate linearly to zero over total_steps.", group="learning"
    )
    gamma: float = setting(0.99, "Discount of future rewards.", low=0, high=1, group="learning")
    adam_epsilon: float = setting(1e-5, "Adam's epsilon.", above=0, group="learning")
    normalise_observations: bool = setting(
        False,
        "Scale observations to mean 0 and standard deviation 1, by running statistics.",
        group="learning",
        use=_COLLECTED,
    )
    normalise_rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the discounted return.",
        group="learning",
        use=_COLLECTED,
    )
    schedules: dict[str, list[tuple[int, float]]] = setting(
        {},
        "Settings that change with the agent steps so far: name → [(step, value), …], linear in between. A schedule of "
        "learning_rate takes the place of anneal_learning_rate.",
        group="learning",
    )

    samplers: int = setting(
        -1,
        "Processes that step num_envs environments each while this one learns. 0 takes turns in one process, which "
        "alone can be repeated exactly. -1 is 0 for algorithms that learn from rollouts; for those with a replay it is "
        "1, or 0 for several agents or environments on a GPU.",
        low=-1,
        group="workers",
        shared=True,
    )
    ray: str = setting(
        "",
        "Have samplers and evaluator run as actors on the nodes of a Ray cluster: auto for the one that this machine "
        "belongs to, host:port for another, local for one that the run starts here. Empty for processes of this "
        "machine.",
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    evaluate_episodes: int = setting(
        8,
        "Episodes of one evaluation, played without exploration beside training; 0 for none.",
        low=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    evaluate_seconds: float = setting(
        5.0,
        "Seconds from the beginning of an evaluation to that of the next, at least.",
        low=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    evaluate_share: float = setting(
        0.01,
        "The part of all cores' time that evaluations may take; where one takes long, fewer are made. 1 sets no limit.",
        above=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )

    policies: dict[str, dict[str, Any]] = setting(
        {},
        "Who plays the agents of a multi-agent task: policy name → settings of its own, and agents, a list of agent "
        "types or numbers. By default every agent type has a policy of the type's name.",
        group="policies",
        use=_IN_TURN,
        shared=True,
    )
    frozen: bool = setting(False, "Act, but do not learn; for one of several policies.", group="policies", use=_IN_TURN)
    load: str | None = setting(
        None,
        "A run folder, with whose best checkpoint's network to begin; of a policy, with the one of the same name.",
        group="policies",
    )
    copies: str | None = setting(
        None,
        "Self-play: act as past versions of the policy of this name, with its settings, and do not learn; for one of "
        "several policies. Every rollout is played with one version, drawn from those kept.",
        group="policies",
        use=_IN_TURN,
    )
    copy_every: int = setting(
        50_000,
        "Self-play: agent steps after which a version of a policy that others copy is kept, from its first.",
        low=1,
        group="policies",
        use=_COPIED,
    )
    copies_kept: int = setting(
        10,
        "Self-play: how many versions of a policy are kept; of more, those closest to their neighbours are removed.",
        low=1,
        group="policies",
        use=_COPIED,
    )

    log_steps: int = setting(
        10_000,
        "Agent steps between two lines of metrics, at most; a run has at least a hundred lines, or with workers one "
        "every two seconds.",
        low=1,
        group="files",
        shared=True,
    )
    checkpoint_seconds: float = setting(
        30.0, "Seconds between two checkpoints, beside the one at the end.", low=0, group="files", shared=True
    )
    keep_checkpoints: int = setting(
        2, "How many of the newest checkpoints are kept, beside the best.", low=0, group="files", shared=True
    )
    tensorboard: bool = setting(
        True,
        "Write TensorBoard events beside metrics.jsonl, if tensorboard is installed.",
        group="files",
        shared=True,
    )
    log: tuple[str, ...] = setting(
        (),
        "Where the metrics go, too: wandb (Weights & Biases; WANDB_MODE=offline keeps them in the run folder), "
        "trackio, tensorboard.",
        group="files",
        shared=True,
    )
    video: bool = setting(
        True,
        "Keep a few episodes as videos in the run folder, if PyAV is installed: of the trained agent at the end, and "
        "with samplers of the agent on its way.",
        group="files",
        shared=True,
    )
    viewer: bool = setting(
        True,
        "Show the run on a page in a browser on this machine; nothing is played or drawn while no page is open.",
        group="files",
        shared=True,
    )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A setting of the run's algorithm."""

    def __post_init__(self) -> None:
        for name, known in settings_of(type(self)).items():
            check_finite(name, getattr(self, name))
            known.check(name, getattr(self, name))
        require(self.seed < 2**63, "seed", self.seed, "between 0 and 2**63")
        require(len(self.hidden) >= 1, "hidden", self.hidden, "at least one layer")
        require(self.reward is None or ":" in self.reward, "reward", self.reward, "file.py:name of a function")
        for each in self.log:
            require(each in LOGGERS, "log", each, f"one or more of {', '.join(LOGGERS)}")
        own = ":" in self.network
        require(own or self.network in NETWORKS, "network", self.network, f"{', '.join(NETWORKS)} or file.py:name")
        batch = self.batch_size
        require(batch == 0 or self.num_envs % batch == 0, "batch_size", batch, f"a divisor of num_envs={self.num_envs}")
        check_devices(self.devices)
        if self.deterministic:
            self._check_deterministic()
        self._check_schedules()
        for name, points in self.curriculum.items():
            check_stages(name, points)
        for name in self.policies:
            if name == "" or "." in name:  # which parts the names of tensors in a checkpoint
                raise OptionError(f"policy {name!r} must have a name, without dots")
            self.of_policy(name)

    def _check_deterministic(self) -> None:
        """Raises `OptionError` where a run that is to repeat exactly lets things happen at the same time."""
        for name in ("samplers", "batch_size"):
            if getattr(self, name) > 0:
                self._refuse_with_deterministic(name)

    def _refuse_with_deterministic(self, name: str) -> None:
        raise OptionError(
            f"{name}={getattr(self, name)!r} leaves to time what deterministic=True must decide: leave one of them out"
        )

    def _check_schedules(self) -> None:
        """Raises `OptionError` for a schedule of what has none, or with points that are none."""
        known = [settings_of(each) for each in make.record_types({"algo": self.algo, "policies": self.policies})]
        scheduled = dict.fromkeys(name for each in known for name, one in each.items() if one.scheduled)
        for name, points in self.schedules.items():
            if name not in scheduled:
                words = unknown(name, points, self.algo, scheduled)
                raise OptionError(f"a schedule of {words}; a schedule is for one of {', '.join(scheduled)}")
            check_points(name, points)
            for _, value in points if hasattr(self, name) else ():
                if value != 0 or name != "learning_rate":  # a rate may end at 0, but not be 0 throughout
                    dataclasses.replace(self, **{name: value}, schedules={})

    def __reduce__(self) -> tuple[Any, ...]:
        # whose process imports a user's algorithm by its name
        return _unpickled, (vars(self), given.packed(vars(self)))

    @property
    def learns_on(self) -> str:
        """The device of the process that learns and reports."""
        return self.device

    @property
    def first_update(self) -> int:
        """Agent steps before the first update."""
        return self.num_envs * self.num_steps

    def at(self, step: int) -> Config:
        """Returns these settings as `schedules` says for agent step `step`."""
        if not self.schedules:
            return self
        now = object.__new__(type(self))
        there = {name: interpolated(points, step) for name, points in self.schedules.items() if hasattr(self, name)}
        vars(now).update(vars(self) | there | {"schedules": {}})  # between points that were checked
        return now

    def of_policy(self, name: str) -> Config:
        """Returns the settings of one policy: these, with its own in their place; a copy has those of the copied one.

        Raises:
            OptionError: it has a setting that policies share, or that is wrong, or copies what cannot be copied.
        """
        own = self._own(name)
        if "copies" in own:
            own = self._as_copied(name, own)
        if not own:
            return dataclasses.replace(self, policies={}) if self.policies else self
        settings = find_algorithm(own.get("algo", self.algo)).settings
        values = make.only(settings, vars(self)) | own
        values |= {"policies": {}, "schedules": make.only(settings, self.schedules)}
        return make_config(values.pop("task"), defaults=False, **values)

    def _own(self, name: str) -> dict[str, Any]:
        own = self.policies.get(name, {})
        if not isinstance(own, dict):
            raise OptionError(f"policy {name!r} must be a dict of settings, such as agents, not {own!r}")
        settings = find_algorithm(own.get("algo", self.algo)).settings
        for key in sorted(own.keys() - settings.__dataclass_fields__.keys() - {"agents"}):
            words = unknown(key, own[key], own.get("algo", self.algo), settings.__dataclass_fields__)
            raise OptionError(f"policy {name!r}: {words}")
        if wrong := own.keys() & make.shared(settings):
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
        """Returns these settings as the text of ``config.json``."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> Config:
        """Returns the settings that `to_json` wrote, as `from_values` does."""
        return Config.from_values(json.loads(text))

    @staticmethod
    def from_values(values: dict[str, Any]) -> Config:
        """Returns the settings of these values, name → value; those that are missing have their defaults.

        Where settings of all algorithms are among them, as in the files of earlier versions, those of algorithms that
        the run has not are left out.
        """
        return make_config(defaults=False, **make.of_these_algorithms(values))


def make_config(task: str, *, defaults: bool = True, **overrides: Any) -> Config:
    """Returns the settings of a run: the presets of its algorithm for a task, with ``overrides`` applied.

    ``env_options`` in the overrides are merged into the task's own. One of the ``policies`` that names an ``algo`` or a
    ``network`` of its own gets the presets for that, where neither it nor ``overrides`` say otherwise; what is given
    for the run, but belongs to the algorithms of some policies alone, is theirs.

    Args:
        task: name of the task.
        defaults: whether to begin with presets; otherwise with the default of each setting.

    Raises:
        OptionError: an override has an unknown name, belongs to another algorithm, or has a value of the wrong type or
            out of range.
    """
    for name in ("algo", "network"):
        if name in overrides:
            make.checked(Config, name, overrides[name])
    settings, values = make.settings_and_values(task, defaults, overrides)
    return settings(task=task, **values)


def _unpickled(values: dict[str, Any], objects: bytes | None = None) -> Config:
    given.unpack(objects)
    config = object.__new__(find_algorithm(values["algo"]).settings)
    vars(config).update(values)
    return config

"""`make` and related functions, which make a pool with one of several interfaces from a task's name and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

import numpy as np

from headrace.errors import OptionError, needs_train
from headrace.machine import is_lack
from headrace.pool.make_pool import make_pool, pool_settings
from headrace.pool.pool import Pool
from headrace.pool.registry import TaskLike, build_task, own_options
from headrace.pool.seeds import SeedLike
from headrace.pool.spec import AutoresetMode
from headrace.pool.suggestions import nearest
from headrace.pool.views.envspec import COMMON, EnvSpec

if TYPE_CHECKING:
    from headrace.pool.torch.pool import TorchPool
    from headrace.pool.views.dm import DmPool
    from headrace.pool.views.envpool import GymPool
    from headrace.pool.views.gymnasium import GymnasiumPool
    from headrace.pool.views.players import PlayersPool

View = TypeVar("View")
EnvType = Literal["gym", "gymnasium", "dm", "vec"]
ENV_TYPES = get_args(EnvType)
SIZES = {"render_width", "render_height", "render_camera_id"}
VIEWED = {"reward_threshold", "render_mode", "render_env_id", *SIZES}
SETTLED = {"gym_reset_return_info", "base_path", "env_seed"}


# fmt: off
@overload
def make(
    task_id: TaskLike, env_type: Literal["vec"], *,
    num_envs: int = 1, batch_size: int = 0, num_threads: int = 0,
    seed: SeedLike = None, autoreset: Any = "next_step", device: Any = "cpu", **options: Any,
) -> GymnasiumPool: ...
@overload
def make(
    task_id: TaskLike, env_type: Literal["dm"], *,
    num_envs: int = 1, batch_size: int = 0, num_threads: int = 0,
    seed: SeedLike = None, autoreset: Any = "next_step", device: Any = "cpu", **options: Any,
) -> DmPool: ...
@overload
def make(  # pyright: ignore[reportOverlappingOverload]
    task_id: TaskLike, env_type: Literal["gym", "gymnasium"] | None = None, *, max_num_players: int,
    num_envs: int = 1, batch_size: int = 0, num_threads: int = 0,
    seed: SeedLike = None, autoreset: Any = "next_step", device: Any = "cpu", **options: Any,
) -> PlayersPool: ...
@overload
def make(
    task_id: TaskLike, env_type: Literal["gym", "gymnasium"], *,
    num_envs: int = 1, batch_size: int = 0, num_threads: int = 0,
    seed: SeedLike = None, autoreset: Any = "next_step", device: Any = "cpu", **options: Any,
) -> GymPool: ...
@overload
def make(
    task_id: TaskLike, env_type: None = None, *,
    num_envs: int = 1, batch_size: int = 0, num_threads: int = 0,
    seed: SeedLike = None, autoreset: Any = "next_step", device: Any = "cpu", **options: Any,
) -> Pool: ...
# fmt: on


def make(
    task_id: TaskLike, env_type: EnvType | None = None, **options: Any
) -> Pool | GymPool | GymnasiumPool | DmPool | PlayersPool | TorchPool:
    """Makes a pool of environments.

    Args:
        task_id: a name from `list_all_envs`, such as ``"Pong-v5"``; or a file that registers one, ``"my_env.py"``; or
            a name of Gymnasium's registry, or a class or function that makes a `gymnasium.Env`.
        env_type: None for a `Pool`; ``"vec"`` for a `gymnasium.vector.VectorEnv` with batched spaces; ``"gymnasium"``
            or ``"gym"`` for EnvPool's object, a `gymnasium.vector.VectorEnv` with the spaces of one environment;
            ``"dm"`` for a `dm_env.Environment`.
        num_envs: number of environments in the pool, 1 by default.
        batch_size: number of rows that `recv` returns; 0 or ``num_envs`` makes the pool synchronous.
        num_threads: number of threads that step environments; 0 for the smaller of batch size and cores.
        seed: environment i is seeded with ``seed + i``; a list, also accepted as ``env_seed``, holds one seed for each
            environment; None draws fresh entropy.
        autoreset: ``"next_step"`` (default), ``"same_step"`` (with ``info["final_obs"]``) or ``"disabled"``.
        device: ``"cpu"``; or ``"cuda:0"``, for kernel environments and MuJoCo's tasks, which makes a `TorchPool`.
        max_num_players: 1 (default) for one dense row per environment; at least the number of agents of a multi-agent
            task for EnvPool's flat ``players`` layout (a `PlayersPool`).
        thread_affinity_offset: first core to pin threads to; -1 for no pinning.
        executor: ``"processes"`` for Gymnasium's environment if Headrace has one of the same name.
        debug: whether a kernel environment runs as plain Python, slowly, with every index and result checked.
        render_mode: None or ``"rgb_array"``.
        render_env_id, render_width, render_height, render_camera_id: with an ``env_type``, the environment that
            `render` shows by default, the frame's size in pixels, and the camera; 0 and -1 for the task's defaults.
        reward_threshold: with an ``env_type``, the threshold that its spec reports in place of Gymnasium's.
        options: the task's own options; `make_spec(task_id).options` lists them with their defaults. For an environment
            that is a Python object, the arguments of its class or function.

    Raises:
        UnknownTaskError: there is no such task; the message names the most similar names.
        OptionError: an option is unknown or has a wrong value, or the file of a task cannot be imported.
        KernelError: a kernel environment or MuJoCo task of the user does not compile, or failed in its first steps,
            which run in debug mode once for each version of it.

    Example:
        >>> pool = headrace.make("Pong-v5", num_envs=16, batch_size=8, seed=0)
        >>> pool.async_reset()
        >>> for _ in range(1000):
        ...     obs, reward, terminated, truncated, info = pool.recv()
        ...     pool.send(policy(obs), info["env_id"])
    """
    if env_type is not None and env_type not in ENV_TYPES:
        close = nearest(env_type, ENV_TYPES, 1)
        hint = f": did you mean {close[0]!r}?" if close else ""
        raise OptionError(f"env_type must be one of {', '.join(ENV_TYPES)}, not {env_type!r}{hint}")
    own = _own(task_id, options)
    _settle(options, own)
    viewed = _viewed(options, own)
    if env_type is None and (unused := viewed.keys() - {"render_mode"}):
        raise OptionError(
            f"{min(unused)} needs an env_type, such as env_type='gymnasium': a plain pool cannot change what is drawn"
        )
    if (players := options.pop("max_num_players", 1)) != 1:
        return _players(task_id, env_type, players, options)
    if str(options.get("device", "cpu")) != "cpu":
        if env_type is not None:
            raise OptionError(
                f"env_type {env_type!r} works on the CPU only: leave device={str(options['device'])!r} out, or env_type"
            )
        return make_torch(task_id, **options)
    pool = make_pool(task_id, **options)
    return pool if env_type is None else _view(_presented, pool, env_type, options, viewed)


def _own(task_id: TaskLike, options: dict[str, Any]) -> set[str]:
    """Returns the given options of an interface that the task has itself, such as an environment's ``base_path``."""
    given = (VIEWED | SETTLED) & options.keys()
    return given & own_options(task_id, options.get("executor")) if given else given


def _settle(options: dict[str, Any], own: set[str]) -> None:
    """Checks and removes those of EnvPool's options that a pool has under another name or does not use."""
    given = {name: options.pop(name) for name in SETTLED & options.keys() - own}  # pools need no `base_path`
    if given.get("gym_reset_return_info", True) is not True:
        raise OptionError("gym_reset_return_info must be True: reset returns (obs, info)")
    seeds = given.get("env_seed")
    if seeds is not None and (np.ndim(seeds) == 0 or len(seeds)):
        if options.get("seed") is not None:
            raise OptionError("give seed or env_seed, not both: each decides what environments start from")
        options["seed"] = seeds


def _viewed(options: dict[str, Any], own: set[str]) -> dict[str, Any]:
    """Removes and returns the options of the interface, most of which concern `render`.

    The task's own options stay with the task; a ``render_mode`` is for both.
    """
    found = {name: options[name] for name in VIEWED & options.keys() if name == "render_mode" or name not in own}
    for name in found.keys() - own:
        del options[name]
    mode = found.get("render_mode")
    if mode not in (None, "rgb_array"):
        raise OptionError(f"render_mode must be None or 'rgb_array', not {mode!r}: render() returns frames")
    return found


def _players(task: TaskLike, env_type: EnvType | None, max_num_players: Any, options: dict[str, Any]) -> PlayersPool:
    from headrace.pool.views.players import PlayersPool

    if env_type in ("vec", "dm"):
        raise OptionError(
            f"max_num_players must be 1 with env_type {env_type!r}: only env_type='gym' has a row for each player"
        )
    return _view(PlayersPool, make_pool(task, **options), max_num_players)


def _view(kind: Callable[..., View], pool: Pool, *more: Any) -> View:
    """Returns the pool with an interface; closes the pool if the interface does not support it."""
    try:
        return kind(pool, *more)
    except OptionError:
        pool.close()
        raise


def _presented(
    pool: Pool, env_type: EnvType, options: dict[str, Any], viewed: dict[str, Any]
) -> GymPool | GymnasiumPool | DmPool:
    from headrace.pool.views.pictures import Pictures

    spec, mode = EnvSpec(pool.spec, options | viewed), viewed.get("render_mode")
    shown = {name.removeprefix("render_"): viewed[name] for name in {"render_env_id", *SIZES} & viewed.keys()}
    rest = spec, Pictures(pool, **shown), mode
    if env_type == "vec":
        from headrace.pool.views.gymnasium import GymnasiumPool

        return GymnasiumPool(pool, *rest)
    if env_type == "dm":
        from headrace.pool.views.dm import DmPool

        return DmPool(pool, *rest)
    from headrace.pool.views.envpool import GymPool

    return GymPool(pool, *rest)


def make_gym(task_id: TaskLike, **options: Any) -> GymPool:
    """Returns a pool as EnvPool's object, a `gymnasium.Env` with the spaces of one environment; see `make`."""
    return make(task_id, "gym", **options)


def make_gymnasium(task_id: TaskLike, **options: Any) -> GymPool:
    """Returns the same as `make_gym`, as in EnvPool; `make_vec` returns an object with Gymnasium's batched spaces."""
    return make(task_id, "gymnasium", **options)


def make_vec(task_id: TaskLike, **options: Any) -> GymnasiumPool:
    """Returns a pool as a `gymnasium.vector.VectorEnv`, as `gymnasium.make_vec` does; see `make`."""
    return make(task_id, "vec", **options)


def make_vector(task: str, num_envs: int = 1, render_mode: str | None = None, **options: Any) -> GymnasiumPool:
    """Returns a vector environment for ``gymnasium.make_vec("headrace:headrace/…")``, which calls this function."""
    return make_vec(task, num_envs=num_envs, render_mode=render_mode, **options)


def make_dm(task_id: TaskLike, **options: Any) -> DmPool:
    """Returns a pool as a `dm_env.Environment` with batched time steps; see `make`."""
    return make(task_id, "dm", **options)


def make_spec(task_id: TaskLike, **options: Any) -> EnvSpec:
    """Returns a task's spaces, info fields and options without making a pool; takes the arguments of `make`.

    Raises:
        UnknownTaskError, OptionError: as in `make`.
    """
    own = _own(task_id, options)
    _settle(options, own)
    viewed = _viewed(options, own)
    common = {name: options.pop(name) for name in COMMON if name in options and name not in own}
    pool_settings(**{name: value for name, value in common.items() if name != "max_num_players"})
    return EnvSpec(build_task(task_id, **options).spec, viewed | common)


def make_torch(
    task_id: TaskLike,
    num_envs: int = 1,
    device: Any = "cpu",
    seed: SeedLike = None,
    autoreset: AutoresetMode = "next_step",
    num_threads: int = 0,
    **options: Any,
) -> TorchPool:
    """Returns a pool of kernel environments, or of a MuJoCo task, whose arrays are torch tensors on one device.

    Args:
        task_id: the name of a kernel environment, or of a MuJoCo task, which then runs with MuJoCo Warp. Other tasks,
            such as Atari games, cannot run on a GPU.
        device: ``"cpu"``, ``"cuda:0"``, …, or a `torch.device`.
        num_threads: number of threads that share large launches on a CPU; 0 for the smaller of ``num_envs`` and cores.
        num_envs, seed, autoreset, options: as in `make`.

    Raises:
        UnknownTaskError, KernelError: as in `make`.
        OptionError: an option is wrong, there is no such device, or the task cannot run on one.
        ModuleNotFoundError: torch is not installed.
    """
    with needs_train("headrace.make_torch"):
        from headrace.pool.executors.device.memory import check_device
        from headrace.pool.torch.pool import TorchPool

    settings = pool_settings(num_envs, 0, num_threads, seed, autoreset, check_device(device))
    if settings.device != "cpu":
        settings = replace(settings, num_threads=1)
    recipe = partial(
        make_torch,
        task_id=task_id,
        num_envs=num_envs,
        device=settings.device,
        seed=settings.seeds.tolist(),
        autoreset=settings.autoreset,
        num_threads=num_threads,
        **options,
    )
    try:
        return TorchPool(build_task(task_id, **options), settings, recipe)
    except (MemoryError, RuntimeError) as error:
        if not is_lack(error):
            raise
        words = str(error).partition("\n")[0]
        raise OptionError(f"{num_envs} environments of {task_id} need more memory than there is: {words}") from error

"""`make` and its kin: a task's name and options in, a pool behind the wanted interface out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from headrace.errors import OptionError
from headrace.pool.pool import Pool
from headrace.pool.registry import make_pool, nearest
from headrace.pool.seeds import SeedLike
from headrace.pool.spec import AutoresetMode

if TYPE_CHECKING:
    from headrace.pool.views.dm import DmPool
    from headrace.pool.views.gymnasium import GymnasiumPool
    from headrace.pool.views.players import PlayersPool
    from headrace.pool.views.torch import TorchPool

View = TypeVar("View")
EnvType = Literal["gym", "gymnasium", "dm"]
ENV_TYPES = ("gym", "gymnasium", "dm")


@overload
def make(task: str, env_type: Literal["gymnasium"], **options: Any) -> GymnasiumPool: ...
@overload
def make(task: str, env_type: Literal["dm"], **options: Any) -> DmPool: ...
@overload
def make(  # pyright: ignore[reportOverlappingOverload]
    task: str,
    env_type: Literal["gym"] | None = None,
    *,
    max_num_players: int,
    **options: Any,
) -> PlayersPool: ...
@overload
def make(task: str, env_type: Literal["gym"] | None = None, **options: Any) -> Pool: ...


def make(
    task: str, env_type: EnvType | None = None, **options: Any
) -> Pool | GymnasiumPool | DmPool | PlayersPool | TorchPool:
    """Make a pool of environments.

    Args:
        task: a name from `list_all_envs`, such as ``"Pong-v5"``; or a file that registers one, ``"my_env.py"``.
        env_type: None or ``"gym"`` for the pool itself (EnvPool's interface), ``"gymnasium"`` for a
            `gymnasium.vector.VectorEnv`, ``"dm"`` for a `dm_env.Environment`.
        num_envs: environments in the pool, 1 by default.
        batch_size: rows that `recv` returns; 0 or ``num_envs`` makes the pool synchronous.
        num_threads: threads that step environments; 0 for the smaller of batch size and cores.
        seed: environment i starts at ``seed + i``; a list gives one each; None draws fresh entropy.
        autoreset: ``"next_step"`` (default), ``"same_step"`` (with ``info["final_obs"]``) or ``"disabled"``.
        device: ``"cpu"``; or ``"cuda:0"``, for kernel environments and MuJoCo's tasks, which makes a `TorchPool`.
        max_num_players: at least the number of agents of a multi-agent task for EnvPool's flat ``players`` layout
            (a `PlayersPool`); 1 (default) for one dense row an environment.
        thread_affinity_offset: first core to pin threads to; -1 for no pinning.
        debug: run a kernel environment as plain Python, slowly, with every index and result checked.
        options: the task's own; `make_spec(task).options` lists them with their defaults.

    Raises:
        UnknownTaskError: no such task; the message names the nearest ones.
        OptionError: an option is unknown or has a wrong value.

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
    render_mode = options.pop("render_mode", None)
    if render_mode not in (None, "rgb_array"):
        raise OptionError(f"render_mode must be None or 'rgb_array', not {render_mode!r}: render() returns frames")
    if options.pop("gym_reset_return_info", True) is not True:
        raise OptionError("gym_reset_return_info must be True: reset returns (obs, info)")
    if (players := options.pop("max_num_players", 1)) != 1:
        return _players(task, env_type, players, options)
    if str(options.get("device", "cpu")) != "cpu":
        if env_type not in (None, "gym"):
            raise OptionError(f"env_type {env_type!r} is for arrays on the CPU, not on {options['device']}")
        return make_torch(task, **options)
    pool = make_pool(task, **options)
    if env_type == "gymnasium":
        from headrace.pool.views.gymnasium import GymnasiumPool

        return GymnasiumPool(pool, render_mode=render_mode)
    if env_type == "dm":
        from headrace.pool.views.dm import DmPool

        return _view(DmPool, pool)
    return pool


def _players(task: str, env_type: EnvType | None, max_num_players: Any, options: dict[str, Any]) -> PlayersPool:
    from headrace.pool.views.players import PlayersPool

    if env_type in ("gymnasium", "dm"):
        raise OptionError(f"max_num_players must be 1 with env_type {env_type!r}: flat rows are the gym interface's")
    return _view(PlayersPool, make_pool(task, **options), max_num_players)


def _view(kind: Callable[..., View], pool: Pool, *more: Any) -> View:
    """The pool behind an interface; closed where the interface is not for it."""
    try:
        return kind(pool, *more)
    except OptionError:
        pool.close()
        raise


def make_gym(task: str, **options: Any) -> Pool:
    """The pool itself, which has EnvPool's gym interface; see `make`."""
    return make(task, "gym", **options)


def make_gymnasium(task: str, **options: Any) -> GymnasiumPool:
    """A `gymnasium.vector.VectorEnv` over a pool; see `make`."""
    return make(task, "gymnasium", **options)


def make_dm(task: str, **options: Any) -> DmPool:
    """A `dm_env.Environment` over a pool; see `make`."""
    return make(task, "dm", **options)


def make_torch(
    task: str,
    num_envs: int = 1,
    device: Any = "cpu",
    seed: SeedLike = None,
    autoreset: AutoresetMode = "next_step",
    num_threads: int = 0,
    **options: Any,
) -> TorchPool:
    """A pool of kernel environments, or of a MuJoCo task, whose arrays are torch tensors on one device, copied nowhere.

    Args:
        task: a kernel environment's name, or a MuJoCo task's, which runs over MuJoCo Warp then; Atari games, say,
            have none on a GPU.
        device: ``"cpu"``, ``"cuda:0"``, …, or a `torch.device`; one pool is on one device.
        num_threads: threads that share large launches on a CPU; 0 for the smaller of ``num_envs`` and cores.
        num_envs, seed, autoreset, options: as in `make`.

    Raises:
        OptionError: there is no such device, or the task cannot live on one.
    """
    from headrace.pool.views.torch import make_torch as made

    return made(task, num_envs, device, seed, autoreset, num_threads, **options)

"""Tasks on Box2D."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

class Declared:
    """One row of an array, as a simulator declares it."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...

class Simulator:
    """A kind of environment: what its rows hold, and how to make one."""

    @property
    def fields(self) -> list[Declared]:
        """What environments write, in order."""

    @property
    def action(self) -> Declared | None:
        """One row of actions; None: it takes none."""

    @property
    def frame_shape(self) -> tuple: ...

class Slot:
    """The arrays of one batch, as the engine writes to them."""

    def over(self, addresses: Sequence[int]) -> Slot:
        """The same over the arrays of another batch of as many rows."""

class Engine:
    """
    Runs environments on threads; used through ThreadsExecutor, which checks arguments.
    """

    def __init__(
        self,
        simulator: Simulator,
        num_envs: int,
        batch_size: int,
        num_threads: int,
        seeds: Sequence[int],
        autoreset: str,
        max_episode_steps: int,
        pin_from: int,
    ) -> None: ...
    @property
    def num_slots(self) -> int: ...
    def bind(self, arrays: Sequence[Annotated[NDArray, dict(order="C", device="cpu")]]) -> Slot: ...
    def step(
        self,
        actions: Annotated[NDArray, dict(order="C", device="cpu", writable=False)],
        env_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        slot: Slot,
    ) -> None: ...
    def reset(
        self,
        env_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        seeds: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        slot: Slot,
    ) -> None: ...
    def start_step(
        self,
        actions: Annotated[NDArray, dict(order="C", device="cpu", writable=False)],
        env_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        slot: Slot,
    ) -> None: ...
    def start_reset(
        self,
        env_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        seeds: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        slot: Slot,
    ) -> None: ...
    def finish(self, timeout: float | None) -> bool: ...
    def set_slots(self, slots: Sequence[Slot]) -> None: ...
    def send_step(
        self,
        actions: Annotated[NDArray, dict(order="C", device="cpu", writable=False)],
        env_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    def send_reset(
        self,
        env_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        seeds: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    ) -> None: ...
    def recv(self, timeout: float | None, fresh: Slot) -> int: ...
    def discard(self) -> None: ...
    def save(self, env_id: int) -> bytes: ...
    def load(
        self,
        env_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        blobs: Sequence[bytes],
    ) -> None: ...
    def render(
        self,
        env_id: int,
        frame: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None), order="C", device="cpu")],
    ) -> None: ...
    def close(self) -> None: ...

def lunar_lander(
    *, continuous: bool, gravity: float, enable_wind: bool, wind_power: float, turbulence_power: float
) -> Simulator:
    """
    The simulator of LunarLander; options are those of headrace.envs.box2d, which checks them.
    """

def bipedal_walker(*, hardcore: bool) -> Simulator:
    """The simulator of BipedalWalker."""

def car_racing(
    *, continuous: bool, lap_complete_percent: float, domain_randomize: bool, channels_first: bool, frame_skip: int
) -> Simulator:
    """The simulator of CarRacing."""

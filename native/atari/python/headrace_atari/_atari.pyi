"""Atari environments on the Arcade Learning Environment's emulator."""

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

class GameInfo:
    """
    What a cartridge offers: action numbers, modes, difficulties, screen size.
    """

    @property
    def actions(self) -> list[int]: ...
    @property
    def full_actions(self) -> list[int]: ...
    @property
    def modes(self) -> list[int]: ...
    @property
    def difficulties(self) -> list[int]: ...
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...

def game_info(rom: str) -> GameInfo:
    """Read a cartridge; raises RuntimeError for a missing or unknown one."""

def simulator(
    *,
    rom: str,
    mode: int,
    difficulty: int,
    repeat_action_probability: float,
    stack_num: int,
    frame_skip: int,
    noop_max: int,
    img_height: int,
    img_width: int,
    gray_scale: bool,
    use_inter_area_resize: bool,
    full_action_space: bool,
    episodic_life: bool,
    zero_discount_on_life_loss: bool,
    reward_clip: bool,
    use_fire_reset: bool,
    reuse_boots: bool = True,
    original: bool = False,
) -> Simulator:
    """
    The simulator of one game; options are those of headrace.envs.atari, which checks them.
    """

def bare_emulator(
    rom: str, num_threads: int = 1, seconds: float = 1.0, seed: int = 0, frame_skip: int = 4, original: bool = False
) -> tuple[int, float]:
    """
    Step emulators on threads with random actions and nothing else: (steps, seconds).
    """

class Registers:
    """Of the console's processor."""

    @property
    def a(self) -> int: ...
    @property
    def x(self) -> int: ...
    @property
    def y(self) -> int: ...
    @property
    def sp(self) -> int: ...
    @property
    def status(self) -> int: ...
    @property
    def pc(self) -> int: ...
    @property
    def jammed(self) -> bool: ...

class Workbench:
    """
    A console whose cartridge is a program of a test's, an instruction at a time.
    """

    def __init__(self, rom: str, original: bool = False) -> None: ...
    def start(self, program: bytes, memory: bytes) -> None:
        """A reset with these bytes in the cartridge and in memory."""

    def instructions(self, n: int) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def registers(self) -> Registers: ...
    @property
    def cycles(self) -> int: ...
    @property
    def memory(self) -> bytes: ...

def resized(
    src: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    height: int,
    width: int,
    area: bool = True,
    level: str = "best",
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None))]:
    """A frame resized as the environments do it."""

def pooled(
    a: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    b: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    table: Sequence[int],
    level: str = "best",
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None))]:
    """The larger of two frames' pixels, looked up in a table."""

def preprocessing_time(
    a: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    b: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    table: Sequence[int],
    repeats: int = 1000,
    level: str = "best",
) -> float:
    """
    Seconds to turn two 210 x 160 frames into an 84 x 84 one and copy a stack of four.
    """

def numpy_integers(seed: int, low: int, high: int, n: int) -> list[int]:
    """n draws of numpy.random.default_rng(seed).integers(low, high)."""

def seed_sequence(seed: int, n: int) -> list[int]:
    """numpy.random.SeedSequence(seed).generate_state(n)."""

"""MuJoCo tasks on the engine's threads."""

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

class Physics:
    """
    A model, a task's compiled functions, and the simulations that threads lend.
    """

    def __init__(
        self,
        *,
        model: int,
        function: int,
        bounds: bytes,
        arguments: bytes,
        env_id: int,
        command: int,
        arrays: Sequence[tuple[int, str]],
        varying: Sequence[tuple[str, Annotated[NDArray, dict(order="C", device="cpu")]]],
        keyframe: int,
        keeps_forces: bool,
        physics: str,
        kinematics: bool,
        forces: bool,
        sensors: Sequence[str],
    ) -> None: ...
    @property
    def signature(self) -> int:
        """mjtState bits of a state row."""

class Studio:
    """
    Draws pictures of a pool's simulations, from one camera and of one size.
    """

    def __init__(
        self,
        *,
        physics: Physics,
        width: int,
        height: int,
        camera: tuple[int, int, int],
        lookat: Sequence[float],
        distance: float,
        azimuth: float,
        elevation: float,
        effects: bool,
        most_geoms: int,
        flags: Sequence[tuple[int, bool]],
    ) -> None:
        """
        camera: its mjtCamera type, the fixed camera's number, the tracked body's number. effects: whether there are
        shadows, reflections and smooth edges. flags: mjtVisFlag, on.
        """

    def open(self) -> None:
        """See that pictures can be drawn; raises RenderError."""

    def close(self) -> None:
        """Free what drawing needed."""

def simulator(
    *,
    physics: Physics,
    studio: Studio,
    state: Annotated[NDArray, dict(order="C", device="cpu")],
    actions: Annotated[NDArray, dict(order="C", device="cpu")],
    reward: Annotated[NDArray, dict(order="C", device="cpu")],
    terminated: Annotated[NDArray, dict(order="C", device="cpu")],
    accepted: Annotated[NDArray, dict(order="C", device="cpu")],
    warning: Annotated[NDArray, dict(order="C", device="cpu")],
    seed: Annotated[NDArray, dict(order="C", device="cpu")],
    drawn: Annotated[NDArray, dict(order="C", device="cpu")],
    kept: Sequence[Annotated[NDArray, dict(order="C", device="cpu")]],
    pixels: Annotated[NDArray, dict(order="C", device="cpu")] | None,
    arrows: Annotated[NDArray, dict(order="C", device="cpu")] | None,
    reports: Sequence[
        tuple[
            str,
            Sequence[int],
            Annotated[NDArray, dict(order="C", device="cpu")],
            Annotated[NDArray, dict(order="C", device="cpu")] | None,
            int,
        ]
    ],
    frame_skip: int,
    kinematics: bool,
    forces: bool,
    sensors: Sequence[str],
    acts: bool,
    may_refuse: bool,
    settling_steps: int,
    starts_unactuated: bool,
) -> Simulator:
    """The simulator of one task, over arrays [N, …] that the caller keeps."""

def lane_widths(physics: str = "lanes") -> list[int]:
    """
    Numbers of simulations that one call steps on this processor, the best first.
    """

def why_not_in_lanes(
    *, model: int, reads: Sequence[str], varies: Sequence[str], kinematics: bool, forces: bool, sensors: Sequence[str]
) -> str:
    """
    What of a model is not stepped in lanes, or of fields that are read or vary; empty for nothing.
    """

def left_to_mujoco(
    *, model: int, reads: Sequence[str], kinematics: bool, forces: bool, sensors: Sequence[str]
) -> list[str]:
    """
    What a task in lanes reads and libmujoco computes after each step, for one simulation after the other, by name.
    """

class Trial:
    """
    Steps simulations of a model, mujoco.MjData, in lanes and by libmujoco.
    """

    def __init__(
        self,
        *,
        model: int,
        reads: Sequence[str],
        varies: Sequence[str],
        kinematics: bool,
        forces: bool,
        sensors: Sequence[str],
    ) -> None:
        """
        The model must outlive it. Raises OptionError where lanes cannot step it.
        """

    @property
    def width(self) -> int:
        """The most simulations that lanes step at once."""

    def in_lanes(self, data: Sequence[int], steps: int, models: Sequence[int] = []) -> int:
        """
        Advance simulations, given as addresses, and compute what is read of them; models: theirs, where they differ.
        Returns a bit for each that was left as it was.
        """

    def by_mujoco(self, model: int, data: int, steps: int) -> None:
        """
        The same by mj_step, for one simulation of a model that may have other options.
        """

def bare_loop(
    *,
    model: int,
    states: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", writable=False)],
    controls: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", writable=False)],
    signature: int,
    frame_skip: int,
    kinematics: bool,
    forces: bool,
    num_threads: int = 1,
    physics: str = "mujoco",
    reads: Sequence[str] = [],
    sensors: Sequence[str] = [],
    width: int = 0,
) -> float:
    """
    Seconds that mj_step, or a step in lanes, and what a task needs after it take on states [steps, N, …] with
    controls [steps, N, nu]. reads, sensors: what the task reads, for lanes. width: one of `lane_widths`, or 0 for
    the best.
    """

"""Processes that play agents for the page, one for each run and source of weights that a page shows.

The server itself imports neither torch nor environments: it receives pictures and metrics from players through pipes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.train.runs import files, zoo
from headrace.watch.steering import Controls

AGAIN = 3.0  # seconds until a player that has ended is restarted
PAUSE = 0.06  # shortest time in seconds between two frames for one page
TOUCH = 1.0  # seconds between two touches of the run's file ``watched``
PATIENCE = 2.0  # seconds for a player to end after its input was closed
LARGEST = 1 << 24  # greatest size in bytes of a header or a picture
WORDS = 400  # number of last bytes of a player's error output that are searched for its last line
WAITING = 1 << 16  # most bytes of messages that a player has not read yet
SOURCES = ("live", "best")
COMMAND = (sys.executable, "-m", "headrace.watch.player")
"""the command of a player, without the arguments: the run folder, and ``--source`` with one of `SOURCES`"""
Frame = tuple[dict[str, Any], bytes]


class Player:
    """A process that plays one run's agent, for all pages that show it.

    Args:
        run: the run folder.
        source: the source of weights, one of `SOURCES`.
    """

    def __init__(self, run: Path, source: str):
        self._run, self._source = run, source
        self._said: dict[str, Any] | None = None
        self._picture: bytes | None = None
        self._changed = asyncio.Condition()
        self._ears: asyncio.StreamWriter | None = None
        self._steers: object = None
        self.watchers = 0

    def steer(self, said: Any, who: object) -> None:
        """Sends a page's message to the process; who commanded last keeps the robot until `let_go`.

        Raises:
            OptionError: the message is none of `headrace.watch.steering`, or not for this robot, or nothing plays now.
        """
        if self._ears is None or self._ears.transport.get_write_buffer_size() > WAITING:
            raise OptionError("the agent is not at play now: try again in a moment")
        said = Controls.of_frame(self._said).check(said)
        self._ears.write(json.dumps(said).encode() + b"\n")
        if said.keys() & {"command", "key"}:
            self._steers = who

    def let_go(self, who: object) -> None:
        """Lets the task command again if the last command was of this page, which is closed or shows another run."""
        if self._steers is who:
            with contextlib.suppress(OptionError):
                self.steer({"command": None}, None)
            self._steers = None

    async def frames(self) -> AsyncIterator[Frame]:
        """Yields new headers of the player, each with the newest picture, or b"" if that was yielded before."""
        said = picture = None
        while True:
            async with self._changed:
                while self._said is said:
                    await self._changed.wait()
                said, new = self._said, self._picture
            yield said or {}, b"" if new is picture or new is None else new
            picture = new
            await asyncio.sleep(PAUSE)

    async def keep_playing(self) -> None:
        """Runs the process and restarts it when it ends, until this task is cancelled; frames hold its errors."""
        touching = asyncio.create_task(self._touch()) if self._source == "live" else None
        try:
            while True:
                words = await self._play()
                await self._show({"error": words}, b"")
                await asyncio.sleep(AGAIN)
        finally:
            if touching is not None:
                touching.cancel()

    async def _play(self) -> str:
        """Starts a process and stores the frames that it sends; returns why it has ended."""
        command = [*COMMAND, str(self._run), "--source", self._source]
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            return f"no process can be started to play: {error.strerror}"
        assert process.stdout
        assert process.stderr
        said = asyncio.create_task(_last_words(process.stderr))
        said_by_frame = ""
        self._ears = process.stdin
        try:
            while (frame := await _frame(process.stdout)) is not None:
                said_by_frame = frame[0].get("error") or ""
                await self._show(*frame)
        finally:
            self._ears = None
            await _end(process)
            words = await said
        return said_by_frame or words or "the player has ended"

    async def _show(self, header: dict[str, Any], picture: bytes) -> None:
        async with self._changed:
            self._said, self._picture = header, picture or self._picture
            self._changed.notify_all()

    async def _touch(self) -> None:
        """Touches the run's file ``watched`` every `TOUCH` seconds."""
        while True:
            if not zoo.is_agent(self._run):
                with contextlib.suppress(OSError):  # the folder may be read-only
                    files.touch(self._run / "watched")
            await asyncio.sleep(TOUCH)


class Players:
    """All players, by run and source."""

    def __init__(self) -> None:
        self._players: dict[tuple[Path, str], tuple[Player, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def watched(self, run: Path, source: str) -> AsyncIterator[Player]:
        """Returns a context with a player, which runs until the context of the last page ends."""
        key = run, source
        if key not in self._players:
            player = Player(run, source)
            self._players[key] = player, asyncio.create_task(player.keep_playing())
        player, playing = self._players[key]
        player.watchers += 1
        try:
            yield player
        finally:
            player.watchers -= 1
            if player.watchers == 0:
                del self._players[key]
                playing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(playing)


async def _frame(stream: asyncio.StreamReader) -> Frame | None:
    """Returns the next frame of a player; None at its end, or if it is malformed."""
    try:
        header = json.loads(await _sized(stream))
        return (header if isinstance(header, dict) else {}), await _sized(stream)
    except (asyncio.IncompleteReadError, ValueError, RecursionError):
        return None


async def _sized(stream: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await stream.readexactly(4), "big")
    if size > LARGEST:
        raise ValueError(f"{size} bytes are no picture")
    return await stream.readexactly(size)


async def _last_words(stream: asyncio.StreamReader) -> str:
    """Reads the output of a process to its end, and returns the last line."""
    last = b""
    while block := await stream.read(1 << 12):
        last = (last + block)[-WORDS:]
    lines = [line.strip() for line in last.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a player by closing its input, and kills it if it has not ended after `PATIENCE` seconds."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise

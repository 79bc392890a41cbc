"""Processes in which agents play for the page, one for each run that somebody looks at, and none that nobody does.

The server itself loads neither torch nor environments: what a player shows comes through a pipe, as pictures and
numbers.
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

AGAIN = 3.0  # seconds until a player that has ended is started anew
PAUSE = 0.06  # seconds between two frames for one page, at least
TOUCH = 1.0  # seconds between two signs to the run that somebody watches
PATIENCE = 2.0  # seconds that a player has to end by itself
LARGEST = 1 << 24  # bytes of a header or a picture
WORDS = 400  # characters of what a player says as it fails
SOURCES = ("live", "best")
COMMAND = (sys.executable, "-m", "headrace.watch.player")
"""what is started, before the run's folder and ``--source`` with one of `SOURCES`"""
Frame = tuple[dict[str, Any], bytes]


class Player:
    """One process that plays, for all who look.

    Args:
        run: the folder.
        source: whose weights, one of `SOURCES`.
    """

    def __init__(self, run: Path, source: str):
        self._run, self._source = run, source
        self._said: dict[str, Any] | None = None
        self._picture: bytes | None = None
        self._changed = asyncio.Condition()
        self.watchers = 0

    async def frames(self) -> AsyncIterator[Frame]:
        """Yields what the player says whenever that is new, with the newest picture that was not yielded before."""
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
        """Runs the process until this is cancelled, and says in frames what is wrong."""
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
        """Starts a process and shows what it sends; returns why it has ended."""
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
        try:
            while (frame := await _frame(process.stdout)) is not None:
                said_by_frame = frame[0].get("error") or ""
                await self._show(*frame)
        finally:
            await _end(process)
            words = await said
        return said_by_frame or words or "the player has ended"

    async def _show(self, header: dict[str, Any], picture: bytes) -> None:
        async with self._changed:
            self._said, self._picture = header, picture or self._picture
            self._changed.notify_all()

    async def _touch(self) -> None:
        """Tells the run once a second that somebody watches."""
        while True:
            with contextlib.suppress(OSError):  # a folder that is read only
                (self._run / "watched").touch()
            await asyncio.sleep(TOUCH)


class Players:
    """All players, by run and source."""

    def __init__(self) -> None:
        self._players: dict[tuple[Path, str], tuple[Player, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def watched(self, run: Path, source: str) -> AsyncIterator[Player]:
        """A player, which is there until the last who looks has left this context."""
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
    """Returns what a player sends next; None once it sends no more, or something else."""
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
    """Returns the last line of what a process writes, as long as it writes."""
    last = b""
    while block := await stream.read(1 << 12):
        last = (last + block)[-WORDS:]
    lines = [line.strip() for line in last.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Lets a player end: its input closes, and if that is not enough, it is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise

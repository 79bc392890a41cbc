"""The routes of the page's server: static files, a websocket for live data, tables of metrics, and videos of episodes.

All routes only read, but for that of a run's notes. Requests name runs by the ids that the server has sent, never by
paths.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from headrace.errors import StorageError
from headrace.watch import gallery
from headrace.watch.guard import Guard
from headrace.watch.library import Library
from headrace.watch.notes import notes_of, write_notes
from headrace.watch.players import Players
from headrace.watch.run import Run
from headrace.watch.session import Session

STATIC = Path(__file__).with_name("static")
MOST_NOTES = 100_000  # bytes of a request
ROWS = 500  # number of rows of a table in one part of the response
Table = tuple[str, Any, dict[str, np.ndarray]]
"""the name of a run, its seed, and its metrics"""


class Site:
    """The application's state: the runs, and the open pages.

    Args:
        library: the runs.
        gallery: whether the zoo's agents are shown first, as there are no runs yet.

    Attributes:
        open_pages: number of pages that are open now.
        visited: whether any page has been open.
    """

    def __init__(self, library: Library, gallery: bool = False):
        self._library, self._gallery, self._players = library, gallery, Players()
        self._reader = ThreadPoolExecutor(1, "reader")
        self.open_pages, self.visited = 0, False

    def app(self, host: str, token: str | None) -> ASGIApp:
        """Returns the ASGI application; ``host`` and ``token`` as for `Guard`."""
        routes = [
            Route("/", _gallery if self._gallery else _index),
            Route("/runs", _index),
            Route("/gallery/{name}.gif", _picture),
            Route("/metrics.csv", self._table),
            Route("/runs/{run}/notes", self._note, methods=["PUT"]),
            Route("/runs/{run}/{folder}/{file}", self._video),
            WebSocketRoute("/live", self._live),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return Guard(Starlette(routes=routes), host, token)

    async def _live(self, socket: WebSocket) -> None:
        await socket.accept()
        self.open_pages, self.visited = self.open_pages + 1, True
        try:
            await Session(socket, self._library, self._players, self._reader).serve()
        finally:
            self.open_pages -= 1

    async def _table(self, request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.get("runs", "").split(",")))
        tables = await asyncio.get_running_loop().run_in_executor(self._reader, self._tables, names)
        if not tables:
            return PlainTextResponse("no such run\n", 404)
        headers = {"Content-Disposition": 'attachment; filename="metrics.csv"'}
        return StreamingResponse(_rows(tables), media_type="text/csv", headers=headers)

    def _tables(self, names: list[str]) -> list[Table]:
        self._library.look()
        runs = [self._library.runs[name] for name in names if name in self._library.runs]
        return [(run.name, run.summary.get("seed"), run.series.rows()) for run in runs]

    async def _note(self, request: Request) -> Response:
        said = bytearray()
        async for part in request.stream():  # whatever the request says of its length
            said += part
            if len(said) > MOST_NOTES:
                return PlainTextResponse("too long\n", 413)
        try:
            wanted = request.path_params["run"], notes_of(json.loads(bytes(said)))
            is_known = await asyncio.get_running_loop().run_in_executor(self._reader, self._write, *wanted)
        except (ValueError, RecursionError) as error:
            return PlainTextResponse(f"{error}\n", 400)
        except StorageError as error:
            return PlainTextResponse(f"{error}\n", 409)
        return Response(status_code=204) if is_known else PlainTextResponse("no such run\n", 404)

    def _write(self, name: str, notes: dict[str, Any]) -> bool:
        """Writes the notes of a run; returns whether there is such a run."""
        run = self._run(name)
        if run is not None:
            write_notes(run.path, notes)
        return run is not None

    async def _video(self, request: Request) -> Response:
        path = await asyncio.get_running_loop().run_in_executor(self._reader, self._film, request.path_params)
        return FileResponse(path, media_type="video/mp4") if path else PlainTextResponse("no such video\n", 404)

    def _film(self, wanted: Mapping[str, str]) -> Path | None:
        run = self._run(wanted["run"])
        return run.video(wanted["folder"], wanted["file"]) if run is not None else None

    def _run(self, name: str) -> Run | None:
        if name not in self._library.runs:
            self._library.look()
        return self._library.runs.get(name)


def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html")


def _gallery(_: Request) -> Response:
    return HTMLResponse(gallery.page())


def _picture(request: Request) -> Response:
    path = gallery.picture(request.path_params["name"])
    return FileResponse(path, media_type="image/gif") if path else PlainTextResponse("no such agent\n", 404)


def _rows(tables: list[Table]) -> Iterator[bytes]:
    """Yields the metrics of several runs as one CSV table, in parts."""
    names = list(dict.fromkeys(name for _, _, columns in tables for name in columns))
    yield _lines([["run", "seed", *names]])
    for run, seed, columns in tables:
        count = max(map(len, columns.values()), default=0)
        for first in range(0, count, ROWS):
            part = {name: column[first : first + ROWS].tolist() for name, column in columns.items()}
            yield _lines(
                [run, seed, *(_cell(part[name][row]) if name in part else "" for name in names)]
                for row in range(min(ROWS, count - first))
            )


def _cell(value: float) -> str:
    if math.isnan(value):
        return ""
    return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _lines(rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(errors="replace")

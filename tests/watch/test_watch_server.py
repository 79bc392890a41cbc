"""The page's server as a user starts it: its answers, its guards, and its messages to an open page."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pages import get, line, serving, write_run
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.connection import Connection

import headrace.train
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.train.runs import lock
from headrace.watch import players
from headrace.watch.players import Players
from headrace.watch.run import Run
from programs import Program, is_alive, wait_for

HOSTILE = "<img src=x onerror=alert(1)>&'\""
TWO = ["http://here/", "http://there/"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    write_run(path / "a", lines=2000)
    write_run(path / "b", seed=2, end="interrupted")
    write_run(path / HOSTILE, end="failed")
    (path / "a" / "episodes").mkdir()
    (path / "a" / "episodes" / "episode-5.mp4").write_bytes(bytes(range(256)))
    return path


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(folder) as found:
        yield found


def talk(address: str, **options: Any) -> Connection:
    parts = urlsplit(address)
    options.setdefault("origin", f"http://{parts.netloc}")
    return connect(f"ws://{parts.netloc}/live", proxy=None, max_size=None, **options)


def hear(page: Connection, kind: str, seconds: float = 20.0) -> dict[str, Any]:
    """The next message of a kind; its numbers are in ``columns``."""
    until = time.monotonic() + seconds
    while True:
        message = page.recv(timeout=max(0.0, until - time.monotonic()))
        said = json.loads(message) if isinstance(message, str) else decoded(message)
        if said["kind"] == kind:
            return said


def decoded(message: bytes) -> dict[str, Any]:
    size = int.from_bytes(message[:4], "big")
    header = json.loads(message[4 : 4 + size])
    if "names" in header:
        numbers = memoryview(message)[4 + size :].cast("d").tolist()
        length = header["length"]
        header["columns"] = {name: numbers[i * length : (i + 1) * length] for i, name in enumerate(header["names"])}
    return header


def say(page: Connection, **words: Any) -> None:
    page.send(json.dumps(words))


def identity(path: Path) -> str:
    return Run(path, "").id


# -- files ---------------------------------------------------------------------------------------


def test_every_file_of_the_page_is_served_and_none_is_foreign(address: str) -> None:
    status, headers, page = get(address)
    assert status == 200 and "script-src 'self'" in headers["content-security-policy"]
    assert (
        "unsafe" not in headers["content-security-policy"]
        and "default-src 'none'" in headers["content-security-policy"]
    )
    seen, todo = set(), set(re.findall(r'(?:src|href)="(static/[^"]+)"', page.decode()))
    while todo:
        name = todo.pop()
        seen.add(name)
        status, _, content = get(address + name)
        assert status == 200, name
        if name.endswith(".js"):
            found = re.findall(r'^import .*?from "\./([^"]+)"', content.decode(), re.MULTILINE | re.DOTALL)
            todo |= {f"{Path(name).parent}/{each}" for each in found} - seen
    assert "static/vendor/uplot/uPlot.esm.js" in seen and "static/chart.js" in seen


@pytest.mark.parametrize(
    "path",
    ["static/../app.py", "static/..%2fapp.py", "static/%2e%2e/app.py", "static//etc/passwd", "a/config.json",
     "../../../etc/passwd", "runs/RUN/videos/..%2fconfig.json", "runs/RUN/../config.json", "runs/RUN/checkpoints/x.mp4",
     "runs/RUN/episodes/%2e%2e%2fconfig.json", "runs/..%2f..%2fetc/videos/a.mp4", "runs/RUN/episodes/none.mp4",
     "runs/x/../../a/config.json"],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(address: str, folder: Path, path: str) -> None:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), 10) as asking:  # as urllib would tidy the path
        wanted = path.replace("RUN", identity(folder / "a"))
        asking.sendall(f"GET /{wanted} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: asking.recv(1 << 16), b""))
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:200]
    assert b"root:" not in answer and b"total_steps" not in answer


def test_a_video_can_be_taken_in_parts(address: str, folder: Path) -> None:
    film = f"{address}runs/{identity(folder / 'a')}/episodes/episode-5.mp4"
    assert get(film)[2] == bytes(range(256))
    status, _, content = get(film, Range="bytes=10-19")
    assert status == 206 and content == bytes(range(10, 20))


def test_a_table_holds_all_metrics(address: str, folder: Path) -> None:
    both = ",".join(identity(folder / name) for name in ("a", "b"))
    status, headers, content = get(f"{address}metrics.csv?runs={both}")
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert status == 200 and "metrics.csv" in headers["content-disposition"]
    assert [row["run"] for row in rows] == ["a"] * 2000 + ["b"] * 50
    wanted = [json.loads(text) for text in (folder / "a" / "metrics.jsonl").read_text().splitlines()]
    assert [float(row["loss/gradient_norm"]) for row in rows[:2000]] == [
        each["loss"]["gradient_norm"] for each in wanted
    ]
    assert rows[1999]["step"] == "400000"
    assert get(f"{address}metrics.csv?runs=none")[0] == 404
    again = ",".join([identity(folder / "b")] * 2000)  # each run once, however often it is named
    assert len(get(f"{address}metrics.csv?runs={again}")[2].splitlines()) == 51


def test_a_page_hears_of_all_runs_and_of_the_problem_of_one(tmp_path: Path) -> None:
    good, bad = write_run(tmp_path / "good"), write_run(tmp_path / "bad")
    odd = write_run(tmp_path / "odd")
    (odd / "events.jsonl").write_text(f'{{"time": 1, "kind": "began", "data": {"[" * 900 + "]" * 900}}}\n')
    (odd / "metrics.jsonl").write_text(f'{{"step": 1, "return": {10**400}}}\n')
    (bad / "metrics.jsonl").unlink()
    (bad / "metrics.jsonl").symlink_to("/dev/zero")
    with serving(tmp_path) as address, talk(address) as page:
        assert len(hear(page, "runs")["changed"]) == 3
        say(page, runs=[identity(bad), identity(odd), identity(good)])
        told = {each["run"]: each for each in (hear(page, "details") for _ in range(3))}
        assert "is a link" in told[identity(bad)]["problem"]
        assert told.keys() == {identity(each) for each in (bad, odd, good)} and told[identity(good)]["events"]


# -- who may ask ---------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "0x7f000001", "10.0.0.1", "", "[", "a:b:c"])
def test_a_foreign_host_gets_nothing(address: str, host: str) -> None:
    for path in ("", "static/main.js", "metrics.csv"):
        assert get(address + path, Host=host)[0] in (400, 403)
    refused = pytest.raises((InvalidStatus, ConnectionClosed, ValueError))
    with refused, talk(address, additional_headers={"Host": host}) as page:
        page.recv(timeout=5)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", "x["])
def test_a_foreign_origin_gets_nothing(address: str, origin: str) -> None:
    assert get(address, Origin=origin)[0] == 403
    with pytest.raises((InvalidStatus, ConnectionClosed)), talk(address, origin=origin) as page:
        page.recv(timeout=5)


def test_other_names_of_this_machine_are_known(address: str) -> None:
    port = urlsplit(address).port
    for name in (f"localhost:{port}", "localhost:1", f"127.0.0.1:{port}", f"[::1]:{port}"):  # also behind ssh -L
        assert get(address, Host=name)[0] == 200
    assert get(address, Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200


def test_other_machines_need_the_token(folder: Path) -> None:
    with serving(folder, "--host", "0.0.0.0") as printed:
        parts = urlsplit(printed)
        assert parts.hostname == "127.0.0.1"  # an address that a browser opens
        address, token = f"http://127.0.0.1:{parts.port}/", parts.query.removeprefix("token=")
        assert len(token) >= 24
        for wrong in ("", "?token=", "?token=x", f"?token={token[:-1]}"):
            assert get(address + wrong)[0] == 403
        with pytest.raises((InvalidStatus, ConnectionClosed)), talk(address) as page:
            page.recv(timeout=5)
        status, headers, _ = get(f"{address}?token={token}")
        cookie = headers["set-cookie"]
        assert (
            status == 303
            and headers["location"] == "/"
            and "httponly" in cookie.lower()
            and "samesite=strict" in cookie.lower()
        )
        kept = cookie.partition(";")[0]
        assert get(address, Cookie=kept)[0] == 200
        assert get(address, Cookie=kept, Host="evil.example")[0] == 403
        assert get(address, Cookie=kept, Host=f"192.168.0.7:{parts.port}")[0] == 200
        assert get(address, Cookie=kept, Host="192.168.0.7:1")[0] == 403  # the cookie of another port's server
        assert get(f"{address}?token={token}", Host="192.168.0.7:80")[0] == 303
        with talk(address, additional_headers={"Cookie": kept}) as page:
            say(page, runs=[])
            assert hear(page, "runs")["changed"]


# -- what a page is told -------------------------------------------------------------------------


def test_a_page_hears_of_all_runs_and_then_of_changed_runs(address: str, folder: Path) -> None:
    with talk(address) as page:
        told = {run["name"]: run for run in hear(page, "runs")["changed"]}
        assert set(told) == {"a", "b", HOSTILE}
        assert told[HOSTILE]["status"]["kind"] == "failed" and told["a"]["config"]["task"] == "CartPole-v1"
        with (folder / "b" / "metrics.jsonl").open("a") as more:
            more.write(json.dumps(line(20_000, 60, 123.0)) + "\n")
        assert [(run["name"], run["return"]) for run in hear(page, "runs")["changed"]] == [("b", 123.0)]


def test_a_chosen_run_comes_whole_and_then_in_new_lines(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    with serving(path) as address, talk(address) as page:
        say(page, runs=[identity(path), "none"], axis="step")
        series = hear(page, "series")["columns"]
        assert series["step"] == [200.0 * (i + 1) for i in range(50)]
        assert [event["kind"] for event in hear(page, "details")["events"]] == ["began", "finished"]
        with (path / "metrics.jsonl").open("a") as more:
            more.write(json.dumps(line(10_200, 60, 1.0, loss={"new": 3.0})) + "\n")
        more = hear(page, "more")["columns"]
        assert more["step"] == [10_200] and more["loss/new"] == [3.0]
        rows = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
        (path / "metrics.jsonl").write_text("".join(rows[:10]))  # resumed
        assert hear(page, "series")["columns"]["step"] == [200.0 * (i + 1) for i in range(10)]


def test_a_run_that_is_chosen_again_comes_whole_again(address: str, folder: Path) -> None:
    """However soon it is shown again: the page has forgotten it."""
    a, b = (identity(folder / name) for name in ("a", "b"))
    with closing(talk(address)) as page:
        say(page, runs=[a])
        whole = hear(page, "series")
        for _ in range(20):
            for chosen in (b, a):
                say(page, runs=[chosen])
            while (again := hear(page, "series"))["run"] != a:
                pass
            assert again["columns"].keys() == whole["columns"].keys() and again["length"] == whole["length"]


def test_a_part_of_a_long_run_comes_in_detail(address: str, folder: Path) -> None:
    with talk(address) as page:
        run = identity(folder / "a")
        say(page, runs=[run], axis="seconds", low=100, high=110)
        seconds = hear(page, "series")["columns"]["time/seconds"]
        assert seconds == [99.5 + 0.5 * i for i in range(23)]


@pytest.mark.parametrize(
    "words",
    ["", "x", "[]", "3", "null", '{"runs": 3}', '{"runs": [[], {}, null]}', '{"runs": [], "axis": {}}', '{"agent": 3}',
     '{"agent": {"run": [], "source": {}}}', '{"runs": [], "low": "a", "high": []}', '{"runs": [], "low": NaN}',
     '{"runs": [], "low": 1e999, "high": 9%s}' % ("9" * 400), "[" * 10_000],
)  # fmt: skip
def test_a_page_that_says_nonsense_harms_nobody(address: str, words: str) -> None:
    with talk(address) as page:
        page.send(words)
        with talk(address) as other:
            assert hear(other, "runs")["changed"]


# -- players -------------------------------------------------------------------------------------

PLAYER = """
import json, sys, time
run, source = sys.argv[1], sys.argv[3]
print("words for nobody", file=sys.stderr)
if source == "best":
    sys.exit("there is no best agent")
import threading, os
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
for step in range(10**6):
    head = json.dumps({"episode": 1, "step": step, "return": 0.5 * step, "error": None}).encode()
    sys.stdout.buffer.write(len(head).to_bytes(4, "big") + head + (4).to_bytes(4, "big") + b"jpeg")
    sys.stdout.buffer.flush()
    time.sleep(0.02)
"""


def test_a_player_lives_as_long_as_a_page_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "player.py").write_text(PLAYER)
    monkeypatch.setattr(players, "COMMAND", (sys.executable, str(tmp_path / "player.py")))
    started: list[int] = []
    start = asyncio.create_subprocess_exec

    async def noted(*args: Any, **kwargs: Any) -> Any:
        process = await start(*args, **kwargs)
        started.append(process.pid)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)

    async def look() -> None:
        all_players = Players()
        async with all_players.watched(tmp_path, "live") as one, all_players.watched(tmp_path, "live") as two:
            assert one is two
            steps = []
            async for said, picture in one.frames():
                steps.append(said["step"])
                assert picture == b"jpeg"
                if len(steps) == 5:
                    break
            assert steps == sorted(set(steps))
            assert len(started) == 1 and is_alive(started[0])
            assert time.time() - (tmp_path / "watched").stat().st_mtime < 5
        async with all_players.watched(tmp_path, "best") as failing:
            async for said, _ in failing.frames():
                assert said == {"error": "there is no best agent"}
                break

    asyncio.run(look())
    assert not any(map(is_alive, started))


WALKER = """
import json, os, sys
heard = []
while True:
    told = {"ranges": [["forwards", -1.0, 1.0]], "can_push": True, "command": [0.0], "steered": False}
    head = json.dumps({"step": len(heard), "heard": heard, "controls": told}).encode()
    sys.stdout.buffer.write(len(head).to_bytes(4, "big") + head + bytes(4))
    sys.stdout.buffer.flush()
    line = sys.stdin.readline()
    if not line:
        break
    heard.append(json.loads(line))
"""


def test_who_commanded_last_has_the_robot_until_the_page_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "player.py").write_text(WALKER)
    monkeypatch.setattr(players, "COMMAND", (sys.executable, str(tmp_path / "player.py")))

    async def look() -> list[Any]:
        async with Players().watched(tmp_path, "best") as player:
            with pytest.raises(OptionError, match="not at play now"):
                player.steer({"push": True}, "a")
            frames = player.frames()
            await anext(frames)
            for who, said in (("a", {"command": [0.5]}), ("b", {"key": "p"}), ("b", {"push": True})):
                player.steer(said, who)
            for wrong in ({"command": [2]}, {"command": [0.5, 0]}, {"key": "ctrl"}, "__import__('os')"):
                with pytest.raises(OptionError):
                    player.steer(wrong, "b")
            player.let_go("b")  # which has only pushed
            player.steer({"key": "w"}, "a")
            player.let_go("a")
            player.let_go("a")
            while (said := await anext(frames))[0]["step"] < 5:
                pass
            return said[0]["heard"]

    heard = asyncio.run(look())
    assert heard == [{"command": [0.5]}, {"push": True}, {"push": True}, {"key": "w"}, {"command": None}]


@pytest.mark.nightly
def test_two_people_steer_one_robot_and_wrong_values_are_told_to_their_sender(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    quick = {"total_steps": 64, "num_envs": 4, "num_steps": 8, "video": False, "tensorboard": False}
    headrace.train.train("Go1Flat-v0", run_dir=tmp_path / "walker", quiet=True, viewer=False, **quick)
    path = tmp_path / "walker"

    def controls(page: Connection, wanted: Any) -> dict[str, Any]:
        """The controls of the first frame for which `wanted` holds."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = hear(page, "picture", 60)["frame"].get("controls")
            if found and wanted(found):
                return found
        raise AssertionError("no such frame")

    with serving(tmp_path) as address, talk(address) as one:
        hear(one, "runs")
        say(one, steer={"push": True})
        assert hear(one, "refused")["words"] == "no agent is at play"
        say(one, runs=[identity(path)], agent={"run": identity(path), "source": "best"})
        assert not controls(one, bool)["steered"]
        with talk(address) as two:
            hear(two, "runs")
            say(two, runs=[identity(path)], agent={"run": identity(path), "source": "best"})
            controls(two, bool)
            say(one, steer={"command": [0.5, 0.1, 0]})
            assert controls(two, lambda told: told["steered"])["command"] == [0.5, 0.1, 0.0]
            say(two, steer={"command": [-0.5, 0, 0.2]})
            assert controls(one, lambda told: told["command"][0] < 0)["command"] == [-0.5, 0.0, 0.2]
            for wrong in ([99, 0, 0], [0, 0], "x", {"0": 1}, [True, 0, 0], [None, 0, 0]):
                say(two, steer={"command": wrong})
                assert re.search("a command is 3 numbers|must be a number", hear(two, "refused")["words"])
            two.send('{"steer": {"command": [NaN, 0, 0]}}')
            assert "forwards, m/s must be a number from -1.5 to 1.5" in hear(two, "refused")["words"]
            assert controls(one, bool)["command"] == [-0.5, 0.0, 0.2]
        assert not controls(one, lambda told: not told["steered"])["steered"]  # the page of who commanded is closed


# -- beginning and ending ------------------------------------------------------------------------


def test_ctrl_c_ends_the_server_of_an_open_page(folder: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli.main", "watch", str(folder), "--no-browser", "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as server:
        assert server.stdout
        with talk(server.stdout.readline().split()[1]) as page:
            hear(page, "runs")
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
        assert server.communicate() == ("", "")


def test_watch_refuses_missing_folders_and_addresses_that_cannot_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        (tmp_path / "runs").mkdir()
        port = taken.getsockname()[1]
        for arguments, words in (
            (["none"], "none is not a folder"),
            (["runs", "--port", str(port)], f"port {port}"),
            (["runs", "--port", "70000"], "between 0 and 65535"),
            (["runs", "--host", "no.such.host.invalid"], "no.such.host.invalid"),
        ):
            assert main(["watch", "--no-browser", *arguments]) == 2
            assert words in capsys.readouterr().err
    (tmp_path / "runs").rmdir()
    monkeypatch.setattr("headrace.train.runs.zoo.home", lambda: None)  # else its agents are shown
    assert main(["watch"]) == 2
    assert "there are no runs" in capsys.readouterr().err
    assert main(["watch", "zoo:Missing-v0"]) == 2
    assert "pip install 'headrace[zoo]'" in capsys.readouterr().err


def test_the_browser_is_opened_at_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(opened.append(url)) or True)
    monkeypatch.setattr("headrace.watch.serve.serve", lambda library, found, host, ready, gallery: ready(TWO))
    assert main(["watch", str(write_run(tmp_path / "run")), "--port", "0"]) == 0
    wait_for(lambda: opened == ["http://here/"])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("watch http://here/ ") and said[1].split() == [
        "http://there/",
        "from",
        "other",
        "machines",
    ]


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def started(run: Path, door: socket.socket, linger: float, patience: float) -> Program:
    """The server of one run, as training starts it, with shorter times."""
    code = (
        "import sys, headrace.watch.serve as serve\n"
        f"serve.LINGER, serve.PATIENCE, serve.POLL = {linger}, {patience}, 0.1\n"
        "from headrace.watch.__main__ import main\nmain()"
    )
    command = [sys.executable, "-c", code, str(run), "--fd", str(door.fileno())]
    return Program(command, pass_fds=[door.fileno()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_the_page_of_a_run_outlives_it_while_a_browser_shows_it(tmp_path: Path, door: socket.socket) -> None:
    path = write_run(tmp_path / "run", end=None)
    address = f"http://127.0.0.1:{door.getsockname()[1]}/"
    with ExitStack() as training, ExitStack() as looking:
        training.enter_context(lock.held(path / "train.lock"))
        server = started(path, door, linger=1.0, patience=60.0)
        page = looking.enter_context(talk(address, open_timeout=30))
        assert hear(page, "runs")["changed"][0]["status"]["kind"] == "running"
        server.send_signal(signal.SIGINT)  # Ctrl-C is for training
        training.close()
        assert hear(page, "runs")["changed"][0]["status"]["kind"] == "killed"
        time.sleep(2.0)
        assert server.poll() is None
    assert server.wait(60) == 0
    assert server.communicate()[0] == b""


def test_an_unopened_page_of_a_run_ends_after_the_run(tmp_path: Path, door: socket.socket) -> None:
    path = write_run(tmp_path / "run", end=None)
    with lock.held(path / "train.lock"):
        server = started(path, door, linger=60.0, patience=0.5)
        address = f"http://127.0.0.1:{door.getsockname()[1]}/"
        assert get(address)[0] == 200
        time.sleep(1.5)
        assert server.poll() is None
    assert server.wait(60) == 0


def test_pages_are_served_side_by_side(address: str, folder: Path) -> None:
    """A page that asks for a long run does not hold up others."""
    took: list[float] = []

    def look() -> None:
        began = time.monotonic()
        with talk(address) as page:
            say(page, runs=[identity(folder / "a")])
            hear(page, "series")
        took.append(time.monotonic() - began)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(took) == 8

"""Files that grow by lines are read once, and anew where a resumed run has cut them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from headrace.train.runs.metrics import Tail, sample


def test_each_whole_line_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    tail = Tail(file)
    assert tail.read() == (False, [])
    file.write_bytes(b"one\ntwo\nthr")
    assert tail.read() == (False, [b"one", b"two"])
    assert tail.read() == (False, [])
    with file.open("ab") as more:
        more.write(b"ee\n")
    assert tail.read() == (False, [b"three"])


@pytest.mark.parametrize("after", [b"one\n", b"one\nTWO\nthree\nfour\n", b""])
def test_a_file_that_was_cut_is_read_anew(tmp_path: Path, after: bytes) -> None:
    """Also where it has grown beyond the old place meanwhile."""
    file = tmp_path / "lines"
    file.write_bytes(b"one\ntwo\n")
    tail = Tail(file)
    tail.read()
    with file.open("r+b") as cut:
        cut.truncate(4)
    file.write_bytes(after)
    assert tail.read() == (True, after.split(b"\n")[:-1])


def test_a_file_that_was_replaced_or_removed_is_read_anew(tmp_path: Path) -> None:
    file, other = tmp_path / "lines", tmp_path / "other"
    file.write_bytes(b"one\n")
    tail = Tail(file)
    tail.read()
    other.write_bytes(b"one\ntwo\n")
    other.replace(file)
    assert tail.read() == (True, [b"one", b"two"])
    file.unlink()
    assert tail.read() == (True, [])
    assert tail.read() == (False, [])


def test_a_sample_of_a_long_file_has_lines_from_all_of_it_and_the_last(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    count = 100_000
    file.write_bytes(b"".join(b"%09d %s\n" % (i, b"x" * 40) for i in range(count)))
    found = [int(line[:9]) for line in sample(file, 20)]
    assert len(found) == 21 and found[-1] == count - 1
    assert found == sorted(found)
    assert max(b - a for a, b in itertools.pairwise(found)) < count / 15


def test_a_sample_of_a_short_file_is_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    assert sample(file, 20) == []
    file.write_bytes(b"one\ntwo\nthr")
    assert sample(file, 20) == [b"one", b"two"]

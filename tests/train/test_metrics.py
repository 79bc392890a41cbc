"""The metrics file, and the curve on the screen."""

from __future__ import annotations

from headrace.train.dashboard import draw_curve
from headrace.train.metrics import MetricsWriter, read_metrics


def test_what_lies_behind_the_offset_is_cut_off(tmp_path):
    file = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(file)
    writer.write({"step": 1})
    offset = writer.offset()
    writer.write({"step": 2})
    writer.close()
    with file.open("ab") as half_written:
        half_written.write(b'{"step": 3')
    assert [line["step"] for line in read_metrics(file)] == [1, 2]
    writer = MetricsWriter(file, offset)
    writer.write({"step": 4})
    writer.close()
    assert [line["step"] for line in read_metrics(file)] == [1, 4]


def test_the_offset_is_what_was_kept(tmp_path):
    """Also before anything more is written, and where the file was lost."""
    file = tmp_path / "metrics.jsonl"
    for offset, before in ((12, b'{"step": 1}\n{"step": 2}\n'), (50, b"")):
        file.write_bytes(before)
        writer = MetricsWriter(file, offset)
        assert writer.offset() == min(offset, len(before))
        writer.close()
        writer = MetricsWriter(file, writer_offset := min(offset, len(before)))
        writer.write({"step": 3})
        assert writer.offset() == file.stat().st_size == writer_offset + 12
        writer.close()
        assert read_metrics(file)[-1] == {"step": 3}


def test_the_curve_fills_its_box():
    lines = draw_curve([(0, 0.0), (50, 10.0), (100, 5.0)], 20, 4)
    assert len(lines) == 4
    assert {len(line) for line in lines} == {29}
    assert "10.0" in lines[0]
    assert "0.0" in lines[-1]

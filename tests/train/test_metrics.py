"""Episode statistics and the metrics file."""

from __future__ import annotations

import numpy as np

from headrace.train.dashboard import draw_curve
from headrace.train.metrics import EpisodeTracker, MetricsWriter, read_metrics


def test_episodes_are_counted_across_rollouts_as_step_by_step():
    rng = np.random.default_rng(0)
    tracker = EpisodeTracker(3, 1000)
    earned, length, returns, lengths = np.zeros(3), np.zeros(3, int), [], []
    for _ in range(5):
        rewards, ends = rng.normal(size=(8, 3)).astype(np.float32), rng.random((8, 3)) < 0.2
        tracker.update(rewards, ends)
        for t in range(8):
            earned += rewards[t]
            length += 1
            for i in np.flatnonzero(ends[t]):
                returns.append(earned[i])
                lengths.append(int(length[i]))
                earned[i], length[i] = 0, 0
    np.testing.assert_allclose(list(tracker.returns), returns, atol=1e-5)
    assert list(tracker.lengths) == lengths
    assert tracker.episodes == len(returns)


def test_tracker_state_round_trip():
    rng = np.random.default_rng(0)
    one, two = EpisodeTracker(3, 5), EpisodeTracker(3, 5)
    one.update(rng.normal(size=(8, 3)), rng.random((8, 3)) < 0.3)
    two.load(one.state())
    more = rng.normal(size=(8, 3)), rng.random((8, 3)) < 0.3
    one.update(*more)
    two.update(*more)
    assert one.state() == two.state()


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


def test_the_curve_fills_its_box():
    lines = draw_curve([(0, 0.0), (50, 10.0), (100, 5.0)], 20, 4)
    assert len(lines) == 4
    assert {len(line) for line in lines} == {29}
    assert "10.0" in lines[0]
    assert "0.0" in lines[-1]

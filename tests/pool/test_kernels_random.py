"""The random streams: the published function Threefry, and the properties of streams and numbers made with it."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportCallIssue=false

import numpy as np
import pytest
import warp as wp

from headrace.pool.executors.kernels.launch import quiet
from headrace.pool.executors.kernels.random import Streams, integers, random_bits, threefry, uniform


@wp.kernel(enable_backward=False)
def cipher(keys: wp.array[wp.uint64], blocks: wp.array[wp.uint64], out: wp.array[wp.uint64]):
    i = wp.tid()
    out[i] = threefry(keys[i], blocks[i])


@wp.kernel(enable_backward=False)
def draw(streams: Streams, bits: wp.array2d[wp.uint64], units: wp.array2d[wp.float64]):
    i = wp.tid()
    for j in range(bits.shape[1]):
        bits[i, j] = random_bits(streams, i)
    for j in range(units.shape[1]):
        units[i, j] = uniform(streams, i, wp.float64(-3.0), wp.float64(5.0))


def drawn(seeds, count):
    """The first ``count`` words of each seed's stream, and then as many numbers in [-3, 5)."""
    with quiet():
        streams = Streams()
        streams.seed = wp.array(np.asarray(seeds, np.uint64), dtype=wp.uint64, device="cpu")
        streams.drawn = wp.zeros(len(seeds), dtype=wp.uint64, device="cpu")
        bits = wp.zeros((len(seeds), count), dtype=wp.uint64, device="cpu")
        units = wp.zeros((len(seeds), count), dtype=wp.float64, device="cpu")
        wp.launch(draw, len(seeds), [streams, bits, units], device="cpu")
    assert (streams.drawn.numpy() == 2 * count).all()
    return bits.numpy(), units.numpy()


def test_threefry_gives_the_results_of_its_authors_test_vectors():
    """The authors' reference vectors of Threefry-2x32-20 (Random123, kat_vectors)."""
    words = [
        # counter, key, result: two 32-bit words each
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ]
    counter, key, want = (
        np.array([low | high << 32 for low, high in column], np.uint64) for column in zip(*words, strict=True)
    )
    with quiet():
        out = wp.zeros(len(words), dtype=wp.uint64, device="cpu")
        wp.launch(cipher, len(words), [wp.array(key), wp.array(counter), out], device="cpu")
    np.testing.assert_array_equal(out.numpy(), want)


def test_streams_of_different_seeds_differ_everywhere():
    seeds = [0, 1, 2, 2**32, 2**32 + 1, 2**63, 2**64 - 1]
    bits, _ = drawn(seeds, 2000)
    assert np.unique(bits).size == bits.size
    again, _ = drawn(seeds[::-1], 2000)
    np.testing.assert_array_equal(again[::-1], bits)


def test_numbers_are_uniform_and_neighbouring_seeds_unrelated():
    n = 100_000
    bits, units = drawn([7, 8], n)
    assert units.min() >= -3
    assert units.max() < 5
    for row in units:
        counts, _ = np.histogram(row, 100, (-3, 5))
        chi2 = ((counts - n / 100) ** 2 / (n / 100)).sum()
        assert 50 < chi2 < 160  # 99 degrees of freedom: five standard deviations
    assert abs(np.corrcoef(units)[0, 1]) < 5 / np.sqrt(n)
    assert abs(np.corrcoef(units[0, :-1], units[0, 1:])[0, 1]) < 5 / np.sqrt(n)
    ones = np.unpackbits(bits[0].view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(n)


@pytest.mark.parametrize("seed", [3, 2**40 + 3])
def test_a_stream_does_not_depend_on_its_neighbours(seed):
    alone, _ = drawn([seed], 10)
    among, _ = drawn([1, seed, 2], 10)
    np.testing.assert_array_equal(alone[0], among[1])


@wp.kernel(enable_backward=False)
def draw_integers(streams: Streams, low: int, high: int, out: wp.array[wp.int32]):
    for j in range(out.shape[0]):
        out[j] = integers(streams, 0, low, high)


@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 2), (7, 8), (-(2**31), 2**31 - 1), (-(2**31), 5)])
def test_integers_fill_their_range(low, high):
    n = 20_000
    with quiet():
        streams = Streams()
        streams.seed, streams.drawn = (wp.zeros(1, dtype=wp.uint64, device="cpu") for _ in range(2))
        out = wp.zeros(n, dtype=wp.int32, device="cpu")
        wp.launch(draw_integers, 1, [streams, low, high, out], device="cpu")
    got = out.numpy().astype(np.int64)
    assert low <= got.min()
    assert got.max() < high
    counts, _ = np.histogram(got, bins=min(high - low, 16), range=(low, high - (high - low < 16)))
    np.testing.assert_allclose(counts, n / len(counts), atol=6 * np.sqrt(n / len(counts)) + 1)

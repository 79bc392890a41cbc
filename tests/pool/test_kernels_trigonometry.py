# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false

import math

import numpy as np
import warp as wp

from headrace.pool.executors.kernels.launch import quiet
from headrace.pool.executors.kernels.trigonometry import sincos, sincos_near_zero


@wp.kernel(enable_backward=False)
def both_near_zero(angles: wp.array[wp.float64], out: wp.array2d[wp.float64]):
    i = wp.tid()
    sin, cos = sincos_near_zero(angles[i])
    out[i, 0] = sin
    out[i, 1] = cos


@wp.kernel(enable_backward=False)
def both(angles: wp.array[wp.float64], out: wp.array2d[wp.float64]):
    i = wp.tid()
    sin, cos = sincos(angles[i])
    out[i, 0] = sin
    out[i, 1] = cos


def sines_and_cosines(angles, kernel=both):
    angles = np.asarray(angles, np.float64)
    with quiet():
        out = wp.zeros((len(angles), 2), dtype=wp.float64, device="cpu")
        wp.launch(kernel, len(angles), [wp.array(angles, dtype=wp.float64, device="cpu"), out], device="cpu")
    return out.numpy()


def test_sincos_agrees_with_numpy_up_to_a_million_radians():
    rng = np.random.default_rng(0)
    quarters = np.arange(-40, 41) * (np.pi / 4)
    angles = np.concatenate(
        [
            quarters,
            np.nextafter(quarters, np.inf),
            [0.0, 1e-300, 1e-8, 1e6, -1e6],
            *(rng.uniform(-s, s, 20_000) for s in (0.3, 4, 100, 1e6)),
        ]
    )
    want = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    np.testing.assert_allclose(sines_and_cosines(angles), want, rtol=0, atol=3e-16)


def test_sincos_of_nan_and_infinity_is_nan():
    assert np.isnan(sines_and_cosines([np.nan, np.inf, -np.inf])).all()


def test_sincos_near_zero_gives_the_same_bits_as_sincos():
    eighth = math.pi / 4
    angles = np.concatenate(
        [[0.0, -0.0, eighth, -eighth, 1e-300], np.random.default_rng(0).uniform(-eighth, eighth, 20_000)]
    )
    np.testing.assert_array_equal(sines_and_cosines(angles, both_near_zero), sines_and_cosines(angles))

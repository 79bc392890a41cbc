"""Counter-based random numbers, which depend only on a seed and a count.

Every environment has its own stream: the n-th number of the stream with seed s is a pure function of (s, n). It is the
same on every device, at any batch size and any number of threads, and the random state of an environment consists of
two integers.

The function is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
3", SC 2011), which JAX uses as well. The seed is the key and the count is the block, so a stream repeats only after
2**64 numbers, and different seeds are different keys.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math

import warp as wp

PARITY = wp.constant(wp.uint32(0x1BD11BDA))
TO_UNIT = wp.constant(wp.float64(2.0**-53))
TWO_PI = wp.constant(wp.float64(2.0 * math.pi))


@wp.struct
class Streams:
    """One random stream for each environment: arrays [N]."""

    seed: wp.array[wp.uint64]
    drawn: wp.array[wp.uint64]


@wp.struct
class AgentStreams:
    """One random stream for each agent of each environment: seeds [N], counts [N, agents]."""

    seed: wp.array[wp.uint64]
    drawn: wp.array2d[wp.uint32]
    num_agents: int


@wp.func
def _mix(a: wp.uint32, b: wp.uint32, turn: wp.uint32):
    a = a + b
    b = (b << turn) | (b >> (wp.uint32(32) - turn))
    return a, a ^ b


@wp.func
def threefry(key: wp.uint64, block: wp.uint64) -> wp.uint64:
    """Returns the 64 random bits of a key and a block number (low word first)."""
    k0 = wp.uint32(key)
    k1 = wp.uint32(key >> wp.uint64(32))
    k2 = PARITY ^ k0 ^ k1
    a = wp.uint32(block) + k0
    b = wp.uint32(block >> wp.uint64(32)) + k1

    a, b = _mix(a, b, wp.uint32(13))
    a, b = _mix(a, b, wp.uint32(15))
    a, b = _mix(a, b, wp.uint32(26))
    a, b = _mix(a, b, wp.uint32(6))
    a = a + k1
    b = b + k2 + wp.uint32(1)

    a, b = _mix(a, b, wp.uint32(17))
    a, b = _mix(a, b, wp.uint32(29))
    a, b = _mix(a, b, wp.uint32(16))
    a, b = _mix(a, b, wp.uint32(24))
    a = a + k2
    b = b + k0 + wp.uint32(2)

    a, b = _mix(a, b, wp.uint32(13))
    a, b = _mix(a, b, wp.uint32(15))
    a, b = _mix(a, b, wp.uint32(26))
    a, b = _mix(a, b, wp.uint32(6))
    a = a + k0
    b = b + k1 + wp.uint32(3)

    a, b = _mix(a, b, wp.uint32(17))
    a, b = _mix(a, b, wp.uint32(29))
    a, b = _mix(a, b, wp.uint32(16))
    a, b = _mix(a, b, wp.uint32(24))
    a = a + k1
    b = b + k2 + wp.uint32(4)

    a, b = _mix(a, b, wp.uint32(13))
    a, b = _mix(a, b, wp.uint32(15))
    a, b = _mix(a, b, wp.uint32(26))
    a, b = _mix(a, b, wp.uint32(6))
    a = a + k2
    b = b + k0 + wp.uint32(5)
    return wp.uint64(a) | (wp.uint64(b) << wp.uint64(32))


@wp.func
def random_bits(streams: Streams, env: int) -> wp.uint64:
    """Returns the next 64 random bits of an environment's stream."""
    count = streams.drawn[env]
    streams.drawn[env] = count + wp.uint64(1)
    return threefry(streams.seed[env], count)


@wp.func
def agent_random_bits(streams: AgentStreams, env: int, agent: int) -> wp.uint64:
    """Returns the next 64 random bits of an agent's stream: blocks of its environment's key that only it uses."""
    count = streams.drawn[env, agent]
    streams.drawn[env, agent] = count + wp.uint32(1)
    return threefry(streams.seed[env], (wp.uint64(agent) << wp.uint64(32)) | wp.uint64(count))


@wp.func
def _to_unit(bits: wp.uint64) -> wp.float64:
    return wp.float64(bits >> wp.uint64(11)) * TO_UNIT


@wp.func
def _to_range(bits: wp.uint64, low: int, high: int) -> int:
    span = wp.uint64(wp.int64(high) - wp.int64(low))
    return low + int(((bits >> wp.uint64(32)) * span) >> wp.uint64(32))


@wp.func
def uniform(streams: Streams, env: int, low: wp.float64, high: wp.float64) -> wp.float64:
    """Returns the next number of an environment's stream, uniform in [low, high)."""
    return low + (high - low) * _to_unit(random_bits(streams, env))


@wp.func
def normal(streams: Streams, env: int, mean: wp.float64, deviation: wp.float64) -> wp.float64:
    """Returns a normally distributed number, from the next two of an environment's stream (Box and Muller, 1958)."""
    radius = wp.sqrt(wp.float64(-2.0) * wp.log(wp.float64(1.0) - _to_unit(random_bits(streams, env))))
    return mean + deviation * radius * wp.cos(TWO_PI * _to_unit(random_bits(streams, env)))


@wp.func
def agent_uniform(streams: AgentStreams, env: int, agent: int, low: wp.float64, high: wp.float64) -> wp.float64:
    """Returns the next number of an agent's stream, uniform in [low, high)."""
    return low + (high - low) * _to_unit(agent_random_bits(streams, env, agent))


@wp.func
def integers(streams: Streams, env: int, low: int, high: int) -> int:
    """Returns the next number of an environment's stream, an integer in [low, high).

    It is uniformly distributed, with probabilities that are exact to 2⁻³².
    """
    return _to_range(random_bits(streams, env), low, high)


@wp.func
def agent_integers(streams: AgentStreams, env: int, agent: int, low: int, high: int) -> int:
    """Returns the next number of an agent's stream, an integer in [low, high), distributed like `integers`."""
    return _to_range(agent_random_bits(streams, env, agent), low, high)

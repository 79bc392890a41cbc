"""The physics of a Crazyflie: a rigid body with four rotors, integrated by the fourth-order rule of Runge and Kutta.

The model is that of the simulator l2f, from Eschmann, Albani and Loianno, "Learning to fly in seconds" (2023, arXiv
2311.13081), with the parameters that RLtools gives for a Crazyflie (rl-tools/rl-tools, rl/environments/l2f). Speeds of
rotors are fractions of the greatest. All numbers are float32, as there.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false

import warp as wp

DT = wp.constant(0.01)  # s
MASS = wp.constant(0.0306)  # kg: 0.027 and what is mounted on it, an SD card and a sensor of optical flow
GRAVITY = wp.constant(9.81)  # m/s²
ARM = wp.constant(0.028)  # m: a rotor is so far from the middle along x and along y
INERTIA = wp.constant(wp.vec3(9.416556729130406e-6, 9.644051701582312e-6, 1.745951732253285e-5))  # kg m²
INVERSE_INERTIA = wp.constant(wp.vec3(106195.93007988465, 103690.85846314249, 57275.35197719487))
THRUST = wp.constant(wp.vec3(0.00352526, 0.01437313, 0.09223048))  # N, of one rotor: of its speed to the power 0, 1, 2
DRAG = wp.constant(4.665e-3)  # m: a rotor's torque about its axis over its thrust
RISING = wp.constant(0.05545454545454546)  # s, time constants of a rotor's speed
FALLING = wp.constant(0.24939393939393945)
HOVERING = wp.constant(0.7261389721508553)  # the command that RLtools counts as that of hovering


@wp.struct
class Craft:
    """What is particular to one craft in one episode."""

    mass: wp.float32  # factor of the mass, and of the inertia
    thrust: wp.vec4  # factors of the rotors' thrusts
    lag: wp.vec4  # factors of the rotors' time constants
    force: wp.vec3  # N, a disturbance in the frame of the world
    torque: wp.vec3  # N m, a disturbance in that of the body


@wp.struct
class Motion:
    """A craft's motion, or the rate of its change."""

    place: wp.vec3  # m, z is up
    attitude: wp.vec4  # the unit quaternion (w, x, y, z) that turns the body's frame into the world's
    velocity: wp.vec3  # m/s
    spin: wp.vec3  # rad/s, in the body's frame
    rotors: wp.vec4  # speeds; rotors are right in front, right behind, left behind, left in front


@wp.func
def rotation(q: wp.vec4) -> wp.mat33:
    """Returns the rotation matrix of a unit quaternion."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    return wp.mat33(
        1.0 - 2.0 * y * y - 2.0 * z * z,
        2.0 * x * y - 2.0 * w * z,
        2.0 * x * z + 2.0 * w * y,
        2.0 * x * y + 2.0 * w * z,
        1.0 - 2.0 * x * x - 2.0 * z * z,
        2.0 * y * z - 2.0 * w * x,
        2.0 * x * z - 2.0 * w * y,
        2.0 * y * z + 2.0 * w * x,
        1.0 - 2.0 * x * x - 2.0 * y * y,
    )


@wp.func
def _thrust(craft: Craft, rotors: wp.vec4, i: int) -> float:
    return craft.thrust[i] * (THRUST[0] + rotors[i] * (THRUST[1] + rotors[i] * THRUST[2]))


@wp.func
def _spin_up(craft: Craft, rotors: wp.vec4, command: wp.vec4, i: int) -> float:
    lag = craft.lag[i] * wp.where(command[i] >= rotors[i], RISING, FALLING)
    return (command[i] - rotors[i]) / lag


@wp.func
def rates(craft: Craft, now: Motion, command: wp.vec4) -> Motion:
    """Returns the rates of change under a command: the speeds [0, 1] that the rotors are to have."""
    q, spin, rotors = now.attitude, now.spin, now.rotors
    a, b = _thrust(craft, rotors, 0), _thrust(craft, rotors, 1)
    c, d = _thrust(craft, rotors, 2), _thrust(craft, rotors, 3)
    up = a + b + c + d
    axis = wp.vec3(  # the body's z in the world
        2.0 * q[1] * q[3] + 2.0 * q[0] * q[2],
        2.0 * q[2] * q[3] - 2.0 * q[0] * q[1],
        1.0 - 2.0 * q[1] * q[1] - 2.0 * q[2] * q[2],
    )
    torque = wp.vec3(ARM * (c + d - a - b), ARM * (b + c - a - d), DRAG * (b + d - a - c)) + craft.torque
    momentum = craft.mass * wp.cw_mul(INERTIA, spin)

    change = Motion()
    change.place = now.velocity
    change.attitude = 0.5 * wp.vec4(
        -q[1] * spin[0] - q[2] * spin[1] - q[3] * spin[2],
        q[0] * spin[0] + q[2] * spin[2] - q[3] * spin[1],
        q[0] * spin[1] + q[3] * spin[0] - q[1] * spin[2],
        q[0] * spin[2] + q[1] * spin[1] - q[2] * spin[0],
    )
    change.velocity = (up * axis + craft.force) / (craft.mass * MASS) - wp.vec3(0.0, 0.0, GRAVITY)
    change.spin = wp.cw_mul(INVERSE_INERTIA, torque - wp.cross(spin, momentum)) / craft.mass
    change.rotors = wp.vec4(
        _spin_up(craft, rotors, command, 0),
        _spin_up(craft, rotors, command, 1),
        _spin_up(craft, rotors, command, 2),
        _spin_up(craft, rotors, command, 3),
    )
    return change


@wp.func
def after(now: Motion, change: Motion, seconds: float) -> Motion:
    """Returns the motion after some time with constant rates of change."""
    then = Motion()
    then.place = now.place + seconds * change.place
    then.attitude = now.attitude + seconds * change.attitude
    then.velocity = now.velocity + seconds * change.velocity
    then.spin = now.spin + seconds * change.spin
    then.rotors = now.rotors + seconds * change.rotors
    return then


@wp.func
def fly(craft: Craft, now: Motion, command: wp.vec4) -> Motion:
    """Returns the motion after a step of 10 ms under one command."""
    k1 = rates(craft, now, command)
    k2 = rates(craft, after(now, k1, DT / 2.0), command)
    k3 = rates(craft, after(now, k2, DT / 2.0), command)
    k4 = rates(craft, after(now, k3, DT), command)
    then = after(after(after(after(now, k1, DT / 6.0), k2, DT / 3.0), k3, DT / 3.0), k4, DT / 6.0)
    then.attitude = then.attitude / wp.length(then.attitude)
    for i in range(4):
        then.rotors[i] = wp.clamp(then.rotors[i], 0.0, 1.0)
    return then

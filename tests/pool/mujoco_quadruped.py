"""A small robot on four legs, as those that one can buy: a trunk that floats, servos with limited force, round feet."""

LEG = """
  <body name="{name}_hip" pos="{x} {y} 0"><joint name="{name}_hip" axis="1 0 0" range="-.86 .86"/>
    <inertial pos="-.005 {s}.003 0" mass=".68" diaginertia=".00073 .00047 .00046" quat=".5 .499 .507 -.494"/>
    <body name="{name}_thigh" pos="0 {s}.08 0"><joint name="{name}_thigh" axis="0 1 0" range="-.69 4.5"/>
      <inertial pos="-.004 {s}-.02 -.03" mass="1" diaginertia=".0057 .0056 .0011" quat=".99 -.01 .02 .12"/>
      <geom type="capsule" size=".02" fromto="0 0 -.03 0 0 -.18"/>
      <body name="{name}_calf" pos="0 0 -.213"><joint name="{name}_calf" axis="0 1 0" range="-2.8 -.9"/>
        <inertial pos=".006 0 -.12" mass=".13" diaginertia=".00195 .0019 .0001" quat=".999 0 -.04 0"/>
        <geom name="{name}" type="sphere" size=".023" pos="0 0 -.213" priority="1" condim="3" friction=".8 .02 .01"
          solimp=".9 .95 .023"/>
      </body></body></body>"""
SERVO = '<position joint="{0}" kp="35" kv=".5" forcerange="-23.7 23.7" ctrlrange="-2 2"/>'
LEGS = {"FR": (0.19, -0.05), "FL": (0.19, 0.05), "RR": (-0.19, -0.05), "RL": (-0.19, 0.05)}
PARTS = ("hip", "thigh", "calf")


def quadruped(option: str = 'integrator="Euler"') -> str:
    """The model's XML."""
    legs = "".join(LEG.format(name=n, x=x, y=y, s="-" if y < 0 else "").replace("--", "") for n, (x, y) in LEGS.items())
    servos = "".join(SERVO.format(f"{leg}_{part}") for leg in LEGS for part in PARTS)
    return f"""
<mujoco>
  <compiler angle="radian" autolimits="true"/>
  <option timestep=".004" iterations="100" {option}/>
  <default><joint armature=".005" damping=".1" frictionloss=".2"/></default>
  <worldbody>
    <geom type="plane" size="0 0 .05" friction="1"/>
    <body name="trunk" pos="0 0 .3"><freejoint/>
      <inertial pos=".022 0 -.0005" mass="5.2" diaginertia=".0717 .0630 .0168" quat="0 .71 0 .70"/>
      <geom type="box" size=".13 .05 .04" mass="0"/>
      {legs}
    </body>
  </worldbody>
  <actuator>{servos}</actuator>
</mujoco>"""

"""Models made at random, with all that lanes step at once, and now and then with what they must refuse.

A seed gives one model. Names tell kinds: ``j3`` is a hinge or slide, ``q1`` a ball joint, ``s2`` a site, ``b4`` a body.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from mujoco_sensors import Sensors

DIMS = (1, 3, 3, 4, 6)
FLAGS = (
    "constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "gravity", "clampctrl",
    "warmstart", "filterparent", "actuation", "refsafe", "sensor", "midphase", "eulerdamp", "nativeccd", "island",
    "multiccd",
)  # fmt: skip
ROOTS = ("free", "free", "ball", "hinge", "slide hinge", "slide slide hinge", "slide ball")
JOINTS = ("", "", "ball", "hinge", "hinge", "slide", "hinge hinge")
# parameters of actuators: how many numbers, from where to where
ACTUATORS: dict[str, dict[str, tuple[int, float, float]]] = {
    "motor": {},
    "position": {"kp": (1, 1, 50)},
    "velocity": {"kv": (1, 0.1, 2)},
    "intvelocity": {"kp": (1, 1, 20)},
    "damper": {"kv": (1, 0.1, 2)},
    "cylinder": {"timeconst": (1, 0.02, 0.1), "bias": (3, -1, 1)},
    "general": {"dynprm": (1, 0.01, 0.2), "gainprm": (1, 0.5, 3)},
}
NEAR = ET.fromstring("""<near>
    <option integrator='implicit'/> <option noslip_iterations='3'/> <option o_margin='0.1'/> <option solver='PGS'/>
    <option actuatorgroupdisable='1'/> <option density='1000'/> <flag energy='enable'/> <flag fwdinv='enable'/>
    <flag override='enable'/> <flag invdiscrete='enable'/> <flag diagexact='enable'/> <flag speculative='enable'/>
    <flag autoreset='disable'/> <size nuserdata='3'/> <compiler fusestatic='true'/> <compiler alignfree='true'/>
    <compiler settotalmass='3'/> <body gravcomp='0.5'/> <body sleep='never'/> <joint stiffness='3 2 1'/>
    <joint damping='.3 .2 .1'/> <joint springyield='0.1'/> <joint stiffness='5' actuatorgravcomp='true'/>
    <joint springdamper='0.1 1'/> <geom fluidshape='ellipsoid'/> <geom surfacevel='1 0 0 0 0 0'/> <geom adhesion='3'/>
    <geom gap='0.02' margin='0.01'/> <geom shellinertia='true'/> <geom solref='-100 0.5'/> <geom solref='0.02 -1'/>
    <geom friction='0 0 0'/> <geom solmix='0'/> <pair adhesion='3'/> <pair gap='0.02'/> <spatial armature='0.1'/>
    <fixed armature='0.1'/> <fixed actuatorfrcrange='-1 1'/> <spatial stiffness='3 2 1'/> <fixed damping='.3 .2 .1'/>
    <spatial springyield='0.1'/> <motor armature='0.1'/> <motor damping='0.1'/> <motor delay='0.01' nsample='5'/>
    <position armature='0.1'/> <position group='1'/> <motor gear='0'/>
    <general dyntype='none' gaintype='affine' gainprm='1 .5 .2'/> <general dynprm='0'/>
    <jointpos delay='0.01' nsample='4'/> <gyro interval='0.01'/> <gyro noise='0.1'/> <jointpos cutoff='0.1'/>
    <accelerometer cutoff='1'/> <touch noise='1'/>
</near>""")
"""what lanes must refuse, or step as MuJoCo does: attributes that an element of a random model is given"""


class Generator(Sensors):
    """Draws a model; `tree` is its XML."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.options()
        self.add(self.tree, "size", memory="8M")
        assets = self.add(self.tree, "asset")
        self.add(assets, "mesh", name="stone", vertex=self.reals(3 * self.integer(6, 16), -0.1, 0.1))
        self.add(assets, "hfield", name="ground", nrow="9", ncol="9", size="2 2 .3 .1", elevation=self.reals(81, 0, 1))
        self.world = self.add(self.tree, "worldbody")
        self.ground()
        for place in range(self.integer(1, 3)):
            self.body(self.world, 0, place)
        for part in (self.tendons, self.contact, self.equalities, self.actuators, self.sensors):
            part()
        if self.chance(0.15):
            near = self.pick(NEAR)
            if found := list(self.tree.iter(near.tag)):
                self.pick(found).attrib.update(near.attrib)

    def options(self) -> None:
        self.add(self.tree, "compiler", angle="radian", autolimits=True)
        self.integrator = self.pick(("Euler", "implicitfast", "RK4"))
        fluid = {"density": self.real(0, 1000), "viscosity": self.real(0, 0.1), "wind": self.reals(3, -1, 1)}
        solver = {
            "solver": self.pick(("Newton", "Newton", "CG")),
            "iterations": self.pick((1, 2, 4, 10, 50, 100)),
            "ls_iterations": self.pick((4, 50)),
            "tolerance": self.pick((0, 1e-8, 1e-8, 1e-4)),
            "jacobian": self.pick(("auto", "dense", "sparse")),
            "cone": self.pick(("pyramidal", "elliptic")),
            **self.maybe(0.3, impratio=self.real(0.3, 10)),
        }
        world = self.maybe(0.2, gravity=self.reals(3, -10, 10)) | self.maybe(0.2, **fluid)
        step = self.real(0.001, 0.005)
        option = self.add(self.tree, "option", integrator=self.integrator, timestep=step, **solver, **world)
        self.add(option, "flag", **{flag: "disable" for flag in FLAGS if self.chance(0.02)})

    def ground(self) -> None:
        """What stands still, and mocap bodies."""
        if self.chance(0.8):
            tilt = self.maybe(0.2, euler=self.reals(3, -0.2, 0.2))
            self.add(self.world, "geom", type="plane", size="5 5 1", contype=3, **tilt, **self.surface())
        if self.integrator != "RK4" and self.chance(0.15):
            self.add(self.world, "geom", type="hfield", hfield="ground", **self.surface())
        self.add(self.world, "site", name=self.name("s"), pos="0 0 1")
        for mocap in [False] * self.chance(0.3) + [True] * self.chance(0.3):
            where = {"pos": self.reals(3, -0.3, 0.4), **self.turn(), **({"mocap": True} if mocap else {})}
            still = self.add(self.world, "body", name=self.name("b"), **where)
            self.shapes(still)
            if self.chance(0.5):
                more = self.add(still, "body", name=self.name("b"), pos=self.reals(3, -0.2, 0.2), **self.turn())
                self.shapes(more)

    def turn(self) -> dict[str, Any]:
        return self.maybe(0.5, euler=self.reals(3, -1, 1))

    def surface(self) -> dict[str, Any]:
        return {
            "condim": self.pick(DIMS),
            "friction": [self.real(0.2, 1.5), self.real(0.001, 0.1), self.real(0.001, 0.1)],
            **self.maybe(0.3, margin=self.real(0, 0.02)),
            **self.maybe(0.1, gap=self.real(0, 0.02)),
            **self.maybe(0.2, priority=self.integer(0, 1)),
            **self.maybe(0.2, solmix=self.real(0, 2)),
            **self.soft("solref", "solimp"),
        }

    def shapes(self, body: ET.Element, fewest: int = 1) -> None:
        """Geoms, a site, and sometimes a camera and a light."""
        for _ in range(self.integer(fewest, 2)):
            self.geom(body)
        size, kind = self.reals(3, 0.05, 0.2), self.pick(("sphere", "box", "capsule"))
        place = {"pos": self.reals(3, -0.1, 0.1), **self.turn()}
        self.add(body, "site", name=self.name("s"), type=kind, size=size, **place)
        if self.chance(0.2):
            mode = self.pick(("fixed", "track", "trackcom"))
            self.add(body, "camera", name=self.name("c"), resolution="32 32", mode=mode, **place)
            self.add(body, "light", pos=self.reals(3, -0.1, 0.1), dir=self.reals(3, -1, 1))

    def geom(self, body: ET.Element) -> None:
        kind = self.pick(("sphere", "capsule", "capsule", "box", "box", "cylinder", "ellipsoid", "mesh"))
        n = {"sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
        size = [0.1] * n if self.chance(0.2) else self.reals(n, 0.04, 0.12)
        shape = {"mesh": "stone"} if kind == "mesh" else {"size": size}
        if self.integrator == "RK4" and kind in ("cylinder", "ellipsoid", "mesh"):
            # Where curved shapes touch, MuJoCo finds by iterations that end sooner or later with the last bits of their
            # place, which Runge-Kutta's stages do not share: there they touch the floor alone.
            shape |= {"contype": 0, "conaffinity": 2}
        name = self.name("g")
        self.names["f"] += [name] if kind in ("sphere", "cylinder") else []
        heavy = self.maybe(0.3, density=self.real(100, 5000))
        place = {"pos": self.reals(3, -0.1, 0.1), **self.maybe(0.7, euler=self.reals(3, -3, 3))}
        self.add(body, "geom", name=name, type=kind, **shape, **place, **heavy, **self.surface())

    def joint(self, body: ET.Element, kind: str) -> None:
        name = self.name("q" if kind == "ball" else "j")
        range_ = [0, self.real(0.3, 2)] if kind == "ball" else [self.real(-1, -0.1), self.real(0.1, 1)]
        limit = self.maybe(0.4, range=range_)
        more: dict[str, Any] = self.maybe(0.02, stiffness=3)
        if kind != "ball":
            self.names["l"] += [name] if limit else []
            more = self.maybe(0.3, stiffness=self.real(0, 20), springref=self.real(-0.5, 0.5))
            more |= {"axis": self.reals(3, -1, 1), **self.maybe(0.3, ref=self.real(-0.5, 0.5))}
            more |= self.maybe(0.3, actuatorfrcrange=[-self.real(0.1, 3), self.real(0.1, 3)])
        more |= self.maybe(0.3, frictionloss=self.real(0.01, 1)) | self.maybe(0.5, damping=self.real(0, 1))
        more |= self.maybe(0.3, margin=self.real(0, 0.05)) | limit
        more |= self.soft("solreflimit", "solimplimit") | self.soft("solreffriction", "solimpfriction")
        place = {"pos": self.reals(3, -0.1, 0.1), "armature": self.real(0.001, 0.1)}
        self.add(body, "joint", name=name, type=kind, **place, **more)

    def body(self, parent: ET.Element, depth: int, place: int = 0) -> None:
        """A body, moved by joints or welded to its parent, and what it carries."""
        pos = self.reals(3, -0.2, 0.2) if depth else [0.4 * place, 0, self.pick((0.1, self.real(0.05, 0.5)))]
        body = self.add(parent, "body", name=self.name("b"), pos=pos, **self.turn())
        joints = self.pick(JOINTS if depth else ROOTS)
        for kind in joints.split():
            if kind != "free":
                self.joint(body, kind)
            elif self.chance(0.5):
                self.add(body, "freejoint", **self.maybe(0.2, align=self.chance(0.5)))
            else:
                more = self.maybe(0.3, damping=self.real(0, 1)) | self.maybe(0.2, frictionloss=self.real(0, 0.5))
                self.add(body, "joint", type="free", **more, **self.maybe(0.2, armature=self.real(0, 0.1)))
        if self.chance(0.2):
            inertia = {"mass": self.real(0.1, 3), "diaginertia": [0.01, *self.reals(2, 0.008, 0.012)]}
            self.add(body, "inertial", pos=self.reals(3, -0.05, 0.05), **inertia, **self.turn())
        self.shapes(body, 0 if depth and not joints else 1)
        for _ in range(self.integer(0, 2)):
            if depth < 3 and len(self.names["b"]) < 9:
                self.body(body, depth + 1)

    def tendons(self) -> None:
        tendons = self.add(self.tree, "tendon")
        for _ in range(self.integer(0, 2) if self.names["j"] else 0):
            lengths = self.maybe(0.5, range=[-self.real(0, 0.5), self.real(0, 0.5)])
            rest = self.maybe(0.3, springlength=[-self.real(0, 0.2), self.real(0, 0.2)])
            fixed = self.add(tendons, "fixed", name=self.name("t"), **lengths, **rest, **self.elastic())
            for joint in self.shuffled("j")[: self.integer(1, 3)]:
                self.add(fixed, "joint", joint=joint, coef=self.real(-2, 2))
        if len(self.names["s"]) > 2 and self.chance(0.35):
            lengths = self.maybe(0.4, range=[self.real(0.2, 0.8), self.real(0.9, 1.2)])
            rest = self.maybe(0.5, springlength=[0, self.real(0.3, 0.9)])
            spatial = self.add(tendons, "spatial", name=self.name("u"), **lengths, **rest, **self.elastic())
            sites = self.shuffled("s")
            self.add(spatial, "site", site=sites[0])
            if self.names["f"] and self.chance(0.4):
                self.add(spatial, "geom", geom=self.some("f"), **self.maybe(0.5, sidesite=self.some("s")))
            self.add(spatial, "site", site=sites[1])
            if self.chance(0.3):
                self.add(spatial, "pulley", divisor=self.real(1, 3))
                for site in sites[1:3]:
                    self.add(spatial, "site", site=site)

    def elastic(self) -> dict[str, Any]:
        """What a tendon does."""
        return {
            **self.maybe(0.7, stiffness=self.real(0, 50)),
            **self.maybe(0.6, damping=self.real(0, 1)),
            **self.maybe(0.3, frictionloss=self.real(0.01, 0.5)),
            **self.maybe(0.3, margin=self.real(0, 0.05)),
            **self.soft("solreflimit", "solimplimit"),
            **self.soft("solreffriction", "solimpfriction"),
        }

    def contact(self) -> None:
        contact = self.add(self.tree, "contact")
        if len(self.names["b"]) > 1 and self.chance(0.3):
            one, other = self.shuffled("b")[:2]
            self.add(contact, "exclude", body1=one, body2=other)
        if self.integrator != "RK4" and len(self.names["g"]) > 1 and self.chance(0.3):
            one, other = self.shuffled("g")[:2]
            more = self.maybe(0.3, friction=[0.8, 0.6, 0.01, 0.02, 0.03]) | self.maybe(0.3, margin=self.real(0, 0.02))
            more |= self.maybe(0.3, solreffriction=[-self.real(100, 500), -self.real(5, 50)])
            more |= self.soft("solref", "solimp")
            self.add(contact, "pair", geom1=one, geom2=other, condim=self.pick(DIMS), **more)

    def equalities(self) -> None:
        equality = self.add(self.tree, "equality")
        for kind, own in (
            ("connect", {"anchor": self.reals(3, -0.1, 0.1)}),
            ("weld", {"torquescale": self.real(0.5, 2)}),
        ):
            if len(self.names["b"]) > 1 and self.chance(0.12):
                one, other = self.shuffled("b")[:2]
                self.add(equality, kind, body1=one, **self.maybe(0.7, body2=other), **own, **self.firm())
            if len(self.names["s"]) > 1 and self.chance(0.12):
                one, other = self.shuffled("s")[:2]
                self.add(equality, kind, site1=one, site2=other, **self.firm())
        for kind, names in (("joint", self.names["j"]), ("tendon", self.names["t"] + self.names["u"])):
            if names and self.chance(0.2):
                one, other = self.pick(names), self.pick(names)
                ends = {kind + "1": one, **(self.maybe(0.7, **{kind + "2": other}) if one != other else {})}
                self.add(equality, kind, **ends, polycoef=self.reals(5, -0.3, 0.3), **self.firm())

    def firm(self) -> dict[str, Any]:
        return self.soft("solref", "solimp") | self.maybe(0.1, active=False)

    def actuators(self) -> None:
        actuators = self.add(self.tree, "actuator")
        joints, tendons = self.names["j"], self.names["t"] + self.names["u"]
        for _ in range(self.integer(0, 5) if joints or tendons else 0):
            on = {self.pick(("joint",) * 9 + ("jointinparent",)): self.pick(joints)} if joints else {}
            if tendons and (not joints or self.chance(0.3)):
                on = {"tendon": self.pick(tendons)}
            kind = self.pick(tuple(ACTUATORS))
            more = {"gear": self.real(-5, 5), **self.maybe(0.3, forcerange=[-self.real(0.1, 5), self.real(0.1, 5)])}
            more |= self.maybe(0.5, ctrlrange="-0.7 0.7") | self.maybe(0.2, group=self.integer(0, 2))
            more |= {name: self.reals(n, low, high) for name, (n, low, high) in ACTUATORS[kind].items()}
            if "kp" in more:
                more |= self.pick(({}, {"kv": self.real(0, 2)}, {"dampratio": self.real(0.2, 2)}))
            if kind == "position":
                more |= self.maybe(0.2, timeconst=self.real(0.01, 0.1))
            if kind == "intvelocity":
                more |= {"actrange": "-0.5 0.5"}
            if kind == "damper":
                more |= {"ctrlrange": "0 0.7"}
            if kind == "general":
                more |= {"dyntype": self.pick(("none", "integrator", "filter", "filterexact"))}
                if self.chance(0.5):
                    more |= {"gaintype": "affine", "gainprm": self.reals(3, -2, 2)}
                    more |= {"biastype": "affine", "biasprm": self.reals(3, -2, 0)}
                if more["dyntype"] != "none":
                    more |= self.maybe(0.5, actrange="-0.5 0.5") | self.maybe(0.3, actearly=True)
            self.add(actuators, kind, name=self.name("a"), **on, **more)


def model_xml(seed: int) -> str:
    """The XML of a seed's model."""
    tree = Generator(seed).tree
    ET.indent(tree)
    return ET.tostring(tree, encoding="unicode")

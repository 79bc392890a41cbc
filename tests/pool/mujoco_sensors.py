"""Sensors at random, and how anything is drawn: the part of `mujoco_models` that looks at a model."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Any

import numpy as np

FRAMES = ("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel")
OFTEN, AT_TIMES, SELDOM = 0.3, 0.06, 0.015  # one sensor that lanes do not know is enough to refuse a model


def text(value: Any) -> str:
    """A value of an attribute."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return " ".join(f"{x:.6g}" for x in np.atleast_1d(value))


class Draws:
    """Draws elements of a model's XML, `tree`; ``names`` of what it has by kind, as `mujoco_models` explains."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.tree = ET.Element("mujoco")
        self.names: dict[str, list[str]] = {kind: [] for kind in "bjqlsgcfuta"}

    def add(self, to: ET.Element, tag: str, **attributes: Any) -> ET.Element:
        """Append an element, with those attributes that are not None."""
        given = {name: text(value) for name, value in attributes.items() if value is not None}
        return ET.SubElement(to, tag, given)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def real(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def reals(self, n: int, low: float, high: float) -> np.ndarray:
        return self.random.uniform(low, high, n)

    def integer(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def pick(self, options: Iterable[Any]) -> Any:
        options = list(options)
        return options[self.integer(0, len(options) - 1)]

    def some(self, kind: str) -> str:
        """The name of something of a kind."""
        return self.pick(self.names[kind])

    def shuffled(self, kind: str) -> list[str]:
        """The names of all of a kind, in any order."""
        return [str(name) for name in self.random.permutation(self.names[kind])]

    def name(self, kind: str) -> str:
        """A new name."""
        self.names[kind].append(f"{kind}{len(self.names[kind])}")
        return self.names[kind][-1]

    def maybe(self, p: float, **attributes: Any) -> dict[str, Any]:
        """These attributes, or none."""
        return attributes if self.chance(p) else {}

    def soft(self, ref: str, imp: str) -> dict[str, Any]:
        """A constraint's solref and solimp."""
        stiff = [self.real(0.005, 0.05), self.real(0.5, 1.5)]
        if self.chance(0.3):  # MuJoCo's other format: stiffness and damping
            stiff = [-self.real(200, 2000), -self.real(5, 50)]
        width = [self.real(0.5, 0.9), self.real(0.9, 0.99), self.real(0.001, 0.05), self.real(0.2, 0.8)]
        return self.maybe(0.3, **{ref: stiff}) | self.maybe(0.3, **{imp: [*width, self.integer(2, 6) / 2]})


class Sensors(Draws):
    """Draws some sensors of each kind."""

    def sensors(self) -> None:
        self.list = self.add(self.tree, "sensor")
        names, pick, some = self.names, self.pick, self.some
        for kind in ("touch", "accelerometer", "velocimeter", "gyro", "force", "torque"):
            self.sense(OFTEN, kind, site=some("s"))
        self.sense(OFTEN, "magnetometer", site=some("s"))
        self.sense(SELDOM, "rangefinder", site=some("s"))
        for what, of, kinds in (
            ("joint", names["j"], ("jointactuatorfrc",)),
            ("joint", names["l"], ("jointlimitpos", "jointlimitvel", "jointlimitfrc")),
            ("joint", names["q"], ("ballquat", "ballangvel")),
            ("tendon", names["t"] + names["u"], ("tendonpos", "tendonvel", "tendonactuatorfrc")),
            ("actuator", names["a"], ("actuatorpos", "actuatorvel", "actuatorfrc")),
        ):
            for name in of:
                for kind in kinds:
                    self.sense(AT_TIMES * 2, kind, **{what: name})
        for joint in names["j"]:
            self.sense(OFTEN, "jointpos", joint=joint)
            self.sense(OFTEN, "jointvel", joint=joint)
        self.sense(OFTEN, "framepos", objtype="site", objname=some("s"))
        kinds = {"body": "b", "xbody": "b", "geom": "g", "site": "s", "camera": "c"}
        things = [(kind, name) for kind, of in kinds.items() for name in names[of]]
        for kind in FRAMES:
            (objtype, objname), (reftype, refname) = pick(things), pick(things)
            beside = self.maybe(0.5, reftype=reftype, refname=refname)
            self.sense(OFTEN, kind, objtype=objtype, objname=objname, **beside)
        for kind in ("framelinacc", "frameangacc"):
            objtype, objname = pick(things)
            self.sense(OFTEN, kind, objtype=objtype, objname=objname)
        for kind in ("subtreecom", "subtreelinvel", "subtreeangmom"):
            self.sense(OFTEN, kind, body=pick(["world", *names["b"]]))
        for kind in ("distance", "normal", "fromto"):
            self.sense(SELDOM, kind, geom1=some("g"), body2=some("b"), cutoff=1)
        for _ in range(4):
            self.sense(OFTEN, "contact", **self.touching())
        self.sense(SELDOM, "contact", site=some("s"), data="found")
        self.sense(SELDOM, "insidesite", site=some("s"), objtype="body", objname=some("b"))
        self.sense(OFTEN, "clock")
        for kind in ("e_potential", "e_kinetic"):
            self.sense(AT_TIMES / 2, kind)

    def touching(self) -> dict[str, Any]:
        """Which contacts a sensor shows, and what of them."""
        what = {}
        for end in (1, 2):
            kind = self.pick(("geom", "body", "subtree"))
            what |= self.maybe(0.7, **{f"{kind}{end}": self.some("g" if kind == "geom" else "b")})
        data = [kind for kind in ("found", "force", "torque", "dist", "pos", "normal", "tangent") if self.chance(0.4)]
        # the order of contacts of two boxes is rounding
        reduce = {"reduce": self.pick(("mindist", "maxforce", "netforce"))} if data else {}
        return what | reduce | {"data": " ".join(data) or "found", "num": self.integer(1, 4)}

    def sense(self, p: float, kind: str, **attributes: Any) -> None:
        """One sensor, perhaps."""
        if self.chance(p):
            cut = self.maybe(0.01, cutoff=self.real(0.1, 2))
            self.add(self.list, kind, name=f"{kind}{len(self.list)}", **(cut | attributes))

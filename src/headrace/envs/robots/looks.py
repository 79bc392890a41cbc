"""How a robot looks whose physics are of simple shapes: the meshes of a published file, such as the Menagerie's."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.pool.executors.mujoco.fields import library

LOOK, COLLISION = 2, 3  # groups of shapes: those in pictures, and others
PREFIX = "looks: "  # of the names of meshes that are added


def dress(spec: Any, looks: str) -> None:
    """Gives the bodies of a `mujoco.MjSpec` the meshes that bodies of the same names have in another file.

    Meshes collide with nothing and have no mass, so physics stay the same to the bit. What a body that gets some looked
    like before is hidden.

    Args:
        spec: the robot.
        looks: the path of an MJCF file, which ends in ``.xml``, or a robot's name in the package ``mujoco-menagerie``,
            which downloads it at the first use.

    Raises:
        OptionError: there is no such file or robot, or it has no meshes for these bodies.
    """
    path = Path(looks).expanduser() if looks.endswith(".xml") else _of_menagerie(looks)
    if not path.is_file():
        raise OptionError(f"render_looks: there is no file {path}")
    published = library().MjSpec.from_file(str(path))
    folder = path.parent / published.meshdir
    files = {mesh.name: mesh for mesh in published.meshes}
    colours = {material.name: material.rgba for material in published.materials}
    worn: set[str] = set()
    for body in spec.bodies[1:]:
        other = published.body(body.name)
        geoms = [geom for geom in other.geoms if _is_look(geom)] if other is not None else []
        for geom in body.geoms if geoms else ():
            if geom.group <= LOOK:
                geom.group = COLLISION
        for geom in geoms:
            body.add_geom(
                type=geom.type, meshname=PREFIX + geom.meshname, pos=geom.pos, quat=geom.quat, group=LOOK, mass=0,
                contype=0, conaffinity=0, rgba=colours.get(geom.material, geom.rgba),
            )  # fmt: skip
        worn |= {geom.meshname for geom in geoms}
    if not worn:
        such = ", such as ".join(["", *(repr(body.name) for body in spec.bodies[1:2])])
        raise OptionError(f"render_looks: {path} has no meshes for the bodies of this robot{such}")
    for name in sorted(worn):
        mesh = files[name]
        spec.add_mesh(
            name=PREFIX + name, file=str((folder / mesh.file).resolve()), scale=mesh.scale, refpos=mesh.refpos,
            refquat=mesh.refquat,
        )  # fmt: skip


def _is_look(geom: Any) -> bool:
    return geom.type == library().mjtGeom.mjGEOM_MESH and not (geom.contype or geom.conaffinity)


def _of_menagerie(name: str) -> Path:
    """Returns the file of a robot of the Menagerie, without its scene."""
    try:
        menagerie = import_module("mujoco_menagerie")
    except ImportError:
        raise OptionError(
            f"render_looks={name!r} is a robot of the package mujoco-menagerie: pip install 'headrace[robots]', or "
            "name an MJCF file, which ends in .xml"
        ) from None
    try:
        robot = menagerie.get(name)
        return Path(robot.xml(robot.default_model))
    except menagerie.MenagerieError as error:
        raise OptionError(f"render_looks={name!r}: {error}") from error

"""Lanes step every random model and task that they accept as MuJoCo does; see `mujoco_oracle`."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

import mujoco_oracle
from mujoco_models import ACTUATORS, model_xml
from mujoco_oracle import READS, VARIES, Outcome, outcome
from mujoco_reading import Reading
from mujoco_sensors import FRAMES

from headrace.pool.executors.mujoco.fields import native_module

pytestmark = pytest.mark.skipif(not native_module().lane_widths(), reason="nothing is stepped in lanes here")
DIFFERING = 3  # models of each case in which fields differ and all sensors are read
FEW, MANY, CHUNKS = range(12), 5000, 40  # seeds of every run; the number of nightly seeds, and of cases that share them


@pytest.fixture(autouse=True)
def _prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_UNCHECKED_LANES", "1")
    monkeypatch.setattr(mujoco_oracle.first_steps, "play_new", lambda *args, **options: None)
    mujoco_oracle.prepare()


def told(seed: int, found: Outcome, xml: str) -> str:
    """Returns what differs, and the command that shows it again."""
    lines = [f"seed {seed}: python tests/pool/mujoco_oracle.py {seed} --shrink", *map(str, found.differences)]
    return "\n".join([*lines, xml])


@pytest.mark.parametrize("seed", FEW)
def test_lanes_step_a_random_model_as_mujoco(seed: int) -> None:
    xml = model_xml(seed)
    found = outcome(xml, seed)
    assert not found.differences, told(seed, found, xml)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("varies", VARIES[-5:], ids=lambda names: names[0])
def test_sensors_of_models_that_differ_are_those_of_mujoco(varies: tuple[str, ...], fresh: bool) -> None:
    seeds, whole = iter(range(100)), 0
    while whole < DIFFERING:
        xml = model_xml(seed := next(seeds))
        if "tendon" in xml and "spatial" in xml:  # beside these some sensors of forces are libmujoco's
            continue
        found = outcome(xml, seed, Reading(READS[1], varies, (), fresh, forces=True, skip=2))
        whole += found.stepped and not found.refused
        assert not found.differences, told(seed, found, xml)


@pytest.mark.nightly
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_lanes_step_thousands_of_random_models_as_mujoco(chunk: int) -> None:
    seeds, stepped, wrong = range(chunk, MANY, CHUNKS), 0, list[str]()
    for seed in seeds:
        xml = model_xml(seed)
        found = outcome(xml, seed)
        stepped += found.stepped
        if found.differences:
            wrong.append(told(seed, found, xml if not wrong else ""))
    assert not wrong, "\n".join([f"{len(wrong)} of {len(seeds)} models differ", *wrong])
    assert stepped > len(seeds) / 2


def test_the_oracle_detects_a_small_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lighter(mujoco_oracle.Reference):
        def __init__(self, *args: Any):
            super().__init__(*args)
            for model in self.models.values():
                model.opt.gravity[2] += 1e-2

    monkeypatch.setattr(mujoco_oracle, "Reference", Lighter)
    falls = "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    found = outcome(falls, 0)
    assert found.stepped
    assert {"qvel", "qacc_warmstart"} <= {each.field for each in found.differences}


def test_random_models_cover_every_element_that_lanes_step() -> None:
    tags, values = Counter[str](), Counter[tuple[str, str]]()
    for seed in range(250):
        for element in ET.fromstring(model_xml(seed)).iter():
            tags[element.tag] += 1
            values.update(item for item in element.attrib.items() if len(item[1]) < 13)
    wanted = {"freejoint", "fixed", "spatial", "pulley", "connect", "weld", "pair", "exclude", "inertial", *ACTUATORS}
    wanted |= {"touch", "accelerometer", "force", "torque", "contact", "subtreeangmom", "e_kinetic", *FRAMES}
    assert {tag for tag in wanted if tags[tag] < 4} == set()
    kinds = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh", "hfield", "plane", "free", "ball", "hinge")
    choices = {("type", kind) for kind in kinds} | {("iterations", "1"), ("iterations", "100"), ("mocap", "true")}
    choices |= {("integrator", name) for name in ("Euler", "RK4", "implicitfast")} | {("cone", "elliptic")}
    assert {choice for choice in choices if values[choice] < 10} == set()

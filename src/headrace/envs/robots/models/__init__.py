"""Models of robots, as files of MuJoCo; ``LICENSES.txt`` says of whom.

They are made of simple shapes, so that they need no mesh, and are drawn alike everywhere. Unless a file says otherwise,
only feet collide.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
ROBOTS = ("go1", "go2", "go2_unilab", "g1", "t1")


def model_file(robot: str) -> Path:
    """Returns the file of the model of one of `ROBOTS`."""
    return FOLDER / f"{robot}.xml"

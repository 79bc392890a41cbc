"""The task families that come with Headrace: each folder here has the record of one, `FAMILY`.

Importing this package registers the names only. A family's environments, and the simulator
that they need, are imported when one of its tasks is first made.
"""

import importlib
import pkgutil

from headrace.pool.family import Family
from headrace.pool.registry import register_family

FAMILIES: dict[str, Family] = {
    each.name: importlib.import_module(f"{__name__}.{each.name}").FAMILY
    for each in pkgutil.iter_modules(__path__)
    if each.ispkg
}

for _family in FAMILIES.values():
    register_family(_family)

"""The compiled part of Headrace's Box2D environments: the module `headrace_box2d._box2d`.

It contains Box2D, which is under the zlib licence.
"""

__version__ = "0.2.0"

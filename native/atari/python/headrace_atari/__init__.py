"""The compiled part of Headrace's Atari environments: the module `headrace_atari._atari`.

It contains the Arcade Learning Environment, which is under the GNU General Public License, version 2; Headrace itself
is under the MIT licence.
"""

__version__ = "0.2.0"

"""A policy in C99: one file of functions and constants, and its header.

Nothing is allocated, and nothing is called but functions of ``math.h``. Numbers that a step needs in between are in a
struct that the caller keeps, so that several policies, or threads, do not disturb each other. Constants are written in
hexadecimal, which is exact, and which a compiler reads faster than decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.train.play.export.layers import Layer
from headrace.train.play.export.network import Network

ACROSS = 8  # numbers in a line


@dataclass(frozen=True)
class Program:
    """A policy as C, and what it takes of a computer.

    Attributes:
        source, header: the contents of both files.
        weights, scratch: bytes of its constants, and of the struct that the caller keeps.
        multiply_adds: products that are added in one step.
    """

    source: str
    header: str
    weights: int
    scratch: int
    multiply_adds: int


def program_of(network: Network, stem: str, told: Sequence[str] = ()) -> Program:
    """Returns a network as a program.

    Args:
        stem: the name of both files without their ends, which is what all their names begin with.
        told: lines of text for the header's first comment.
    """
    prefix = identifier(stem)
    scratch = _scratch(network.layers)
    header, source = _header(network, stem, prefix, scratch, told), _source(network, stem, prefix)
    return Program(source, header, network.weights, 4 * sum(scratch.values()), network.multiply_adds)


def identifier(stem: str) -> str:
    """Returns a file's name without its end as the beginning of names in C."""
    name = re.sub(r"\W", "_", stem, flags=re.ASCII).strip("_").lower()
    return name if name[:1].isalpha() else f"policy_{name}".rstrip("_")


def comment(lines: Iterable[str]) -> str:
    """Returns a comment of C of some lines, in which nothing can end it or begin another one."""
    safe = []
    for line in lines:
        shown = "".join(char if char.isprintable() and char != "\\" else "?" for char in line)
        safe.append(re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", shown))
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in safe), " */"])


def literal(number: float, end: str = "f") -> str:
    """Returns a finite or infinite number as a constant of C, exactly."""
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    mantissa, power = float(number).hex().split("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}p{int(power)}{end}"


def _table(name: str, values: np.ndarray) -> str:
    kind, end = ("double", "") if values.dtype == np.float64 else ("float", "f")
    numbers = [literal(number, end) for number in values.ravel().tolist()]
    lines = ",\n".join("    " + ", ".join(numbers[i : i + ACROSS]) for i in range(0, len(numbers), ACROSS))
    return f"static const {kind} {name}[{len(numbers)}] = {{\n{lines}\n}};\n"


def _places(layers: Sequence[Layer]) -> list[str]:
    """Returns for each layer the array of the struct that it writes to, ``a`` or ``b``."""
    places, now = [], ""
    for layer in layers:
        if not (layer.in_place and now):
            now = "b" if now == "a" else "a"
        places.append(now)
    return places


def _scratch(layers: Sequence[Layer]) -> dict[str, int]:
    """Returns the arrays of the struct, each with its number of floats."""
    found = {"memory": sum(layer.outputs for layer in layers if layer.remembers), "a": 0, "b": 0}
    for layer, place in zip(layers, _places(layers), strict=True):
        found[place] = max(found[place], layer.outputs)
    return {name: size for name, size in found.items() if size}


def _observation(network: Network) -> str:
    if network.source == "int32_t":
        return "int32_t observation"
    return f"const {network.source} observation[{network.inputs}]"


def _act(network: Network, prefix: str) -> str:
    choice = network.choice
    mask = f", const int8_t mask[{choice.outputs}]" if choice.masked else ""
    seen = f"{prefix}_state *state, {_observation(network)}{mask}"
    if choice.single:
        return f"int32_t {prefix}_act({seen})"
    return f"void {prefix}_act({seen}, {choice.kind} action[{network.choice.actions}])"


def _header(network: Network, stem: str, prefix: str, scratch: dict[str, int], told: Sequence[str]) -> str:
    guard = f"{prefix.upper()}_H"
    meaning = {"memory": "what the policy remembers: zeros before the first step of an episode"}
    arrays = [
        f"    float {name}[{size}];" + (f" /* {meaning[name]} */" if name in meaning else "")
        for name, size in scratch.items()
    ]
    return f"""{comment(told)}
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {prefix.upper()}_OBSERVATION_SIZE {network.inputs}
#define {prefix.upper()}_ACTION_SIZE {network.choice.actions}
#define {prefix.upper()}_OUTPUT_SIZE {network.choice.outputs}

/* What one policy at work needs: the caller keeps it, where it likes. */
typedef struct {{
{chr(10).join(arrays)}
}} {prefix}_state;

/* Begins an episode. */
void {prefix}_reset({prefix}_state *state);

/* Returns the action for an observation, in the environment's units. */
{_act(network, prefix)};

/* Returns {network.choice.words}; they are within state until the next call.
   It is a step as well, so call either this or {prefix}_act. */
const float *{prefix}_outputs({prefix}_state *state, {_observation(network)});

#ifdef __cplusplus
}}
#endif

#endif
"""


def _source(network: Network, stem: str, prefix: str) -> str:
    tables, calls, now = [], [], "observation"
    for number, (layer, place) in enumerate(zip(network.layers, _places(network.layers), strict=True)):
        names = {each: f"{each}_{number}" for each in layer.tables}
        tables += [_table(names[each], values) for each, values in layer.tables.items()]
        calls.append("    " + layer.call(names.__getitem__, now, f"state->{place}"))
        now = f"state->{place}"
    tables += [_table(f"action_{each}", values) for each, values in network.choice.tables.items()]
    functions = dict.fromkeys(text for each in (*network.layers, network.choice) for text in each.functions)
    body = [f"    {line}" for line in network.choice.body("action_{}".format)]
    reset = [f"    for (int i = 0; i < {network.memory}; i++)", "        state->memory[i] = 0.0f;"]
    return "\n".join(
        [
            f'#include "{stem}.h"\n\n#include <math.h>\n',
            *tables,
            *functions,
            f"void {prefix}_reset({prefix}_state *state)\n{{",
            *(reset if network.memory else ["    (void)state; /* this policy remembers nothing */"]),
            "}\n",
            f"const float *{prefix}_outputs({prefix}_state *state, {_observation(network)})\n{{",
            *calls,
            f"    return {now};\n}}\n",
            f"{_act(network, prefix)}\n{{",
            f"    const float *y = {prefix}_outputs(state, observation);",
            *body,
            "}\n",
        ]
    )

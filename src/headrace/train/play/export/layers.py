"""The kinds of layers of a policy in C: each has its weights, its work, and its function in C99.

A network is a list of these (`headrace.train.play.export.network`). What is written of a layer stands in its class, so
a new kind of layer is one class here, and a line there that makes it of a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

Name = Callable[[str], str]
"""a function that returns the name in the file of one of a layer's tables"""

DOT = """\
/* The product of a row of weights and a vector, in eight sums, which is more exact than one. */
static float dot(int count, const float *weight, const float *x)
{
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f, e = 0.0f, f = 0.0f, g = 0.0f, h = 0.0f;
    for (; count >= 8; count -= 8, weight += 8, x += 8) {
        a += weight[0] * x[0];
        b += weight[1] * x[1];
        c += weight[2] * x[2];
        d += weight[3] * x[3];
        e += weight[4] * x[4];
        f += weight[5] * x[5];
        g += weight[6] * x[6];
        h += weight[7] * x[7];
    }
    for (; count > 0; count--)
        a += *weight++ * *x++;
    return ((a + e) + (b + f)) + ((c + g) + (d + h));
}
"""
CLAMP = """\
static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}
"""


@dataclass(frozen=True, eq=False)
class Layer:
    """A step of a network, from one array of numbers to another.

    Attributes:
        inputs, outputs: how many numbers it reads and writes.
        source: the type in C of what it reads, which only a first layer may have other than float.
        in_place: whether it changes its input rather than writing elsewhere.
        remembers: whether it reads and writes the memory of a recurrent network, of which there is one at most.
    """

    inputs: int
    outputs: int
    source: str = field(default="float", kw_only=True)
    in_place: ClassVar[bool] = False
    remembers: ClassVar[bool] = False

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        """Its constants by name: float32 or float64, of any shape."""
        return {}

    @property
    def multiply_adds(self) -> int:
        """Products of weights and inputs that are added."""
        return 0

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of C that it needs, each before those that call it."""
        raise NotImplementedError

    def call(self, name: Name, x: str, y: str) -> str:
        """Returns the statement that computes the outputs ``y`` of the inputs ``x``, two expressions of C."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Standardise(Layer):
    """``(x - mean) * scale``, clipped to ± ``limit`` if there is one; the difference is of the inputs' type.

    Attributes:
        mean: float64 or float32 [n], as the inputs.
        scale: float32 [n].
    """

    mean: np.ndarray
    scale: np.ndarray
    limit: float = np.inf

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        return {"mean": self.mean, "scale": self.scale}

    @property
    def functions(self) -> tuple[str, ...]:
        mean = "double" if self.mean.dtype == np.float64 else "float"
        clipped = bool(np.isfinite(self.limit))
        value = "(float)(x[i] - mean[i]) * scale[i]"
        body = f"clamp({value}, -limit, limit)" if clipped else value
        return (CLAMP,) * clipped + (
            f"""\
static void standardise(int count, const {mean} *mean, const float *scale, {"float limit, " * clipped}\
const {self.source} *x, float *y)
{{
    for (int i = 0; i < count; i++)
        y[i] = {body};
}}
""",
        )

    def call(self, name: Name, x: str, y: str) -> str:
        limit = f"{self.limit:.1f}f, " if np.isfinite(self.limit) else ""
        return f"standardise({self.inputs}, {name('mean')}, {name('scale')}, {limit}{x}, {y});"


@dataclass(frozen=True, eq=False)
class OneHot(Layer):
    """Zeros, and a one in the column of a category, the first of which has the number ``first``."""

    first: int

    @property
    def functions(self) -> tuple[str, ...]:
        return (
            """\
static void one_hot(int count, int32_t category, float *y)
{
    for (int i = 0; i < count; i++)
        y[i] = i == category ? 1.0f : 0.0f;
}
""",
        )

    def call(self, name: Name, x: str, y: str) -> str:
        return f"one_hot({self.outputs}, {x}{f' - ({self.first})' * bool(self.first)}, {y});"


@dataclass(frozen=True, eq=False)
class Dense(Layer):
    """``weight x + bias``, with float32 [outputs, inputs] and [outputs]."""

    weight: np.ndarray
    bias: np.ndarray

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        return {"weight": self.weight, "bias": self.bias}

    @property
    def multiply_adds(self) -> int:
        return self.inputs * self.outputs

    @property
    def functions(self) -> tuple[str, ...]:
        return (
            DOT,
            """\
static void dense(int inputs, int outputs, const float *weight, const float *bias, const float *x, float *y)
{
    for (int i = 0; i < outputs; i++, weight += inputs)
        y[i] = dot(inputs, weight, x) + bias[i];
}
""",
        )

    def call(self, name: Name, x: str, y: str) -> str:
        return f"dense({self.inputs}, {self.outputs}, {name('weight')}, {name('bias')}, {x}, {y});"


@dataclass(frozen=True, eq=False)
class Convolution(Layer):
    """Square filters over the pixels [C, H, W] of an image, without padding; outputs [F, H', W'] are sums.

    Attributes:
        shape: C, H and W.
        weight: float32 [F, C, size, size].
        bias: float32 [F].
    """

    shape: tuple[int, int, int]
    weight: np.ndarray
    bias: np.ndarray
    stride: int

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        return {"weight": self.weight, "bias": self.bias}

    @property
    def multiply_adds(self) -> int:
        return self.outputs * self.weight[0].size

    @property
    def functions(self) -> tuple[str, ...]:
        return (
            f"""\
static void {self._function}(int channels, int height, int width, int filters, int size, int stride,
                        const float *weight, const float *bias, const {self.source} *x, float *y)
{{
    const int rows = (height - size) / stride + 1, columns = (width - size) / stride + 1;
    for (int f = 0; f < filters; f++, weight += channels * size * size)
        for (int row = 0; row < rows; row++)
            for (int column = 0; column < columns; column++) {{
                const float *w = weight;
                float sum = 0.0f;
                for (int c = 0; c < channels; c++)
                    for (int i = 0; i < size; i++) {{
                        const {self.source} *pixel = x + (c * height + row * stride + i) * width + column * stride;
                        float part = 0.0f;
                        for (int j = 0; j < size; j++)
                            part += *w++ * pixel[j];
                        sum += part;
                    }}
                *y++ = sum + bias[f];
            }}
}}
""",
        )

    @property
    def _function(self) -> str:
        return "convolution" if self.source == "float" else "convolution_of_pixels"

    def call(self, name: Name, x: str, y: str) -> str:
        sizes = ", ".join(map(str, (*self.shape, len(self.weight), self.weight.shape[-1], self.stride)))
        return f"{self._function}({sizes}, {name('weight')}, {name('bias')}, {x}, {y});"


@dataclass(frozen=True, eq=False)
class Normalise(Layer):
    """All inputs to mean 0 and variance 1, then ``scale x + shift`` with a pair for each of ``outputs / each`` groups.

    Attributes:
        scale, shift: float32, one for each group: a column, or a channel of an image.
        each: the numbers in a group, side by side.
        epsilon: what is added to the variance.
    """

    scale: np.ndarray
    shift: np.ndarray
    epsilon: float
    each: int = 1
    in_place: ClassVar[bool] = True

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        return {"scale": self.scale, "shift": self.shift}

    @property
    def functions(self) -> tuple[str, ...]:
        return (
            """\
/* Layer normalisation of groups of numbers, each with its scale and shift. */
static void normalise(int groups, int each, float epsilon, const float *scale, const float *shift, float *x)
{
    float sum = 0.0f, squares = 0.0f;
    for (int g = 0; g < groups; g++) {
        float part = 0.0f;
        for (int i = 0; i < each; i++)
            part += x[g * each + i];
        sum += part;
    }
    const float count = (float)groups * (float)each, mean = sum / count;
    for (int g = 0; g < groups; g++) {
        float part = 0.0f;
        for (int i = 0; i < each; i++)
            part += (x[g * each + i] - mean) * (x[g * each + i] - mean);
        squares += part;
    }
    const float factor = 1.0f / sqrtf(squares / count + epsilon);
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < each; i++)
            x[g * each + i] = (x[g * each + i] - mean) * factor * scale[g] + shift[g];
}
""",
        )

    def call(self, name: Name, x: str, y: str) -> str:
        groups = self.outputs // self.each
        return f"normalise({groups}, {self.each}, {self.epsilon!r}f, {name('scale')}, {name('shift')}, {x});"


@dataclass(frozen=True, eq=False)
class Activation(Layer):
    """A rectifier, or a hyperbolic tangent, of each number."""

    relu: bool
    in_place: ClassVar[bool] = True

    @property
    def functions(self) -> tuple[str, ...]:
        name, value = ("relu", "x[i] < 0.0f ? 0.0f : x[i]") if self.relu else ("hyperbolic_tangent", "tanhf(x[i])")
        return (
            f"""\
static void {name}(int count, float *x)
{{
    for (int i = 0; i < count; i++)
        x[i] = {value};
}}
""",
        )

    def call(self, name: Name, x: str, y: str) -> str:
        return f"{'relu' if self.relu else 'hyperbolic_tangent'}({self.inputs}, {x});"


@dataclass(frozen=True, eq=False)
class GatedUnit(Layer):
    """A gated recurrent unit, whose outputs are its memory after the step (Cho et al. 2014, arXiv:1406.1078).

    ``r = σ(Wr x + br + Ur h + cr)``, ``z`` likewise, ``n = tanh(Wn x + bn + r (Un h + cn))``, and the new memory is
    ``(1 - z) n + z h``. The gates r, z and n follow each other, as in torch.

    Attributes:
        weight, bias: W and b, float32 [3·H, D] and [3·H].
        again, shift: U and c, float32 [3·H, H] and [3·H].
    """

    weight: np.ndarray
    bias: np.ndarray
    again: np.ndarray
    shift: np.ndarray
    remembers: ClassVar[bool] = True

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        return {"weight": self.weight, "bias": self.bias, "again": self.again, "shift": self.shift}

    @property
    def multiply_adds(self) -> int:
        return 3 * self.outputs * (self.inputs + self.outputs)

    @property
    def functions(self) -> tuple[str, ...]:
        return (
            DOT,
            """\
static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}
""",
            """\
/* A gated recurrent unit: the memory changes to that of the next step, which y is, too. */
static void gated_unit(int inputs, int size, const float *weight, const float *bias, const float *again,
                       const float *shift, const float *x, float *memory, float *y)
{
    for (int i = 0; i < size; i++) {
        const int r = i, z = i + size, n = i + 2 * size;
        const float reset = sigmoid(dot(inputs, weight + r * inputs, x) + bias[r]
                                    + dot(size, again + r * size, memory) + shift[r]);
        const float keep = sigmoid(dot(inputs, weight + z * inputs, x) + bias[z]
                                   + dot(size, again + z * size, memory) + shift[z]);
        const float fresh = tanhf(dot(inputs, weight + n * inputs, x) + bias[n]
                                  + reset * (dot(size, again + n * size, memory) + shift[n]));
        y[i] = fresh + keep * (memory[i] - fresh);
    }
    for (int i = 0; i < size; i++)
        memory[i] = y[i];
}
""",
        )

    def call(self, name: Name, x: str, y: str) -> str:
        tables = ", ".join(name(table) for table in self.tables)
        return f"gated_unit({self.inputs}, {self.outputs}, {tables}, {x}, state->memory, {y});"

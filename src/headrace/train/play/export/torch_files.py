"""A policy as an ONNX file, or as TorchScript, of PyTorch's own exporters."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.train.modules.cnn import PlainTrunk
from headrace.train.modules.normed import NormedTrunk
from headrace.train.modules.policy_module import PolicyModule
from headrace.train.runs.files import writing

METADATA = "headrace"
"""name of the metadata entry of an ONNX file, or the extra file of a TorchScript file, that describes it in JSON"""


class Deployed(nn.Module):
    """The module that is exported: observations, memory and masks to actions, parameters, values and memory.

    Args:
        valued: whether there are values: a critic that sees more than the actor has none.
    """

    def __init__(self, module: PolicyModule, action_dtype: torch.dtype, valued: bool):
        super().__init__()
        self.policy, self.dtype, self.valued = module, action_dtype, valued

    def forward(self, observation: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Returns actions [B, …], parameters [B, size], perhaps values [B] and memory [B, H], of inputs [B, …]."""
        rest = list(more)
        memory = rest.pop(0) if self.policy.memory_size else None
        params, values, *after = self.policy(observation, memory, rest.pop(0) if rest else None)
        distribution = self.policy.distribution
        chosen = distribution.to_env(distribution.mode(params)).to(self.dtype)
        return chosen, params, *((values,) if self.valued else ()), *after


def write_script(path: Path, deployed: Deployed, examples: tuple[Tensor, ...], facts: dict[str, Any]) -> None:
    """Writes TorchScript with some facts; raises `OptionError` for a network that torch cannot trace."""
    try:
        script = torch.jit.trace(deployed, examples, check_trace=False)
    except Exception as error:  # a user's network may raise anything
        raise OptionError(f"the network cannot be traced: {error}") from error
    with writing(path):
        torch.jit.save(script, str(path), _extra_files={f"{METADATA}.json": json.dumps(facts, indent=2)})


def write_onnx(path: Path, deployed: Deployed, examples: tuple[Tensor, ...], facts: dict[str, Any]) -> None:
    """Writes an ONNX file with some facts; raises `OptionError` if the network, or this machine, has no form for it."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise OptionError(f"ONNX files need {error.name}: pip install 'headrace[export]'") from error
    batch = torch.export.Dim("batch")
    rows = [{0: batch} for _ in examples]
    try:
        program = torch.onnx.export(
            deployed,
            examples,
            input_names=[array["name"] for array in facts["inputs"]],
            output_names=[array["name"] for array in facts["outputs"]],
            dynamic_shapes=(rows[0], tuple(rows[1:]))[: len(rows)],
            dynamo=True,
            verbose=False,
        )
    except Exception as error:  # a user's network may raise anything
        before: BaseException | None = error
        while before := before.__cause__ or before.__context__:
            if isinstance(before, KeyboardInterrupt):  # torch replaces it while its modules are being imported
                raise before from None
        words = str(error.__cause__ or error).strip().partition("\n")[0]
        raise OptionError(f"the network cannot be exported to ONNX: {words}") from error
    assert program is not None
    program.model.metadata_props[METADATA] = json.dumps(facts)
    with writing(path):
        program.save(str(path), external_data=False)


def session(path: Path) -> Any:
    """Returns a function that runs the file in onnxruntime; None if onnxruntime is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    found = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in found.get_inputs()]

    def run(*tensors: Tensor) -> list[Tensor]:
        given = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
        return [torch.from_numpy(np.asarray(answer)) for answer in found.run(None, given)]

    return run


def compare(exported: Any, deployed: Deployed, examples: tuple[Tensor, ...]) -> float:
    """Returns the largest difference between outputs, relative where they exceed 1.

    Actions are compared with the mode of the exported parameters, so that ties between actions make no difference.
    """
    found, own = exported(*examples), deployed(*examples)
    worst = 0.0
    for theirs, ours in zip(found[1:], own[1:], strict=True):
        theirs, ours = theirs.double(), ours.double()
        worst = max(worst, float(((theirs - ours).abs() / ours.abs().clamp(min=1.0)).max()))
    distribution = deployed.policy.distribution
    chosen = distribution.to_env(distribution.mode(found[1])).double()
    return max(worst, float((found[0].double() - chosen).abs().max()))


@contextmanager
def exporting(module: nn.Module) -> Iterator[None]:
    """Computes products in torch's float32, as files do also for runs with ``bf16``; hides the exporters' warnings."""
    trunks = [part for part in module.modules() if isinstance(part, PlainTrunk | NormedTrunk)]
    dtypes, logger = [trunk.dtype for trunk in trunks], logging.getLogger("torch.onnx")
    level = logger.level
    compiled = {part: part.compiled for part in module.modules() if getattr(part, "compiled", None) is not None}
    try:
        for part in compiled:
            part.compiled = None  # type: ignore[assignment]
        for trunk in trunks:
            trunk.dtype = torch.float32
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        for trunk, dtype in zip(trunks, dtypes, strict=True):
            trunk.dtype = dtype
        for part, form in compiled.items():
            part.compiled = form

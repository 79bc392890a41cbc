"""Export of a trained policy to a file that runs without Headrace: ONNX, or TorchScript.

The exported policy takes observations as environments return them, and returns actions as environments take them. It
includes the encoding and normalisation of observations and the conversion of actions. The metadata describe its inputs
and outputs.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headrace.errors import OptionError
from headrace.pool.flat_observation import Joined
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import MASK
from headrace.train.modules.cnn import PlainTrunk
from headrace.train.modules.layers import FullPrecision
from headrace.train.modules.normed import NormedTrunk
from headrace.train.modules.policy_module import PolicyModule
from headrace.train.play.agent import Agent
from headrace.train.runs.files import writing
from headrace.version import __version__

METADATA = "headrace"
"""name of the metadata entry of an ONNX file, or the extra file of a TorchScript file, that describes it in JSON"""
KINDS = (".onnx", ".pt")
CLOSE = 1e-5
ROWS = 7  # rows of the observations with which a file is compared with the agent


@dataclass(frozen=True)
class Array:
    """An input or output of an exported policy.

    Attributes:
        shape: shape of one row; arrays have one more dimension in front, of any length.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str


@dataclass(frozen=True)
class Exported:
    """An exported policy.

    Attributes:
        difference: the largest difference between its outputs in onnxruntime and those of the agent; None if they were
            not compared, as onnxruntime is not installed.
    """

    path: Path
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    difference: float | None


class _Deployed(nn.Module):
    """The module that is exported: observations, memory and masks to actions, parameters, values and memory.

    Args:
        valued: whether there are values: a critic that sees more than the actor has none.
    """

    def __init__(self, module: PolicyModule, action_dtype: torch.dtype, valued: bool):
        super().__init__()
        self.policy, self.dtype, self.valued = module, action_dtype, valued

    def forward(self, observation: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        rest = list(more)
        memory = rest.pop(0) if self.policy.memory_size else None
        params, values, *after = self.policy(observation, memory, rest.pop(0) if rest else None)
        distribution = self.policy.distribution
        chosen = distribution.to_env(distribution.mode(params)).to(self.dtype)
        return chosen, params, *((values,) if self.valued else ()), *after


def export_policy(agent: Agent, path: str | Path, policy: str | None = None) -> Exported:
    """Writes a policy of an agent to ``path``, as ONNX (``.onnx``) or TorchScript (``.pt``).

    The exported policy chooses the most likely actions. An ONNX file is compared with the agent where onnxruntime is
    installed.

    Args:
        agent: the agent, from `headrace.load`.
        policy: name of one of several policies; each row of the inputs then belongs to one of its agents.

    Raises:
        OptionError: there is no such policy, or there are several and none is named; the file has another suffix; a
            package for exports is not installed; or a user's network cannot be exported.
        StorageError: the file cannot be written.
        ArithmeticError: the outputs of the file differ from those of the agent by more than 1e-5.
    """
    path = Path(path)
    if path.suffix not in KINDS:
        raise OptionError(f"{path}: a policy is exported to a file whose name ends in {' or '.join(KINDS)}")
    if policy is None and len(agent.policies) > 1:
        names = ", ".join(each.name for each in agent.policies)
        raise OptionError(f"the run has several policies, each of which is a file: name one of {names}")
    module = agent.policy if policy is None else agent.policy_named(policy)
    (played,) = (each for each in agent.policies if each.module is module)
    inputs, outputs = _arrays(played)
    facts = {
        "headrace": __version__,
        "task": agent.spec.task,
        "env_options": json.loads(json.dumps(agent.config.env_options, default=str)),
        "algo": played.config.algo,
        "policy": played.name,
        "observation_space": str(played.agent_group.acting),
        "action_space": str(played.agent_group.action),
        "inputs": [asdict(array) | {"shape": ["batch", *array.shape]} for array in inputs],
        "outputs": [asdict(array) | {"shape": ["batch", *array.shape]} for array in outputs],
    }
    deployed = _Deployed(module, getattr(torch, outputs[0].dtype), not played.agent_group.critic).eval()
    examples = _examples(played, inputs, 2)
    with _exporting(module), FullPrecision(), torch.no_grad():
        if path.suffix == ".pt":
            _write_script(path, deployed, examples, facts)
            exported = torch.jit.load(str(path))
        else:
            _write_onnx(path, deployed, examples, facts)
            exported = _session(path)
        difference = None if exported is None else _compare(exported, deployed, _examples(played, inputs, ROWS))
    if difference is not None and not difference <= CLOSE:
        path.unlink()
        raise ArithmeticError(f"{path} would answer otherwise than the agent, by {difference:.3g}: it was removed")
    return Exported(path, inputs, outputs, difference)


def _arrays(played: Policy) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    group, module = played.agent_group, played.module
    seen, done = group.acting, group.action
    memory = (module.memory_size,) if module.memory_size else None
    given = f"in one row: {seen.words()}" if isinstance(seen, Joined) else "as the environment gives it"
    inputs = [Array("observation", str(np.dtype(seen.dtype)), tuple(seen.shape or ()), given)]
    if memory:
        inputs.append(Array("memory", "float32", memory, "zeros at the start of an episode"))
    if module.heads:
        inputs.append(Array(MASK, "int8", (sum(module.heads),), f"info[{MASK!r}]; 0 for forbidden actions"))
    size = module.distribution.size
    outputs = [
        Array("action", str(np.dtype(done.dtype)), tuple(done.shape or ()), "the most likely, for env.step"),
        Array("parameters", "float32", (size,), "logits or values of actions; or means, and log standard deviations"),
    ]
    if not group.critic:
        outputs.append(Array("value", "float32", (), "what the policy expects to earn, discounted"))
    if memory:
        outputs.append(Array("next_memory", "float32", memory, "the memory of the next step"))
    return tuple(inputs), tuple(outputs)


def _examples(played: Policy, inputs: tuple[Array, ...], rows: int) -> tuple[Tensor, ...]:
    """Returns example inputs with ``rows`` rows, of the spaces' shapes and dtypes."""
    space = played.agent_group.acting
    space.seed(rows)
    generator = torch.Generator().manual_seed(rows)
    found = []
    for array in inputs:
        if array.name == "observation":
            found.append(torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)])))
        elif array.name == MASK:
            allowed = torch.rand(rows, *array.shape, generator=generator) < 0.7
            found.append(allowed.to(torch.int8))
        else:
            found.append(torch.randn(rows, *array.shape, generator=generator).tanh())
    return tuple(found)


def _write_script(path: Path, deployed: _Deployed, examples: tuple[Tensor, ...], facts: dict[str, Any]) -> None:
    try:
        script = torch.jit.trace(deployed, examples, check_trace=False)
    except Exception as error:  # a user's network may raise anything
        raise OptionError(f"the network cannot be traced: {error}") from error
    with writing(path):
        torch.jit.save(script, str(path), _extra_files={f"{METADATA}.json": json.dumps(facts, indent=2)})


def _write_onnx(path: Path, deployed: _Deployed, examples: tuple[Tensor, ...], facts: dict[str, Any]) -> None:
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


def _session(path: Path) -> Any:
    """Returns a function that runs the file in onnxruntime; None if onnxruntime is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(*tensors: Tensor) -> list[Tensor]:
        given = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
        return [torch.from_numpy(np.asarray(found)) for found in session.run(None, given)]

    return run


def _compare(exported: Any, deployed: _Deployed, examples: tuple[Tensor, ...]) -> float:
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
def _exporting(module: nn.Module) -> Iterator[None]:
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

"""Export of a trained policy to a file that runs without Headrace: ONNX, TorchScript or C, with a contract beside it.

The exported policy takes observations as environments return them, and returns actions as environments take them. It
includes the encoding and normalisation of observations and the conversion of actions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from headrace.errors import OptionError
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import MASK
from headrace.train.modules.layers import FullPrecision
from headrace.train.play.agent import Agent
from headrace.train.play.export.arrays import Array, arrays_of, examples
from headrace.train.play.export.c import Program, program_of
from headrace.train.play.export.compiled import compiled, difference_of
from headrace.train.play.export.contract import Facts, check_beside, contract_of, contract_path, write_contract
from headrace.train.play.export.network import Network, network_of
from headrace.train.play.export.told import told_of
from headrace.train.play.export.torch_files import Deployed, compare, exporting, session, write_onnx, write_script
from headrace.train.runs import files

C, SCRIPT, ONNX = ".c", ".pt", ".onnx"
KINDS = (ONNX, C, SCRIPT)
CLOSE = 1e-5
ROWS = 7  # rows of the observations with which a file is compared with the agent
NAME = re.compile(r"[\w.+-]+", re.ASCII)


@dataclass(frozen=True)
class Exported:
    """An exported policy.

    Attributes:
        difference: the largest difference between its outputs and those of the agent, relative where they exceed 1;
            None if they were not compared.
        checked: what they were compared in; or why they were not compared.
        contract: the path of the contract.
        program: the policy as C, and its sizes; None for other files.
    """

    path: Path
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    difference: float | None
    checked: str
    contract: Path
    program: Program | None = None


def export_policy(agent: Agent, path: str | Path, policy: str | None = None) -> Exported:
    """Writes a policy of an agent to ``path``: as ONNX (``.onnx``), C99 (``.c``) or TorchScript (``.pt``).

    The exported policy chooses the most likely actions. Beside the file its contract is written, of the same name with
    the end ``.json``; beside C a header with the end ``.h``. An ONNX file is compared with the agent where onnxruntime
    is installed, a C file where there is a compiler.

    Args:
        agent: the agent, from `headrace.load`.
        policy: name of one of several policies; each row of the inputs then belongs to one of its agents.

    Raises:
        OptionError: there is no such policy, or there are several and none is named; the file has another suffix; a
            package for exports is not installed; a user's network cannot be exported, or the network has no form in C;
            a file that is no contract has the contract's name, or the contract is of a file of another policy.
        StorageError: a file cannot be written.
        ArithmeticError: the outputs of the file differ from those of the agent by more than 1e-5.
    """
    path = Path(path)
    check_kind(path)
    if policy is None and len(agent.policies) > 1:
        names = ", ".join(each.name for each in agent.policies)
        raise OptionError(f"the run has several policies, each of which is a file: name one of {names}")
    module = agent.policy if policy is None else agent.policy_named(policy)
    (played,) = (each for each in agent.policies if each.module is module)
    contract_path(path)
    arrays = arrays_of(played)
    contract = contract_of(agent, played, *arrays)
    check_beside(contract, path)
    with exporting(module), FullPrecision(), torch.no_grad():
        done = _as_c(played, path, contract) if path.suffix == C else _by_torch(played, path, contract, arrays)
    if done.difference is not None and not done.difference <= CLOSE:
        for written in _written(done):
            written.unlink()
        raise ArithmeticError(f"{path} would answer otherwise than the agent, by {done.difference:.3g}: it was removed")
    write_contract(contract, _written(done))
    return done


def check_kind(path: Path) -> None:
    """Checks that a policy can be exported to a file of this name.

    Raises:
        OptionError: its suffix is another.
    """
    if path.suffix not in KINDS:
        ends = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise OptionError(f"{path}: a policy is exported to a file whose name ends in {ends}")


def _written(done: Exported) -> dict[Path, Facts]:
    """Returns the files that an export wrote, with what the contract says of each."""
    if (program := done.program) is None:
        return {done.path: {}}
    sizes = {"weights": program.weights, "scratch": program.scratch, "multiply_adds": program.multiply_adds}
    return {done.path: sizes, done.path.with_suffix(".h"): {}}


def _by_torch(
    played: Policy, path: Path, contract: Facts, arrays: tuple[tuple[Array, ...], tuple[Array, ...]]
) -> Exported:
    inputs, outputs = arrays
    deployed = Deployed(played.module, getattr(torch, outputs[0].dtype), not played.agent_group.critic).eval()
    given = examples(played, inputs, 2)
    if path.suffix == SCRIPT:
        write_script(path, deployed, given, contract)
        exported, checked = torch.jit.load(str(path)), "TorchScript"
    else:
        write_onnx(path, deployed, given, contract)
        exported, checked = session(path), "onnxruntime"
    difference = None if exported is None else compare(exported, deployed, examples(played, inputs, ROWS))
    if difference is None:
        checked = "onnxruntime is not installed: pip install 'headrace[export]'"
    return Exported(path, inputs, outputs, difference, checked, contract_path(path))


def _as_c(played: Policy, path: Path, contract: Facts) -> Exported:
    if not NAME.fullmatch(path.stem):
        raise OptionError(f"{path.name}: name a C file with letters, digits, - and _, as its functions have that name")
    network = network_of(played)
    program = program_of(network, path.stem, told_of(contract, network, path.stem))
    files.replace(path.with_suffix(".h"), program.header)
    files.replace(path, program.source)
    inputs, outputs = _in_c(played, network)
    difference: float | None = None
    try:
        run = compiled(path, network, program.scratch)
    except RuntimeError as error:
        checked = str(error)
    else:
        checked = "C, by this machine's compiler"
        difference = difference_of(run, played, network, examples(played, arrays_of(played)[0], ROWS))
    return Exported(path, inputs, outputs, difference, checked, contract_path(path), program)


def _in_c(played: Policy, network: Network) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Returns what the functions in C take and return; memory is in their state."""
    inputs, outputs = arrays_of(played)
    names = {MASK: "int8_t", "observation": network.source}
    taken = tuple(replace(array, dtype=names[array.name]) for array in inputs if array.name in names)
    action = replace(outputs[0], dtype=network.choice.kind)
    logits = replace(outputs[1], name="outputs", shape=(network.choice.outputs,), meaning="logits, values or means")
    return taken, (action, logits)

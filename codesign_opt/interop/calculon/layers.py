"""The operations of one block under the published names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from codesign_opt.analytical.errata import ALL, Erratum
from codesign_opt.analytical.operation_list import operation_list
from codesign_opt.interop.calculon.evaluate import evaluate
from codesign_opt.interop.calculon.read import Source, read_application, read_execution, read_system
from codesign_opt.systems import System
from codesign_opt.workloads import Workload


def layers(
    application: Source | Workload,
    execution: Mapping[str, Any],
    system: Source | System,
    reproduce: Set[Erratum] = ALL,
) -> list[dict[str, Any]]:
    """One dict an operation of a block, in order, with the published keys in the published order.

    An operation that computes without touching memory has infinite arithmetic intensity. In inference the keys of the
    backward pass are filled as well.

    Raises:
        CodesignError: As `evaluate`.
    """
    workload = application if isinstance(application, Workload) else read_application(application)
    machine = system if isinstance(system, System) else read_system(system)
    evaluate(workload, execution, machine, reproduce)
    operations = operation_list(workload, machine, read_execution(execution), reproduce=reproduce)
    return [dict(_published(row)) for row in operations.to_dicts()]


def _published(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "name", row["name"]
    yield "inputs_size", row["inputs"]
    yield "outputs_size", row["outputs"]
    yield from _stage(row, "fw", "forward")
    yield from _exchange(row, "fw_tp_comm", "forward_communication")
    yield from _stage(row, "agrad", "activation_gradient")
    yield from _exchange(row, "bw_tp_comm", "backward_communication")
    yield from _stage(row, "wgrad", "weight_gradient")
    yield from _exchange(row, "recomm", "recompute_communication", exposed="weight_gradient")
    yield from _stage(row, "optim", "optimizer", block="")
    for theirs, ours in _MEMORY.items():
        yield theirs, row[ours]


_MEMORY = {
    "weight": "weight_memory",
    "activation": "activation_memory",
    "weight_grad": "weight_gradient_memory",
    "activation_grad": "activation_gradient_memory",
    "optimizer": "optimizer_memory",
}


def _stage(row: Mapping[str, Any], theirs: str, ours: str, *, block: str = "base_") -> Iterator[tuple[str, Any]]:
    flops, bytes_ = row[f"{ours}_flops"], row[f"{ours}_bytes"]
    yield f"{theirs}_flops", flops
    yield f"{theirs}_mem_accessed", bytes_
    yield f"{theirs}_arithmetic_intensity", _intensity(flops, bytes_)
    yield f"{theirs}_processing_time", row[f"{block}{ours}_time"]


def _intensity(flops: float, bytes_: float) -> float:
    if bytes_:
        return flops / bytes_
    return float("inf") if flops else 0.0


def _exchange(row: Mapping[str, Any], theirs: str, ours: str, *, exposed: str = "") -> Iterator[tuple[str, Any]]:
    """Both blocks; `exposed` names the stage beside which the published list reports what is exposed."""
    blocks = {"baseblock": "base", "edgeblock": "edge"}
    time = f"{theirs}_time"
    for published, block in blocks.items():
        yield f"{published}_{theirs}_tile", row[f"{block}_{ours}_bytes"] / row["tiles"]
    for published, block in blocks.items():
        yield f"{published}_{theirs}_size", row[f"{block}_{ours}_bytes"]
    for published, block in blocks.items():
        yield f"{published}_{time}", row[f"{block}_{ours}_time"]
    for published, block in blocks.items():
        yield f"{published}_{time}_exposed", row[f"{block}_{exposed or ours}_exposed_time"]

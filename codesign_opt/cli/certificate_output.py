"""What people and programs are told about a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.studies.certify import Certificate

_ENDS = {
    "seconds": "the time ran out",
    "evaluations": "the limit of machines was reached",
    "interrupted": "it was interrupted",
}

_STRATEGY = (
    "tp", "pp", "dp", "vpp", "microbatch", "recompute", "tp_communication", "tp_overlap", "optimizer_sharding",
    "dp_overlap", "weight_offload", "activation_offload", "optimizer_offload",
)  # fmt: skip


def certificate_text(certificate: Certificate) -> str:
    """The best machine, the bound and the gap between, and how much work that was."""
    from codesign_opt.objectives import METRICS
    from codesign_opt.reports.values import human
    from codesign_opt.systems.parameters import KINDS

    unit = METRICS[certificate.objective.metric].unit
    better = "below" if certificate.objective.direction == "minimize" else "above"
    bound = f"no machine is {better} {human(certificate.bound, unit)}"
    work = (
        f"{certificate.boxes:,} boxes of machines bounded, {certificate.evaluations:,} machines timed, "
        f"{certificate.searches:,} of them searched whole, {certificate.seconds:.1f} s"
    )
    if certificate.best is None or certificate.candidate is None:
        return f"certificate of {certificate.objective}: nothing feasible found yet; {bound}\n  {work}"
    end = "" if certificate.closed else f"; {_ENDS[certificate.reason]} before more was proven"
    machine = ", ".join(
        f"{name} {human(value, KINDS[name.rpartition('.')[2]].unit if '.' in name else '')}"
        for name, value in certificate.point.items()
    )
    strategy = ", ".join(f"{name} {human(certificate.candidate.strategy[name], '')}" for name in _STRATEGY)
    return "\n".join(
        [
            f"certificate of {certificate.objective}: {human(certificate.best, unit)}, and {bound}: "
            f"proven to {certificate.gap:.2%}{end}",
            f"  {work}",
            f"  machine: {machine}",
            f"  strategy: {strategy}",
        ]
    )


def certificate_document(certificate: Certificate) -> dict[str, Any]:
    """A certificate for programs: SI numbers; a gap of None is unknown."""
    import math

    candidate = certificate.candidate
    return {
        "objective": str(certificate.objective),
        "best": certificate.best,
        "bound": certificate.bound if math.isfinite(certificate.bound) else None,
        "gap": certificate.gap if math.isfinite(certificate.gap) else None,
        "closed": certificate.closed,
        "reason": certificate.reason,
        "point": dict(certificate.point),
        "strategy": None if candidate is None else dict(candidate.strategy),
        "metrics": None if candidate is None else dict(candidate.metrics),
        "evaluations": certificate.evaluations,
        "searches": certificate.searches,
        "boxes": certificate.boxes,
        "seconds": certificate.seconds,
    }

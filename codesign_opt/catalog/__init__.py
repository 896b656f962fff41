"""Shipped workloads, systems and studies, and how a name or a path becomes one of them."""

from codesign_opt.catalog.lookup import (
    describe,
    names,
    resolve_system,
    resolve_workload,
    study_path,
    system_notes,
    text,
    workload_notes,
)

__all__ = [
    "describe",
    "names",
    "resolve_system",
    "resolve_workload",
    "study_path",
    "system_notes",
    "text",
    "workload_notes",
]

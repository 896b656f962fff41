"""The workload that a command line names, with what one should know about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign_opt.workloads import Workload

WHERE = "--workload"


def workload_of(name_or_path: str, sequence_length: str | None = None, *, quiet: bool = False) -> Workload:
    """The workload of a name or file, with another sequence length if one is given; remarks on it go to stderr.

    Raises:
        InputError: For an unknown name, whatever is wrong in the file, and a length that is no number.
    """
    from codesign_opt.catalog import resolve_workload, workload_notes
    from codesign_opt.cli.output import note
    from codesign_opt.cli.values import whole_number

    workload = resolve_workload(name_or_path, where=WHERE)
    if not quiet:
        for remark in workload_notes(name_or_path):
            note(f"{workload.name}: {remark}")
    if sequence_length is None:
        return workload
    return replace(workload, sequence_length=whole_number(sequence_length, "--sequence-length"))


def workload_key(name_or_path: str, sequence_length: str | None, *, quiet: bool = False) -> Any:
    """The same as a study file has it: the name or path itself, or a table where the length is another."""
    from codesign_opt.workloads.files import workload_to_dict

    workload = workload_of(name_or_path, sequence_length, quiet=quiet)
    return name_or_path if sequence_length is None else workload_to_dict(workload)

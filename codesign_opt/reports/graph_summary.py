"""The summary of a program graph as text."""

from __future__ import annotations

from codesign_opt.graphs.summary import GraphSummary
from codesign_opt.reports.text import format_table
from codesign_opt.reports.values import human


def graph_summary_text(summary: GraphSummary, *, width: int | None = None) -> str:
    """What a graph contains: its size, then a table of opcodes, of their classes and of loops.

    Args:
        summary: Of the graph.
        width: Most characters a line of a table may have; unlimited by default.
    """
    whose = "all processors" if summary.processor is None else f"processor {summary.processor}"
    facts = [
        f"graph '{human(summary.name, '')}' of {whose}",
        f"instructions: {summary.instructions}, executed {human(summary.executed, '')} times",
        f"subroutines: {summary.subroutines}, at most {summary.depth} one inside the other",
        f"processors: {len(summary.processors)} in {summary.groups} different communication groups",
        f"longest chain of compute: {human(summary.longest_chain, 's')}",
    ]
    tables = [summary.opcodes, summary.classes, *([summary.loops] if summary.loops.rows else [])]
    return "\n\n".join(["\n".join(facts), *(format_table(table, width=width) for table in tables)])

"""Help of a command with many options: they stand under headings."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class GroupedCommand(TyperCommand):
    """A command whose help shows options under their `rich_help_panel`, in plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write each heading and its options, in the order in which headings first occur."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)

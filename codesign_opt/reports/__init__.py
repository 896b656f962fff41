"""Tables, breakdowns, pages and files: what a user sees of a result, and what other programs read of it."""

from codesign_opt.reports.breakdown import memory_breakdown_text, time_breakdown_text
from codesign_opt.reports.export import FORMATS, export, format_for
from codesign_opt.reports.page import page
from codesign_opt.reports.text import format_table

__all__ = [
    "FORMATS",
    "export",
    "format_for",
    "format_table",
    "memory_breakdown_text",
    "page",
    "time_breakdown_text",
]

"""The machine that a benchmark runs on, in one line."""

from __future__ import annotations

import os
import platform
from datetime import date

import numpy as np


def machine() -> str:
    """Cores, Python, NumPy and the date."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    return f"{cores} cores ({platform.machine()}), {platform.system()}, {versions}, {date.today().isoformat()}"

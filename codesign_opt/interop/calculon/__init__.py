"""The published tool Calculon: its three JSON formats, and its statistics under its own names.

Formats and arithmetic are those of upstream commit caa4b11 (Apache-2.0; SC'23, doi 10.1145/3581784.3607102).
"""

from codesign_opt.analytical.errata import ALL, NONE
from codesign_opt.interop.calculon.evaluate import evaluate, evaluate_many
from codesign_opt.interop.calculon.layers import layers
from codesign_opt.interop.calculon.read import read_application, read_execution, read_system
from codesign_opt.interop.calculon.write import write_application, write_execution, write_system

__all__ = [
    "ALL",
    "NONE",
    "evaluate",
    "evaluate_many",
    "layers",
    "read_application",
    "read_execution",
    "read_system",
    "write_application",
    "write_execution",
    "write_system",
]

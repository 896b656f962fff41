"""What is computed: transformer shapes and the files that describe them."""

from codesign_opt.workloads.transformer import Workload

__all__ = ["Workload"]

"""Memory overheads of calibrated systems: at their priors, which are named.

Only one family of published runs says its peak memory in a way that a fit could use, so that nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping

from codesign_opt.validation.calibration.parameters import MEMORY_PARAMETERS, priors

OVERHEADS: Mapping[str, float] = priors(MEMORY_PARAMETERS)
"""Values of `MEMORY_PARAMETERS`."""

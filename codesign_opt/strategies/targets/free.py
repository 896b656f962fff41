"""No framework: the general rules alone."""

from __future__ import annotations

from codesign_opt.strategies.targets.target import Target

FREE = Target(name="free", version="", rules=())

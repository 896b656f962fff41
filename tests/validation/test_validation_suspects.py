"""What is suspected of a wrong prediction."""

from __future__ import annotations

import numpy as np
import pytest

from codesign_opt.validation import MappedRun, Predictions
from codesign_opt.validation.predict import PARTS
from codesign_opt.validation.suspects import suspected_parts


def test_the_part_that_a_run_has_more_of_than_its_family(mapped: dict[str, MappedRun]) -> None:
    runs = [run for run in mapped.values() if run.run.family == "internevo_a100"][:5]
    parts = {part: np.zeros(5) for part in PARTS}
    parts["forward"] = np.array([3.0, 3.0, 3.0, 3.0, 3.0])
    parts["backward"] = np.array([6.0, 6.0, 6.0, 6.0, 6.0])
    parts["dp_communication"] = np.array([1.0, 1.0, 1.0, 1.0, 3.0])
    seconds = sum(parts.values())
    predictions = Predictions(seconds=seconds, memory=seconds, fits=np.ones(5, dtype=bool), parts=parts)
    suspects, shares = suspected_parts(runs, predictions)
    assert suspects[4] == "dp_communication"
    assert shares[4] == pytest.approx(3 / 12)
    # Its family is what counts: alone in it, nothing sets a run apart.
    assert suspected_parts(runs[4:], predictions.take([4]))[0] == [PARTS[0]]
    assert suspected_parts([], predictions.take([]))[0] == []

"""Which part of a step is suspected where a prediction is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.validation.mapping import MappedRun
from codesign_opt.validation.predict import PARTS, Predictions


def suspected_parts(mapped: Sequence[MappedRun], predictions: Predictions) -> tuple[list[str], NDArray[Any]]:
    """For each run the part of the predicted step that sets it apart from its family, and its share of the step.

    That is the part whose share exceeds the median share in the run's family the most: an error that all runs of a
    family have in common is a matter of calibration, and what a run has more of than others is the first place to look
    for the rest. Predictions must have their parts.
    """
    shares = np.stack([predictions.parts[part] for part in PARTS], axis=1) / predictions.seconds[:, np.newaxis]
    families = np.array([run.run.family for run in mapped], dtype=object)
    excess = np.empty_like(shares)
    for family in dict.fromkeys(families.tolist()):
        index = families == family
        excess[index] = shares[index] - np.median(shares[index], axis=0)
    largest = excess.argmax(axis=1) if len(mapped) else np.empty(0, dtype=np.int64)
    return [PARTS[part] for part in largest], shares[np.arange(len(mapped)), largest]

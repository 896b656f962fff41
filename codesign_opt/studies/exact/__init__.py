"""The exact solver: every strategy of a space covered, the best ones returned."""

from codesign_opt.studies.exact.question import ExactAnswer, ExactQuestion, NearestMiss, question_of
from codesign_opt.studies.exact.solver import solve

__all__ = ["ExactAnswer", "ExactQuestion", "NearestMiss", "question_of", "solve"]

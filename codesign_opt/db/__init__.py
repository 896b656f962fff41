"""The study database: records in, records out.

Importing this package loads SQLAlchemy, so command-line code imports it inside the functions that need it.
"""

from codesign_opt.db.check import CheckReport, CounterMismatch, check
from codesign_opt.db.database import Database, open_database
from codesign_opt.db.migration import upgrade
from codesign_opt.db.records import (
    BatchRecord,
    CandidateRecord,
    EvaluationRecord,
    RefinementRecord,
    StudyRecord,
)

__all__ = [
    "BatchRecord",
    "CandidateRecord",
    "CheckReport",
    "CounterMismatch",
    "Database",
    "EvaluationRecord",
    "RefinementRecord",
    "StudyRecord",
    "check",
    "open_database",
    "upgrade",
]

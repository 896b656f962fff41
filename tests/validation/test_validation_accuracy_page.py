"""docs/accuracy.md is what its script writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_accuracy", DOCS / "make_accuracy.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_page_is_up_to_date(script: ModuleType) -> None:
    assert script.page() == script.PAGE.read_text(encoding="utf-8")

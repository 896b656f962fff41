"""Every erratum is named, read in one place, tested on its own and documented."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import codesign_opt
from codesign_opt.analytical import ALL, NONE, Erratum, parse_errata
from codesign_opt.errors import InputError

PACKAGE = Path(codesign_opt.__file__).parent
MODEL_PAGE = PACKAGE.parent / "docs" / "model.md"


def test_each_member_is_read_in_exactly_one_place() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "errata.py")
    assert Counter(re.findall(r"\bErratum\.(E\w+)", source)) == dict.fromkeys(Erratum.__members__, 1)


def test_each_member_has_a_test_of_its_own() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_errata_*.py"))
    assert [name for name in Erratum.__members__ if f"def test_{name.lower()}_" not in tests] == []


def test_each_member_is_documented() -> None:
    page = MODEL_PAGE.read_text()
    assert [name for name in Erratum.__members__ if f"| {name} |" not in page] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", ALL),
        ("none", NONE),
        ("", NONE),
        ("E2,E7", {Erratum.E2, Erratum.E7}),
        (" e2 , e28 ", {Erratum.E2, Erratum.E28}),
        ("E17", {Erratum.E17A, Erratum.E17B, Erratum.E17C, Erratum.E17D, Erratum.E17E}),
        (["E17a", "E1"], {Erratum.E17A, Erratum.E1}),
    ],
)
def test_sets_of_errata_are_named_in_words(text: str | list[str], expected: frozenset[Erratum]) -> None:
    assert parse_errata(text) == expected


def test_an_unknown_erratum_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(InputError, match=r"--reproduce: unknown erratum 'E19'") as refusal:
        parse_errata("E1,E19", where="--reproduce")
    assert "E18, E22" in str(refusal.value.hint)

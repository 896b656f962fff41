from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import numpy as np
import pytest

from codesign_opt.errors import InputError
from codesign_opt.reports import page
from codesign_opt.tables import Table

EVIL = "<script>alert(1)</script>\"'&"
TABLE = Table(
    {
        "price": [1e6, 2e6, 3e6, 2.5e6],
        "sample_rate": [10.0, 20.0, 30.0, 15.0],
        "energy": [4.0, 3.0, 2.0, 1.0],
        "recompute": ["none", "full", EVIL, "full"],
        "simulated": [np.nan, 0.5, 0.25, 1 / 3],
    },
    {"price": "$", "sample_rate": "samples/s", "energy": "J", "simulated": "s"},
)
MADE = datetime(2026, 11, 30, 9, 5, tzinfo=UTC)


class _Document(HTMLParser):
    """Elements with their attributes, and the text within each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "wbr"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def _page(table: Table = TABLE, axes: tuple[str, ...] = ("price", "sample_rate")) -> str:
    facts = {"workload": EVIL, "seed": 1}
    return page(table, title=f"study {EVIL}", axes=axes, maximize=["sample_rate"], facts=facts, made=MADE)


def test_the_page_shows_title_facts_date_and_every_row() -> None:
    document = _Document(_page())
    assert document.texts["h1"] == [f"study {EVIL}"]
    assert "".join(document.texts["p"]).startswith("4 rows · 2026-11-30 09:05 UTC")
    assert document.texts["dt"] == ["workload", "seed"]
    assert document.texts["dd"] == [EVIL, "1"]
    assert [row["id"] for row in document.all("tr") if row] == ["row-1", "row-2", "row-3", "row-4"]
    assert document.texts["td"][:6] == ["1", "1 M$", "10 samples/s", "4 J", "none", "-"]


def test_cells_sort_by_the_full_value_and_missing_ones_have_none() -> None:
    cells = _Document(_page()).all("td")
    assert len(cells) == 4 * 6
    assert "data-value" not in cells[5]
    assert cells[23]["data-value"] == "0.3333333333333333"
    assert cells[23]["title"] == "0.3333333333333333 s"


def test_names_cannot_become_markup() -> None:
    text = _page(Table({EVIL: [1.0, 2.0], "b": [2.0, 1.0]}), axes=(EVIL, "b"))
    assert "<script>alert" not in text
    document = _Document(text)
    assert len(document.all("script")) == 1
    assert any(EVIL in title for title in document.texts["title"])


def test_only_the_page_s_own_script_may_run() -> None:
    text = _page()
    content = next(found["content"] for found in _Document(text).all("meta") if "http-equiv" in found)
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in content
    assert content.startswith("default-src 'none';")


def test_the_page_loads_nothing() -> None:
    text = _page(axes=("price", "sample_rate", "energy"))
    assert "://" not in text
    assert not re.search(r"@import|url\(|\bsrc=|<link|\bfetch\(|XMLHttpRequest", text)
    targets = [attributes["href"] for _, attributes in _Document(text).elements if "href" in attributes]
    assert targets
    assert all(target.startswith("#row-") for target in targets)


def test_points_link_to_their_rows_and_tell_their_values() -> None:
    document = _Document(_page())
    links = {int(link["data-row"]): link for link in document.all("a")}
    assert {row: link["href"] for row, link in links.items()} == {row: f"#row-{row}" for row in (1, 2, 3, 4)}
    assert {row for row, link in links.items() if "dominated" in link["class"]} == {4}
    assert (
        "row 2\nprice: 2 M$\nsample_rate: 20 samples/s\nenergy: 3 J\nrecompute: full\nsimulated: 500 ms"
        in (document.texts["title"])
    )


@pytest.mark.parametrize(
    ("maximize", "turns"),
    [
        # First move after the left-most point: to the right where x is to be small, up or down where it is to be large.
        ([], "H"),
        (["x"], "V"),
    ],
)
def test_the_front_is_a_step_line_on_the_side_of_what_is_dominated(maximize: list[str], turns: str) -> None:
    falling, rising = [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]
    table = Table({"x": [1.0, 2.0, 3.0], "y": rising if maximize else falling})
    (line,) = _Document(page(table, title="t", axes=["x", "y"], maximize=maximize)).all("path")
    assert re.sub(r"[-\d. ]+", "", line["d"]) == "M" + 2 * (turns + {"H": "V", "V": "H"}[turns])


def test_both_to_be_maximised_keeps_the_rows_that_are_best_at_both() -> None:
    table = Table({"x": [1.0, 2.0, 1.0], "y": [2.0, 1.0, 1.0]})
    document = _Document(page(table, title="t", axes=["x", "y"], maximize=["x", "y"]))
    assert [link["data-row"] for link in document.all("a") if "dominated" in link["class"]] == ["3"]


def test_three_objectives_give_three_plots_and_a_chooser() -> None:
    document = _Document(_page(axes=("price", "sample_rate", "energy")))
    assert document.texts["option"] == ["sample_rate over price", "energy over price", "energy over sample_rate"]
    assert len(document.all("svg")) == 3
    assert _Document(_page()).all("select") == []


def test_rows_without_a_value_are_not_drawn_but_told() -> None:
    text = _page(axes=("price", "simulated"))
    assert "Not shown: 1 row without a value on both axes." in text
    assert len(_Document(text).all("a")) == 3
    nothing = Table({"x": [np.nan], "y": [1.0]})
    assert "No row has a value on both axes." in page(nothing, title="t", axes=["x", "y"])


@pytest.mark.parametrize(
    ("x", "y"),
    [([5.0], [3.0]), ([5.0, 5.0], [3.0, 3.0]), ([0.0, 0.0], [0.0, 1.0]), ([1e-6, 1e6], [0.0, 1e12]), ([1, 2], [3, 4])],
)
def test_points_lie_within_the_drawing(x: list[float], y: list[float]) -> None:
    document = _Document(page(Table({"x": x, "y": y}, {"x": "s", "y": "B"}), title="t", axes=["x", "y"]))
    _, _, width, height = map(float, document.all("svg")[0]["viewbox"].split())
    circles = document.all("circle")
    assert len(circles) == len(x)
    for circle in circles:
        assert 0 < float(circle["cx"]) < width
        assert 0 < float(circle["cy"]) < height


def test_tables_without_rows_and_studies_with_one_objective_have_no_plot() -> None:
    empty = _page(Table({"price": np.array([]), "sample_rate": np.array([])}))
    assert "The table has no rows." in empty
    assert "<svg" not in empty
    assert "<svg" not in _page(axes=("price",))


def test_words_cannot_be_plotted() -> None:
    with pytest.raises(InputError, match="column 'recompute' cannot be plotted"):
        _page(axes=("price", "recompute"))
    with pytest.raises(InputError, match=r"no column 'prise' \(did you mean 'price'"):
        _page(axes=("prise", "energy"))

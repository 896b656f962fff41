"""Predicted over measured times as a drawing."""

from __future__ import annotations

from xml.etree import ElementTree

from codesign_opt.reports import page
from codesign_opt.reports.accuracy_plot import accuracy_plot
from codesign_opt.tables import Table

SVG = Table(
    {
        "row_id": ["one-1", "one-2", "<two>"],
        "family": ["one", "one", "two & more"],
        "measured": [1.0, 10.0, 1000.0],
        "predicted": [1.0, 11.0, 500.0],
    },
    {"measured": "s", "predicted": "s"},
)


def circles(drawing: str) -> list[ElementTree.Element]:
    return [link[0] for link in ElementTree.fromstring(drawing).iter("a")]


def test_a_point_for_each_row_and_a_right_one_on_the_diagonal() -> None:
    drawing = accuracy_plot(SVG)
    points = circles(drawing)
    assert len(points) == 3
    line = ElementTree.fromstring(drawing).find("path")
    assert line is not None
    start, end = line.attrib["d"][1:].split("L")
    (x0, y0), (x1, y1) = (tuple(map(float, place.split())) for place in (start, end))
    # The first path is where predicted and measured are the same.
    x, y = float(points[0].attrib["cx"]), float(points[0].attrib["cy"])
    assert abs((y - y0) * (x1 - x0) - (x - x0) * (y1 - y0)) < 0.3 * (x1 - x0)
    # Predictions that are too short lie below it: further down in a drawing.
    x, y = float(points[2].attrib["cx"]), float(points[2].attrib["cy"])
    assert (y - y0) * (x1 - x0) > (x - x0) * (y1 - y0)


def test_points_say_what_they_are_and_lead_to_their_row() -> None:
    root = ElementTree.fromstring(accuracy_plot(SVG))
    links = list(root.iter("a"))
    assert [link.attrib["href"] for link in links] == ["#row-1", "#row-2", "#row-3"]
    assert [link[0][0].text for link in links] == [
        "one-1: measured 1 s, predicted 1 s (+0.0%)",
        "one-2: measured 10 s, predicted 11 s (+10.0%)",
        "<two>: measured 1000 s, predicted 500 s (-50.0%)",
    ]
    colours = [link[0].attrib["fill"] for link in links]
    assert colours[0] == colours[1] != colours[2]
    texts = [element.text for element in root.iter("text")]
    assert "one (2)" in texts
    assert "two & more (1)" in texts


def test_without_rows_there_is_a_note() -> None:
    empty = SVG.take([])
    assert accuracy_plot(empty) == '<p class="note">No row has a measured and a predicted time.</p>'


def test_the_page_shows_it_beside_the_table() -> None:
    text = page(SVG, title="Accuracy", axes=(), drawings=[accuracy_plot(SVG)])
    assert text.index("<figure>") < text.index("<table>")
    assert text.count('id="row-') == 3

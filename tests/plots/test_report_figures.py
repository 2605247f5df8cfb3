"""The figures of pages: marks lie where their numbers are, read back from the SVG."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from calibrant.confidence import wilson_interval
from calibrant.decisions import decision_curve
from calibrant.deployment.monitoring.history import Record
from calibrant.metrics import corp_curve, murphy_diagram, reliability_table
from calibrant.metrics.result_types import UNIT, Estimate, ScoreAxis
from calibrant.plots import report_figures as figures
from calibrant.plots.svg import AFTER, BEFORE, INK
from calibrant.plots.svg_reliability import LEFT, SIDE, TOP, Square, banded, binary_curve, panel, reliability

RNG = np.random.default_rng(0)
P = RNG.random(200)
Y = (RNG.random(200) < P).astype(int)


class Drawing:
    """The elements of a figure by their kind, with numbers as numbers."""

    def __init__(self, svg: str) -> None:
        root = ElementTree.fromstring(svg)
        self.size = tuple(map(float, root.attrib["viewBox"].split()[2:]))
        self.elements = [(node.tag.rpartition("}")[2], node.attrib, node.text or "") for node in root]

    def all(self, kind: str, **wanted: str) -> list[dict[str, Any]]:
        return [
            {
                key: float(value) if value.replace(".", "").lstrip("-").isdigit() else value
                for key, value in have.items()
            }
            for tag, have, _ in self.elements
            if tag == kind and wanted.items() <= have.items()
        ]

    def words(self) -> dict[str, tuple[float, float]]:
        return {
            text: (float(have["x"]), float(have["y"])) for tag, have, text in self.elements if tag == "text" and text
        }


def points(path: dict[str, Any]) -> np.ndarray:
    return np.array([[float(part) for part in pair.split()] for pair in path["d"].strip("MZ").split("L")])


def estimate(value: float, error: float) -> Estimate:
    return Estimate(value, value - error, value + error, 0.95)


def test_gains_of_methods() -> None:
    gains = {
        "ts": estimate(0.04, 0.02),
        "none": estimate(0.0, 0.0),
        "bad": estimate(-0.02, 0.01),
        "far": estimate(-9, 1),
    }
    drawn = Drawing(figures.method_gains(gains, "ts"))
    words = drawn.words()
    zero = drawn.all("line", **{"stroke-dasharray": "3 3"})[0]["x1"]
    (ts, none), (bad,) = drawn.all("circle"), drawn.all("rect")
    assert (ts["fill"], none["fill"], bad["fill"]) == (AFTER, INK, BEFORE)
    assert none["cx"] == zero
    # Marks lie on one scale, that of the ticks below.
    scale = (ts["cx"] - zero) / 0.04
    assert (bad["x"] + 4.5 - zero) / -0.02 == pytest.approx(scale, rel=0.01)
    intervals = drawn.all("line", **{"stroke-opacity": "0.45"})
    ends = zero + scale * np.array([[0.02, 0.06], [0.0, 0.0], [-0.03, -0.01]])
    np.testing.assert_allclose([[one["x1"], one["x2"]] for one in intervals], ends, atol=0.02)
    assert words["+0.050"][0] == pytest.approx(zero + 0.05 * scale, abs=0.02)
    # One that is hopeless is told, not drawn, and squeezes nothing.
    assert words["← −9.0000"][0] < zero
    assert [words[name][1] - 4 for name in ("ts", "none")] == pytest.approx([ts["cy"], none["cy"]])
    bold = [have["font-weight"] for _, have, text in drawn.elements if text == "ts"]
    assert bold == ["bold"]
    assert drawn.size[0] > max(interval["x2"] for interval in intervals)


def test_parts_of_a_loss_are_a_bar_of_their_shares() -> None:
    kept, lost = Drawing(figures.parts_bar("Log loss", 0.4, 0.1, 0.3)).all("rect")
    assert (kept["width"], lost["width"], lost["x"]) == (270.0, 90.0, 270.0)
    kept, lost = Drawing(figures.parts_bar("Log loss", 0.4, -0.1, 0.5)).all("rect")
    assert (kept["width"], lost["width"]) == (360.0, 0.0)


def test_cells_of_a_matrix_have_their_numbers_and_colours() -> None:
    drawn = Drawing(figures.correction_matrix(np.array([[0.0, -0.5], [1.0, 0.25]]), ["a", "b"]))
    cells = drawn.all("rect")
    assert [cell["fill"] for cell in cells] == ["#ffffff", "#eaae80", "#0072b2", "#bfdcec"]
    words = drawn.words()
    for text, cell in zip(("0.00", "−0.50", "1.00", "0.25"), cells):
        assert words[text] == (cell["x"] + cell["width"] / 2, cell["y"] + cell["height"] / 2 + 3.5)
    inks = {text: have["style"] for tag, have, text in drawn.elements if tag == "text" and "style" in have}
    assert (inks["1.00"], inks["0.25"]) == ("fill:#fff", "fill:#1f2933")
    assert cells[2]["y"] - cells[0]["y"] == cells[1]["x"] - cells[0]["x"] == cells[0]["width"]
    assert drawn.size[0] >= cells[1]["x"] + cells[1]["width"]


def record(name: str, **given: Any) -> Record:
    plain: dict[str, Any] = dict.fromkeys(Record.__dataclass_fields__) | {"first": name, "last": name, "rows": 100}
    return Record(
        **{
            **plain,
            "log_evidence": 0.0,
            "expected_accuracy": 0.8,
            "labelled": 100,
            "labelled_observations": 100.0,
            **given,
        }
    )


def test_evidence_is_a_line_in_powers_of_ten_and_the_alarm_another() -> None:
    records = [record("a", log_evidence=np.log(10.0)), record("b", labelled=300, log_evidence=np.log(1000.0))]
    drawn = Drawing(figures.evidence(records, 0.01))
    (line,) = (points(path) for path in drawn.all("path"))
    words = drawn.words()
    # The axis ends half a power of ten above the highest point, and begins at a tenth.
    step = 180 / 4.5
    np.testing.assert_allclose(line[:, 1], [194 - step, 194 - 2 * step, 194 - 4 * step], atol=0.01)
    np.testing.assert_allclose(line[:, 0], [56, 56 + 380 / 4, 56 + 380], atol=0.01)
    (alarm,) = drawn.all("line", **{"stroke-dasharray": "5 4"})
    assert alarm["y1"] == alarm["y2"] == pytest.approx(194 - 3 * step, abs=0.01)
    assert "alarm at 100" in words
    assert words["10³"][1] == pytest.approx(194 - 4 * step + 4, abs=0.01)
    assert [words[text][0] for text in ("0", "200", "400")] == [56, 246, 436]
    assert [text for text in words if text.startswith("10") and len(text) < 5] == [
        "10⁻¹",
        "10⁰",
        "10¹",
        "10²",
        "10³",
        "100",
    ]


def test_accuracies_expected_and_observed() -> None:
    records = [record("a", expected_accuracy=0.8, accuracy=0.7), record("b", rows=300, expected_accuracy=0.9)]
    drawn = Drawing(figures.accuracies(records))
    (line,) = (points(path) for path in drawn.all("path"))
    low, high = 0.68, 0.92  # a tenth of the range beyond what is shown
    np.testing.assert_allclose(line[:, 1], [194 - 180 * (p - low) / (high - low) for p in (0.8, 0.8, 0.9)], atol=0.01)
    np.testing.assert_allclose(line[:, 0], [151, 151, 436], atol=0.01)
    (square,) = drawn.all("rect", fill=BEFORE)
    assert square["x"] + 3 == 151
    assert square["y"] + 3 == pytest.approx(194 - 180 * (0.7 - low) / (high - low), abs=0.01)


def test_stability_shows_the_ratio_of_every_batch_with_its_interval() -> None:
    records = [record(f"b{i}", expected_count=20.0, observed_count=n) for i, n in enumerate((20.0, 40.0, 5.0))]
    drawn = Drawing(figures.stability([*records, record("without labels")]))
    ends = [(part * 100 / 20) for part in wilson_interval(np.array([0.2, 0.4, 0.05]), np.full(3, 100.0), 0.95)]
    top = 1.1 * ends[1].max()
    whiskers = drawn.all("line", **{"stroke-opacity": "0.5"})
    np.testing.assert_allclose([w["y1"] for w in whiskers], 194 - 180 * ends[0] / top, atol=0.01)
    np.testing.assert_allclose([w["y2"] for w in whiskers], 194 - 180 * ends[1] / top, atol=0.01)
    np.testing.assert_allclose([w["x1"] for w in whiskers], 56 + 380 * (np.arange(3) + 0.5) / 3, atol=0.01)
    assert [w["stroke"] for w in whiskers] == [AFTER, BEFORE, BEFORE]
    (one,) = drawn.all("line", **{"stroke-dasharray": "5 4"})
    (circle,) = drawn.all("circle")
    assert one["y1"] == circle["cy"] == pytest.approx(194 - 180 / top, abs=0.01)
    many = Drawing(figures.stability([record(f"b{i}", expected_count=20.0, observed_count=20.0) for i in range(12)]))
    assert [name for name in many.words() if name.startswith("batch ")] == [
        "batch b0",
        "batch b3",
        "batch b6",
        "batch b9",
    ]


def test_curves_over_thresholds() -> None:
    at = np.linspace(0.02, 0.98, 25)
    before, after = (decision_curve(Y, p, thresholds=at, n_resamples=20) for p in (P, np.sqrt(P)))
    drawn = Drawing(figures.net_benefit(before, after))
    high = 1.1 * max(before.net_benefit.max(), after.net_benefit.max(), before.treat_all[0])
    for colour, curve in ((BEFORE, before), (AFTER, after)):
        line = points(drawn.all("path", stroke=colour)[0])
        shown = curve.net_benefit[curve.net_benefit >= -0.25 * high]
        np.testing.assert_allclose(line[:, 1], 194 - 180 * (shown / high + 0.25) / 1.25, atol=0.01)
        np.testing.assert_allclose(line[[0, -1], 0], [56, 56 + 380 * (len(shown) - 1) / 24], atol=0.01)
    assert len(drawn.all("path", fill=AFTER)) == 1
    assert drawn.all("path", fill=BEFORE) == []
    assert len(Drawing(figures.net_benefit(before, None)).all("path", fill=BEFORE)) == 1
    found = murphy_diagram(Y, np.sqrt(P), P, thresholds=at, n_resamples=20)
    both = Drawing(figures.murphy(found, fitted=True))
    highest = 1.1 * max(found.score.max(), found.other.max())
    for colour, values in ((BEFORE, found.other), (AFTER, found.score)):
        np.testing.assert_allclose(
            points(both.all("path", stroke=colour)[0])[:, 1], 194 - 180 * values / highest, atol=0.01
        )
    alone = Drawing(figures.murphy(found, fitted=False))
    assert (len(alone.all("path", stroke=BEFORE)), alone.all("path", stroke=AFTER)) == (1, [])


def test_a_square_places_probabilities_and_cuts_off_what_lies_outside() -> None:
    square = Square(100.0, 10.0, 20.0, ScoreAxis(0.0, 0.5, False))
    assert square.points(np.array([0.0, 0.25, 0.5]), np.array([0.0, 0.25, 0.9])) == [(10, 120), (60, 70), (110, 20)]
    # Points nearer than half a pixel add nothing, but the last one is kept.
    close = square.points(np.linspace(0.2, 0.201, 50), np.full(50, 0.1))
    assert close == [(50.0, 100.0), (pytest.approx(50.2), 100.0)]
    bars = Drawing(
        f'<svg viewBox="0 0 1 1">{"".join(square.histogram(np.array([4.0, 0.0, 1.0, 0.001]), INK, 200.0))}</svg>'
    )
    assert [(bar["x"], bar["height"], bar["y"]) for bar in bars.all("rect")] == [
        (10.0, 46.0, 154.0),
        (60.0, 11.5, 188.5),
        (85.0, 0.5, 199.5),
    ]
    assert [bar["width"] for bar in bars.all("rect")] == [24.0] * 3


def test_reliability_diagrams_of_pages_draw_their_tables() -> None:
    table = reliability_table(Y, P, n_bins=5)
    drawn = Drawing(reliability(table, "Reliability", after=True))
    marks = drawn.all("circle")
    np.testing.assert_allclose([mark["cx"] for mark in marks], LEFT + SIDE * table.score, atol=0.01)
    np.testing.assert_allclose([mark["cy"] for mark in marks], TOP + SIDE * (1 - table.frequency), atol=0.01)
    band, line = (points(path) for path in drawn.all("path"))
    np.testing.assert_allclose(line, [[mark["cx"], mark["cy"]] for mark in marks], atol=0.01)
    np.testing.assert_allclose(band[:5, 1], TOP + SIDE * (1 - table.high), atol=0.01)
    np.testing.assert_allclose(band[:4:-1, 1], TOP + SIDE * (1 - table.low), atol=0.01)
    assert "predicted probability" in drawn.words()
    top = corp_curve(Y, np.column_stack([1 - P, P]), kind="top-label", n_resamples=10)
    assert "how often it was right" in reliability(top, "", after=False)
    assert Drawing(reliability(table, "", after=False)).all("circle") == []
    # A small panel has both, before as squares.
    small = Drawing(panel("a name", table, table))
    assert len(small.all("circle")) == len(small.all("rect", fill=BEFORE)) == 5
    assert small.all("circle")[0]["cx"] == pytest.approx(46 + 130 * table.score[0], abs=0.01)
    assert small.size == (192, 172)


def test_bands_have_intervals_and_points_as_large_as_their_rows() -> None:
    table = reliability_table(Y, P**2, n_bins=4)
    drawn = Drawing(banded(table, None, UNIT, "Bands"))
    *marks, legend = drawn.all("rect", fill=BEFORE)
    sizes = 2.5 + 2 * np.sqrt(table.weight / table.weight.max())
    np.testing.assert_allclose([mark["width"] / 2 for mark in marks], sizes, atol=0.01)
    np.testing.assert_allclose([mark["x"] for mark in marks], LEFT + SIDE * table.score - sizes, atol=0.02)
    whiskers = drawn.all("line", stroke=BEFORE)
    np.testing.assert_allclose([one["y1"] for one in whiskers], TOP + SIDE * (1 - table.low), atol=0.01)
    np.testing.assert_allclose([one["y2"] for one in whiskers], TOP + SIDE * (1 - table.high), atol=0.01)
    assert legend["width"] == 8
    assert "after calibration" not in drawn.words()
    assert "after calibration" in Drawing(banded(table, table, UNIT, "Bands")).words()


def test_the_map_of_two_classes_is_a_line_with_its_band() -> None:
    before, after = np.linspace(0, 1, 11), np.linspace(0, 1, 11) ** 2
    drawn = Drawing(binary_curve(before, after, (after - 0.1, after + 0.1)))
    band, line = (points(path) for path in drawn.all("path"))
    np.testing.assert_allclose(line, np.column_stack([LEFT + SIDE * before, TOP + SIDE * (1 - after)]), atol=0.01)
    np.testing.assert_allclose(band[:11, 1], TOP + SIDE * (1 - np.clip(after + 0.1, 0, 1)), atol=0.01)
    assert len(Drawing(binary_curve(before, after)).all("path")) == 1

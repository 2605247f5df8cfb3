"""The page: complete, self-contained, safe with hostile names, small, readable in a real browser at two widths."""

from __future__ import annotations

import dataclasses
import html.parser
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from calibrant import DecisionRule
from calibrant.metrics.result_types import Estimate
from calibrant.plots import report_figures as figures
from calibrant.report.analysis import Source, analyse
from calibrant.report.data import Correction, Report
from calibrant.report.page import compared, render
from calibrant.report.report_tables import agreed
from calibrant.report.sections import largest_corrections, most_confused
from tests.bench.browser import CHROMIUM, browser

from .conftest import sharpened

HOSTILE = "<script>document.title='broken'</script>"
QUOTED = "\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def hostile() -> Report:
    data = sharpened(600, 3, 2.0)
    group = np.array([HOSTILE, QUOTED, "ok"] * 200, dtype=object)
    source = Source(HOSTILE, (f"{QUOTED}.csv", "--label", HOSTILE), f"calibrant report {HOSTILE}", rows_skipped=3)
    return analyse(
        data, [HOSTILE, QUOTED, "ok"], source, segments=group, segment_name=QUOTED, methods=["ts", "quadratic"]
    )


@pytest.fixture(scope="module")
def binary() -> Report:
    return analyse(sharpened(600, 2, 2.0), ["no", "yes"], Source("binary.csv"), methods=["ts", "isotonic"])


class Tags(html.parser.HTMLParser):
    """All elements and attributes of a page; checks that elements are closed in order."""

    VOID = frozenset({"meta", "br", "img", "hr", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_everything_from_the_data_is_escaped(hostile: Report) -> None:
    page = render(hostile)
    tags = parsed(page)
    names = {name for name, _ in tags.elements}
    assert not names & {"script", "img", "iframe", "object", "link"}
    assert not [key for _, attributes in tags.elements for key in attributes if key.startswith("on")]
    assert "{{ 7 * 7 }}" in page
    assert "49" not in re.findall(r"img src=x onerror=alert\(1\)&gt;([^<]*)", page)


def test_nothing_is_loaded_from_anywhere(hostile: Report, binary: Report) -> None:
    for report in (hostile, binary):
        tags = parsed(render(report))
        for _, attributes in tags.elements:
            for key in ("src", "href", "action", "data"):
                assert (attributes.get(key) or "data:").startswith("data:")
        policy = [a["content"] for name, a in tags.elements if name == "meta" and "http-equiv" in a]
        assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
        style = re.search(r"<style>(.*?)</style>", render(report), re.DOTALL)
        assert style is not None
        assert "url(" not in style.group(1)
        assert "@import" not in style.group(1)


def test_all_sections_are_there(hostile: Report, binary: Report) -> None:
    sections = ["words", "next", "bands", "metrics", "faults", "reliability", "methods", "decomposition"]
    for report, last in ((hostile, ["confusion", "classes", "segments"]), (binary, ["map", "thresholds", "classes"])):
        elements = parsed(render(report)).elements
        ids = [attributes.get("id") for name, attributes in elements if name == "section"]
        assert ids == ["verdict", *sections, *last]
        # All but the opening is folded away.
        assert [attributes for name, attributes in elements if name == "details"] == [{}] * (len(ids) - 1)


def test_a_hundred_classes_stay_below_three_hundred_kilobytes(hundred: Report) -> None:
    page = render(hundred)
    assert len(page.encode()) < 300_000
    assert page.count("<tr>") > 100


def test_only_corrections_that_halves_agree_on_are_listed(hundred: Report, hostile: Report) -> None:
    # Labels were drawn from a power of the probabilities: there is a temperature to find, and nothing between classes.
    assert hundred.correction is not None
    listed = largest_corrections(hundred.correction, hundred.classes)
    assert len(listed) <= 2
    assert ("No two classes are confused beyond chance" in render(hundred)) == (not listed)


def test_halves_agree_on_what_both_find_beyond_what_they_disagree_on() -> None:
    first = np.array([[0.0, 0.9, 0.1], [-0.2, 0.0, 0.1], [0.1, 0.1, 0.0]])
    second = np.array([[0.0, 0.8, 0.1], [0.2, 0.0, 0.1], [0.1, -0.1, 0.0]])
    assert np.argwhere(agreed(first, second)).tolist() == [[0, 1]]
    # Without any disagreement an entry has to be worth a line; the diagonal never counts.
    assert np.argwhere(agreed(np.array([[5.0, 0.009], [0.02, 5.0]]), np.full((2, 2), 5.0))).tolist() == [[1, 0]]


def test_the_matrix_is_that_of_classes_with_proven_corrections(hundred: Report) -> None:
    matrix = np.random.default_rng(0).normal(0.0, 0.1, (100, 100))
    proven = np.zeros((100, 100), dtype=bool)
    assert most_confused(Correction(1.0, matrix, proven)) == []
    assert most_confused(None) == []
    pairs = [(7, 90), (13, 12), (50, 51)]
    for i, j in pairs:
        proven[i, j], matrix[i, j] = True, 2.0
    confused = most_confused(Correction(1.0, matrix, proven))
    assert len(confused) == 16
    assert confused == sorted(confused)
    assert {7, 90, 13, 12, 50, 51} <= set(confused)
    page = render(dataclasses.replace(hundred, correction=Correction(1.0, matrix, proven)))
    assert "Shown are the 16 of 100 classes" in page
    assert f'{hundred.classes[7]}</td><td data-label="when the model leans towards">{hundred.classes[90]}' in page
    few = most_confused(Correction(1.0, matrix[:3, :3], np.eye(3, k=1, dtype=bool)))
    assert few == [0, 1, 2]


def test_what_differs_between_reports_beyond_chance(binary: Report) -> None:
    def apart(first: tuple[float, float, float], last: tuple[float, float, float]) -> tuple[float, float, bool]:
        pair = [
            dataclasses.replace(binary, metrics=(binary.metrics[0]._replace(before=Estimate(*ends, 0.95)),))
            for ends in (first, last)
        ]
        (row,) = compared(pair)
        return row.difference.low, row.difference.high, row.apart

    # Half the widths of the intervals, 0.3 and 0.4, add up like standard errors.
    assert apart((1.0, 0.7, 1.3), (3.0, 2.6, 3.4)) == (pytest.approx(1.5), pytest.approx(2.5), True)
    assert apart((3.0, 2.7, 3.3), (1.0, 0.6, 1.4)) == (pytest.approx(-2.5), pytest.approx(-1.5), True)
    assert apart((1.0, 0.7, 1.3), (1.4, 1.0, 1.8)) == (pytest.approx(-0.1), pytest.approx(0.9), False)
    assert compared([binary, dataclasses.replace(binary, metrics=())]) == []


def test_reports_side_by_side(binary: Report, hostile: Report) -> None:
    page = render(binary, binary)
    tags = parsed(page)
    ids = [attributes["id"] for _, attributes in tags.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"side-by-side", "report-1-report", "report-2-metrics"} <= set(ids)
    row = compared([binary, binary])[0]
    assert row.difference.value == 0.0
    assert not row.apart
    assert "<script>" not in render(binary, hostile)


def test_a_method_far_off_does_not_squeeze_the_figure(hostile: Report) -> None:
    good = next(row for row in hostile.methods if row.name == "ts").gain_log_loss
    assert good is not None
    awful = dataclasses.replace(good, value=-90.0, low=-99.0, high=-80.0)
    assert "← −90.0000" in figures.method_gains({"ts": good, "awful": awful}, "ts")


PROBE = (Path(__file__).parent.parent / "page_probe.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hundred() -> Report:
    names = [f"class number {i}" for i in range(100)]
    return analyse(sharpened(1500, 100, 1.5), names, Source("many.csv"), methods=["ts"])


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1400])
def test_readable_in_a_browser(width: int, hostile: Report, binary: Report, hundred: Report, tmp_path: Path) -> None:
    pages = {"hostile": (hostile,), "binary": (binary,), "hundred": (hundred,), "pair": (binary, binary)}
    wrong = {}
    with browser(width, 900) as session:
        for name, reports in pages.items():
            file = tmp_path / f"{name}.html"
            file.write_text(render(*reports), encoding="utf-8")
            for scheme in ("light", "dark"):
                session.prefer(scheme)
                session.open(file)
                session.run("document.querySelectorAll('details').forEach(e => e.open = true)")
                found = session.run(PROBE)
                assert found.pop("width") == width
                assert found.pop("page") <= width
                assert found.pop("title") != "broken"
                found["console"] = session.console()
                wrong.update({(name, scheme, kind): items for kind, items in found.items() if items})
    assert wrong == {}


@pytest.mark.browser
def test_pages_open_short_on_a_phone_and_the_slider_shows_what_python_computed(
    hundred: Report, hostile: Report, tmp_path: Path
) -> None:
    rule = DecisionRule(false_positive=1, false_negative=20, classes=["no", "yes"])
    costed = analyse(sharpened(600, 2, 2.0), ["no", "yes"], Source("binary.csv"), methods=["ts"], rule=rule)
    assert costed.decisions is not None
    with browser(390, 844) as session:
        for name, report in (("hundred", hundred), ("hostile", hostile), ("costed", costed)):
            file = tmp_path / f"{name}.html"
            file.write_text(render(report), encoding="utf-8")
            session.open(file)
            assert session.run("return document.documentElement.scrollHeight") <= 8 * 844
        session.run("document.querySelectorAll('details').forEach(e => e.open = true)")
        for place, row in enumerate(costed.decisions.ratios):
            shown = session.run(
                "const s = document.querySelector('input.ratio'); s.value = arguments[0];"
                "s.dispatchEvent(new Event('input'));"
                "return [document.querySelector('.ratio-value').textContent,"
                " document.querySelector('.ratio-text').textContent]",
                place,
            )
            assert float(shown[0]) == pytest.approx(row.ratio)
            assert shown[1].endswith(str(row.found))
        found = session.run(PROBE)
        kinds = ("wide", "cut", "small", "out", "overlap", "faint", "unnamed")
        assert {kind: found[kind] for kind in kinds if found[kind]} == {}
        assert session.console() == []


@pytest.mark.browser
def test_scripts_in_names_do_nothing_in_a_browser(hostile: Report, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(hostile))
    assert CHROMIUM is not None, "tests marked `browser` need Chromium on the path"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title.group(1).startswith("Calibration of &lt;script&gt;")

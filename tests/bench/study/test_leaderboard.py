"""The leaderboard page: its text, and its behaviour in a real headless Chromium."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")
needs("jinja2")

from calibrant.bench.study.leaderboard import leaderboard_page  # noqa: E402
from calibrant.bench.study.results import check_results, select, with_baseline  # noqa: E402
from calibrant.bench.study.study_tables import build_tables  # noqa: E402
from tests.bench.browser import browser  # noqa: E402

PROBE = (Path(__file__).parents[2] / "page_probe.js").read_text(encoding="utf-8")
NASTY = "</script><img src=x onerror=\"document.title='owned'\">&amp;'"
COLUMNS = "method family rankLogloss rankBrier logloss brier relLogloss relBrier winsLogloss winsBrier seconds finished"


def page_of(results, directory, **options):
    results = check_results(results)
    tables, notes = build_tables(results, **options)
    path = directory / "leaderboard.html"
    text = leaderboard_page(
        with_baseline(results)[0],
        tables["methods"].frame,
        tests=["a <b>test</b>"],
        notes=notes,
        parts={"Figures": directory},
        command="calibrant bench report <x>",
        versions={"calibrant": "0"},
        runs=[{"command": "run <y>", "when": "now", "versions": {}}],
    )
    path.write_text(text, encoding="utf-8")
    return path


class Elements(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.values = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.values += [value for _, value in attrs if value]


def test_page_is_self_contained_and_escapes_names(tmp_path, results):
    results["method"] = results["method"].replace("sms", NASTY)
    for name in ("model", "dataset", "benchmark"):
        results[name] = results[name] + NASTY
    text = page_of(results, tmp_path).read_text()
    parsed = Elements(text)
    assert parsed.tags.count("script") == 2
    assert "img" not in parsed.tags
    assert "b" not in parsed.tags
    assert not [value for value in parsed.values if re.match(r"\s*(https?:)?//", value)]
    assert "calibrant bench report &lt;x&gt;" in text
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S).group(1))
    assert NASTY in [method["method"] for method in data["methods"]]


def test_figures_are_embedded(tmp_path, results):
    noise = np.random.default_rng(0).integers(0, 256, (50, 100, 3), dtype=np.uint8)
    needs("PIL.Image").fromarray(noise).save(tmp_path / "winrates.png")
    text = page_of(results, tmp_path).read_text()
    parsed = Elements(text)
    # The page carries a lighter picture than the file.
    assert (
        len(re.search(r"data:image/webp;base64,([^\"]*)", text).group(1)) < (tmp_path / "winrates.png").stat().st_size
    )
    assert parsed.tags.count("img") == 1
    assert any(value.startswith("data:image/webp;base64,") for value in parsed.values)
    assert {"64", "32"} <= set(parsed.values)


needs_browser = [
    pytest.mark.browser,
    pytest.mark.slow,
]

READ = """return [...document.querySelectorAll('#board tbody tr')].map(
    row => [...row.cells].map(cell => cell.textContent))"""
INPUT = """const element = document.querySelector(arguments[0]);
    element.value = arguments[1];
    element.dispatchEvent(new Event('input', {bubbles: true}))"""


def board(session):
    return pd.DataFrame(session.run(READ), columns=COLUMNS.split())


def check_against_tables(session, results):
    """The numbers on the page equal those of the tables of the same rows."""
    shown = board(session).set_index("method")
    tables, _ = build_tables(check_results(results))
    frames = {name: table.frame for name, table in tables.items()}
    assert set(shown.index) == set(frames["methods"]["method"])
    wins = frames["winrates"].set_index(["metric", "method"])["winrate"]
    quantiles = frames["relative_quantiles"].set_index(["metric", "method"])["q50"]
    changes = frames["absolute"].set_index("method")
    seconds = frames["fit_time"].set_index("method")["seconds_per_1000"]
    for method, row in shown.iterrows():
        for metric, name in (("logloss", "Logloss"), ("brier", "Brier")):
            rank = frames[f"ranks_{metric}"].set_index("method")["rank"][method]
            assert float(row[f"rank{name}"]) == pytest.approx(rank, abs=0.00501)
            assert float(row[f"wins{name}"].rstrip(" %")) == pytest.approx(100 * wins[metric, method], abs=0.0501)
            if method != "none":
                assert float(row[metric]) == pytest.approx(changes.loc[method, metric], abs=0.0000501)
                relative = float(row[f"rel{name}"].rstrip(" %"))
                assert relative == pytest.approx(100 * quantiles[metric, method], abs=0.00501)
        if method != "none":
            assert float(row["seconds"]) == pytest.approx(seconds[method], abs=0.0000501)


@pytest.fixture(scope="module")
def two_benchmarks(make_results):
    first = make_results(n_datasets=5, methods=("ts", "svs", "sms", "isotonic"))
    second = make_results(n_datasets=4, methods=("ts", "svs", "sms", "isotonic"), seed=1, benchmark="c")
    both = pd.concat([first, second], ignore_index=True)
    # Ties, as they come from methods that leave a prediction alone.
    same = (both["method"] == "isotonic") & (both["dataset"] == "d1")
    both.loc[same, ["logloss", "brier"]] = both.loc[
        (both["method"] == "none") & (both["dataset"] == "d1"), ["logloss", "brier"]
    ].to_numpy()
    return both


@pytest.fixture(scope="module")
def session():
    with browser() as started:
        yield started


class TestInChromium:
    pytestmark = needs_browser

    def test_filters_recompute_what_the_tables_say(self, session, tmp_path, two_benchmarks):
        results = two_benchmarks
        session.open(page_of(results, tmp_path))
        check_against_tables(session, results)
        assert board(session)["rankLogloss"].astype(float).is_monotonic_increasing
        session.run(INPUT, "#benchmark", "1")
        check_against_tables(session, results[results["benchmark"] == "c"])
        session.run(INPUT, "#model", "0")
        check_against_tables(session, results[(results["benchmark"] == "c") & (results["model"] == "m1")])
        session.click("#clear")
        session.run(INPUT, "#classes-from", "4")
        session.run(INPUT, "#classes-to", "5")
        check_against_tables(session, results[results["n_classes"].between(4, 5)])
        session.click("#clear")
        # No checkbox can be clicked while the list of methods is closed.
        assert session.run("return document.querySelector('.choice').open")
        session.click("input[name=method][value='1']")
        assert session.run("return document.getElementById('chosen').textContent") == "3 of 4"
        kept = [name for name in board(session)["method"] if name != "none"]
        assert len(kept) == 3
        check_against_tables(session, select(results, methods=kept))
        session.run(INPUT, "#classes-from", "999")
        assert (
            session.run("return document.getElementById('status').textContent") == "No experiment fits these filters."
        )
        assert session.console() == []

    def test_draws_are_filtered_and_harm_is_apart(self, session, tmp_path, two_benchmarks):
        drawn = two_benchmarks.assign(draw=np.where(two_benchmarks["fold"] == 0, 100, 300))
        drawn["labels"] = np.where(drawn["benchmark"] == "c", "drawn", "real")
        session.open(page_of(drawn, tmp_path))
        gains, harm = (drawn[drawn["labels"] == labels] for labels in ("real", "drawn"))
        check_against_tables(session, gains)
        session.run(INPUT, "#draw", "300")
        check_against_tables(session, gains[gains["draw"] == 300])
        session.run(INPUT, "#benchmark", "1")
        check_against_tables(session, harm[harm["draw"] == 300])
        session.click("#clear")
        assert session.console() == []

    def test_sorting(self, session, tmp_path, results):
        session.open(page_of(results, tmp_path))
        for place, name in enumerate(COLUMNS.split(), start=1):
            selector = f"#board th:nth-child({place}) button"
            orders = []
            for _ in range(2):
                session.click(selector)
                shown = board(session)[name]
                if place <= 2:
                    shown = shown.str.lower()
                else:
                    shown = shown.str.rstrip(" %").replace("–", "nan").astype(float)
                state = session.run(f"return document.querySelector('#board th:nth-child({place})').ariaSort")
                values = shown.dropna()
                assert values.is_monotonic_increasing if state == "ascending" else values.is_monotonic_decreasing
                if place > 2 and shown.isna().any():
                    assert shown.isna().to_numpy()[-1]
                orders.append(state)
            assert sorted(orders) == ["ascending", "descending"]
        assert session.run("return document.querySelectorAll('#board th[aria-sort]').length") == 1
        assert session.console() == []

    def test_gaps_infinities_and_nasty_names(self, session, tmp_path, results):
        results.loc[results["method"] == "svs", "logloss"] = np.inf
        results.loc[(results["method"] == "ts") & (results["dataset"] == "d0"), ["status", "logloss", "brier"]] = [
            "failed",
            np.nan,
            np.nan,
        ]
        results["method"] = results["method"].replace("sms", NASTY)
        session.open(page_of(results, tmp_path))
        shown = board(session).set_index("method")
        assert shown.loc["svs", "logloss"] == "∞"
        assert shown.loc["svs", "rankLogloss"] == "4.00"
        assert shown.loc["ts", "finished"] == "20"
        assert NASTY in shown.index
        assert "ranks over 5 of them" in session.run("return document.getElementById('status').textContent")
        assert session.run("return document.title") == "Calibration leaderboard"
        assert session.console() == []

    def test_search_dataset_address_and_download(self, session, tmp_path, two_benchmarks):
        page = page_of(two_benchmarks, tmp_path)
        session.open(page)
        whole = board(session).set_index("method")
        session.run(INPUT, "#search", "SV")
        assert board(session)["method"].tolist() == ["svs"]
        # A search hides rows, it does not rank anew.
        assert board(session)["rankLogloss"].tolist() == [whole.loc["svs", "rankLogloss"]]
        session.run(INPUT, "#search", "")
        names = session.run("return [...document.querySelectorAll('#dataset option')].map(o => o.textContent)")
        assert len(names) == 10
        session.run(INPUT, "#dataset", "2")
        rows = two_benchmarks[(two_benchmarks["benchmark"] == "b") & (two_benchmarks["dataset"] == "d2")]
        assert board(session)["finished"].astype(int).max() == len(rows[rows["method"] == "ts"])
        session.click("#board th:nth-child(11) button")
        session.click("input[name=method][value='1']")
        before, address = session.run(READ), session.run("return location.hash")
        assert "dataset=2" in address
        assert "sort=seconds" in address
        session.click("#clear")
        assert session.run(READ) != before
        session.run("location.hash = arguments[0]; dispatchEvent(new Event('hashchange'))", address)
        assert session.run(READ) == before
        session.run("""URL.createObjectURL = (b) => { window.csv = b.text(); return "blob:x"; };
            HTMLAnchorElement.prototype.click = function () { window.file = this.download; }""")
        session.click("#download")
        assert session.run("return window.file") == "leaderboard.csv"
        lines = session.run("return window.csv").splitlines()  # WebDriver waits for a promise
        assert lines[0].split(",")[:3] == ["method", "family", "rankLogloss"]
        assert [line.split(",")[0] for line in lines[1:]] == [row[0] for row in before]
        tips = session.run("return [...document.querySelectorAll('#board th button')].map(b => b.title)")
        assert all(len(tip) > 10 for tip in tips)
        session.click("#clear")
        assert session.run("return location.hash") == "#sort=seconds"
        assert session.console() == []

    def test_baseline_alone(self, session, tmp_path, results):
        session.open(page_of(results[results["method"] == "none"], tmp_path))
        assert board(session)["method"].tolist() == ["none"]
        assert session.console() == []


@pytest.mark.parametrize("width", [390, 768, 1400])
class TestWidths:
    pytestmark = needs_browser

    def test_page_fits(self, tmp_path, make_results, width):
        names = tuple(f"method-{i}" for i in range(20))
        page = page_of(make_results(methods=names), tmp_path)
        with browser(width, 800) as session:
            for scheme in ("light", "dark"):
                session.prefer(scheme)
                session.open(page)
                found = session.run(PROBE)
                wrong = {kind: found[kind] for kind in ("wide", "cut", "overlap", "faint", "unnamed") if found[kind]}
                assert wrong == {}
            assert session.run("return document.documentElement.scrollWidth") <= width
            assert session.run("return innerWidth") == width
            size = session.run("return parseFloat(getComputedStyle(document.querySelector('#board td')).fontSize)")
            assert size >= 14
            # The names stay in sight while the numbers scroll.
            session.run("document.querySelector('#board').parentElement.scrollLeft = 300")
            margin = session.run("return document.querySelector('main h2').getBoundingClientRect().left")
            left = session.run("return document.querySelector('#board td').getBoundingClientRect().left")
            assert left == pytest.approx(margin, abs=1)
            session.click("#board th:nth-child(1) button")
            assert session.console() == []

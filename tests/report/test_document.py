"""The validation document: its numbers against other packages, its sentences, its formats, byte for byte the same."""

from __future__ import annotations

import inspect
import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import calibrant
from calibrant import MasterScale, document, get_calibrator, record_fit
from calibrant.calibrators.base import Calibrator
from calibrant.cli import app
from calibrant.metrics import evaluate as metrics_of
from calibrant.metrics import segment_calibration
from calibrant.metrics.validation import validation_table
from calibrant.report import comparison, validation_document
from calibrant.report.validation_document import _falls

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def rare(n=1000, seed=0):
    """Rare positives whose log-odds are 1.8 times too large."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-3.5, 1.5, n)
    return 1 / (1 + np.exp(-1.8 * z)), np.where(rng.random(n) < 1 / (1 + np.exp(-z)), "yes", "no")


@pytest.fixture(scope="module")
def fitted():
    p, y = rare()
    return record_fit(get_calibrator("affine").fit(p, y), p, y)


@pytest.fixture(scope="module")
def found(fitted):
    p, y = rare(seed=1)
    regions = np.array(["north", "south"])[np.arange(len(p)) % 2]
    with pytest.MonkeyPatch.context() as patch:
        # One test is of how wide the interval of a gain is.
        patch.setattr(comparison, "RESAMPLES", (1000, 1000))
        return document(fitted, y, p, title="Fraud", segments={"region": regions}, grades=MasterScale([0.01, 0.05]))


def tables(document):
    """Tables by the title of their section, as dicts of rows by the first cell."""
    out, title = {}, ""
    for kind, value in document.blocks():
        if kind == "heading":
            title = value
        elif kind == "table":
            out.setdefault(title, []).append({row[0]: row[1:] for row in value})
    return out


def sentences(document):
    return [
        line
        for kind, value in document.blocks()
        for line in ([value] if kind == "text" else value)
        if kind in ("text", "list")
    ]


def value(text):
    return float(text.replace("−", "-").rstrip("%"))


def test_metrics_are_those_of_scikit_learn(found, fitted):
    p, y = rare(seed=1)
    q = fitted.predict_proba(p)[:, 1]
    rows = tables(found)["Before and after"][0]
    for name, of in (
        ("Log loss", lambda x: log_loss(y == "yes", x)),
        ("Brier score", lambda x: brier_score_loss(y == "yes", x)),
        ("AUROC", lambda x: roc_auc_score(y == "yes", x)),
        ("Predicted minus observed share of yes", lambda x: x.mean() - (y == "yes").mean()),
    ):
        assert value(rows[name][0]) == pytest.approx(of(p), abs=5.1e-5)
        assert value(rows[name][2]) == pytest.approx(of(q), abs=5.1e-5)
    assert value(rows["Log loss"][4]) == pytest.approx(log_loss(y, p) - log_loss(y, q), abs=5.1e-5)
    low, high = (value(end) for end in rows["Log loss"][5].split(" to "))
    gains = np.log(np.where(y == "yes", q, 1 - q)) - np.log(np.where(y == "yes", p, 1 - p))
    assert [low, high] == pytest.approx(
        [gains.mean() + side * 1.96 * gains.std() / np.sqrt(len(y)) for side in (-1, 1)], abs=0.008
    )


def test_named_tests_are_those_of_the_table_and_of_scikit_learn(found, fitted):
    p, y = rare(seed=1)
    q = fitted.predict_proba(p)
    named = tables(found)["Named tests and measures"][0]
    expected = validation_table(y, q, n_resamples=10)
    for row in expected.table()[1:]:
        assert named[row[0]][2:6] == row[1:5]
    z = np.log(q[:, 1] / q[:, 0])
    slope = LogisticRegression(C=1e9, tol=1e-8).fit(z[:, None], y).coef_[0, 0]
    assert value(named["Cox slope"][2]) == pytest.approx(slope, rel=1e-3)
    assert value(named["E:O"][2]) == pytest.approx(q[:, 1].sum() / (y == "yes").sum(), rel=1e-3)
    t = (y == "yes") - q[:, 1]
    w = 1 - 2 * q[:, 1]
    spiegelhalter = (t * w).sum() / np.sqrt((w**2 * q[:, 0] * q[:, 1]).sum())
    assert value(named["Spiegelhalter z"][2]) == pytest.approx(spiegelhalter, rel=1e-3)


def test_a_number_that_stands_in_two_tables_has_one_interval(fitted, monkeypatch):
    # The same resamples, as many of them, and so the same interval, in the metrics and in the named measures.
    p, y = rare(60, seed=1)
    numbers, made = [], validation_document.validation_table
    monkeypatch.setattr(
        validation_document,
        "validation_table",
        lambda *rows, **given: numbers.append(given["n_resamples"]) or made(*rows, **given),
    )
    document(fitted, y, p)
    assert numbers[-1] == inspect.signature(metrics_of).parameters["n_resamples"].default
    few = {"n_resamples": 30}
    metrics = metrics_of(y, p, ["brier", "auroc"], level=0.95, **few)
    named = validation_table(y, p, **few)
    for one, other in ((metrics["brier"], named["Brier score"]), (metrics["auroc"], named["AUROC"])):
        assert (one.low, one.high) == (other.low, other.high)


def test_bands_segments_and_grades_count_rows(found, fitted):
    p, y = rare(seed=1)
    q, hit = fitted.predict_proba(p)[:, 1], y == "yes"
    shown = tables(found)
    bands = list(shown["Expected and observed"][0].values())[1:]
    assert sum(value(row[0]) for row in bands) == len(y)
    assert sum(value(row[2]) for row in bands) == hit.sum()
    top = np.sort(q)[-100:]
    assert value(bands[-1][3]) == pytest.approx(100 * top.mean(), abs=0.06)
    even = np.arange(len(p)) % 2 == 0
    north = shown["By region"][0]["north"]
    assert [value(cell) for cell in north[1:3]] == pytest.approx(
        [100 * q[even].mean(), 100 * hit[even].mean()], abs=0.06
    )
    expected = segment_calibration(hit.astype(int), q, np.where(even, "north", "south"))
    assert value(north[3]) == pytest.approx(expected.p_value[expected.segments.index("north")], abs=1e-4)
    grades = shown["Grades"][0]
    assert [int(grades[name][1].replace(",", "")) for name in "123"] == [
        int(((q > low) & (q <= high)).sum()) for low, high in ((0, 0.01), (0.01, 0.05), (0.05, 1))
    ]


def test_the_formula_is_that_of_the_calibrator(found, fitted):
    line = next(value for kind, value in found.blocks() if kind == "lines")[0]
    start, slope = re.fullmatch(r"logit q\[2\] = (\S+) \+ (\S+) · logit p\[2\]", line.replace("−", "-")).groups()
    z = float(start) + float(slope) * np.log(0.03 / 0.97)
    assert 1 / (1 + np.exp(-z)) == pytest.approx(fitted.predict_proba([0.03])[0, 1], abs=1e-6)
    shown = tables(found)["The map"][0]
    assert [value(cell) for cell in shown["q"]] == pytest.approx(
        100 * fitted.predict_proba([value(cell) / 100 for cell in shown["p of yes"]])[:, 1], abs=0.06
    )


def test_rows_of_the_fit_are_recognised_and_others_are_not(found):
    p, y = rare(300)
    own = " ".join(sentences(document(record_fit(get_calibrator("affine").fit(p, y), p, y), y, p)))
    assert "are those that the calibrator was fitted to" in own
    assert "computed again, agree." in own
    text = " ".join(sentences(found))
    assert "are not those of the fit: the fingerprints differ" in text
    assert "computed again" not in text
    without = get_calibrator("affine").fit(p, y)
    assert "no audit record, so nothing shows" in " ".join(sentences(document(without, y, p)))


def test_the_smallest_p_value_of_drawn_labels_is_called_a_bound(found):
    # The observed labels alone among the draws are the smallest share there is.
    told = re.search(r"as given: not calibrated \(p ≤ (\S+), as small as (\d+) draws can tell\)", found.short[-1])
    bound, draws = told.groups()
    assert float(bound) == pytest.approx(1 / (1 + int(draws)), rel=0.05)


def test_losses_that_are_forged_are_found_out_with_the_rows():
    p, y = rare(300)
    forged = record_fit(get_calibrator("affine").fit(p, y), p, y)
    forged.audit_["after"]["log_loss"] -= 0.01
    assert "computed again, DO NOT AGREE with the record" in " ".join(sentences(document(forged, y, p)))


def test_too_few_rows_and_none(fitted):
    few = " ".join(sentences(document(fitted, *reversed([part[:12] for part in rare(seed=3)]))))
    assert "12 rows are too few to tell what calibration would gain" in few
    assert re.search(r"Log loss (falls|rises) from \S+ to \S+ \(gain \S+\)\.", few)
    none = document(fitted)
    assert none.short == [
        "BinaryLogisticCalibrator of 2 classes. No rows were given: this document describes the calibrator and "
        "validates nothing."
    ]
    assert [value for kind, value in none.blocks() if kind == "heading"] == [
        "In short", "The model", "The map", "Certificate", "Data of the fit", "Limits of use", "How to repeat this",
        "Versions",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="belong together"):
        document(fitted, ["yes"])
    three = np.tile(np.full((3, 3), 0.1) + 0.7 * np.eye(3), (4, 1))
    for given in ((fitted,), (get_calibrator("none").fit(three, [0, 1, 2] * 4), [0, 1, 2] * 4, three)):
        with pytest.raises(ValueError, match="grades are for rows with labels of two classes"):
            document(*given, grades=3)


def test_what_does_not_help_is_not_praised():
    p, y = rare(300)
    text = " ".join(sentences(document(get_calibrator("none").fit(p, y), y, p)))
    assert "Log loss stays at " in text
    assert "not enough evidence of a difference" in text


@pytest.mark.parametrize("k", [3, 10])
def test_many_classes(k):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(k), size=400)
    y = (p.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
    fitted = get_calibrator("sms").fit(p[:200], y[:200])
    made = document(fitted, y[200:], p[200:])
    rows = tables(made)["Expected and observed"][1]
    q = fitted.predict_proba(p[200:])
    for j in range(k):
        assert value(rows[str(j)][0]) == pytest.approx(q[:, j].sum(), abs=0.51)
        assert int(rows[str(j)][1]) == (y[200:] == j).sum()
        assert rows[str(j)][2] == f"{q[:, j].sum() / (y[200:] == j).sum():.3f}"
    assert "is a bound (duality gap), computed at the stored coefficients" in " ".join(sentences(made))


def test_counts_equal_repeated_rows_and_groups_are_told():
    p, y = rare(120)
    fitted = get_calibrator("ts").fit(p, y)
    counts = np.arange(120) % 3 + 1
    counted = tables(document(fitted, y, p, sample_weight=counts))["Before and after"][0]
    repeated = tables(document(fitted, np.repeat(y, counts), np.repeat(p, counts)))["Before and after"][0]
    assert {name: row[::2] for name, row in counted.items()} == {name: row[::2] for name, row in repeated.items()}
    grouped = " ".join(sentences(document(fitted, y, p, groups=np.arange(120) // 4)))
    assert "120 rows in 30 groups" in grouped
    assert "if groups are independent" in grouped
    assert "Rows are assumed to be independent" not in grouped


def test_logits_scores_segments_and_rules():
    p, y = rare(150)
    z = np.log(p / (1 - p))
    logits = get_calibrator("affine", input="logits").fit(z, y)
    assert "p is the softmax of the given logits" in document(logits, y, z).to_markdown()
    scores = get_calibrator("affine", input="scores").fit(600 - 40 * z, y)
    assert "p is the softmax of the scaled scores ((" in document(scores, y, 600 - 40 * z).to_markdown()
    region = {"region": np.array(["n", "s"])[np.arange(150) % 2]}
    segmented = calibrant.SegmentedCalibrator(get_calibrator("ts")).fit(p, y, segments=region)
    text = document(segmented, y, p, segments=region).to_markdown()
    assert "## By region" in text
    assert "a number behind them for each of region" in text


def test_whether_the_map_keeps_the_ranking_is_said():
    p, y = rare(300)
    falling = get_calibrator("hist-uniform").fit([0.05, 0.15, 0.45, 0.55], ["no", "yes", "no", "yes"])
    for fitted, said in (
        (get_calibrator("affine").fit(p, y), "The map is increasing: it keeps the ranking of the model ("),
        (get_calibrator("isotonic").fit(p, y), "The map never falls: it may make predictions equal"),
        (falling, "The map is not increasing. "),
    ):
        found = sentences(document(fitted))
        assert any(line.startswith(said) for line in found), found
        assert any("do not all keep their ranking" in line for line in found) == (fitted is falling)
    text = document(falling).to_markdown()
    assert (
        "It falls between 19.8% and 20.2% (by 50 percentage points), between 39.5% and 40.1% (by 50 percentage points) "
        "and between 59.9% and 60.5% (by 50 percentage points). A higher prediction can get a lower calibrated "
        "probability, by at most 100 percentage points, which reverses" in text
    )


def test_small_falls_at_the_ends_are_named_as_such():
    p = np.array([0.0001, 0.0008, 0.2, 0.8, 0.99902, 0.99988])
    q = np.array([0.000019, 0.00001, 0.3, 0.7, 0.9990, 0.998997])
    assert _falls(p, q) == (
        "between 0.010% and 0.080% (by 0.0009 percentage points) and between 99.902% and 99.988% (by 0.0003 percentage "
        "points)"
    )
    assert _falls(p, p) == ""
    saw = np.tile([0.3, 0.1], 6)
    assert _falls(np.linspace(0.1, 0.4, 12), saw).endswith("(by 20 percentage points) and by no more in 2 other ranges")


@pytest.mark.slow
def test_every_stored_calibrator_can_be_described():
    for path in sorted((Path(__file__).parents[1] / "files" / "golden").glob("*/*.json")):
        if path.name == "expected.json" or not isinstance(loaded := calibrant.load(path), Calibrator):
            continue  # several calibrators in one file: of folds, or of labels
        made = document(loaded, title=path.name)
        text = made.to_markdown()
        assert "## The map" in text, path
        assert not re.search(r"\bnan\b|Undefined", text), path
        ElementTree.fromstring(zipfile.ZipFile(io.BytesIO(made.to_docx())).read("word/document.xml"))


HOSTILE = ["<script>alert(1)</script>", "a | b\\", "*_`#[x](y)\n\x00\x1f"]


def test_names_are_text_in_every_format():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=120)
    y = np.array(HOSTILE)[rng.integers(3, size=120)]
    labels = sorted(HOSTILE)
    made = document(get_calibrator("ts", classes=labels).fit(p, y), y, p, title=HOSTILE[0], segments=y)
    assert "<script>" not in made.to_html()
    text = made.to_markdown()
    assert not re.search(r"(?<!\\)<script", text)
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| a \\| b")}
    assert widths == {7, 4}  # the table of classes, the table of segments
    root = ElementTree.fromstring(zipfile.ZipFile(io.BytesIO(made.to_docx())).read("word/document.xml"))
    assert HOSTILE[0] in "".join(root.itertext())


def test_a_word_file_holds_what_the_markdown_holds(found):
    archive = zipfile.ZipFile(io.BytesIO(found.to_docx()))
    assert archive.testzip() is None
    assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    parts = {name: ElementTree.fromstring(archive.read(name)) for name in archive.namelist()}
    assert {target.get("PartName", "").lstrip("/") for target in parts["[Content_Types].xml"]} - {""} <= set(parts)
    body = parts["word/document.xml"][0]
    styles = {style.get(f"{WORD}styleId") for style in parts["word/styles.xml"].iter(f"{WORD}style")}
    used = {element.get(f"{WORD}val") for kind in ("pStyle", "tblStyle") for element in body.iter(f"{WORD}{kind}")}
    assert used <= styles
    count = len([kind for kind, _ in found.blocks() if kind == "table"])
    assert len(body.findall(f"{WORD}tbl")) == count == found.to_markdown().count("| --- |")
    assert found.short[2] in "".join(body.itertext())


def test_the_page_loads_nothing_and_has_both_pictures(found):
    page = found.to_html()
    assert page.count("<svg") == 2
    assert not re.search(r"(src|href)=.?(http|//)", page)
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_the_same_inputs_give_the_same_bytes(tmp_path):
    script = """
import sys, numpy as np
from calibrant import document, get_calibrator, record_fit
import datetime
rng = np.random.default_rng(0)
p = rng.dirichlet(np.ones(3), size=60); y = rng.integers(3, size=60)
c = record_fit(get_calibrator("sms").fit(p, y), p, y, time=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
made = document(c, y, p, segments=y)
for name in sys.argv[1:]:
    made.save(name)
"""
    for run, seed in (("a", "1"), ("b", "2")):
        names = [str(tmp_path / f"{run}{ending}") for ending in (".html", ".md", ".docx")]
        subprocess.run([sys.executable, "-c", script, *names], check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    for ending in (".html", ".md", ".docx"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_a_document_made_twice_is_the_same(fitted):
    for make in ("to_html", "to_markdown", "to_docx"):
        assert getattr(document(fitted), make)() == getattr(document(fitted), make)()


def test_formats_are_told_by_names(found, tmp_path):
    with pytest.raises(ValueError, match=r"an \.html, \.md or \.docx file, not one that ends in '\.pdf'"):
        found.save(tmp_path / "a.pdf")
    found.save(tmp_path / "a.md")
    with pytest.raises(ValueError, match="exists already"):
        found.save(tmp_path / "a.md")
    found.save(tmp_path / "a.md", force=True)


@pytest.fixture
def files(tmp_path):
    for name, seed in (("fit", 0), ("new", 1)):
        p, y = rare(200, seed)
        lines = [f"{a:.6f},{b},2026-0{i % 9 + 1}-15,{'ns'[i % 2]}" for i, (a, b) in enumerate(zip(p, y))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["p_yes,label,day,region", *lines]))
    return tmp_path


def run(*words):
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def test_the_command(files):
    fit = "fit {0}/fit.csv -y label -p p_yes --date day -m sms -o {0}/cal.json"
    assert run(*fit.format(files).split())[0] == 0
    (files / "scale.csv").write_text("upper\n0.01\n0.1\n1\n")
    words = f"document {files}/cal.json {files}/new.csv -y label --segments region --grades {files}/scale.csv".split()
    code, output = run(*words, "-o", files / "v.md")
    assert code == 0, output
    text = (files / "v.md").read_text()
    assert "2026-01-15 to 2026-09-15" in text
    assert "## By region" in text
    assert "## Grades" in text
    assert "calibrant document cal.json new.csv --label label --segments region --grades scale.csv" in text
    assert str(files) not in text
    assert "Log loss falls from" in output
    code, _ = run(*words, "-o", files / "again.md")
    assert (files / "again.md").read_text().replace("again.md", "v.md") == text
    _, own = run("document", files / "cal.json", files / "fit.csv", "-y", "label", "-o", files / "own.docx")
    assert "are those that the calibrator was fitted to" in own
    assert run("document", files / "cal.json", "-o", files / "alone.html")[0] == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["new.csv", "-o", "a.md"], "FILE and --label belong together"),
        (["-y", "label", "-o", "a.md"], "FILE and --label belong together"),
        (["-o", "a.pdf"], "an .html, .md or .docx file"),
        (["--grades", "0.1", "-o", "a.md"], "--grades needs FILE"),
        (["new.csv", "-y", "label", "--grades", "0", "-o", "a.md"], "0"),
    ],
)
def test_mistakes_are_explained(files, fitted, monkeypatch, words, error):
    monkeypatch.chdir(files)
    calibrant.save(fitted, "cal.json")
    code, output = run("document", "cal.json", *words)
    assert code == 2
    assert error in output
    assert not (files / "a.md").exists()

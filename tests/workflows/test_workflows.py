"""Work on files gives what the same work gives in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import calibrant
from calibrant import CalibrationMonitor, deployment, metrics
from calibrant.files.tables.opening import open_table
from calibrant.files.tables.row_checks import Layout
from calibrant.files.tables.table_rows import RowReader
from calibrant.inputs.words import RequestError
from calibrant.workflows import applying, deploying, evaluating, fitting

N = 600
RNG = np.random.default_rng(0)
Z = RNG.normal(size=N)
P = expit(2.0 * Z)
Y = np.where(RNG.random(N) < expit(Z), "yes", "no")
TABLE = pd.DataFrame({"p_no": 1.0 - P, "p_yes": P, "y": Y, "w": RNG.integers(0, 3, N), "who": np.arange(N) // 3})
COLUMNS = ["p_no", "p_yes"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    TABLE.to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def reader(file: Path, **layout: object) -> RowReader:
    return RowReader(open_table(file), Layout(**layout))  # type: ignore[arg-type]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("method", ["ts", "isotonic"])
def test_fit(file: Path, method: str, grouped: bool) -> None:
    groups = {"groups": "who"} if grouped else {}
    done = fitting.fit(fitting.make_calibrator(method)[0], reader(file, label="y", weight="w", **groups))
    counted = TABLE["w"] > 0
    beside = {"groups": TABLE["who"]} if grouped else {}
    expected = calibrant.get_calibrator(method).fit(TABLE[COLUMNS], TABLE["y"], TABLE["w"], **beside)
    np.testing.assert_allclose(
        done.calibrator.predict_proba(TABLE[COLUMNS]), expected.predict_proba(TABLE[COLUMNS]), atol=1e-9
    )
    assert (done.columns, done.classes) == (("p_no", "p_yes"), ("no", "yes"))
    in_groups = f" in {TABLE['who'][counted].nunique()} groups" if grouped else ""
    assert done.calibrator.fitted_to_ == f"{counted.sum()} rows, {TABLE['w'].sum()} observations{in_groups}"


@pytest.mark.parametrize(("text", "value"), [("True", True), ("False", False), ("true", True), ("false", False)])
def test_truth_values_in_the_words_of_python_and_json(text: str, value: bool) -> None:
    assert fitting.make_calibrator("auto", [f"monotone={text}"])[0].monotone is value


@pytest.mark.parametrize("text", ["None", "null"])
def test_no_value_in_the_words_of_python_and_json(text: str) -> None:
    assert fitting.make_calibrator("sms", [f"penalty={text}"])[0].penalty is None


def test_other_values_are_numbers_or_texts() -> None:
    made, name = fitting.make_calibrator("sms", ["penalty=lasso", "rho=0.5"])
    assert (made.penalty, made.rho, name) == ("lasso", 0.5, "sms")


def test_metrics_and_kept_rows_go_by_the_number_of_classes() -> None:
    assert "positive_gap" in evaluating.metric_names(2)
    assert "confidence_gap" in evaluating.metric_names(3)
    assert [evaluating.sample_rows(k) for k in (10, 1000, 50_000)] == [200_000, 5000, 100]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("foo=1", "the method 'ts' has no parameter 'foo': its parameters are classes, input, "),
        ("smooting=1", "the method 'ts' has no parameter 'smooting': did you mean 'smoothing'? Its parameters are "),
    ],
)
def test_an_unknown_parameter(given: str, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        fitting.make_calibrator("temperature", [given])
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith("smoothing")
    assert "__init__" not in str(caught.value)


def test_fit_to_a_sample(file: Path) -> None:
    done = fitting.fit(fitting.make_calibrator("isotonic")[0], reader(file, label="y"), memory_mb=0.01)
    assert done.counts["rows"] == 600
    assert done.calibrator.fitted_to_ == f"{done.counts['rows_used']} rows"
    assert done.counts["rows_used"] < 600


def test_apply(file: Path) -> None:
    calibrator = calibrant.get_calibrator("ts").fit(TABLE[COLUMNS], TABLE["y"])
    done = applying.apply(calibrator, reader(file), file.with_name("out.parquet"))
    written = pd.read_parquet(file.with_name("out.parquet"))
    np.testing.assert_array_equal(written[COLUMNS].to_numpy(), calibrator.predict_proba(TABLE[COLUMNS]))
    pd.testing.assert_frame_equal(written.drop(columns=COLUMNS), TABLE.drop(columns=COLUMNS))
    assert done.rows == N


@pytest.mark.parametrize("cells", [None, 200])
def test_evaluate_and_the_rows_of_a_report(file: Path, cells: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if cells is not None:
        monkeypatch.setattr(evaluating, "MEMORY_CELLS", cells)
        monkeypatch.setattr(evaluating, "SAMPLE_ROWS", 100)
    found = evaluating.evaluate(reader(file, label="y", weight="w"))
    of_report = evaluating.read_for_report(reader(file, label="y", weight="w"))
    expected = {
        name: getattr(metrics, name)(TABLE["y"], TABLE[COLUMNS], sample_weight=TABLE["w"])
        for name in ("log_loss", "brier")
    }
    for name, value in expected.items():
        assert found.metrics[name].value == pytest.approx(value, abs=1e-12)
        if cells is not None:
            assert of_report.whole is not None
            assert of_report.whole.metrics[name].value == pytest.approx(value, abs=1e-12)
    assert str(found.size) == f"{(TABLE['w'] > 0).sum()} rows, {TABLE['w'].sum()} observations"
    assert (of_report.whole is None) is (cells is None)
    assert (found.sampled[1] is None) is (cells is None)


def test_adapt(file: Path) -> None:
    calibrator = calibrant.get_calibrator("ts").fit(TABLE[COLUMNS], TABLE["y"])
    rare = TABLE[(TABLE["y"] == "no") | (TABLE["who"] % 10 == 0)]
    rare.to_parquet(file.with_name("now.parquet"))
    ((_, now),) = applying.read_predictions(calibrator, reader(file.with_name("now.parquet")))
    adapted = deployment.adapt(calibrator, unlabelled=now.values)
    expected = deployment.adapt(calibrator, unlabelled=rare[COLUMNS])
    np.testing.assert_allclose(adapted.prior_, expected.prior_, atol=1e-9)


def test_watch(file: Path) -> None:
    calibrator = calibrant.get_calibrator("ts").fit(TABLE[COLUMNS], TABLE["y"])
    batch = applying.read_predictions(calibrator, reader(file, label="y"))
    state, page = file.with_name("s.json"), file.with_name("p.html")
    for _ in range(2):
        done = deploying.watch(calibrator, batch, state, pages={str(page): lambda m, r: f"{m.rows_} rows"})
    expected = CalibrationMonitor(calibrator).update(TABLE[COLUMNS], TABLE["y"])
    assert done.monitor.log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-9)
    assert done.notes[0].startswith("already added with the same rows, not counted again: batch ")
    assert (page.read_text(), done.repair) == (f"{N} rows", None)
    with pytest.raises(RequestError, match="keeps the alpha") as refused:
        deploying.watch(calibrator, batch, state, alpha=0.05)
    assert refused.value.hints == ("began",)

"""`--votes`: columns of votes or shares instead of labels, in every command that takes labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant import SegmentedCalibrator, metrics
from calibrant.inputs.class_columns import vote_labels
from tests.cli.test_commands import ok, run

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.inputs.words.ClassOrderWarning")

CLASSES = ["owl", "cat", "dog"]
P = [f"p_{name}" for name in CLASSES]
N = [f"n_{name}" for name in CLASSES]


@pytest.fixture
def table() -> pd.DataFrame:
    """Over-confident predictions, votes of one to five judges, shares, weights and a group; columns in two orders."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3))
    p, truth = (np.exp(c * z) / np.exp(c * z).sum(axis=1, keepdims=True) for c in (2.0, 1.0))
    votes = np.array([rng.multinomial(rng.integers(1, 6), row) for row in truth])
    shares = {f"share_{name}": column for name, column in zip(CLASSES, truth.T)}
    frame = pd.DataFrame({**dict(zip(N, votes.T)), **dict(zip(P, p.T)), **shares})
    return frame[[*sorted(N), *P, *shares]].assign(w=rng.random(200), site=["a", "b"] * 100)


@pytest.fixture(params=["csv", "parquet"])
def file(request: pytest.FixtureRequest, table: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / f"votes.{request.param}"
    (table.to_csv if request.param == "csv" else table.to_parquet)(path, index=False)
    return path


@pytest.mark.parametrize("method", ["ts", "sms", "isotonic", "auto"])
def test_fit_equals_a_matrix_of_labels_in_python(file: Path, table: pd.DataFrame, method: str) -> None:
    cal = file.with_name("cal.json")
    done = ok("fit", file, "--votes", "n_*", "--probs", "p_*", "--weight", "w", "-m", method, "-o", cal)
    p, votes = table[P].to_numpy(), table[N].to_numpy()
    assert f"fitted to 200 rows, {(votes.sum(axis=1) * table['w']).sum():.0f} observations" in done.stdout
    expected = calibrant.get_calibrator(method, classes=CLASSES).fit(p, votes, table["w"].to_numpy())
    loaded = calibrant.load(cal)
    np.testing.assert_array_equal(loaded.classes_, expected.classes_)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_allclose(loaded.predict_proba(p), expected.predict_proba(p), rtol=0, atol=1e-12)


def test_whole_votes_equal_repeated_rows_with_labels(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "votes.csv", index=False)
    place = [(row, j) for row, votes in enumerate(table[N].to_numpy()) for j, v in enumerate(votes) for _ in range(v)]
    repeated = table.loc[[row for row, _ in place], P].assign(y=[CLASSES[j] for _, j in place])
    repeated.to_csv(tmp_path / "labels.csv", index=False)
    one = json.loads(ok("evaluate", tmp_path / "votes.csv", "--votes", ",".join(N), "-p", "p_*", "--json").stdout)
    two = json.loads(ok("evaluate", tmp_path / "labels.csv", "--label", "y", "--json").stdout)
    assert one["classes"] == two["classes"]
    for name, value in two["metrics"].items():
        assert one["metrics"][name]["value"] == pytest.approx(value["value"], abs=1e-12), name


def test_evaluate_and_segments_take_shares(file: Path, table: pd.DataFrame) -> None:
    given = ("--votes", "share_*", "--probs", "p_*")
    found = json.loads(ok("evaluate", file, *given, "--segments", "site", "--json").stdout)
    p, shares = table[P].to_numpy(), table[[f"share_{name}" for name in CLASSES]].to_numpy()
    loss = metrics.log_loss(shares, p)
    assert found["metrics"]["log_loss"]["value"] == pytest.approx(loss, abs=1e-12)
    first = np.arange(0, 200, 2)
    assert found["segments"]["a"]["metrics"]["brier"]["value"] == pytest.approx(
        metrics.brier(shares[first], p[first]), abs=1e-12
    )
    cal = file.with_name("cal.json")
    ok("fit", file, *given, "--segments", "site", "-m", "ts", "-o", cal)
    expected = SegmentedCalibrator("ts", classes=CLASSES).fit(p, shares, segments=table[["site"]])
    with pytest.warns(UserWarning, match="feature names"):
        q = calibrant.load(cal).predict_proba(p, segments=table[["site"]])
    np.testing.assert_allclose(q, expected.predict_proba(p, segments=table[["site"]]), rtol=0, atol=1e-12)


def test_a_report_takes_shares(table: pd.DataFrame, tmp_path: Path) -> None:
    file, page = tmp_path / "votes.csv", tmp_path / "r.html"
    table.to_csv(file, index=False)
    given = ("--votes", "share_*", "--probs", "p_*")
    loss = metrics.log_loss(table[[f"share_{name}" for name in CLASSES]].to_numpy(), table[P].to_numpy())
    told = json.loads(ok("report", file, *given, "--methods", "ts", "-o", page, "--json").stdout)
    assert told["metrics"]["log_loss"]["before"]["value"] == pytest.approx(loss, abs=1e-12)
    assert "--votes 'share_*' --probs 'p_*'" in " ".join(told["next"])


def test_batches_of_a_file(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "votes.parquet", row_group_size=50)
    source = calibrant.open_batches(tmp_path / "votes.parquet", votes=["n_*"], probs=["p_*"])
    found = calibrant.get_calibrator("sms", classes=CLASSES).fit_batches(source)
    expected = calibrant.get_calibrator("sms", classes=CLASSES).fit(table[P].to_numpy(), table[N].to_numpy())
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-10)
    with pytest.raises(ValueError, match="either label="):
        calibrant.open_batches(tmp_path / "votes.parquet")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("-1,2", "line 3: 'n_no' is -1; votes are finite and not negative"),
        ("0,0", "line 3: there are no votes: 'n_no', 'n_yes' are all 0"),
        (",2", "line 3: 'n_no' is missing"),
        ("two,2", "line 3: 'n_no' is 'two', not a number"),
        ("inf,2", "line 3: 'n_no' is inf; votes are finite"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path: Path, cells: str, message: str) -> None:
    file = tmp_path / "v.csv"
    file.write_text(f"n_no,n_yes,p_yes\n1,0,0.2\n{cells},0.7\n0,3,0.9\n")
    done = run("evaluate", file, "--votes", "n_*")
    assert done.exit_code == 1
    assert message in done.stderr
    assert "--on-error skip" in done.stderr
    assert "2 rows, 4 observations" in ok("evaluate", file, "--votes", "n_*", "--on-error", "skip").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either --label"),
        (("--label", "site", "--votes", "n_*"), "give either --label"),
        (("--votes", "n_cat"), "votes take one column per class"),
        (("--votes", "n_cat,n_dog"), "2 columns of votes ('n_cat', 'n_dog') and 3 classes"),
        (("--votes", "m_*"), "no column is called 'm_*'"),
        (("--votes", "n_*", "--classes", "owl,cat,cow"), "no column of votes stands for the class 'cow'"),
    ],
)
def test_commands_that_are_wrong(table: pd.DataFrame, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    table.to_csv(tmp_path / "v.csv", index=False)
    done = run("evaluate", tmp_path / "v.csv", "--probs", "p_*", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_columns_that_only_their_order_tells(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(2), 100)
    votes = np.array([rng.multinomial(5, row) for row in p])
    for name, given in (("right", votes), ("wrong", votes[:, ::-1])):
        pd.DataFrame(np.hstack([given, p]), columns=["n_yes", "n_no", "p_0", "p_1"]).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    done = ok("evaluate", tmp_path / "right.csv", "--votes", "n_*")
    assert "in the order of the columns of votes: p_0 = yes, p_1 = no" in done.stderr
    done = run("evaluate", tmp_path / "wrong.csv", "--votes", "n_*")
    assert "p_0 = yes, p_1 = no is far worse than p_0 = no, p_1 = yes" in done.stderr


@pytest.mark.parametrize(
    ("names", "others", "expected"),
    [
        (["n_cat", "n_car"], ["p_cat", "p_car"], ["cat", "car"]),
        (["new york votes", "new delhi votes"], ["p new york", "p new delhi"], ["new york", "new delhi"]),
        (["v_10", "v_11"], ["p_10", "p_11"], ["10", "11"]),
        (["v10", "v11"], ["p10", "p11"], ["10", "11"]),
        (["cat", "dog"], ["p_cat", "p_dog"], ["cat", "dog"]),
        (["judge_votes_no", "judge_votes_yes"], ["score"], ["no", "yes"]),
    ],
)
def test_labels_in_the_names_of_columns(names: list[str], others: list[str], expected: list[str]) -> None:
    assert vote_labels(names, others) == expected

"""Reading and checking tidy results, and the loss tables made of them."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")

from calibrant.bench.study.results import (  # noqa: E402
    change_table,
    check_results,
    loss_table,
    read_results,
    relative_table,
    select,
    split_results,
    with_baseline,
)

NUMBERS = ["n_cal", "n_classes", "logloss", "brier", "fit_seconds"]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_formats_agree(tmp_path, results, ending):
    path = tmp_path / f"r{ending}"
    if ending == ".parquet":
        needs("pyarrow")
        results.to_parquet(path)
    else:
        results.to_csv(path, index=False)
    read = read_results(path)
    assert read[["dataset", "method"]].values.tolist() == results[["dataset", "method"]].values.tolist()
    np.testing.assert_allclose(read[NUMBERS].to_numpy(float), results[NUMBERS].to_numpy(float), rtol=1e-13)


def test_folder_and_several_files(tmp_path, results):
    results.to_csv(tmp_path / "results.csv", index=False)
    more = results.assign(benchmark="other")
    with gzip.open(tmp_path / "more.csv.gz", "wt") as file:
        more.to_csv(file, index=False)
    read = read_results([tmp_path, tmp_path / "more.csv.gz"])
    assert len(read) == 2 * len(results)
    assert set(read["benchmark"]) == {"b", "other"}


def test_names_like_missing_values_stay_names(tmp_path, results):
    results["dataset"] = results["dataset"].replace({"d0": "NA", "d1": "null"})
    results.to_csv(tmp_path / "r.csv", index=False)
    assert {"NA", "null"} <= set(read_results(tmp_path / "r.csv")["dataset"])


def test_infinite_loss_survives_csv(tmp_path, results):
    results.loc[1, "logloss"] = np.inf
    results.to_csv(tmp_path / "r.csv", index=False)
    read = read_results(tmp_path / "r.csv")
    assert np.isinf(read.loc[1, "logloss"])
    assert read.loc[1, "status"] == "ok"


def test_failed_row_without_loss_is_read(tmp_path, results):
    results.loc[1, ["status", "logloss", "brier"]] = ["failed", np.nan, np.nan]
    results.to_csv(tmp_path / "r.csv", index=False)
    assert np.isnan(read_results(tmp_path / "r.csv").loc[1, "logloss"])


def test_ok_without_loss_becomes_failed(results):
    results.loc[1, "brier"] = np.nan
    checked = check_results(results)
    assert checked.loc[1, "status"] == "failed"
    assert "not a number" in checked.loc[1, "message"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda r: r.drop(columns="brier"), "lack the columns brier"),
        (lambda r: r.iloc[:0], "no rows"),
        (lambda r: r[r["method"] != "none"], "no finished row of the method 'none'"),
        (lambda r: pd.concat([r, r.iloc[[3]]], ignore_index=True), "appear twice, first b/d0/m1/0/sms"),
        (lambda r: r.assign(logloss=-r["logloss"]), "logloss is negative in row 0"),
        (lambda r: r.assign(brier=r["brier"].astype(str).replace(str(r["brier"][2]), "x")), "row 2: 'x'"),
        (lambda r: r.assign(model=[None, *r["model"][1:]]), "'model' is empty in row 0"),
        (lambda r: r.assign(labels=["real", "made", *["real"] * (len(r) - 2)]), "'labels' holds 'made', not real or"),
        (lambda r: pd.concat([r, r.iloc[[3, 4]]], ignore_index=True), "2 rows appear twice"),
    ],
)
def test_bad_results_say_what_is_wrong(results, spoil, message):
    with pytest.raises(ValueError, match=message):
        check_results(spoil(results))


def test_unreadable_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="no results file"):
        read_results(tmp_path / "absent.csv")
    with pytest.raises(FileNotFoundError, match=r"holds no results\.parquet"):
        read_results(tmp_path)
    (tmp_path / "r.txt").write_text("x")
    with pytest.raises(ValueError, match=r"\.parquet, \.csv or \.csv\.gz"):
        read_results(tmp_path / "r.txt")
    with pytest.raises(ValueError, match="no results given"):
        read_results([])


def test_experiments_without_baseline_are_left_out_and_named(results):
    results = check_results(results.drop(index=0))
    kept, notes = with_baseline(results)
    assert len(kept) == len(results) - 3
    assert "1 experiments" in notes[0]
    assert "b/d0/m1/0" in notes[0]


def test_select_keeps_baseline_and_refuses_unknown(results):
    assert set(select(results, methods=["sms"])["method"]) == {"none", "sms"}
    with pytest.raises(ValueError, match="no method 'smx'"):
        select(results, methods=["smx"])
    with pytest.raises(ValueError, match="no benchmark 'c'"):
        select(results, benchmarks=["c"])


def test_changes_with_infinite_losses():
    losses = pd.DataFrame({"none": [np.inf, 1.0, np.inf, 0.0], "a": [np.inf, np.inf, 2.0, 0.5]})
    assert change_table(losses)["a"].tolist() == [0.0, np.inf, -np.inf, 0.5]
    assert relative_table(losses)["a"].tolist() == [0.0, np.inf, -1.0, np.inf]


def test_losses_equal_to_ten_digits_are_ties(results):
    same = results["method"] == "svs"
    results.loc[same, "logloss"] = results.loc[results["method"] == "ts", "logloss"].to_numpy() * (1 + 1e-13)
    table = loss_table(check_results(results), "logloss")
    assert (table["svs"] == table["ts"]).all()
    np.testing.assert_allclose(table["none"], results[results["method"] == "none"]["logloss"], rtol=1e-9)


def test_parts_whose_methods_are_comparable(results):
    results["n_classes"] = np.where(results["dataset"].isin(["d0", "d1"]), 2, 5)
    both = pd.concat([results, results.assign(benchmark="c", n_classes=2)], ignore_index=True)
    parts = {title: set(rows["dataset"]) for title, rows in split_results(both)}
    every = set(results["dataset"])
    assert parts == {"b, binary": {"d0", "d1"}, "b, multiclass": every - {"d0", "d1"}, "c": every}

"""The tables of the study: the paper's figures, definitions by hand, odd results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")

from calibrant.bench.study.results import check_results, read_results  # noqa: E402
from calibrant.bench.study.study_tables import build_tables  # noqa: E402

# The paper's table 1: Brier score and log loss.
PAPER = {
    "isotonic": (-0.0026, 0.1893),
    "guo": (0.0112, 0.0278),
    "ts-unsmoothed": (-0.0024, -0.0116),
    "ts": (-0.0024, -0.0148),
    "vs": (-0.0032, -0.0053),
    "svs": (-0.0034, -0.0174),
    "ms": (0.0018, 0.0642),
    "dirichlet": (-0.0023, -0.0089),
    "sms": (-0.0046, -0.0210),
}
RANKS = {
    "logloss": {
        "sms": 1.9,
        "svs": 3.4,
        "dirichlet": 3.8,
        "ms": 4.2,
        "vs": 4.3,
        "ts": 4.7,
        "none": 6.0,
        "isotonic": 7.8,
    },
    "brier": {
        "sms": 2.1,
        "svs": 3.7,
        "dirichlet": 3.9,
        "vs": 4.4,
        "ms": 4.6,
        "ts": 5.4,
        "isotonic": 5.6,
        "none": 6.4,
    },
}
# The paper's vision tables, log loss: TS, SVS, VS, SMS, MS, Dirichlet.
VISION = {
    ("c10", "densenet40"): (-0.206, -0.208, -0.206, -0.209, -0.203, -0.206),
    ("c10", "lenet5"): (-0.023, -0.073, -0.076, -0.080, -0.077, -0.076),
    ("c100", "lenet5"): (-0.134, -0.219, -0.266, -0.273, 8.204, 0.166),
    ("c100", "resnet_wide32"): (-0.858, -0.864, -0.851, -0.869, 25.516, 0.540),
    ("imgnet", "resnet152"): (-0.047, -0.049, -0.015, np.nan, np.nan, np.nan),
}


@pytest.fixture(scope="module")
def paper(published):
    return read_results(published / "paper-multiclass.csv.gz")


@pytest.fixture(scope="module")
def paper_study(paper):
    return build_tables(paper, unranked=["guo", "ts-unsmoothed"])


@pytest.mark.published
def test_paper_main_table(paper_study):
    tables, notes = paper_study
    assert notes == []
    frame = tables["absolute"].frame
    assert frame.columns.tolist() == ["method", "family", "brier", "logloss", "n_experiments"]
    assert set(frame["method"]) == set(PAPER)
    for row in frame.itertuples():
        assert (round(row.brier, 4), round(row.logloss, 4)) == PAPER[row.method]
        assert row.n_experiments == 1365


@pytest.mark.published
@pytest.mark.parametrize("metric", ["logloss", "brier"])
def test_paper_ranks_and_conclusions(paper_study, metric):
    tables, _ = paper_study
    frame = tables[f"ranks_{metric}"].frame
    assert frame.columns.tolist() == ["method", "rank"]
    assert {row.method: round(row.rank, 1) for row in frame.itertuples()} == RANKS[metric]
    p = tables[f"nemenyi_{metric}"].frame.set_index("method")
    assert (p.loc["sms"].drop("sms") < 0.05).all()
    if metric == "logloss":
        # Of the six that are worse than SMS and better than isotonic, TS alone is no better than none.
        assert [m for m in ("svs", "dirichlet", "vs", "ms", "ts") if p.loc[m, "none"] >= 0.05] == ["ts"]
        assert [m for m in ("dirichlet", "vs", "ms", "ts") if p.loc[m, "svs"] >= 0.05] == [
            "dirichlet",
            "vs",
            "ms",
        ]


@pytest.mark.published
def test_paper_vision_table(published):
    tables, notes = build_tables(read_results(published / "paper-vision.csv"))
    frame = tables["by_dataset_model"].frame.set_index(["dataset", "model"])
    for key, values in VISION.items():
        row = frame.loc[key, ["ts", "svs", "vs", "sms", "ms", "dirichlet"]].to_numpy(float)
        np.testing.assert_allclose(row, values, atol=0.0005001)
    assert any("ranks use 2 of 3 datasets" in note for note in notes)
    assert any("on some of the 12 experiments: ms, dirichlet, sms (2 not run)" in note for note in notes)


def build(results, **options):
    return build_tables(check_results(results), **options)


@pytest.fixture(scope="module")
def built(make_results):
    """The tables and notes of the fixture `results`."""
    return build(make_results())


def test_absolute_and_fit_time_by_hand(results, built):
    tables, notes = built
    assert notes == []
    none = results[results["method"] == "none"]
    sms = results[results["method"] == "sms"]
    row = tables["absolute"].frame.set_index("method").loc["sms"]
    assert row["logloss"] == pytest.approx((sms["logloss"].to_numpy() - none["logloss"].to_numpy()).mean())
    seconds = (1000 * sms["fit_seconds"] / sms["n_cal"]).groupby([sms["dataset"], sms["model"]]).mean()
    row = tables["fit_time"].frame.set_index("method").loc["sms"]
    assert row["seconds_per_1000"] == pytest.approx(seconds.mean())
    assert row["n_pairs"] == 12
    half = 1.959964 * seconds.std() / np.sqrt(12)
    assert row["high"] - row["seconds_per_1000"] == pytest.approx(half, rel=1e-6)
    assert "none" not in tables["fit_time"].frame["method"].tolist()


def test_relative_quantiles_by_hand(results, built):
    tables, _ = built
    none = results[results["method"] == "none"].reset_index()
    sms = results[results["method"] == "sms"].reset_index()
    relative = ((sms["brier"] - none["brier"]) / none["brier"]).groupby(sms["dataset"]).mean()
    row = tables["relative_quantiles"].frame.set_index(["metric", "method"]).loc[("brier", "sms")]
    assert row["q25"] == pytest.approx(np.quantile(relative, 0.25))
    assert row["n_datasets"] == 6


def test_same_dataset_name_in_two_benchmarks_counts_twice(make_results):
    both = pd.concat([make_results(n_datasets=3), make_results(n_datasets=3, seed=1, benchmark="c")])
    tables, _ = build(both)
    assert tables["friedman"].frame["n_datasets"].tolist() == [6, 6]


def test_failed_method_is_reported_and_ranks_skip_the_dataset(results):
    where = (results["dataset"] == "d1") & (results["method"] == "sms") & (results["fold"] == 0)
    results.loc[where, ["status", "logloss", "brier"]] = ["timeout", np.nan, np.nan]
    tables, notes = build(results)
    assert any("on some of the 24 experiments: sms (2 timeout)" in note for note in notes)
    assert sum("ranks use 5 of 6 datasets" in note for note in notes) >= 1
    assert tables["friedman"].frame["n_datasets"].tolist() == [5, 5]
    assert tables["incomplete"].frame["status"].tolist() == ["timeout", "timeout"]
    kept = build(results[results["dataset"] != "d1"])[0]["ranks_logloss"].frame
    pd.testing.assert_frame_equal(tables["ranks_logloss"].frame, kept)


def test_no_complete_dataset_says_what_to_leave_out(results):
    results = results[~((results["method"] == "sms") & (results["fold"] == 0))]
    tables, notes = build(results)
    assert "sms finished no dataset and is not ranked" in notes
    assert tables["friedman"].frame["n_datasets"].tolist() == [6, 6]
    part = results["method"].isin(["ts", "svs"]) & (results["fold"] == 1)
    part &= (results["dataset"].isin(["d0", "d1", "d2"])) == (results["method"] == "ts")
    notes = build(results[~part])[1]
    assert any("ranks use 0 of 6" in note and "leave some of these methods out" in note for note in notes)
    tables, notes = build(results, unranked=["sms"])
    assert tables["friedman"].frame["n_datasets"].tolist() == [6, 6]
    assert "sms" in tables["absolute"].frame["method"].tolist()
    assert "sms" not in tables["ranks_logloss"].frame["method"].tolist()


def test_infinite_log_loss_is_last_in_ranks_and_named(results):
    where = (results["method"] == "sms") & (results["fold"] == 0)
    results.loc[where, "logloss"] = np.inf
    tables, notes = build(results)
    assert any("sms has an infinite log loss in 12 of 24 experiments" in note for note in notes)
    assert tables["ranks_logloss"].frame.set_index("method").loc["sms", "rank"] == 4.0
    assert tables["ranks_brier"].frame["method"].iloc[0] == "sms"
    assert np.isinf(tables["absolute"].frame.set_index("method").loc["sms", "logloss"])
    assert any("infinite log loss in 12" in note for note in tables["absolute"].notes)


def test_infinite_baseline(results):
    results.loc[results["method"] == "none", "logloss"] = np.inf
    tables, notes = build(results)
    assert tables["ranks_logloss"].frame.set_index("method").loc["none", "rank"] == 4.0
    assert (tables["relative_by_dataset"].frame["logloss"] == -1.0).all()
    assert any("none has an infinite log loss in 24 of 24" in note for note in notes)


def test_binary_has_five_groups_of_rows(make_results):
    results = make_results(n_datasets=20, models=("m",), n_folds=1)
    tables, _ = build(results.assign(n_classes=2))
    assert tables["rank_by_rows"].frame["group"].max() == 5
    assert tables["rank_by_classes"].frame.empty
    assert build(results)[0]["rank_by_rows"].frame["group"].max() == 4


def test_wrong_options(results):
    with pytest.raises(ValueError, match="alpha must lie"):
        build(results, alpha=0.0)
    with pytest.raises(ValueError, match="no such method"):
        build(results, unranked=["x"])
    with pytest.raises(ValueError, match="always ranked"):
        build(results, unranked=["none"])


def test_order_of_rows_does_not_matter(results, built):
    shuffled = results.sample(frac=1.0, random_state=0)
    one, other = built[0], build(shuffled)[0]
    for name in one:
        pd.testing.assert_frame_equal(one[name].frame, other[name].frame, check_exact=False, rtol=1e-12)


def test_family_column_overrides(results):
    results["family"] = results["method"].map({"sms": "mine"})
    families = build(results)[0]["absolute"].frame.set_index("method")["family"]
    assert families["sms"] == "mine"
    assert families["ts"] == "TS"


def test_no_group_of_ranks_has_a_single_dataset(make_results):
    results = make_results(n_datasets=6)
    # Three small ones, two of a middle size and one that would be alone.
    sizes = {"d0": 100, "d1": 110, "d2": 120, "d3": 500, "d4": 600, "d5": 90_000}
    results["n_cal"] = results["dataset"].map(sizes)
    tables, _ = build_tables(check_results(results))
    groups = tables["rank_by_rows"].frame.drop_duplicates("group")
    assert groups["n_datasets"].min() >= 2
    assert groups["n_datasets"].sum() == 6

"""Win rates against counting, Elo against logistic regression, intervals against the central limit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.needs import needs

pytestmark = pytest.mark.bench
pd = needs("pandas")

from sklearn.linear_model import LogisticRegression  # noqa: E402

from calibrant.bench.study.statistics import elo, win_rates  # noqa: E402

NAMES = ["benchmark", "dataset", "model", "fold"]


def table(n_datasets=8, k=4, n_models=3, seed=0, decimals=1):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_tuples(
        [("b", f"d{d}", f"m{m}", 0) for d in range(n_datasets) for m in range(n_models)], names=NAMES
    )
    values = (rng.normal(size=(len(index), k)) - np.arange(k) / 2).round(decimals)
    return pd.DataFrame(values, index=index, columns=["none", "a", "b", "c"][:k])


def counted(losses):
    rates = {}
    for one in losses.columns:
        pairs = []
        for other in losses.columns.drop(one):
            per_dataset = []
            for _, block in losses.groupby(level=["benchmark", "dataset"]):
                score = []
                for x, y in zip(block[one], block[other]):
                    if not (np.isnan(x) or np.isnan(y)):
                        score.append(1.0 if x < y else 0.5 if x == y else 0.0)
                if score:
                    per_dataset.append(np.mean(score))
            pairs.append(np.mean(per_dataset))
        rates[one] = np.mean(pairs)
    return rates


@pytest.mark.parametrize("gap", [False, True])
def test_win_rates_by_counting(gap):
    losses = table()
    if gap:
        losses.iloc[0:3, 1] = np.nan
        losses.iloc[5, 2] = np.nan
        losses.iloc[7, 3] = np.inf
    frame = win_rates(losses).set_index("method")
    for name, rate in counted(losses).items():
        assert frame.loc[name, "winrate"] == pytest.approx(rate)


def test_win_rates_are_zero_sum_and_bracketed():
    frame = win_rates(table(n_datasets=30))
    assert frame["winrate"].mean() == pytest.approx(0.5)
    assert (frame["low"] < frame["winrate"]).all()
    assert (frame["winrate"] < frame["high"]).all()
    assert (frame["n_datasets"] == 30).all()


def test_bootstrap_interval_has_the_width_of_the_central_limit():
    losses = table(n_datasets=200, k=2, decimals=9)
    row = win_rates(losses).set_index("method").loc["a"]
    per_dataset = (losses["a"] < losses["none"]).groupby(level=["benchmark", "dataset"]).mean()
    half = 1.96 * per_dataset.std() / np.sqrt(200)
    assert (row["high"] - row["low"]) / 2 == pytest.approx(half, rel=0.1)
    assert row["beats_none"] == pytest.approx(per_dataset.mean())
    assert row["beats_none_low"] == pytest.approx(row["low"])


def test_elo_equals_logistic_regression():
    losses = table(n_datasets=12, k=4, n_models=1)
    rows, target, weight = [], [], []
    for i, j in itertools.combinations(range(4), 2):
        x, y = losses.iloc[:, i], losses.iloc[:, j]
        wins = float((x < y).sum() + 0.5 * (x == y).sum())
        for outcome, count in ((1, wins + 0.5), (0, len(losses) - wins + 0.5)):
            rows.append(np.eye(4)[i] - np.eye(4)[j])
            target.append(outcome)
            weight.append(count)
    model = LogisticRegression(C=1e8, fit_intercept=False, tol=1e-12, max_iter=10000)
    model.fit(np.array(rows), target, sample_weight=weight)
    theta = model.coef_[0]
    expected = 1000 + 400 / np.log(10) * (theta - theta[0])
    np.testing.assert_allclose(elo(losses)["elo"], expected, atol=0.05)


def test_elo_stays_finite_for_a_method_that_always_wins():
    losses = table()
    losses["c"] = -100.0
    frame = elo(losses).set_index("method")
    assert np.isfinite(frame.to_numpy()).all()
    assert frame["elo"].idxmax() == "c"
    assert frame.loc["none", "elo"] == 1000.0


def test_one_dataset_has_no_interval_and_one_method_no_rate():
    frame = win_rates(table(n_datasets=1))
    assert frame["low"].isna().all()
    assert frame["winrate"].notna().all()
    assert elo(table(n_datasets=1))["high"].isna().all()
    alone = win_rates(table(k=1))
    assert alone["winrate"].isna().all()
    assert elo(table(k=1))["elo"].tolist() == [1000.0]

"""What a row counts for is the same in every method: weights, votes and copies agree, and groups stay together."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import AutoCalibrator, SegmentedCalibrator, get_calibrator, list_calibrators
from calibrant.sample import Sample, Size
from tests.combinations import one_per_class, with_classes
from tests.needs import needs
from tests.samples import confused, quiet

ALL = list_calibrators()
#: Methods of other packages, which sum in single precision or draw rows themselves.
ELSEWHERE = {"lightgbm", "xgboost", "catboost"}
#: Methods that deal folds.
FOLDED = {"auto", "auto-fast", "sqs", "spline", "dirichlet-cv", *ELSEWHERE}


def fitted(method, *data, **beside):
    if method in ELSEWHERE:
        needs(method)
    with quiet():
        return get_calibrator(method).fit(*data, **beside)


def cases(condition=lambda name: True):
    """Methods with numbers of classes; those that share a class with another are slow."""
    return with_classes([info for info in ALL if condition(info.name)], 2, 3, often=one_per_class(ALL))


@pytest.mark.parametrize(("method", "k"), cases(lambda name: name not in ELSEWHERE))
def test_weight_three_is_three_copies_of_a_row(method, k):
    p, y = confused(90, k, seed=3)
    times = np.random.default_rng(0).integers(1, 4, 90)
    rows = np.repeat(np.arange(90), times)
    q = confused(50, k, seed=4)[0]
    weighted = fitted(method, p, y, times.astype(float)).predict_proba(q)
    np.testing.assert_allclose(weighted, fitted(method, p[rows], y[rows]).predict_proba(q), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize(("method", "k"), cases(lambda name: name not in ELSEWHERE))
def test_votes_are_rows_with_each_label(method, k):
    p, _ = confused(60, k, seed=3)
    votes = np.random.default_rng(0).multinomial(3, np.full(k, 1 / k), size=60)
    rows, y = np.nonzero(votes)
    again = np.repeat(np.arange(len(rows)), votes[rows, y])
    q = confused(50, k, seed=4)[0]
    voted = fitted(method, p, votes).predict_proba(q)
    labelled = fitted(method, p[rows][again], y[again]).predict_proba(q)
    np.testing.assert_allclose(voted, labelled, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize(("method", "k"), cases())
def test_groups_of_one_row_change_nothing(method, k):
    p, y = confused(80, k, seed=3)
    q = confused(50, k, seed=4)[0]
    alone = fitted(method, p, y, groups=[f"row {i}" for i in range(80)])
    assert np.array_equal(alone.predict_proba(q), fitted(method, p, y).predict_proba(q))
    assert np.array_equal(fitted(method, p, y, blocks=1).predict_proba(q), alone.predict_proba(q))


@pytest.fixture
def dealt(monkeypatch):
    """The groups and the folds of every sample whose rows are dealt."""
    seen = []
    folds = Sample.folds

    def spy(self, *args, **options):
        found = folds(self, *args, **options)
        seen.append((self.groups, found))
        return found

    monkeypatch.setattr(Sample, "folds", spy)
    return seen


def assert_together(dealt):
    assert dealt
    for groups, fold in dealt:
        assert groups is not None
        assert len(np.unique(np.column_stack([groups, fold]), axis=0)) == len(np.unique(groups))
        assert fold.max() > 0


@pytest.mark.parametrize(("method", "k"), cases(lambda name: name in FOLDED))
def test_folds_keep_groups_together(method, k, dealt):
    p, y = confused(120, k, seed=3)
    groups = np.random.default_rng(0).integers(30, size=120)
    fitted(method, p, y, groups=groups)
    assert_together(dealt)


@pytest.mark.parametrize(("method", "k"), cases(lambda name: name not in FOLDED))
def test_methods_without_folds_ignore_groups(method, k, dealt):
    p, y = confused(120, k, seed=3)
    together = fitted(method, p, y, blocks=4).predict_proba(p)
    assert np.array_equal(together, fitted(method, p, y).predict_proba(p))
    assert not dealt


def test_the_folds_of_segments_keep_groups_together(dealt):
    p, y = confused(200, 2, seed=3)
    groups = np.arange(200) // 5
    region = np.where(np.arange(200) % 2, "north", "south")
    SegmentedCalibrator("sqs", trees=False).fit(p, y, segments={"region": region}, groups=groups)
    assert_together(dealt)


@pytest.mark.parametrize("k", [2, 3])
def test_weight_three_is_three_copies_where_the_ranking_is_kept(k):
    p, y = confused(90, k, seed=3)
    times = np.random.default_rng(0).integers(1, 4, 90)
    rows, q = np.repeat(np.arange(90), times), confused(50, k, seed=4)[0]
    weighted = AutoCalibrator(monotone=True).fit(p, y, times.astype(float)).predict_proba(q)
    copied = AutoCalibrator(monotone=True).fit(p[rows], y[rows]).predict_proba(q)
    np.testing.assert_allclose(weighted, copied, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_a_monotone_map_keeps_the_ranking_everywhere(seed):
    p, y = confused(60, 2, seed=seed)
    auto = AutoCalibrator(monotone=True, classes=[0, 1]).fit(p, 1 - y if seed % 2 else y)
    tail = np.logspace(-300, -3, 200)
    grid = np.concatenate([[0.0], tail, np.linspace(0.001, 0.999, 999), 1.0 - np.logspace(-3, -16, 100), [1.0]])
    found = auto.predict_proba(np.column_stack([1.0 - grid, grid]))[:, 1]
    assert np.diff(found).min() > -1e-15  # the last digit may round
    p, y = confused(60, 4, seed=seed)
    auto = AutoCalibrator(monotone=True).fit(p, y)
    far = np.random.default_rng(seed).dirichlet(np.full(4, 0.05), 2000)
    q = auto.predict_proba(far)
    assert np.array_equal(q[np.arange(2000), far.argmax(axis=1)], q.max(axis=1))


def test_two_groups_are_too_few_for_more_than_a_temperature():
    p, y = confused(200, 3, seed=3)
    auto = get_calibrator("auto").fit(p, y, groups=np.arange(200) % 2)
    assert set(auto.member_weights_) == {"temperature", "none"}


@pytest.mark.parametrize("method", sorted(FOLDED - ELSEWHERE))
def test_a_single_group_can_be_fitted(method):
    p, y = confused(60, 3, seed=3)
    q = fitted(method, p, y, groups=np.zeros(60)).predict_proba(p)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)


def test_auto_says_rows_and_observations():
    p, y = confused(300, 3, seed=3)
    weight = np.full(300, 146 / 300)
    assert "gained on 300 rows, 146 observations)" in get_calibrator("auto").fit(p, y, weight).summary()
    assert (
        get_calibrator("ts")
        .fit(p, y, weight)
        .summary()
        .startswith("TemperatureScalingCalibrator, fitted to 300 rows, 146 observations: ")
    )
    assert "on 300 rows in 60 groups)" in get_calibrator("auto").fit(p, y, blocks=5).summary()


def test_thinned_rows_are_whole_groups():
    groups = np.arange(1000) // 7
    sample = Sample(np.tile([0.5, 0.5], (1000, 1)), np.arange(1000) % 2, None, groups)
    some = sample.thinned(200, np.random.RandomState(0))
    assert 190 < some.n_rows <= 200
    assert np.isin(groups, some.groups).sum() == some.n_rows
    few = Sample(sample.values, sample.y, None, np.zeros(1000, dtype=int)).thinned(200, np.random.RandomState(0))
    assert few.n_rows == 200


def test_merged_copies_count_for_all_of_them():
    values = np.array([[0.2, 0.8], [0.5, 0.5], [0.2, 0.8], [0.2, 0.8]])
    merged = Sample(values, np.array([1, 0, 0, 1]), np.array([1.0, 2.0, 1.0, 0.5])).merged()
    assert merged.values[:, 0].tolist() == [0.2, 0.5, 0.2]
    assert merged.y.tolist() == [1, 0, 0]
    assert merged.counts.tolist() == [1.5, 2.0, 1.0]
    apart = Sample(values, np.array([1, 0, 0, 1]), None, np.array([0, 0, 0, 1]))
    assert apart.merged() is apart


def test_a_sample_says_how_many_rows_and_observations_it_has():
    sample = Sample(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), counts=np.array([3.0, 1.5]))
    assert (sample.n_rows, sample.total, str(sample)) == (2, 4.5, "2 rows, 4.5 observations")
    assert str(Size(1)) == "1 row"

"""Rows that depend on each other stay together in the folds of a calibrated classifier and of its calibrator."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from calibrant import CalibratedClassifier
from calibrant.sample import Sample


def patients(n_groups=30, size=4, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    X = rng.normal(size=(n_groups, 2))[groups] + 0.3 * rng.normal(size=(n_groups * size, 2))
    return X, (X[:, 0] + rng.normal(size=n_groups)[groups] > 0).astype(int), np.array([f"p{g}" for g in groups])


class Spy(LogisticRegression):
    """Notes the rows of each fit, by their first feature."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        Spy.seen.append(set(X[:, 0].tolist()))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("cv", [None, 4, GroupKFold(3), StratifiedGroupKFold(3)])
def test_no_group_is_on_both_sides_of_a_fold(cv):
    X, y, groups = patients()
    Spy.seen = []
    model = CalibratedClassifier(Spy(), "ts", cv=cv).fit(X, y, groups=groups)
    assert len(Spy.seen) == len(model.calibrators_) == (5 if cv is None else cv if isinstance(cv, int) else 3)
    for rows in Spy.seen:
        trained = np.isin(X[:, 0], list(rows))
        assert not set(groups[trained]) & set(groups[~trained])


def test_a_splitter_that_needs_groups_says_how_to_give_them():
    X, y, _ = patients()
    with pytest.raises(
        ValueError,
        match=r"GroupKFold splits by group, but no groups were given.*fit\(X, y, groups=",
    ):
        CalibratedClassifier(LogisticRegression(), "ts", cv=GroupKFold(3)).fit(X, y)


def test_fewer_groups_than_folds_make_fewer_folds():
    X, y, _ = patients()
    model = CalibratedClassifier(LogisticRegression(), "ts").fit(X, y, groups=np.arange(len(y)) % 3)
    assert len(model.calibrators_) == 3


def test_a_single_group_is_explained():
    X, y, _ = patients()
    with pytest.raises(ValueError, match=r"All rows belong to one group"):
        CalibratedClassifier(LogisticRegression(), "ts").fit(X, y, groups=np.zeros(len(y)))


@pytest.mark.parametrize("ensemble", ["auto", True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_the_calibrator_gets_the_groups(ensemble, frozen, monkeypatch):
    X, y, groups = patients()
    dealt = []
    folds = Sample.folds

    def spy(self, *args, **options):
        dealt.append(self.groups)
        return folds(self, *args, **options)

    monkeypatch.setattr(Sample, "folds", spy)
    estimator = FrozenEstimator(LogisticRegression().fit(X, y)) if frozen else LogisticRegression()
    CalibratedClassifier(estimator, "sqs", ensemble=ensemble).fit(X, y, groups=groups)
    assert dealt
    assert all(found is not None for found in dealt)


def test_groups_of_one_row_change_nothing():
    X, y, _ = patients()
    fits = [
        CalibratedClassifier(LogisticRegression(), "sqs").fit(X, y, **beside)
        for beside in ({}, {"groups": range(len(y))})
    ]
    assert np.array_equal(*(model.predict_proba(X) for model in fits))


@pytest.mark.parametrize("cv", [3, GroupKFold(3)])
def test_groups_are_routed(cv):
    X, y, groups = patients()
    plain = CalibratedClassifier(LogisticRegression(), "ts", cv=cv).fit(X, y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = CalibratedClassifier(LogisticRegression(), "ts", cv=cv).fit(X, y, groups=groups)
    assert np.array_equal(plain.predict_proba(X), routed.predict_proba(X))

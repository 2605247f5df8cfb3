"""MAPIE around a calibrated classifier: its guarantee holds as before, and the sets are smaller."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import CalibratedClassifier
from tests.needs import needs

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"


@pytest.mark.peer
@pytest.mark.parametrize(
    ("classifier", "score", "smaller"),
    [(GaussianNB(), "lac", 0.3), (RandomForestClassifier(random_state=0), "aps", 0.75)],
    ids=["naive Bayes", "forest"],
)
def test_sets_are_smaller_and_cover(classifier, score, smaller):
    conformal = needs("mapie.classification").SplitConformalClassifier
    X, y = load_digits(return_X_y=True)
    sizes, covered = [], []
    for split in range(3):
        X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.6, stratify=y, random_state=split)
        X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=split)
        for model in (classifier, CalibratedClassifier(classifier)):
            fitted = model.fit(X_train, y_train)
            sets = conformal(fitted, confidence_level=0.95, conformity_score=score, prefit=True)
            chosen = sets.conformalize(X_cal, y_cal).predict_set(X_test)[1][:, :, 0]
            sizes.append(chosen.sum(axis=1).mean())
            covered.append(chosen[np.arange(len(y_test)), y_test].mean())
    assert np.mean(sizes[1::2]) < smaller * np.mean(sizes[::2])
    # 95 % is promised; three test sets of 540 rows leave half a percent of standard error.
    assert np.mean(covered[1::2]) > 0.935


@pytest.mark.peer
def test_the_example_of_the_page_says_what_the_page_shows(capsys):
    needs("mapie.classification")
    section = PAGE.read_text(encoding="utf-8").split("## With MAPIE")[1]
    code, output = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", section, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == output

"""Scales of grades: how they are made, both ways of the mapping, and the same in SQL and Python."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from calibrant import MasterScale
from tests.needs import needs

LETTERS = ["A", "B", "C"]


@pytest.fixture
def scale() -> MasterScale:
    return MasterScale([0.01, 0.05], LETTERS, [0.004, 0.02, 0.1])


def test_a_boundary_belongs_to_the_better_grade(scale: MasterScale) -> None:
    p = [0.0, 0.01, np.nextafter(0.01, 1), 0.05, 0.051, 1.0]
    assert scale.grade(p).tolist() == ["A", "A", "B", "B", "C", "C"]
    assert scale.grade(np.column_stack([1 - np.array(p), p])).tolist() == scale.grade(p).tolist()
    assert scale.inverse(scale.grade(p)).tolist() == [0.004, 0.004, 0.02, 0.02, 0.1, 0.1]
    assert scale.index(scale.inverse(LETTERS)).tolist() == [0, 1, 2]


def test_scales_without_probabilities_stand_for_the_middle_of_log_odds() -> None:
    found = MasterScale([0.1, 0.5, 0.9]).inverse(["1", "2", "3", "4"])
    np.testing.assert_allclose(found, [0.1, 0.25, 0.75, 0.9])
    assert MasterScale([]).inverse(["1"]).tolist() == [0.5]


def test_quantiles_make_grades_of_equal_mass_and_weights_repeat_rows() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1, 9, 700).round(3)
    found = MasterScale.from_quantiles(p, 7)
    counts = np.bincount(found.index(p))
    assert len(found) == 7
    assert counts.max() - counts.min() <= 10  # equal values share a grade
    np.testing.assert_allclose(found.inverse(found.names), [p[found.index(p) == g].mean() for g in range(7)])
    weight = rng.integers(0, 4, 700)
    weighed = MasterScale.from_quantiles(p, 5, sample_weight=weight)
    repeated = MasterScale.from_quantiles(np.repeat(p, weight), 5)
    np.testing.assert_allclose(weighed.boundaries, repeated.boundaries)
    np.testing.assert_allclose(weighed.probabilities, repeated.probabilities)
    assert len(MasterScale.from_quantiles([0.2] * 9, 3)) == 1
    near = np.nextafter(0.1, 1)
    assert len(MasterScale.from_quantiles([0.1] * 3 + [near] * 3, 2)) == 2  # the mean of 0.1 may round to more


def test_columns_make_the_same_scale(scale: MasterScale) -> None:
    again = MasterScale.from_dict(scale.to_dict())
    assert again.to_dict() == scale.to_dict()
    assert len(scale.to_pandas()) == 3 if needs("pandas") else True
    assert "B up to 5.0%, C up to 100%" in repr(scale)
    with pytest.raises(ValueError, match="needs a column upper"):
        MasterScale.from_dict({"grade": ["A"]})
    with pytest.raises(ValueError, match="must reach up to 1"):
        MasterScale.from_dict({"upper": [0.1, 0.5]})


def test_sql_and_python_give_the_same_grades(scale: MasterScale) -> None:
    p = np.concatenate([np.random.default_rng(1).random(200) ** 3, [0, 1, 0.01, 0.05]])
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE t (pd REAL)")
    base.executemany("INSERT INTO t VALUES (?)", [(value,) for value in p.tolist()])
    rows = base.execute(f"SELECT {scale.to_sql('pd')} FROM t").fetchall()
    assert [row[0] for row in rows] == scale.grade(p).tolist()
    odd = base.execute(
        f"SELECT {scale.to_sql('pd')} FROM (SELECT NULL AS pd UNION ALL SELECT -0.1 UNION ALL SELECT 1.1)"
    )
    assert odd.fetchall() == [(None,)] * 3
    scope: dict = {}
    exec(scale.to_python(), scope)
    assert [scope["grade"](value) for value in p.tolist()] == scale.grade(p).tolist()
    with pytest.raises(ValueError, match="nan is not a probability"):
        scope["grade"](float("nan"))


def test_sql_is_read_by_other_databases(scale: MasterScale) -> None:
    sqlglot = needs("sqlglot")
    for dialect in ("postgres", "bigquery", "snowflake", "spark", "mysql", "duckdb"):
        assert sqlglot.parse_one(f"SELECT {scale.to_sql('pd')} FROM t", read=dialect)
    with pytest.raises(ValueError, match="would be spelled differently in some databases"):
        MasterScale([0.1], ["good", "it's bad"]).to_sql()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (([0.5, 0.2],), "boundaries must ascend"),
        (([0.0, 0.2],), "boundaries must ascend"),
        (([0.2], ["A"]), "1 boundaries make 2 grades, which need 2 different names"),
        (([0.2], ["A", "A"]), "2 different names"),
        (([0.2], None, [0.1]), "2 grades need 2 probabilities, got 1"),
        (([0.2], None, [0.3, 0.4]), "the probability 0.3 of grade 1 is not between 0.0 and 0.2"),
    ],
)
def test_impossible_scales_are_refused(given: tuple, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        MasterScale(*given)


def test_impossible_questions_are_refused(scale: MasterScale) -> None:
    with pytest.raises(ValueError, match="no grade is called 'D'; the grades are 'A', 'B'"):
        scale.inverse(["D"])
    with pytest.raises(ValueError, match="between 0 and 1, one per row"):
        scale.grade([0.1, 1.2])
    with pytest.raises(ValueError, match="between 0 and 1, one per row"):
        scale.grade(np.full((2, 3), 0.3))
    with pytest.raises(ValueError, match="n_grades must be"):
        MasterScale.from_quantiles([0.1, 0.2], 0)
    with pytest.raises(ValueError, match="probabilities must ascend"):
        MasterScale.from_probabilities([0.1, 0.05])
    y, p = [0, 1], [0.1, 0.2]
    with pytest.raises(ValueError, match="no probabilities to test"):
        MasterScale([0.1]).backtest(y, p, against="grades")
    with pytest.raises(ValueError, match="alternative must be"):
        scale.backtest(y, p, alternative="more")
    with pytest.raises(ValueError, match="the larger first"):
        scale.backtest(y, p, lights=(0.01, 0.05))
    with pytest.raises(ValueError, match="against must be"):
        scale.backtest(y, p, against="both")
    with pytest.raises(ValueError, match="label is needed for 3 classes"):
        scale.backtest([0, 1, 2], np.full((3, 3), 1 / 3))
    with pytest.raises(ValueError, match="before has 2 rows and after 1"):
        scale.migration(p, [0.1])


def test_migration_by_hand() -> None:
    scale = MasterScale([0.1, 0.2])
    before, after = [0.05] * 6 + [0.15] * 3 + [0.5], [0.05] * 3 + [0.15, 0.15, 0.9] + [0.15, 0.05, 0.3] + [0.5]
    found = scale.migration(before, after)
    assert found.counts.tolist() == [[3, 2, 1], [1, 1, 1], [0, 0, 1]]
    assert (found.stayed, found.better, found.worse) == (0.5, 0.1, 0.4)
    assert found.p_value == pytest.approx(2 * 6 / 32)  # one or none of five moves
    assert found.upper_bandwidth == pytest.approx((2 * 1 + 1 * 2 + 1 * 1) / (2 * 3 + 1 * 1))
    assert found.lower_bandwidth == pytest.approx(1.0)
    now, then = np.array([4, 3, 3]) / 10, np.array([6, 3, 1]) / 10
    assert found.stability_index == pytest.approx(np.sum((now - then) * np.log(now / then)))
    assert "50.0% stayed in their grade; 10.0% moved to a better grade and 40.0% to a worse one" in repr(found)
    assert "no evidence of a direction" in repr(found)
    assert found.to_dict()["2"].tolist() == [2, 1, 0]
    weighed = scale.migration(before, after, sample_weight=np.full(10, 30))
    assert weighed.p_value < 1e-9
    assert "more than chance" in repr(weighed)
    copies = np.repeat(np.arange(10), 30)
    together = scale.migration(np.array(before)[copies], np.array(after)[copies], groups=copies)
    assert together.p_value > 0.05


def test_migration_of_nobody() -> None:
    found = MasterScale([0.5]).migration([0.1, 0.2], [0.2, 0.1])
    assert (found.p_value, found.stayed, found.stability_index) == (1.0, 1.0, 0.0)
    assert np.isnan(found.upper_bandwidth)
    assert repr(found) == "2 observations in two periods: 100.0% stayed in their grade; none moved."


def test_one_grade_is_said_in_the_singular():
    assert repr(MasterScale([])) == "MasterScale of 1 grade: 1 up to 100%"
    assert repr(MasterScale([0.5])) == "MasterScale of 2 grades: 1 up to 50.0%, 2 up to 100%"

"""Random maps in every target: rows that are predictions and rows that are none, one column and several, all levels."""

from __future__ import annotations

import datetime
import importlib.util
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from calibrant import get_calibrator
from calibrant.deployment.segments.columns import learn_columns
from calibrant.inputs.segments import read_segments
from calibrant.runtime import Map
from calibrant.simplex import FLOOR
from calibrant.steps import Columns, Join, Levels, Log, Softmax, Sum
from calibrant.writers import python_source, sql
from tests.fuzz.cases import PREDICTIONS, draw_labels, draw_predictions
from tests.writers import answers

#: Methods whose maps have every kind of step, and which are fitted quickly.
METHODS = ("none", "isotonic", "venn-abers", "hist-uniform", "beta", "platt", "ts", "ets", "vs", "svs", "ms", "kernel")
#: Targets in Python, and those that start programs, for one seed in so many.
INSIDE, OUTSIDE, PROGRAMS = (
    {"sql": "duckdb", "sqlite": "duckdb", "onnx": "onnxruntime", "torch": "torch"},
    {"js": "node", "c": "cc"},
    20,
)
#: What makes a row none of probabilities, or hardly one.
ODD = (np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, -1e-12, 1.004, 1.005, 1.006, 1.2, 5.0, 70.0, 1e308, -1e308, -800.0)


def targets(seed: int) -> list[str]:
    """Those that can run here."""
    found = [to for to, module in INSIDE.items() if importlib.util.find_spec(module)]
    if seed % PROGRAMS == 0:
        found += [to for to, program in OUTSIDE.items() if shutil.which(program)]
    return ["python", *found]


@dataclass(frozen=True)
class ExportedCase:
    """A map and rows for it, of `columns` columns."""

    seed: int
    method: str
    map: Map
    rows: np.ndarray

    def __str__(self) -> str:
        kind = "logits" if self.map.logits else "rescaled" if self.map.renormalize else "probabilities"
        return f"seed {self.seed}: {self.method} exported, {self.rows.shape[1]} of {self.map.k} columns of {kind}"


def make_exported(seed: int) -> ExportedCase:
    """The case of a seed."""
    rng = np.random.default_rng([13, seed])
    method, k = METHODS[seed % len(METHODS)], int(rng.choice([2, 2, 2, 3, 5]))
    kind = str(rng.choice(["probabilities", "probabilities", "logits", "rescaled"]))
    p = draw_predictions(rng, 60, k, str(rng.choice(PREDICTIONS))).astype(np.float64)
    names = rng.permutation(k) if rng.random() < 0.3 else np.arange(k)
    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        warnings.simplefilter("ignore")
        calibrator = get_calibrator(
            method,
            classes=names,
            input="logits" if kind == "logits" else "probabilities",
            renormalize=kind == "rescaled",
        )
        # Logits further apart than the floor allows are refused as scores.
        calibrator.fit(np.log(np.maximum(p, FLOOR)) if kind == "logits" else p, names[draw_labels(rng, p, "ordinary")])
    rows = np.vstack([p[:8], draw_predictions(rng, 12, k, "ordinary"), np.eye(k)])
    with np.errstate(divide="ignore"):
        rows = np.log(rows) + rng.normal(size=(len(rows), 1)) if kind == "logits" else rows
    rows = _spoiled(rng, rows * rng.choice([1.0, 1.0, 1.0, 1.003, 0.996, 1.01, 100.0], (len(rows), 1)))
    return ExportedCase(seed, method, calibrator.to_map(), rows[:, 1:] if k == 2 and rng.random() < 0.5 else rows)


def _spoiled(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """Rows of which some numbers are odd ones."""
    return np.where(rng.random(rows.shape) < 0.15, rng.choice(ODD, rows.shape), rows)


def check_exported(case: ExportedCase) -> None:
    """Every target answers what `predict_proba` answers, and refuses what that refuses."""
    single = case.rows.shape[1] == 1
    rows = case.rows.tolist()
    expected = np.array(answers.runtime(case.map, rows))
    allowed = np.full(len(rows), 1e-9)
    for turn in (1.0, -1.0):  # where the map is steep, the last digit matters
        sign = turn * np.where(np.arange(case.rows.shape[1]) % 2, 1.0, -1.0)
        moved = np.array(answers.runtime(case.map, (case.rows * (1.0 + sign * 2e-15)).tolist()))
        allowed += 4.0 * np.nan_to_num(np.abs(moved - expected).max(axis=1))
    for to in targets(case.seed):
        if single and case.map.renormalize and to in ("c", "onnx"):
            continue  # they take both columns, which are rescaled whatever they are
        found = np.array(answers.TARGETS[to][0](case.map, rows))
        for row, q, target, most in zip(rows, expected, found, allowed):
            assert np.isnan(target).all() == np.isnan(q).all(), f"{to} answers {target} to {row}, predict_proba {q}"
            assert np.isnan(q).all() or np.abs(target - q).max() <= most, f"{to}: {target} for {row}, not {q}"


#: Ways to write whole numbers, in Python and as types of a database.
WHOLE: dict[str, tuple[Callable[[int], Any], str]] = {
    "int": (int, "BIGINT"),
    "float": (float, "DOUBLE"),
    "decimal": (lambda i: Decimal(f"{i}.00"), "DECIMAL(18, 2)"),
    "text": (str, "VARCHAR"),
    "decimals": (lambda i: f"{i}.00", "VARCHAR"),
    "padded": (lambda i: f"{'-' if i < 0 else ''}00{abs(i)}", "VARCHAR"),
}
PARTS: dict[str, tuple[Callable[[int], Any], str]] = {
    "float": (lambda i: i / 4.0, "DOUBLE"),
    "decimal": (lambda i: Decimal(i) / 4, "DECIMAL(18, 4)"),
    "text": (lambda i: f"{i / 4.0:.4f}", "VARCHAR"),
    "single": (lambda i: np.float32(i / 4.0), "FLOAT"),
}
DAY = datetime.date(2024, 1, 1)
DATES: dict[str, tuple[Callable[[int], Any], str]] = {
    "date": (lambda i: DAY + datetime.timedelta(i), "DATE"),
    "time": (lambda i: datetime.datetime(2024, 1, 1) + datetime.timedelta(i), "TIMESTAMP"),
    "text": (lambda i: str(DAY + datetime.timedelta(i)), "VARCHAR"),
}
BOOLEANS: dict[str, tuple[Callable[[int], Any], str]] = {
    "bool": (lambda i: i % 2 == 0, "BOOLEAN"),
    "text": (lambda i: ["true", "false"][i % 2], "VARCHAR"),
    "capitals": (lambda i: ["TRUE", "FALSE"][i % 2], "VARCHAR"),
}


@dataclass(frozen=True)
class LevelCase:
    """Levels written in one way, rows in another, and the level of each row (-1: none)."""

    seed: int
    then: str
    now: str
    map: Map
    intercept: np.ndarray
    codes: np.ndarray
    values: list[Any]
    kind: str

    def __str__(self) -> str:
        return f"seed {self.seed}: levels of {self.then}, rows of {self.now}"


def make_levels(seed: int) -> LevelCase:
    """The case of a seed."""
    rng = np.random.default_rng([17, seed])
    family = [WHOLE, WHOLE, PARTS, DATES, BOOLEANS][int(rng.integers(5))]
    then, now = (str(rng.choice(list(family))) for _ in range(2))
    pool = rng.permutation(np.arange(-9 if family in (WHOLE, PARTS) else 0, 40))
    known = np.array([0, 1]) if family is BOOLEANS else pool[: int(rng.integers(1, 8))]
    count, (write, kind) = len(known), family[now]
    column = np.empty(count, dtype=object)
    column[:] = [family[then][0](int(i)) for i in known]
    levels = learn_columns(read_segments({"x": column}, count))["x"].tolist()
    place = {int(i): levels.index(text) for i, text in zip(known, _texts(column))}
    drawn = known[rng.integers(0, count, 12)]
    if family is not BOOLEANS:
        drawn = np.where(rng.random(12) < 0.3, rng.choice(pool[8:], 12), drawn)
    codes = np.array([place.get(int(i), -1) for i in drawn])
    intercept = rng.normal(size=(len(levels), 2))
    pick = [Columns(np.array([0, 1])), Log()]
    corrected = [Join((pick, [Columns(np.array([2]))])), Levels(intercept, np.zeros_like(intercept))]
    map_ = Map(["no", "yes"], [Sum((pick, corrected)), Softmax()], segments={"x": levels})
    return LevelCase(seed, then, now, map_, intercept, codes, [write(int(i)) for i in drawn], kind)


def _texts(column: np.ndarray) -> list[str]:
    """The level of each value as `fit` spells it: its own text, numbers without leading and trailing zeros."""
    return [
        value
        if isinstance(value, str)
        else str(value).removesuffix(" 00:00:00")
        if isinstance(value, (bool, datetime.date))
        else f"{float(value):.17g}"
        for value in column
    ]


def check_levels(case: LevelCase) -> None:
    """Rows of a known level get its intercepts, others none, in calibrant and in every target that reads values."""
    rng = np.random.default_rng([19, case.seed])
    p = rng.dirichlet(np.ones(2), 12)
    odds = p * np.exp(np.where((case.codes >= 0)[:, None], case.intercept[case.codes], 0.0))
    expected = odds / odds.sum(axis=1, keepdims=True)
    column = np.empty(12, dtype=object)
    column[:] = case.values
    found = {"runtime": case.map.predict_proba(p, segments={"x": column})}
    scope: dict[str, Any] = {}
    exec(python_source.write(case.map, []), scope)
    found["python"] = [scope["calibrate"](row, {"x": value}) for row, value in zip(p.tolist(), case.values)]
    if importlib.util.find_spec("duckdb"):
        found["sql"] = _queried(case, p)
    for to, predicted in found.items():
        off = np.abs(np.array(predicted) - expected).max(axis=1)
        worst = int(off.argmax())
        assert off[worst] <= 1e-12, f"{to}: {case.values[worst]!r} is not found among {case.map.segments['x']}"


def _queried(case: LevelCase, p: np.ndarray) -> Any:
    import duckdb

    values = [float(str(value)) if isinstance(value, np.floating) else value for value in case.values]
    with duckdb.connect() as base:
        base.execute(f"CREATE TABLE predictions (no DOUBLE, yes DOUBLE, x {case.kind})")
        base.executemany("INSERT INTO predictions VALUES (?, ?, ?)", [[*row, x] for row, x in zip(p.tolist(), values)])
        return base.execute(sql.write(case.map, [], dialect="duckdb")).fetchall()

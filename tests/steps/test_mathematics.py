"""The printed mathematics of a map, read back and computed by itself, gives what the map gives."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

import calibrant
from calibrant.steps import (
    Clip,
    Columns,
    Curves,
    Exp,
    Join,
    KeepTop,
    Kernel,
    Lead,
    Levels,
    Line,
    Linear,
    Log,
    LogOdds,
    Mix,
    OneVsOne,
    OneVsRest,
    Polynomial,
    Scale,
    Sigmoid,
    Softmax,
    Spline,
    StepFunction,
    Sum,
    Trees,
)
from calibrant.steps.mathematics import formula, log_odds_line

RNG = np.random.default_rng(0)
#: Words where a formula is too long to be written out, and cannot be computed from the text.
IN_WORDS = re.compile(r"\.\.\.|numbers|trees|landmarks|through|values|pairs|keeps|level")


def rows(k, n=200, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), size=n)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    sharp = p**1.6 + 1e-4
    return sharp / sharp.sum(axis=1, keepdims=True), y


def computed(lines, p):
    """The value of the last line: an interpreter of what a reader reads, which knows nothing of steps."""
    known = {"p": p.T}

    def steps(x, *pairs):
        out = np.full_like(x, pairs[-1][0])
        for value, edge in reversed(pairs[:-1]):
            out = np.where(x <= edge, value, out)
        return out

    functions = {
        "log": lambda x: np.maximum(np.log(x), -87.3365478515625),
        "exp": np.exp,
        "softmax": lambda x: softmax(x, axis=0),
        "sum": lambda x: x.sum(axis=0),
        "max": np.maximum,
        "min": np.minimum,
        "array": lambda *v: np.array(v)[:, None] if len(v) > 1 else v[0],
        "stack": lambda *v: np.vstack([np.atleast_2d(x) for x in v]),
        "matrix": lambda rows: np.array([[float(cell) for cell in row.split()] for row in rows.split(";")]),
        "line": lambda x, *points: np.interp(x, [a for a, _ in points], [b for _, b in points]),
        "steps": steps,
        "np": np,
    }
    lower = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
    for line in lines:
        name, _, text = line.translate(lower).partition(" = ")
        text = text.replace("−", "-").replace("·", "*").replace("^", "**")
        text = re.sub(r"log (\w+)$", r"log(\1)", text)
        text = re.sub(r"(\w+) × \[([^]]*)\]", lambda m: f"(matrix('{m[2]}').T @ {m[1]})", text)
        text = re.sub(r"(?<!\w)\(((?:-?[\d.e-]+(?:, )?)+)\)", r"array(\1)", text)
        text = re.sub(
            r"; (.*?); constant beyond\)", lambda m: ", " + re.sub(r"(\S+) → ([^,]+)", r"(\1, \2)", m[1]) + ")", text
        )
        if text.startswith("steps("):
            text = re.sub(r"(\S+) up to ([^,]+)", r"(\1, \2)", text).replace("; ", ", ")
            text = re.sub(r"(\S+) above\)", r"(\1,))", text)
        text = re.sub(r"(\w+)\[(\d+)\]", lambda m: f"{m[1]}[{int(m[2]) - 1}]", text)
        text = re.sub(r"^\((.*, .*)\)$", r"stack(\1)", text)
        known[name] = eval(text, functions, known)
    return known["q"].T


@pytest.mark.parametrize(
    ("method", "k"),
    [
        (info.name, k)
        for info in calibrant.list_calibrators()
        for k in ((2, 3) if info.multiclass else (2,))
        if info.stores
    ],
)
def test_what_is_printed_is_what_is_predicted(method, k):
    p, y = rows(k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        fitted = calibrant.get_calibrator(method).fit(p, y)
    lines = formula(fitted.steps(), k)
    assert lines[-1].startswith("q = ")
    assert max(map(len, lines)) < 600
    if any(IN_WORDS.search(line) for line in lines):
        return
    new = rows(k, seed=1)[0]
    np.testing.assert_allclose(computed(lines, new), fitted.predict_proba(new), atol=5e-5)


def test_most_methods_of_two_classes_are_written_out_in_full():
    p, y = rows(2)
    found = {}
    for name in (
        "ts",
        "beta",
        "affine",
        "quadratic",
        "sms",
        "svs",
        "sqs",
        "hist-quantile",
        "platt",
        "dirichlet",
        "ets",
    ):
        lines = formula(calibrant.get_calibrator(name).fit(p, y).steps(), 2)
        found[name] = not any(IN_WORDS.search(line) for line in lines)
    assert [name for name, whole in found.items() if not whole] == []


@pytest.mark.parametrize("method", ["affine", "beta", "platt-logits", "vs", "ms", "ts-unsmoothed"])
def test_the_line_of_log_odds(method):
    p, y = rows(2)
    fitted = calibrant.get_calibrator(method).fit(p, y)
    line = log_odds_line(fitted.steps()).replace("− ", "+ −").replace("−", "-")
    new = np.array([0.02, 0.3, 0.9])
    terms = re.findall(r"(-?[\d.e-]+)(?: · (logit p\[2\]|log p\[2\]|log p\[1\]))?(?: |$)", line.partition(" = ")[2])
    value = {"": 1.0, "logit p[2]": logit(new), "log p[2]": np.log(new), "log p[1]": np.log(1 - new)}
    z = sum(float(number) * value[what] for number, what in terms)
    np.testing.assert_allclose(expit(z), fitted.predict_proba(new)[:, 1], atol=2e-6)


def test_no_line_where_there_is_none():
    p, y = rows(2)
    for method in ("none", "ts", "sms", "isotonic", "quadratic", "spline"):
        assert log_odds_line(calibrant.get_calibrator(method).fit(p, y).steps()) == ""


@pytest.mark.parametrize(
    ("step", "width", "text"),
    [
        (
            Line(np.array([0.0, 1.0]), np.array([0.1, 0.5]), extend=True),
            1,
            "line(p; 0 → 0.1, 1 → 0.5; continued beyond)",
        ),
        (Spline(np.arange(2.0), np.arange(2.0), np.zeros(2)), 1, "spline(p; 0 → 0, 1 → 1; continued beyond)"),
        (StepFunction(np.array([0.5]), np.array([0.2, 0.7])), 1, "steps(p; 0.2 up to 0.5, 0.7 above)"),
        (StepFunction(np.arange(20.0), np.arange(21.0)), 1, "a step function of p with 21 values from 0 to 20"),
        (Lead(), 3, "(largest of p, its lead before the second largest)"),
        (Levels(np.zeros((1, 2)), np.ones((1, 2))), 3, "a[s] + b[s] · p for the level s .* b = [1 1]"),
        (Kernel(np.zeros((7, 4)), 2.0, 0.5, 3.0), 2, "exp(−d² / 3), d .* from 7 landmarks"),
        (KeepTop(([Scale(2.0)],)), 2, "p + t · (x₁ − p), with the largest t ≤ 1"),
        (
            Trees(np.zeros((3, 2), int), np.full((3, 2), -1), np.zeros((3, 2)), np.full((3, 4, 2), -0.5)),
            2,
            "the sum of 3 trees of depth 2, which .* adds from −0.5 to −0.5",
        ),
    ],
)
def test_single_steps(step, width, text):
    pattern = ".*".join(map(re.escape, text.split(" .* ")))
    assert re.search(pattern, formula([step], width)[-1])


def test_one_against_one_and_many_classes_stay_short():
    p, y = rows(12, n=600)
    one = calibrant.OneVsOneCalibrator(calibrant.get_calibrator("beta")).fit(p, y)
    lines = formula(one.steps(), 12)
    assert len(lines) < 20
    assert "... and 64 more likewise, with numbers of their own" in lines
    assert "12 × 12 numbers" in formula(calibrant.get_calibrator("ms").fit(p, y).steps(), 12)[1]


def test_lists_are_written_out_up_to_a_length():
    """Ten numbers, four rows, twelve points and two parts are read at a glance, more are not."""
    ten, eleven = (formula([Scale(np.arange(n) - 0.5)], n)[0] for n in (10, 11))
    assert ten.startswith("q = (−0.5, 0.5, 1.5")
    assert eleven == "q = (11 numbers from −0.5 to 9.5) · p"
    assert formula([Linear(np.eye(4)[:, :2])], 4) == ["q = p × [1 0; 0 1; 0 0; 0 0]"]
    five = np.diag([1.0, 2.0, 3.0, 4.0, 5.0]) + np.triu(np.full((5, 5), -0.25), 1)
    assert formula([Linear(five)], 5) == [
        "q = p × [5 × 5 numbers: from 1 to 5 on the diagonal, from −0.25 to 0 elsewhere]"
    ]
    assert formula([Linear(np.arange(10.0).reshape(5, 2), np.array([0.0, -1.0]))], 5) == [
        "q = p × (5 × 2 numbers from 0 to 9) + (0, −1)"
    ]
    points = [formula([StepFunction(np.arange(n - 1.0), np.arange(1.0 * n))], 1)[0] for n in (12, 13)]
    assert points[0].endswith("10 up to 10, 11 above)")
    assert points[1] == "q = a step function of p with 13 values from 0 to 12"
    lines = [formula([Line(np.arange(1.0 * n), np.arange(1.0 * n))], 1)[0] for n in (12, 13)]
    assert lines[0].endswith("10 → 10, 11 → 11; constant beyond)")
    assert lines[1] == "q = straight lines of p through 13 points, from 0 to 12, with values from 0 to 12"


def test_parts_are_written_out_up_to_two():
    half = [Scale(0.5)]
    assert formula([OneVsRest((half, half))], 2) == [
        "x₁ = (1 − p[1], p[1])", "x₂ = 0.5 · x₁", "x₃ = (1 − p[2], p[2])", "x₄ = 0.5 · x₃", "q = (x₂[2], x₄[2])",
    ]  # fmt: skip
    *_, more, last = formula([OneVsRest((half, half, half))], 3)
    assert (more, last) == ("... and 1 more likewise, with numbers of their own", "q = (x₂[2], x₄[2], ...)")
    *_, last = formula([OneVsOne((half, half, half))], 3)
    assert last == "q = 1 / (Σ 1/r − 1) for each class, r being its column in each of its pairs"
    assert formula([Sum((half, [Exp()]))], 2) == ["x₁ = 0.5 · p", "x₂ = exp(p)", "q = x₁ + x₂"]
    parts = [[Columns(np.array([j]))] for j in (0, 1)]
    assert formula([Join(tuple(parts))], 2) == ["x₁ = p[1]", "x₂ = p[2]", "q = join(x₁, x₂)"]
    assert formula([], 2) == ["q = p"]


def test_terms_of_sums():
    assert formula([Polynomial(np.array([0.5, 0.0, -2.0, 3.0]))], 1) == ["q = 0.5 − 2 · p^2 + 3 · p^3"]
    assert formula([Polynomial(np.zeros(3))], 1) == ["q = 0"]
    assert formula([Polynomial(np.array([0.0, 2.0]))], 1) == ["q = 2 · p"]
    assert formula([Curves(np.array([[5.0, 5.0], [0.0, 0.0], [1.0, 2.0]]))], 2) == [
        "q = (5, 5) · p^2 / 5 + (1, 2) · exp(p)"
    ]
    assert formula([Mix(0.25)], 4) == ["q = 0.75 · p + 0.25 / 4"]
    assert formula([Columns(np.array([2, 0]))], 3) == ["q = p[3, 1]"]
    assert formula([Clip(-1.0, 1e-7)], 1) == ["q = min(max(p, −1), 1e−07)"]


def test_straight_lines_of_log_odds():
    ends = Log(), Softmax()
    both = Scale(np.array([0.5, 2.0]), np.array([1.0, 0.0]))
    assert log_odds_line([ends[0], both, ends[1]]) == "logit q[2] = −1 + 2 · log p[2] − 0.5 · log p[1]"
    assert log_odds_line([ends[0], Scale(0.5), ends[1]]) == "logit q[2] = 0.5 · logit p[2]"
    odds = [Log(), LogOdds(), Clip(-30.0, 30.0), Polynomial(np.array([0.25, 1.5])), Sigmoid()]
    assert log_odds_line(odds) == "logit q[2] = 0.25 + 1.5 · logit p[2]"
    bent = [Log(), LogOdds(), Polynomial(np.array([0.25, 1.5, 1e-3])), Sigmoid()]
    wide = [Log(), Linear(np.ones((2, 3))), Softmax()]
    for steps in (bent, wide, [], [Log(), Scale(0.5)], [Scale(0.5), Softmax()], [Log(), Exp(), Softmax()]):
        assert log_odds_line(steps) == ""

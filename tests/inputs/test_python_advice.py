"""Every advice in an input error of Python, found in the source, leads to the right result on the same data."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, softmax

import calibrant
from calibrant import MultilabelCalibrator, SegmentedCalibrator, get_calibrator, metrics

ROOM = Path(calibrant.__file__).parent / "inputs"
#: What advice begins with, at the start of a sentence or behind a colon, semicolon or comma.
ADVICE = re.compile(
    r"(?:^|[.;:] |, )((?:[Pp]ass|[Ll]eave out|[Uu]se|[Rr]ename|[Dd]ivide|[Mm]ultiply|[Ss]cale|[Cc]onvert|[Rr]emove|"
    r"[Mm]ake|[Gg]ive|Reshape|Normalise|Name) [^.{]*)"
)
RNG = np.random.default_rng(0)
Z = 1.5 * RNG.normal(size=(200, 3))
P = softmax(Z, axis=1)
Y = (P.cumsum(axis=1) > RNG.random((200, 1))).argmax(axis=1)
ABC = np.array(["a", "b", "c"])[Y]
SCORE = 1.5 * RNG.normal(size=200)
EVENT = (RNG.random(200) < expit(SCORE)).astype(int)
LABELS = (RNG.random((200, 3)) < P).astype(int)


def ts(X: Any, y: Any, sample_weight: Any = None, **settings: Any) -> float:
    """The temperature that is found: the same for the same data, however they are given."""
    beside = {name: settings.pop(name) for name in ("groups", "blocks", "label") if name in settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.inputs.words.ClassOrderWarning)
        return float(get_calibrator("ts", **settings).fit(X, y, sample_weight, **beside).inverse_temperature_)


def batches(source: Any, **names: Any) -> float:
    return float(get_calibrator("ts").fit_batches(source, **names).inverse_temperature_)


def arrow() -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table({"p_a": P[:, 0], "p_b": P[:, 1], "p_c": P[:, 2], "y": ABC})


def many(X: Any, Y: Any, **settings: Any) -> Any:
    return MultilabelCalibrator(**settings).fit(X, Y).predict_proba(P)


def segmented(segments: Any) -> Any:
    return SegmentedCalibrator("ts").fit(P, Y, segments=segments).predict_proba(P, segments=segments)


def written(path: Path) -> Path:
    pd.DataFrame(P, columns=["p_a", "p_b", "p_c"]).assign(y=ABC).to_csv(path, index=False)
    return path


FRAME = pd.DataFrame(P, columns=["p_a", "p_b", "p_c"])
TWICE = pd.DataFrame(np.column_stack([EVENT, 1 - EVENT]), columns=["s", "s"])
RIGHT, ONE = ts(P, Y), ts(expit(SCORE), EVENT)
#: The advice as it stands in the source; what is refused, what follows the advice, and what that should give.
CASES: dict[str, tuple[Any, Any, Any]] = {
    "give one of them": (lambda: ts(P, Y, groups=Y, blocks=2), lambda: ts(P, Y, blocks=2), RIGHT),
    "Name the column of labels with label=, or pass labels as y": (
        lambda: get_calibrator("ts").fit(FRAME.assign(n=1.0), None, "n"),
        lambda: ts(FRAME.assign(t=ABC), None, label="t"),
        RIGHT,
    ),
    "Leave out rows where that is not known": (
        lambda: many(P, np.where(np.arange(200)[:, None] == 7, np.nan, LABELS)),
        lambda: many(np.delete(P, 7, axis=0), np.delete(LABELS, 7, axis=0)).shape[0],
        200,
    ),
    "Pass labels=[": (
        lambda: many(P, [["z"] if row[0] else [] for row in LABELS]),
        lambda: many(P, [["z"] if row[0] else [] for row in LABELS], labels=["z", "v", "w"]).shape[1],
        3,
    ),
    "pass X": (lambda: ts(P, np.eye(3)[Y][:, :, None]), lambda: ts(P, np.eye(3)[Y].argmax(axis=1)), RIGHT),
    "Convert them to integers or strings if they are meant as classes": (
        lambda: ts(P, Y + 0.5),
        lambda: ts(P, (Y + 0.5).astype(str)),
        RIGHT,
    ),
    "Pass labels as strings, or as an array of integers": (
        lambda: ts(P, Y + 2.0**60),
        lambda: ts(P, Y + 2**60),
        RIGHT,
    ),
    "Make them all of one type, such as str": (
        lambda: ts(P, np.array([str(y) if y else y for y in Y], dtype=object)),
        lambda: ts(P, Y.astype(str)),
        RIGHT,
    ),
    "Pass strings or integers": (
        lambda: ts(P, np.array([complex(y, 0) for y in Y], dtype=object)),
        lambda: ts(P, Y),
        RIGHT,
    ),
    "Pass one minus the column (logits with the other sign), or rename it": (
        lambda: (
            get_calibrator("ts", classes=["no", "yes"])
            .fit(expit(SCORE), np.where(EVENT, "yes", "no"))
            .predict_proba(pd.Series(expit(-SCORE), name="p_no"))[0, 1]
        ),
        lambda: (
            get_calibrator("ts", classes=["no", "yes"])
            .fit(expit(SCORE), np.where(EVENT, "yes", "no"))
            .predict_proba(1 - pd.Series(expit(-SCORE), name="p_no").to_numpy())[0, 1]
        ),
        get_calibrator("ts").fit(expit(SCORE), EVENT).predict_proba(expit(SCORE))[0, 1],
    ),
    "Rename the columns, or pass the predictions as an array together with classes=[": (
        lambda: ts(pd.DataFrame(P, columns=["p_a", "p_b", "p_d"]), ABC),
        lambda: ts(pd.DataFrame(P, columns=["p_a", "p_b", "p_d"]).to_numpy(), ABC, classes=["a", "b", "c"]),
        RIGHT,
    ),
    "pass classes=": (
        lambda: ts(np.column_stack([P, 0 * P[:, 0]]), Y + 1),
        lambda: ts(np.column_stack([P, 0 * P[:, 0]]), Y + 1, classes=[1, 2, 3, 4]),
        ts(np.column_stack([P, 0 * P[:, 0]]), ABC, classes=["a", "b", "c", "d"]),
    ),
    "Pass classes=[": (
        lambda: ts(np.column_stack([P, 0 * P[:, 0]]), ABC),
        lambda: ts(np.column_stack([P, 0 * P[:, 0]]), ABC, classes=["a", "b", "c", "d"]),
        ts(np.column_stack([P, 0 * P[:, 0]]), Y, classes=[0, 1, 2, 3]),
    ),
    "Reshape your data": (lambda: ts(P[None, :, None], Y), lambda: ts(P[None, :, None].reshape(-1, 3), Y), RIGHT),
    "Remove or repair such rows": (
        lambda: ts(np.vstack([P, P[:1] * np.nan]), np.append(Y, 0)),
        lambda: ts(np.vstack([P, P[:1] * np.nan])[:-1], np.append(Y, 0)[:-1]),
        RIGHT,
    ),
    "Use '": (lambda: ts(sparse.csr_array(P), Y), lambda: ts(sparse.csr_array(P).toarray(), Y), RIGHT),
    "Convert with ": (
        lambda: ts(np.array([[np.float64(v) for v in row] for row in P], dtype=object), Y),
        lambda: ts(np.array([[np.float64(v) for v in row] for row in P], dtype=object).astype(float), Y),
        RIGHT,
    ),
    "divide them by 100": (lambda: ts(100 * P, Y), lambda: ts(100 * P / 100, Y), RIGHT),
    "Leave out input='logits'X": (lambda: ts(P, Y, input="logits"), lambda: ts(P, Y), RIGHT),
    "Pass input='scores', which finds the scale and the direction of any numbers": (
        lambda: get_calibrator("platt-logits", input="logits").fit(1e4 * SCORE, EVENT),
        lambda: get_calibrator("platt-logits", input="scores").fit(1e4 * SCORE, EVENT).predict_proba([1e4])[0, 1],
        get_calibrator("platt-logits", input="scores").fit(SCORE, EVENT).predict_proba([1.0])[0, 1],
    ),
    "pass input='scores'": (
        lambda: get_calibrator("platt-logits").fit(600 + 90 * SCORE, EVENT),
        lambda: get_calibrator("platt-logits", input="scores").fit(600 + 90 * SCORE, EVENT).predict_proba([690])[0, 1],
        get_calibrator("platt-logits", input="scores").fit(SCORE, EVENT).predict_proba([1.0])[0, 1],
    ),
    "pass input='logits'": (lambda: ts(SCORE, EVENT), lambda: ts(SCORE, EVENT, input="logits"), ONE),
    "pass renormalize=True to rescale such rows, or input='logits' if these are logits": (
        lambda: ts(np.round(P, 2) * 1.1, Y),
        lambda: ts(P * 0.9, Y, renormalize=True),
        RIGHT,
    ),
    "give at least one with the segment of each row": (
        lambda: segmented({}),
        lambda: segmented({"s": EVENT.astype(str)}).shape[0],
        200,
    ),
    "give each a name of its own": (
        lambda: segmented(TWICE),
        lambda: segmented(TWICE.set_axis(["s", "t"], axis=1)).shape[0],
        200,
    ),
    "pass a function that returns a fresh one": (
        lambda: batches(iter([(P, Y)])),
        lambda: batches(lambda: iter([(P, Y)])),
        RIGHT,
    ),
    "Name the column of the labels, as in label=X; the columns are X": (
        lambda: batches(arrow()),
        lambda: batches(arrow(), label="y"),
        RIGHT,
    ),
    "Multiply them by the number of rows": (
        lambda: ts(P, Y, np.full(200, 1 / 200)),
        lambda: ts(P, Y, np.full(200, 1 / 200) * 200),
        RIGHT,
    ),
    "Scale them down": (lambda: ts(P, Y, np.full(200, 1e99)), lambda: ts(P, Y, np.full(200, 1e99) / 1e99), RIGHT),
    "Scale them up": (lambda: ts(P, Y, np.full(200, 1e-303)), lambda: ts(P, Y, np.full(200, 1e-303) * 1e303), RIGHT),
    "Normalise the rows first": (
        lambda: metrics.log_loss(Y, 0.9 * P),
        lambda: metrics.log_loss(Y, 0.9 * P / (0.9 * P).sum(axis=1, keepdims=True)),
        metrics.log_loss(Y, P),
    ),
    "use MultilabelCalibrator": (
        lambda: ts(expit(Z), LABELS),
        lambda: many(expit(Z), LABELS).shape,
        (200, 3),
    ),
    "use multilabel_metrics": (
        lambda: metrics.log_loss(LABELS, expit(Z)),
        lambda: metrics.multilabel_metrics(LABELS, expit(Z)).micro["log_loss"].value,
        metrics.log_loss(LABELS.ravel(), expit(Z).ravel()),
    ),
}
#: Not advice, or tested where files and batches are.
ELSEWHERE = {
    "Pass X over the source differs from the first in batch X, which starts at row X: X",
    "pass calibrant",
    "Convert logits to probabilities first",
}


def _advice() -> set[str]:
    """Every piece of advice in the texts of `inputs`, with X for what is filled in."""
    found: set[str] = set()
    for file in ROOM.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        skipped: set[int] = set()
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                skipped.add(id(body[0].value))  # a docstring
            if isinstance(node, ast.JoinedStr):
                skipped.update(map(id, node.values))
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values]
                found.update(ADVICE.findall("".join(parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(ADVICE.findall(node.value))
    return found


def test_every_advice_has_a_case() -> None:
    assert _advice() - ELSEWHERE == set(CASES)


@pytest.mark.parametrize("advice", CASES)
def test_following_the_advice_gives_the_right_result(advice: str) -> None:
    refused, followed, expected = CASES[advice]
    said = f"(?i){re.escape(advice).replace('X', '.*')}"
    with pytest.raises((ValueError, TypeError, Warning), match=said):
        refused()
    assert followed() == pytest.approx(expected, rel=1e-6)


def test_a_path_is_read_in_batches_as_advised(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = str(written(tmp_path / "t.csv"))
    with pytest.raises(TypeError, match=r"pass calibrant\.open_batches"):
        batches(path)
    assert batches(calibrant.open_batches(path, label="y")) == pytest.approx(RIGHT)


def test_logits_go_through_a_softmax_as_metrics_advise() -> None:
    with pytest.raises(ValueError, match="Apply a softmax to logits first"):
        metrics.log_loss(Y, Z)
    assert metrics.log_loss(Y, softmax(Z, axis=1)) == metrics.log_loss(Y, P)
    with pytest.raises(ValueError, match="a calibrator with input='scores' converts them"):
        metrics.log_loss(EVENT, 600 + 90 * SCORE)
    made = get_calibrator("platt-logits", input="scores").fit(600 + 90 * SCORE, EVENT).predict_proba(600 + 90 * SCORE)
    assert metrics.log_loss(EVENT, made) < metrics.log_loss(EVENT, np.full(200, EVENT.mean()))

"""The document that a validator asks for, from a fitted calibrator and rows with labels.

All numbers come from `calibrant.metrics`, the calibrator and its audit record; here they are gathered as tables, and
`templates/document.md.j2` says in sentences what they are.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import sklearn
from numpy.typing import ArrayLike
from scipy.special import expit

from calibrant import __version__
from calibrant.calibrators.base import has_steps
from calibrant.calibrators.registry import CalibratorInfo, list_calibrators
from calibrant.calibrators.summary import mapped
from calibrant.deployment.inputs import batch, check_calibrator
from calibrant.docs import describe_parameters
from calibrant.files.stored.audit import RowAudit, map_fingerprint
from calibrant.grades import MasterScale
from calibrant.inputs.segments import read_segments
from calibrant.metrics import corp_curve, reliability_table, segment_calibration
from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.losses import row_losses
from calibrant.metrics.running import RESAMPLES
from calibrant.metrics.validation import validation_table
from calibrant.metrics.views import single_view
from calibrant.numerals import class_text, count, near_ends, number, percent, range_names, signed, span
from calibrant.plots.svg_reliability import reliability
from calibrant.report.advice import FEWEST_OF_CLASS, lacking
from calibrant.report.analysis import backtested
from calibrant.report.comparison import paired_intervals
from calibrant.report.data import TITLES, condition
from calibrant.report.document_formats import ValidationDocument
from calibrant.report.verdict_words import ALPHA
from calibrant.sample import Sample
from calibrant.steps.mathematics import formula, log_odds_line
from calibrant.text_table import list_names
from calibrant.threads import limited
from calibrant.typing import FloatArray, Label, TableLike
from calibrant.workflows.evaluating import given, metric_names, metrics_in_memory, omnibus_test

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Predictions of two classes whose calibrated values are shown; bands; classes and segments listed; few resamples.
SHOWN, BANDS, LISTED, FEW = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), 10, 20, 20
#: Ranges named in which a map falls, and a fall that may be rounding.
_FALLS, _ROUNDING = 4, 1e-12
_PAIRED = ("log_loss", "brier")
_CERTIFICATE = {"gap": "duality_gap_", "objective": "objective_", "residual": "residual_", "iterations": "n_iter_"}
_INPUTS = {
    "probabilities": "probabilities, one column per class (for two classes, that of the second is enough)",
    "logits": "logits, one column per class (for two classes, that of the second is enough)",
    "scores": "scores, converted to logits by a stored scaling",
}


@limited
@describe_parameters
def document(
    calibrator: BaseEstimator,
    y_true: ArrayLike | None = None,
    y_prob: ArrayLike | None = None,
    *,
    title: str = "Calibrator",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    blocks: int | None = None,
    segments: TableLike | None = None,
    grades: MasterScale | int | None = None,
    level: float = 0.95,
    command: Sequence[str] = ("import calibrant", "calibrant.document(calibrator, y_true, y_prob).save(path)"),
) -> ValidationDocument:
    """A validation document of a fitted calibrator: `document(...).save("validation.html")`, or .md or .docx.

    It says what the map is, with its formula, certificate and fingerprint, what it was fitted to if there is an audit
    record (`calibrant.record_fit`), and on rows with labels what it does: metrics before and after with intervals,
    named tests, bands, segments, grades, and limits of use. The same inputs give the same file, byte for byte.

    Parameters
    ----------
    calibrator : fitted calibrator
    y_true : array-like of shape (n,), default=None
        Labels of rows to validate on, which should not be those of the fit.
    y_prob : array-like, default=None
        The model's predictions for them, as given to the calibrator's `predict_proba`.
    title : str, default="Calibrator"
        Title of the document.
    segments : data frame, mapping of columns, or array-like of shape (n,), default=None
        Segments to be judged one by one; for a calibrator with segments, the columns that it needs.
    grades : MasterScale or int, default=None
        Grades of the calibrated probability of the second of two classes, or how many to make, to be backtested.
    command : sequence of str
        Lines that repeat the document, for its section on that.

    Returns
    -------
    ValidationDocument

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import document, get_calibrator
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=600)
    >>> y = (rng.random(600) < 1 / (1 + np.exp(-z))).astype(int)
    >>> p = 1 / (1 + np.exp(-2 * z))
    >>> found = document(get_calibrator("affine").fit(p[:300], y[:300]), y[300:], p[300:])
    >>> [line for line in found.to_markdown().splitlines() if line.startswith("logit")]
    ['logit q[2] = 0.00867969 + 0.510355 · logit p[2]']
    """
    check_calibrator(calibrator)
    if (y_true is None) != (y_prob is None):
        raise ValueError("y_true and y_prob belong together: give the labels and the predictions, or neither")
    if grades is not None and (y_true is None or len(calibrator.classes_) != 2):
        raise ValueError("grades are for rows with labels of two classes")
    values = {
        "title": title,
        "alpha": ALPHA,
        "command": list(command),
        "same": None,
        "agree": False,
        "rows": None,
        **_about(calibrator),
        **_mathematics(calibrator),
        **_origin(calibrator),
    }
    if y_true is None:
        return ValidationDocument(values)
    audit = RowAudit(calibrator).add(y_prob, y_true, sample_weight, segments)
    after = batch(calibrator, y_prob, y_true, segments, sample_weight=sample_weight, groups=groups, blocks=blocks)
    after = replace(after, classes=np.arange(after.n_classes))
    before = after.with_values(np.asarray(audit.given(y_prob))[after.rows])
    if values["record"]:
        values["same"] = values["record"]["rows_sha256"] == audit.fingerprint
        again = {"before": audit.before.result(), "after": audit.after.result()}
        stated = [(loss, again[part].get(name)) for part in again for name, loss in values["record"][part].items()]
        values["agree"] = all(found is not None and np.isclose(loss, found, rtol=1e-9) for loss, found in stated)
    frame = {} if segments is None else read_segments(segments, len(np.asarray(audit.given(y_prob))))
    parts = {name: np.asarray(column)[after.rows].astype(str) for name, column in frame.items()}
    values["rows"] = _judged(before, after, tuple(calibrator.classes_.tolist()), parts, level)
    if grades is not None:
        found = backtested(after, grades, level)
        values["rows"] |= {"grades": found.table(), "grade_lines": found.summary().splitlines()}
    return ValidationDocument(
        values,
        tuple(
            reliability(corp_curve(part.y, part.proba, level=level, **given(part)), title, after=part is after)
            for part, title in ((before, "Reliability as given"), (after, "Reliability after calibration"))
        ),
    )


def _about(calibrator: BaseEstimator) -> dict[str, Any]:
    """What the calibrator is, its certificate, and what is worth knowing before it is used."""
    name = type(calibrator).__name__
    made = [info for info in list_calibrators() if info.stores and _is_made_by(calibrator, info)]
    info = max(made, key=lambda info: len(info.parameters), default=None)
    labels = [class_text(label) for label in calibrator.classes_.tolist()]
    settings = {key: value for key, value in calibrator.get_params(deep=False).items() if key != "classes"}
    counts = getattr(calibrator, "class_counts_", np.full(len(labels), np.inf))
    rule = getattr(calibrator, "rule_", None)
    few = [label for label, n in zip(labels, counts) if n < FEWEST_OF_CLASS]
    packages = [("calibrant", __version__), ("Python", platform.python_version()), ("NumPy", np.__version__)]
    return {
        "method": name,
        "description": "" if info is None else info.description,
        "reference": "" if info is None else info.reference,
        "labels": labels,
        "listed": list_names(calibrator.classes_.tolist(), LISTED, str),
        "kind": "scores" if calibrator.takes_scores else calibrator.input,
        "input": _INPUTS["scores" if calibrator.takes_scores else calibrator.input],
        "settings": ", ".join(f"{key}={value!r:.60}" for key, value in settings.items()),
        "summary": [*calibrator.summary().splitlines(), *([str(rule)] if rule else [])],
        "certificate": {key: getattr(calibrator, attribute, None) for key, attribute in _CERTIFICATE.items()},
        "few": list_names(few, LISTED, str),
        "few_count": len(few),
        "fewest": FEWEST_OF_CLASS,
        "versions": [["", "version"], *packages, ["SciPy", scipy.__version__], ["scikit-learn", sklearn.__version__]],
    }


def _is_made_by(calibrator: object, info: CalibratorInfo) -> bool:
    """Whether a method of the registry makes this calibrator; several may make the same class, with other settings."""
    made = info.make()
    return type(made) is type(calibrator) and all(
        getattr(calibrator, name) == value for name, value in info.parameters.items()
    )


def _mathematics(calibrator: BaseEstimator) -> dict[str, Any]:
    """The formula of the map, and what it makes of some probabilities of two classes."""
    k, labels = len(calibrator.classes_), [class_text(label) for label in calibrator.classes_.tolist()]
    if not has_steps(calibrator):
        return {"formula": []}
    found, shown, order = calibrator.to_map(), [], {}
    scaling = "" if found.scaling is None else formula([found.scaling], k)[0].removeprefix("q = ").replace("p", "s")
    if k == 2 and not found.segments:
        said = np.array(SHOWN)
        now = mapped(calibrator, np.column_stack([1 - said, said]))[:, 1]
        shown = [[f"p of {labels[1]}", *map(percent, SHOWN)], ["q", *(percent(float(q)) for q in now)]]
        grid = expit(np.linspace(-9.0, 9.0, 721))
        now = mapped(calibrator, np.column_stack([1 - grid, grid]))[:, 1]
        order = {
            "rises": bool(np.diff(now).min() > 0),
            "falls": _falls(grid, now),
            "most": _points(float(np.max(np.maximum.accumulate(now) - now))),
        }
    return {
        "formula": formula(found.steps, k + len(found.segments)),
        "line": log_odds_line(found.steps) if k == 2 else "",
        "clipped": any(step.kind == "clip" for step in found.steps),
        "scaling": scaling,
        "segment_columns": list(found.segments),
        "places": list_names((f"q[{j}] of {label}" for j, label in enumerate(labels, 1)), LISTED, str),
        "shown": shown,
        "order": order,
    }


def _falls(p: FloatArray, q: FloatArray) -> str:
    """Where the map from increasing `p` to `q` falls, and by how much: the largest falls in order, or nothing."""
    down = np.flatnonzero(np.diff(q) < -_ROUNDING)
    runs = [run for run in np.split(down, np.flatnonzero(np.diff(down) > 1) + 1) if len(run)]
    ends = [(run[0], run[-1] + 1) for run in runs]
    largest = sorted(sorted(ends, key=lambda end: q[end[1]] - q[end[0]])[:_FALLS])
    said = [f"between {near_ends(p[i])} and {near_ends(p[j])} (by {_points(q[i] - q[j])})" for i, j in largest]
    if len(ends) > len(said):
        left = len(ends) - len(said)
        said.append(f"by no more in {left} other {'range' if left == 1 else 'ranges'}")
    return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))


def _points(difference: float) -> str:
    """A difference of probabilities to two digits, all of them where it is large."""
    points = 100.0 * difference
    return f"{points:.2g} percentage points" if points < 10.0 else f"{points:.0f} percentage points"


def _origin(calibrator: BaseEstimator) -> dict[str, Any]:
    """What is known of the fit."""
    record, counts = getattr(calibrator, "audit_", None), getattr(calibrator, "class_counts_", None)
    fitted = getattr(calibrator, "fitted_to_", "an unknown number of rows")
    if counts is not None:
        each = sorted(zip(counts.tolist(), calibrator.classes_.tolist()), key=lambda pair: -pair[0])
        fitted += f": {list_names((f'{count(n)} of {class_text(label)}' for n, label in each), LISTED, str)}"
    losses = []
    if record is not None:
        losses = [["on the rows of the fit", *(TITLES[name] for name in record["before"])]]
        for when, part in (("as given", "before"), ("calibrated", "after")):
            losses.append([when, *map(number, record[part].values())])
    return {"record": record, "fingerprint": map_fingerprint(calibrator), "fitted": fitted, "losses": losses}


def _judged(
    before: Sample, after: Sample, classes: tuple[Label, ...], segments: Mapping[str, object], level: float
) -> dict[str, Any]:
    """Everything that rows tell, before and after calibration."""
    binary, names = after.n_classes == 2, tuple(map(str, classes))
    event = class_text(names[1]) if binary else "the predicted class"
    losses = np.column_stack([row_losses(before, loss) - row_losses(after, loss) for loss in _PAIRED])
    lack, score = lacking(after, names), single_view(after, "auto").score
    found = paired_intervals(losses, after, level)
    # Resampling makes the intervals of so few rows too short.
    gains = dict(zip(_PAIRED, found if lack is None else (replace(e, low=np.nan, high=np.nan) for e in found)))
    wanted = metric_names(after.n_classes)
    was, now = (metrics_in_memory(part, level, wanted) for part in (before, after))
    metrics = [["", "as given", "interval", "calibrated", "interval", "gain", "interval"]]
    for name in wanted:
        gain = [signed(gains[name].value), span(gains[name])] if name in gains else ["", ""]
        pair = (cell for found in (was[name], now[name]) for cell in (number(found.value), span(found)))
        metrics.append([TITLES[name].format(event), *pair, *gain])
    by_name, labels = given(after) | {"classes": names, "level": level}, np.array(names)[after.y]
    # Of the probabilities as given no interval is shown, so that few resamples are enough.
    old = validation_table(labels, before.proba, n_resamples=FEW, **by_name).table()
    new = validation_table(labels, after.proba, n_resamples=RESAMPLES, **by_name).table()
    reasons = dict.fromkeys(row[5] for row in new[1:])
    named = [["", "as given", "p-value", "calibrated", "interval", "p-value", "what it says after calibration"]]
    return {
        "size": str(after.size),
        "binary": binary,
        "event": event,
        "level": f"{100 * level:g}%",
        "alpha": f"{100 - 100 * level:g}%",
        "lack": "" if lack is None else lack.text,
        "condition": condition(after.size),
        "grouped": after.groups is not None,
        "before": was["log_loss"].value,
        "after": now["log_loss"].value,
        "gain": gains["log_loss"],
        "tests": [omnibus_test(part) for part in (before, after)],
        "metrics": metrics,
        "named": [*named, *([b[0], a[1], a[3], *b[1:5]] for a, b in zip(old[1:], new[1:]))],
        "misleads": [f"{', '.join(row[0] for row in new[1:] if row[5] == why)}: {why}." for why in reasons],
        "bands": _bands(after, level),
        "classes": [] if binary else _classes(after, names, level),
        "segments": [_segment(after, name, parts) for name, parts in segments.items()],
        "grades": [],
        "range": [float(score.min()), float(np.median(score)), float(score.max())],
    }


def _bands(after: Sample, level: float) -> list[list[str]]:
    options: dict[str, Any] = {"n_bins": BANDS, "strategy": "quantile", "level": level, **given(after)}
    found = reliability_table(after.y, after.proba, **options)
    table = [["calibrated probability", "rows", "expected", "observed", "expected share", "observed share", "interval"]]
    columns = (found.weight, found.score, found.frequency, found.low, found.high)
    names = range_names(found.upper[:-1].tolist())
    for name, n, p, share, low, high in zip(names, *(column.tolist() for column in columns)):
        counts = [count(n), count(n * p), count(n * share)]
        table.append([name, *counts, percent(p), percent(share), f"{percent(low)} to {percent(high)}"])
    return table


def _classes(after: Sample, names: Sequence[str], level: float) -> list[list[str]]:
    found = class_frequencies(after, level)
    table = [["class", "expected", "observed", "expected over observed", "interval", "p-value"]]
    for j in np.argsort(found.p_value, kind="stable")[:LISTED]:
        ends = f"{number(found.low[j], 3)} to {number(found.high[j], 3)}"
        counts = [count(float(found.expected[j])), count(float(found.observed[j]))]
        table.append([names[j], *counts, number(found.ratio[j], 3), ends, number(found.p_value[j])])
    return table


def _segment(after: Sample, name: str, parts: Any) -> tuple[str, list[list[str]], str, float, int]:
    """Name, table, the segment that chance explains least with its corrected p-value, and how many there are."""
    found, binary = segment_calibration(after.y, after.proba, parts, **given(after)), after.n_classes == 2
    table = [["segment", "rows", *(["expected share", "observed share"] if binary else []), "p-value"]]
    for j, segment in enumerate(found.segments[:LISTED]):
        shares = [percent(found.predicted[j, 1]), percent(found.observed[j, 1])] if binary else []
        table.append([str(segment), count(found.rows[j]), *shares, number(found.p_value[j])])
    total = len(found.segments)
    return name, table, str(found.worst), min(1.0, float(found.p_value.min()) * total), total

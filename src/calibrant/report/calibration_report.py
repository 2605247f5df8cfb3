"""The calibration report in Python and in notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrant.decisions.rule import DecisionRule
from calibrant.docs import describe_parameters
from calibrant.files.tables.writers import atomic_output
from calibrant.grades import MasterScale
from calibrant.inputs.samples import check_sample
from calibrant.optional import require
from calibrant.report.analysis import analyse
from calibrant.report.data import Report, Source
from calibrant.report.page import render
from calibrant.sample import Sample

#: Height of the page in a notebook, in pixels.
NOTEBOOK_HEIGHT = 640


@describe_parameters
class CalibrationReport:
    """Is it calibrated, what would each method gain, and what should you do: the page of `calibrant report` in Python.

    Everything is computed when the report is made. In a notebook it is displayed; `save` writes the page as one HTML
    file, and `tables` has its numbers as data frames. Everything about the effect of calibration comes from
    cross-validation: every row is calibrated by a calibrator fitted to other rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed labels.
    name : str, default="predictions"
        Title of the report.
    segments : array-like of shape (n,), optional
        Segment of every row, such as a region or a month; each is judged by itself.
    segment_name : str, default="segment"
        What the segments are.
    methods : sequence of str, optional
        Methods to compare; by default the usual ones for the number of classes.
    method : str, optional
        Method to recommend; by default the default method if it does not lose, unless another is better beyond chance.
    grades : MasterScale or int, optional
        Grades of two classes to test, or how many to make from quantiles of the predictions.
    costs : DecisionRule, or costs that it takes, optional
        What actions cost, such as ``DecisionRule(false_positive=1, false_negative=20)``: the report then says how many
        decisions calibration changes and what it saves.
    log_odds : bool, default=False
        Show diagrams without bins on log-odds axes, which give small probabilities room.

    Attributes
    ----------
    verdict : str
        The answer in a few words.
    sentences : tuple of str
        The evidence.
    recommended : str
        Name of the method to calibrate with; "none" if the predictions are best left as they are.
    tables : dict of str to pandas.DataFrame
        "metrics", "methods", "classes", "bands", "reliability", "parts" and, with segments, "segments".

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import CalibrationReport
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=800)
    >>> y = (rng.random(800) < 1 / (1 + np.exp(-z))).astype(int)
    >>> report = CalibrationReport(y, 1 / (1 + np.exp(-3 * z)), methods=["ts"])
    >>> report.verdict
    'Where it says 95.7%, 66.2% are actually class 1: too extreme'
    >>> bool(report.tables["metrics"].loc["log_loss", "after"] < report.tables["metrics"].loc["log_loss", "before"])
    True
    """

    def __init__(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        name: str = "predictions",
        sample_weight: ArrayLike | None = None,
        classes: Sequence[object] | None = None,
        groups: ArrayLike | None = None,
        blocks: int | None = None,
        segments: ArrayLike | None = None,
        segment_name: str = "segment",
        methods: Sequence[str] | None = None,
        method: str | None = None,
        grades: MasterScale | int | None = None,
        costs: object = None,
        log_odds: bool = False,
        level: float = 0.95,
    ) -> None:
        _check_order(y_true, y_prob)
        data = check_sample(y_true, y_prob, sample_weight, classes, groups=groups, blocks=blocks)
        parts = None if segments is None else _segments(segments, len(cast(Any, y_prob)), data)
        rule = costs if costs is None or isinstance(costs, DecisionRule) else DecisionRule(costs, classes=data.names)
        known = {"sample_weight": sample_weight, "groups": groups, "blocks": blocks, "classes": classes}
        given = tuple(name for name, value in known.items() if value is not None)
        self.contents: Report = analyse(
            replace(data, classes=np.arange(data.n_classes)),
            data.names,
            Source(name, given, in_python=True),
            segments=parts,
            segment_name=segment_name,
            methods=methods,
            method=method,
            level=level,
            grades=grades,
            rule=rule,
            log_odds=log_odds,
        )
        self.verdict = self.contents.verdict.headline
        self.sentences = self.contents.verdict.sentences
        self.recommended = self.contents.recommended

    @property
    def tables(self) -> dict[str, Any]:
        """The numbers of the page as data frames."""
        frame = require("pandas", extra="bench").DataFrame
        found = self.contents.to_dict()
        keys = {"metrics": "metric", "methods": "method", "classes": "class", "segments": self.contents.segment_name}
        parts = {name: found[{"classes": "classes_counted"}.get(name, name)] for name in keys}
        made = {
            name: frame([{keys[name]: row, **_flat(values)} for row, values in rows.items()]).set_index(keys[name])
            for name, rows in parts.items()
            if rows
        }
        scores = [
            {"loss": loss, "when": when, **curve[loss]}
            for loss in ("brier", "log_loss")
            for when, curve in found["reliability"].items()
        ]
        made["bands"] = self.contents.bands.before.to_pandas().assign(p_value=self.contents.bands.p_values)
        return {**made, "parts": frame(scores), "reliability": self.contents.reliability_before.corp.to_pandas()}

    def to_html(self, *others: CalibrationReport) -> str:
        """The page as text; with other reports, all side by side."""
        return render(self.contents, *(other.contents for other in others))

    def save(self, path: str | Path, *others: CalibrationReport, force: bool = False) -> None:
        """Write the page as one HTML file that loads nothing.

        Parameters
        ----------
        path : str or Path
            The file to write.
        *others : CalibrationReport
            Reports on other models or periods, to be shown side by side with this one.
        force : bool, default=False
            Replace a file that exists.
        """
        with atomic_output(path, force=force) as stream:
            stream.write(self.to_html(*others).encode())

    def _repr_html_(self) -> str:
        # A frame keeps the styles of the page and those of the notebook apart.
        page = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" title="Calibration report" '
            f'style="width:100%;height:{NOTEBOOK_HEIGHT}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return "\n".join([f"{self.verdict}.", *self.sentences])


def _check_order(y_true: ArrayLike, y_prob: ArrayLike) -> None:
    """Probabilities in the place of labels are an error: the order was once the other one."""
    first, second = np.asarray(y_true), np.asarray(y_prob)
    swapped = first.ndim == 2 and first.shape[1] > 1 and second.ndim == 1
    if first.ndim == 1 and first.dtype.kind == "f" and len(first):
        fractions = bool(((first > 0) & (first < 1)).any() and ((first >= 0) & (first <= 1)).all())
        swapped |= fractions and not (second.dtype.kind == "f" and bool((second % 1 != 0).any()))
    if swapped:
        raise ValueError("y_true holds probabilities: the order is CalibrationReport(y_true, y_prob).")


def _segments(segments: ArrayLike, n_given: int, data: Sample) -> Any:
    names = np.asarray(segments, dtype=object)
    if len(names) != n_given:
        raise ValueError(f"segments has {len(names)} rows, y_prob has {n_given}")
    return names if data.rows is None else names[data.rows]


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    """A row with three columns for each value with an interval."""
    flat: dict[str, object] = {}
    for name, found in row.items():
        if isinstance(found, dict):
            flat |= {name: found["value"], f"{name}_low": found["low"], f"{name}_high": found["high"]}
        else:
            flat[name] = found
    return flat

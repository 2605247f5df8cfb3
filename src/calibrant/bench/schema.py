"""What a row of results holds: the one list of columns that runs write and the study reads.

An experiment is one (benchmark, dataset, model, fold); a row is one method on one experiment. The method `none` is the
uncalibrated prediction that every change of loss is measured against. A row counts as finished when its status is `ok`
and its losses are numbers; an infinite loss is a finished result and stays infinite.

Where calibration rows were drawn (see `calibrant.bench.runs.drawn_rows`), `draw` is the number of rows asked for, and
the fold names the draw; `labels` says whether labels were observed or drawn from the predictions, in which case losses
are expected ones and an increase is harm.
"""

from __future__ import annotations

DATASET = ["benchmark", "dataset"]
"""The columns that name a dataset: the unit that statistics treat as independent."""
EXPERIMENT = [*DATASET, "model", "fold"]
"""The columns that name an experiment."""
KEY = [*EXPERIMENT, "method"]
"""The columns that name a row."""
METRICS = {"logloss": "log loss", "brier": "Brier score"}
"""The two losses of the study, with their names in words."""
REQUIRED_NUMBERS = ["n_cal", "n_classes", *METRICS]
OPTIONAL_NUMBERS = ["draw", "n_test", "accuracy", "ece", "fit_seconds", "predict_seconds"]
LABELS = ("real", "drawn")
"""Where labels come from: observed, or drawn from the predictions."""
TEXT = [*KEY, "labels", "status", "message"]
REQUIRED = [*KEY, *REQUIRED_NUMBERS, "status"]

COLUMNS = [
    *KEY,
    "draw",
    "labels",
    "n_cal",
    "n_test",
    "n_classes",
    "status",
    *METRICS,
    "accuracy",
    "ece",
    "fit_seconds",
    "predict_seconds",
    "message",
]
"""Columns of the tables that a run writes, in their order."""

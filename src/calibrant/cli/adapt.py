"""`calibrant adapt`: a stored calibrator for new class frequencies."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable
from typing import Any

from calibrant.cli import options
from calibrant.cli.mistakes import CommandError, asked
from calibrant.cli.printing import Output
from calibrant.cli.reading import read_for


@options.command()
def adapt(
    *,
    calibrator: options.Calibrator,
    out: Output,
    table: options.RowOptions,
    prior: str | None = options.option(
        "Share of each class now, as in fraud=0.002,ok=0.998; for two classes, 0.002 is enough."
    ),
    unlabelled: str | None = options.option(
        "File of predictions without labels, to estimate the shares from.", "--from"
    ),
    method: str = options.option(
        "How to estimate: em (maximum likelihood) or bbse (needs --labelled).", "--method", "-m", default="em"
    ),
    labelled: str | None = options.option("File of predictions and labels from the time of calibration."),
    label: str | None = options.option("Column of the labels in --labelled.", "--label", "-y"),
    source: str | None = options.option("Share of each class at calibration, if the calibrator has not stored it."),
) -> None:
    """Adapt a calibrator to new class frequencies, known or estimated from predictions without labels.

    Correct only if nothing but the frequencies has changed. Give --prior or --from.
    """
    from calibrant.deployment import adapt as adapt_calibrator
    from calibrant.workflows.loading import load_calibrator

    if (prior is None) == (unlabelled is None):
        raise CommandError("give either --prior, the share of each class now, or --from, a file of predictions")
    if (labelled is None) != (label is None):
        raise CommandError("--labelled and --label, the column of its labels, belong together")
    out.check("calibrator")
    fitted = load_calibrator(calibrator)
    now = None if unlabelled is None else read_for(fitted, unlabelled, **vars(table))
    then = None if labelled is None else read_for(fitted, labelled, label=label, **vars(table))
    with asked():
        adapted = adapt_calibrator(
            fitted,
            prior=_shares(prior, fitted),
            unlabelled=None if now is None else now.values,
            method=method,
            labelled=None if then is None else (then.values, then.labels, then.segments),
            segments=None if now is None else now.segments,
            source=_shares(source, fitted),
        )
    out.store(adapted)
    values = {
        "method": adapted.method_,
        "classes": adapted.classes_,
        "source_prior": adapted.source_prior_,
        "prior": adapted.prior_,
        "interval": getattr(adapted, "interval_", None),
        "rows": None if now is None else now.n_usable,
    }
    out.tell(values, [adapted.summary(), f"Calibrator: {out.output}"])


def _shares(text: str | None, fitted: Any) -> dict[Hashable, float] | float | None:
    """Shares by label, from ``label=share`` pairs."""
    if text is None:
        return None
    labels = {str(label): label for label in fitted.classes_.tolist()}
    shares = {}
    if len(labels) == 2 and "=" not in text:  # the share of the second class, as in Python
        with contextlib.suppress(ValueError):
            return float(text)
    for pair in options.split_names(text) or []:
        name, sign, number = pair.rpartition("=")
        if labels.get(name, name) in shares:
            raise CommandError(f"{name} is given two shares: name each class once")
        try:
            shares[labels.get(name, name)] = float(number)
        except ValueError:
            sign = ""
        if not sign:
            raise CommandError(f"shares are given as label=share, as in fraud=0.002,ok=0.998, not as {pair!r}")
    return shares

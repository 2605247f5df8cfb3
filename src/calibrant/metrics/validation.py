"""All named tests and measures of one set of predictions as a table: value, interval, p-value and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant.metrics.frequencies import class_frequencies
from calibrant.metrics.intervals import estimates
from calibrant.metrics.named_tests import (
    cox_calibration,
    expected_observed_ratio,
    hosmer_lemeshow,
    spiegelhalter,
    split_likelihood_ratio,
)
from calibrant.metrics.result_types import Estimate, Tabular
from calibrant.metrics.scalars import SCALARS, public
from calibrant.numerals import p_text
from calibrant.sample import Sample

_HALVES = "a map fitted to one half makes the labels of the other more probable"
#: What the tests say if they reject, and where they mislead.
TESTS = {
    "Hosmer-Lemeshow": (
        "counts in groups of similar predictions are not those expected",
        "by its groups; with few rows it finds nothing, with many it finds differences that do not matter",
    ),
    "Hosmer-Lemeshow e-test": (_HALVES, "needs more rows to reject than a test of all rows at once"),
    "split likelihood ratio": (_HALVES, "sees only what a logistic map can correct, and pays for the split"),
    "Spiegelhalter z": ("", "where errors cancel"),
    "Cox joint test": ("intercept or slope is off", "sees only straight-line errors in log-odds"),
}
Says = Callable[[Estimate], str]


def _against(limit: float, above: str, below: str, neither: str) -> Says:
    """What an interval above, below or around a limit says."""

    def says(found: Estimate) -> str:
        if np.isnan(found.low):
            return "unknown: too few observations"
        return above if found.low > limit else below if found.high < limit else neither

    return says


def _words(text: str) -> Says:
    return lambda found: text.format(f"{found.value:.3g}")


_RANKS = "ranks better than chance", "ranks worse than chance", "not enough evidence that it ranks at all"
_LOWER = _words("lower is better, for comparing models on the same rows")
_PORTFOLIO = "depends on how varied the rows are: compare only on the same rows; does not measure calibration"
_CURVE = "reflects chance as well as miscalibration, most of all at the ends, where rows are few"
_ICI = "integrated_calibration_index"


def _skill(of: str) -> Says:
    return _against(0.0, f"better than {of}", f"worse than {of}", f"not shown to be better than {of}")


#: Names of measures, each with the metric and its options, what it says and where it misleads.
MEASURES: dict[str, tuple[str, dict[str, object], Says, str]] = {
    "Brier score": ("brier", {}, _LOWER, "mixes calibration and ranking; small where the class is rare"),
    "log loss": ("log_loss", {}, _LOWER, "one confident mistake can decide it"),
    "Brier skill score": ("brier_skill_score", {}, _skill("the class frequencies"), "low for rare classes"),
    "scaled Brier score": ("scaled_brier", {}, _skill("their mean"), "a wrong mean is in the reference: see E:O first"),
    "ICI": (_ICI, {}, _words("off by {} on average, chance included"), _CURVE),
    "E50": (_ICI, {"quantile": 0.5}, _words("half are off by at most {}, chance included"), _CURVE),
    "E90": (_ICI, {"quantile": 0.9}, _words("nine tenths are off by at most {}, chance included"), _CURVE),
    "Emax": (_ICI, {"quantile": 1.0}, _words("the worst is off by {}, chance included"), _CURVE),
    "two-bin error": (
        "two_bin_calibration_error",
        {},
        _LOWER,
        "has no natural scale: smallest for the true probabilities",
    ),
    "AUROC": ("auroc", {}, _against(0.5, *_RANKS), _PORTFOLIO),
    "Gini": ("gini", {}, _against(0.0, *_RANKS), _PORTFOLIO),
    "KS": ("ks_separation", {}, _words("the best cut-off separates a class from the rest by {}"), _PORTFOLIO),
    "RPS": ("ranked_probability_score", {}, _LOWER, "means nothing unless the columns are in order"),
}


class ValidationRow(NamedTuple):
    """One test or measure; what it does not have is NaN."""

    name: str
    value: float
    low: float
    high: float
    p_value: float
    says: str
    misleads: str
    #: Draws of labels that the p-value comes from, which bound how small it can be; 0 without.
    n_resamples: int = 0


@dataclass(frozen=True, repr=False)
class ValidationTable(Tabular):
    """Named tests and measures, as `validation_table` returns them; a name gives its row.

    Examples
    --------
    >>> from calibrant.metrics import validation_table
    >>> validation_table([0, 1, 0, 1] * 5, [0.2, 0.7, 0.4, 0.6] * 5, n_resamples=50)["AUROC"].value
    1.0
    """

    rows: tuple[ValidationRow, ...]
    level: float

    def __getitem__(self, name: str) -> ValidationRow:
        return {row.name: row for row in self.rows}[name]

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table."""
        return {name: np.array(column) for name, column in zip(ValidationRow._fields, zip(*self.rows))}

    def table(self) -> list[list[str]]:
        """Rows of text under a header."""
        found = [["", "value", f"{100 * self.level:g}% interval", "p-value", "what it says", "where it misleads"]]
        for row in self.rows:
            p = "" if np.isnan(row.p_value) else p_text(row.p_value, row.n_resamples)
            ends = "" if np.isnan(row.low) else f"{row.low:.4g} to {row.high:.4g}"
            p = p.removeprefix("p ").removeprefix("= ")
            found.append([row.name, f"{row.value:.4g}", ends, p, row.says, row.misleads])
        return found


@public
def validation_table(
    data: Sample,
    *,
    ordered: bool = False,
    level: float = 0.95,
    n_resamples: int = 500,
    random_state: int | None = 0,
) -> ValidationTable:
    """All named tests and measures: value, interval, p-value, what each means and where it misleads.

    For more than two classes, the expected-to-observed ratio and Cox's intercept are those of the class that chance
    explains least, with Bonferroni's correction for the others; ICI, E50, E90, Emax and the two-bin error are of the
    predicted class; ranking is a mean over classes; all others judge all classes at once. Each test has its own level:
    of several, some reject calibrated predictions more often than one alone.

    Parameters
    ----------
    ordered : bool, default=False
        Whether the columns are classes in an order: adds the ranked probability score (RPS).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> table = validation_table(rng.random(500) < p**2, p, n_resamples=50)
    >>> table["E:O"].says, table["Cox joint test"].p_value < 0.01
    ('class True is predicted too often', True)
    """
    alpha, frequencies = 1.0 - level, class_frequencies(data, level)
    column, tried = (1, 1) if data.n_classes == 2 else (int(np.argmin(frequencies.p_value)), data.n_classes)
    label, wider = data.names[column], 1.0 - alpha / tried
    cox, z = cox_calibration.of(data, level=level), spiegelhalter.of(data)
    one = cox if tried == 1 else cox_calibration.of(data, pos_label=label, level=wider)
    tests = [
        hosmer_lemeshow.of(data),
        hosmer_lemeshow.of(data, e_test=True, random_state=random_state),
        split_likelihood_ratio.of(data, random_state=random_state),
        z,
        cox.test,
    ]
    promised = "too {}: the Brier score is {} than promised".format(
        *(("extreme", "worse") if z.statistic > 0 else ("close to the average", "better"))
    )
    rows = []
    for (name, (rejected, misleads)), test in zip(TESTS.items(), tests):
        said = (rejected or promised) if test.p_value <= alpha else "not enough evidence against calibration"
        rows.append(ValidationRow(name, test.statistic, np.nan, np.nan, test.p_value, said, misleads, test.n_resamples))
    often = f"class {label} is predicted too often", f"class {label} is predicted too rarely"
    unknown = f"the mean of class {label} may be right"
    ratio = expected_observed_ratio.of(data, pos_label=label, level=wider)
    p_value = min(1.0, tried * float(frequencies.p_value[column]))
    slopes = "too close to the average", "too extreme", "the slope may be right"
    shown: list[tuple[str, Estimate, float, Says, str]] = [
        ("E:O", ratio, p_value, _against(1.0, *often, unknown), "a right mean hides wrong single predictions"),
        ("Cox intercept", one.intercepts[label], np.nan, _against(0.0, *often[::-1], unknown), "as E:O, in log-odds"),
        ("Cox slope", cox.slope, np.nan, _against(1.0, *slopes), "predictions of nearly 0 or 1 dominate it"),
    ]
    measures = {name: measure for name, measure in MEASURES.items() if ordered or name != "RPS"}
    wanted = [(SCALARS[metric], options) for metric, options, *_ in measures.values()]
    found = estimates(wanted, data, level, n_resamples, random_state)
    for (name, (_, _, says, misleads)), value in zip(measures.items(), found):
        shown.append((name, value, np.nan, says, misleads))
    single = np.count_nonzero(data.class_counts) == 1
    missing = "unknown: all rows are of one class" if single else "unknown: too few observations"
    for name, e, p, says, misleads in shown:
        said = missing if np.isnan(e.value) else says(e)
        rows.append(ValidationRow(name, e.value, e.low, e.high, p, said, misleads))
    return ValidationTable(tuple(rows), level)

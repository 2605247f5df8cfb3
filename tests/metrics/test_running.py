"""Metrics of parts equal those of the whole however rows are parted, and their intervals those of the bootstrap."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, t

import calibrant.metrics
from calibrant.inputs.top_k import TopK
from calibrant.inputs.words import CalibrationWarning
from calibrant.metrics import Estimate, Running, RunningMetrics, confidence_interval, evaluate
from calibrant.metrics.running import Sums
from calibrant.metrics.scalars import SCALARS, TABLES, Summed, summed_mean
from calibrant.sample import Sample
from tests.needs import needs
from tests.samples import sharpened

NAMES = ("log_loss", "brier", "accuracy", "confidence_gap", "ece", "smooth_ece")
OF_SUMS = sorted(name for name, entry in SCALARS.items() if entry.of_sums)
WITH_CALIBRATOR = {"lp_calibration_error", "calibration_loss", "refinement_loss", "calibration_slope"}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "log_loss": [{"floor": 1e-3}],
    "brier": [{"scale_by_half": False}],
    "positive_gap": [{"pos_label": 0}],
    "ece": [{"kind": "class-wise", "n_bins": 7}, {"debias": True}],
    "rms_calibration_error": [{"kind": "class-wise", "debias": True}],
    "maximum_calibration_error": [{"kind": "class-wise"}],
    "smooth_ece": [{"kind": "class-wise"}],
    "reliability_table": [{"n_bins": 6, "level": 0.8}, {"pos_label": 1}],
}


def forecasts(n: int, k: int, power: float) -> Sample:
    p, y = sharpened(n, k, power)
    return Sample(p, y, None, classes=np.arange(k))


def merged(name: str, y: Any, p: Any, weight: Any, options: dict[str, Any], seed: int, **known: Any) -> Running:
    """Rows in random order, in random parts (some empty), taken in by four instances and merged in random order."""
    rng = np.random.default_rng(seed)
    parts = np.split(rng.permutation(len(y)), np.sort(rng.integers(0, len(y), 11)))
    workers = [Running(name, **known, **options) for _ in range(4)]
    for part in parts:
        workers[rng.integers(3)].update(y[part], p[part], None if weight is None else weight[part])
    workers = [pickle.loads(pickle.dumps(workers[i])) for i in rng.permutation(4)]
    return workers[0].merge(workers[1]).merge(workers[2].merge(workers[3]))


def numbers(result: Any) -> list[float]:
    """All numbers of a result, be it one number, a table, or a table for every class."""
    if isinstance(result, dict):
        return [number for table in result.values() for number in numbers(table)]
    if hasattr(result, "to_dict"):
        columns = {name: column for name, column in result.to_dict().items() if name != "class"}
        return [float(number) for column in columns.values() for number in column]
    return [float(result)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", [*OF_SUMS, *TABLES])
def test_any_split_and_order_of_merging_gives_the_metric_of_the_whole(
    name: str, n_classes: int, weighted: bool
) -> None:
    p, y = sharpened(1500, n_classes, 1.7)
    weight = np.random.default_rng(1).uniform(0, 3, 1500) * (y != 3) if weighted else None
    function = getattr(calibrant.metrics, name) if name in TABLES else SCALARS[name].function
    for seed, options in enumerate([{}, *OPTIONS.get(name, [])]):
        found = merged(name, y, p, weight, options, seed, classes=range(n_classes))
        assert found.rows == (1500 if weight is None else np.count_nonzero(weight))
        expected = function(y, p, sample_weight=weight, classes=range(n_classes), **options)
        assert type(found.result()) is type(expected)
        assert numbers(found.result()) == pytest.approx(numbers(expected), rel=1e-9, abs=1e-9), options


def test_the_registry_says_which_metrics_are_sums() -> None:
    data = forecasts(60, 3, 1.5)
    for name in set(SCALARS) - WITH_CALIBRATOR:
        assert isinstance(SCALARS[name].prepare(data), Summed) == SCALARS[name].of_sums, name
    for name in WITH_CALIBRATOR:
        assert not SCALARS[name].of_sums


@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_give_the_metrics_of_evaluate(weighted: bool) -> None:
    data = forecasts(3000, 5, 1.7)
    weight = np.random.default_rng(1).uniform(0.5, 3, 3000) if weighted else None
    running = RunningMetrics(NAMES)
    for rows in np.array_split(np.arange(3000), 7):
        part = None if weight is None else weight[rows]
        running.add(Sample(data.proba[rows], data.y[rows], part, classes=data.classes))
    assert running.result() == pytest.approx(evaluate(data.y, data.proba, NAMES, sample_weight=weight), rel=1e-12)


def test_few_rows_have_the_intervals_of_evaluate() -> None:
    data, names = forecasts(80, 3, 1.5), ("log_loss", "ece")
    running = RunningMetrics(names)
    for part in np.array_split(np.arange(80), 3):
        running.merge(RunningMetrics(names).add(data.take(part)))
    expected = evaluate(data.y, data.proba, names, level=0.9)
    for name, found in running.result(0.9).items():
        assert [found.low, found.high] == pytest.approx([expected[name].low, expected[name].high], rel=1e-9)


@pytest.fixture
def sums_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows are kept, so that intervals come from sums."""
    monkeypatch.setattr("calibrant.metrics.running.KEPT_ENTRIES", 0)


@pytest.mark.usefixtures("sums_only")
def test_intervals_agree_with_the_bootstrap() -> None:
    data = forecasts(2000, 3, 1.6)
    found = RunningMetrics(NAMES).add(data).result(0.95)
    expected = evaluate(data.y, data.proba, NAMES, level=0.95, n_resamples=400)
    for name in NAMES:
        width = expected[name].high - expected[name].low
        assert abs(found[name].low - expected[name].low) < 0.2 * width, name
        assert abs(found[name].high - expected[name].high) < 0.2 * width, name


@pytest.mark.usefixtures("sums_only")
@pytest.mark.parametrize("n_classes", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_intervals_on_calibrated_data_agree_with_the_bootstrap_at_both_ends(n_classes: int) -> None:
    data, names = forecasts(3000, n_classes, 1.0), ("ece", "smooth_ece")
    found = RunningMetrics(names).add(data).result(0.95)
    expected = evaluate(data.y, data.proba, names, level=0.95, n_resamples=200)
    for name, estimate in expected.items():
        width = estimate.high - estimate.low
        assert found[name].low == pytest.approx(estimate.low, abs=0.15 * width), name
        assert found[name].high == pytest.approx(estimate.high, abs=0.15 * width), name


@pytest.mark.usefixtures("sums_only")
@pytest.mark.parametrize("options", [{"kind": "class-wise"}, {"n_bins": 8}])
@pytest.mark.parametrize("name", ["ece", "rms_calibration_error"])
def test_intervals_of_other_binned_errors_agree_with_the_bootstrap(name: str, options: dict[str, Any]) -> None:
    data = forecasts(3000, 3, 1.5)
    found = Running(name, **options).add(data).result(0.95)
    expected = evaluate(data.y, data.proba, [name], level=0.95, n_resamples=300, options={name: options})[name]
    width = expected.high - expected.low
    assert found.low == pytest.approx(expected.low, abs=0.25 * width)
    assert found.high == pytest.approx(expected.high, abs=0.25 * width)


def test_columns_are_named_by_the_first_part() -> None:
    running = Running("log_loss").update(["a", "b", "c"], np.full((3, 3), 1 / 3))
    running.update(["b"], [[0.2, 0.5, 0.3]])
    assert running.result() == pytest.approx((3 * np.log(3) + np.log(2)) / 4)
    with pytest.raises(ValueError, match="label 'd'"):
        running.update(["d"], [[0.2, 0.5, 0.3]])
    with pytest.raises(ValueError, match="the parts name their columns"):
        running.merge(Running("log_loss").update([0, 1, 2], np.full((3, 3), 1 / 3)))


def test_an_instance_without_rows_takes_the_names_of_columns_from_the_other() -> None:
    for empty_first in (True, False):
        pair = [Running("brier"), Running("brier").update(["a", "b"], [[0.7, 0.3], [0.2, 0.8]])]
        merged = pair[1 - empty_first].merge(pair[empty_first])
        assert list(merged.classes) == ["a", "b"]
        assert merged.update(["b"], [[1.0, 0.0]]).result() == pytest.approx((0.09 + 0.04 + 1) / 3)


def test_what_is_no_sum_is_refused_with_what_is() -> None:
    with pytest.raises(ValueError, match=r"kuiper needs all rows at once; .*accuracy, brier"):
        Running("kuiper")
    with pytest.raises(ValueError, match="needs all rows at once; bins of equal width do not"):
        Running("ece", strategy="quantile").update([0, 1], [0.2, 0.7])
    with pytest.raises(ValueError, match="its parts cannot be combined"):
        Running(lambda y, p: 0.0)
    with pytest.raises(ValueError, match="measure different things"):
        Running("ece").merge(Running("ece", n_bins=3))
    with pytest.raises(ValueError, match="cannot be merged"):
        RunningMetrics(["ece"]).merge(RunningMetrics(["brier"]))
    with pytest.raises(ValueError, match="its own intervals"):
        Running("reliability_table").update([0, 1], [0.2, 0.7]).result(level=0.9)


def test_no_rows_are_an_error() -> None:
    with pytest.raises(ValueError, match="there are no rows yet"):
        RunningMetrics().result()
    with pytest.raises(ValueError, match="there are no rows yet"):
        Running("ece").update([], np.empty((0, 3))).result()


def taken_in(x: np.ndarray, counts: np.ndarray | None, groups: np.ndarray | None, n_parts: int) -> Estimate:
    """The mean of numbers that come in parts, of which each holds whole groups."""
    parts = np.array_split(np.arange(len(x)), n_parts)
    mean = Sums()
    for rows in parts:
        data = Sample(np.zeros((len(x), 2)), np.zeros(len(x), dtype=int), counts, groups).take(rows)
        mean.add(summed_mean(x[rows]), data)
    return mean.estimate(0.95)


def test_a_count_is_that_many_rows_in_intervals_of_means() -> None:
    rng = np.random.default_rng(0)
    x, counts = 2 + rng.standard_normal(500), rng.integers(1, 5, 500)
    counted = taken_in(x, counts.astype(float), None, 3)
    written = taken_in(np.repeat(x, counts), None, None, 5)
    centre, total = np.average(x, weights=counts), counts.sum()
    error = np.sqrt(counts @ (x - centre) ** 2) / total
    for found in (counted, written):
        assert found.value == pytest.approx(centre)
        assert found.high - found.value == pytest.approx(1.959964 * error, rel=2e-3)
    assert counted.low == pytest.approx(written.low, rel=1e-12)


def test_groups_give_means_the_standard_error_of_their_sums() -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(100), 10)
    x = 2 + rng.standard_normal(100)[groups] + 0.1 * rng.standard_normal(1000)
    found = taken_in(x, None, groups, 4)  # 25 groups in each part
    sums = np.bincount(groups, x - x.mean())
    assert found.high - found.value == pytest.approx(1.959964 * np.sqrt(sums @ sums) / 1000, rel=0.03)


def test_the_interval_of_a_mean_of_few_is_students() -> None:
    x = np.array([0.3, 1.7, 2.2, 0.9, 4.1])
    found = taken_in(x, None, None, 2)
    expected = t.interval(0.95, 4, x.mean(), x.std(ddof=1) / np.sqrt(5))
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-12)
    # Groups of different sizes are worth `N² / Σ n²` of one size.
    groups, counts = np.array([0, 0, 0, 1, 2]), np.array([1.0, 2.0, 1.0, 3.0, 2.0])
    units = 81 / (16 + 9 + 4)
    found, centre = taken_in(x, counts, groups, 1), np.average(x, weights=counts)
    sums = np.bincount(groups, counts * (x - centre))
    half = t.ppf(0.975, units - 1) * np.sqrt(sums @ sums * units / (units - 1)) / 9
    assert (found.value, found.high - found.value) == pytest.approx((centre, half), rel=1e-12)


@pytest.mark.usefixtures("sums_only")
def test_intervals_of_what_does_not_vary_and_of_what_cannot_be_larger() -> None:
    same = taken_in(np.full(7, 0.3), None, None, 2)
    assert (same.low, same.high) == pytest.approx((0.3, 0.3), abs=1e-7)
    wrong = Running("ece").update([0] * 9, [0.9] * 9).result(0.95)
    assert wrong.low < wrong.value < wrong.high == 1.0


def test_rows_are_kept_up_to_a_number_of_entries_and_then_none(monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = sharpened(70, 2)
    monkeypatch.setattr("calibrant.metrics.running.KEPT_ENTRIES", 40)  # twenty rows of two classes
    expected = evaluate(y[:20], p[:20], ["brier"], level=0.9)["brier"]
    few = RunningMetrics(["brier"]).update(y[:8], p[:8]).update(y[8:20], p[8:20])
    found = few.result(0.9)["brier"]
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    # With more rows there are only sums, whichever way they come.
    many = RunningMetrics(["brier"]).update(y[20:], p[20:])
    size = len(pickle.dumps(many))
    whole = RunningMetrics(["brier"]).update(y, p).result(0.9)["brier"]
    for first, second in ((few, many), (many, few)):
        merged = pickle.loads(pickle.dumps(first)).merge(second)
        assert len(pickle.dumps(merged)) < size + 10
        found = merged.result(0.9)["brier"]
        assert (found.value, found.low, found.high) == pytest.approx((whole.value, whole.low, whole.high), rel=1e-9)
    table = [len(pickle.dumps(Running("reliability_table").update(y[:n], p[:n]))) for n in (5, 20)]
    assert abs(table[1] - table[0]) < 10


def test_rows_with_an_ignored_label_are_not_taken_in() -> None:
    running = RunningMetrics(["brier"]).update([0, 9, 1], [[0.8, 0.2], [0.5, 0.5], [0.4, 0.6]], ignore_index=9)
    assert running.rows == 2
    assert running.result()["brier"] == pytest.approx((0.04 + 0.16) / 2)


def test_a_single_mean_has_no_interval() -> None:
    with pytest.warns(CalibrationWarning, match="no interval"):
        found = taken_in(np.array([0.3]), None, None, 1)
    assert found.value == 0.3
    assert np.isnan([found.low, found.high]).all()


def test_the_interval_of_a_frequency_is_wilsons() -> None:
    y, p = np.repeat([1, 0], [7, 3]), np.full(10, 0.8)
    for times in (1, 2):
        found = Running("accuracy").update(y, p, np.full(10, times)).result(0.9)
        expected = binomtest(7 * times, 10 * times).proportion_ci(0.9, "wilson")
        assert (found.low, found.high, found.level) == pytest.approx((*expected, 0.9), rel=1e-9)
    # Groups that are half alike: as many trials as a variance like theirs allows.
    groups, y = np.arange(36) // 3, np.tile([1, 1, 1, 1, 0, 1, 0, 0, 1], 4)
    found = Running("accuracy").update(y, np.full(36, 0.8), groups=groups).result(0.9)
    f, sums = y.mean(), np.bincount(groups, y)
    trials = f * (1 - f) * 36**2 / (np.sum((sums - 3 * f) ** 2) * 12 / 11)
    assert 12 < trials < 36
    z2 = 1.6448536269514722**2
    middle, half = f + z2 / (2 * trials), np.sqrt(z2 * (f * (1 - f) + z2 / (4 * trials)) / trials)
    assert found.low == pytest.approx((middle - half) / (1 + z2 / trials), rel=1e-9)
    assert found.high == pytest.approx((middle + half) / (1 + z2 / trials), rel=1e-9)


@pytest.mark.usefixtures("sums_only")
def test_distances_of_groups_agree_with_the_bootstrap_of_groups() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(200), 10)
    score, shared = rng.random(200)[groups], rng.standard_normal(200)[groups]
    y = (rng.random(2000) < 1 / (1 + np.exp(-(4 * score - 2 + shared)))).astype(int)
    for name in ("ece", "smooth_ece"):
        running = Running(name)
        for rows in np.array_split(np.arange(2000), 2):
            running.update(y[rows], score[rows], groups=groups[rows])
        found = running.result(0.95)
        expected = confidence_interval(name, y, score, groups=groups, n_resamples=200)
        width = expected.high - expected.low
        assert found.low == pytest.approx(expected.low, abs=0.2 * width), name
        assert found.high == pytest.approx(expected.high, abs=0.2 * width), name
        if name == "ece":
            alone = Running(name).update(y, score).result(0.95)
            assert alone.high - alone.low < 0.8 * width


def test_evaluate_takes_sources_of_batches() -> None:
    p, y = sharpened(900, 3, 1.5)
    labels = np.array(["a", "b", "c"])[np.sort(y)]
    weight = np.random.default_rng(0).integers(0, 3, 900).astype(float)

    def source() -> Any:
        yield from ((p[i : i + 100], labels[i : i + 100], weight[i : i + 100]) for i in range(0, 900, 100))

    found = evaluate(source)
    assert list(found) == ["log_loss", "brier", "accuracy", "ece", "smooth_ece"]
    assert found == pytest.approx(evaluate(labels, p, list(found), sample_weight=weight), rel=1e-12)
    assert evaluate(source, metrics=["brier"], classes=["a", "b", "c"]) == pytest.approx({"brier": found["brier"]})
    with pytest.raises(ValueError, match="label 'c', which classes= does not name"):
        evaluate(source, classes=["a", "b", "z"])
    with pytest.raises(ValueError, match="kuiper needs all rows at once"):
        evaluate(source, metrics=["kuiper"])


def test_evaluate_takes_arrow_tables() -> None:
    pyarrow = needs("pyarrow")
    p, y = sharpened(300, 2, 1.5)
    table = pyarrow.table({"no": p[:, 0], "yes": p[:, 1], "truth": np.array(["no", "yes"])[y]})
    found = evaluate(table, metrics=["log_loss"], label="truth")
    assert found == pytest.approx(evaluate(y, p, ["log_loss"]), rel=1e-12)


def test_places_are_taken_in_as_rows() -> None:
    p, y = sharpened(2 * 3 * 4, 3)
    images, labels = np.moveaxis(p.reshape(2, 3, 4, 3), -1, 1), y.reshape(2, 3, 4).copy()
    labels[0, 0], labels[1] = 255, 255  # the second image is void
    running = RunningMetrics(["log_loss"])
    for image, truth in zip(images, labels):
        running.update(truth[None], image[None], axis=1, ignore_index=255)
    assert running.rows == 8
    assert running.result() == pytest.approx(evaluate(labels, images, ["log_loss"], axis=1, ignore_index=255))


def test_errors_of_batches_name_the_batch() -> None:
    p, y = sharpened(400, 3)
    y[333] = 7
    batches = [(p[i : i + 100], y[i : i + 100]) for i in range(0, 400, 100)]
    for classes, words in ((None, "y_true holds 4 labels"), (range(3), "y_true holds the label 7")):
        where = r"in row 333 \(batch 3, which starts at row 300\)"
        with pytest.raises(ValueError, match=f"{words}.* appear was 7, {where}"):
            evaluate(lambda: iter(batches), classes=classes)


def test_rows_in_parts_have_their_groups_elsewhere() -> None:
    p, y = sharpened(40, 3)
    top = TopK(np.log(p), np.tile(np.arange(3), (40, 1)), 3)
    for given in ([lambda: iter([(p, y)])], [y, top]):
        for options in ({"groups": np.arange(40) // 2}, {"blocks": 2}):
            with pytest.raises(ValueError, match=r"pass them to RunningMetrics\.update"):
                evaluate(*given, **options)

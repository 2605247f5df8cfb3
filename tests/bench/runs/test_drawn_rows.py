"""Draws of calibration rows: seeded, the same for every method and model, nested; harm measured exactly."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from calibrant import get_calibrator
from calibrant.bench.runs.drawn_rows import MIN_OTHERS, SPLIT, Draw, DrawnSource, draw_sizes, drawn, with_drawn_labels
from calibrant.bench.runs.method_spec import MethodSpec, make_spec
from calibrant.bench.runs.one_fit import Options, evaluate
from calibrant.bench.runs.runner import run_benchmark
from calibrant.files.prediction_sets.experiments import Experiment, MemorySource, PredictionFileError, SplitPredictions
from tests.needs import needs

N = 1200


class Shift:
    """Moves every logit of the second class by a constant, whatever it is fitted to."""

    def fit(self, p, y):
        return self

    def predict_proba(self, p):
        moved = expit(logit(p[:, 1]) + 0.5)
        return np.column_stack([1 - moved, moved])


@pytest.fixture(scope="module")
def source():
    """Two models on the same rows; the first column numbers the rows."""
    labels = np.random.default_rng(0).integers(0, 2, size=N + 300)
    made = {}
    for model, top in (("one", 0.4), ("two", 0.6)):
        p = np.linspace(0.01, top, N + 300)
        p = np.column_stack([p, 1 - p])
        made["rows", model, 0] = SplitPredictions.checked(p[:N], labels[:N], p[N:], labels[N:])
    return MemorySource(made, name="numbered")


def rows_of(part, whole):
    return np.searchsorted(whole.probas_cal[:, 0], part[:, 0])


def base_of(e: Experiment) -> Experiment:
    """The experiment that a draw is from: its fold without the name of the draw."""
    return replace(e, fold=e.fold.partition("-n")[0])


def test_sizes_leave_rows_to_test_on(source):
    listed = DrawnSource(source, Draw((100, N - MIN_OTHERS, N - MIN_OTHERS + 1), repeats=2)).experiments()
    assert {(e.n_cal, e.n_test) for e in listed} == {(100, N - 100), (N - MIN_OTHERS, MIN_OTHERS)}
    assert len(listed) == 2 * 2 * 2
    assert len({e.key for e in listed}) == len(listed)


def test_draws_are_seeded_nested_and_the_same_for_all_models(source):
    drawn_source = DrawnSource(source, Draw((50, 400), repeats=2))
    again = DrawnSource(source, Draw((400,), repeats=1))
    found = {}
    for e in drawn_source.experiments():
        part, whole = drawn_source.load(e), source.load(base_of(e))
        cal, test = rows_of(part.probas_cal, whole), rows_of(part.probas_test, whole)
        assert sorted([*cal, *test]) == list(range(N))
        np.testing.assert_array_equal(part.labels_cal, whole.labels_cal[cal])
        np.testing.assert_array_equal(part.labels_test, whole.labels_cal[test])
        found[e.model, e.n_cal, int(e.fold.rpartition("-r")[2])] = cal
    for repeat in (0, 1):
        np.testing.assert_array_equal(found["one", 400, repeat], found["two", 400, repeat])
        assert set(found["one", 50, repeat]) < set(found["one", 400, repeat])
    assert not np.array_equal(found["one", 400, 0], found["one", 400, 1])
    # Neither the order of loading nor the other sizes matter.
    e = again.experiments()[-1]
    np.testing.assert_array_equal(rows_of(again.load(e).probas_cal, source.load(base_of(e))), found["two", 400, 0])
    other = DrawnSource(source, Draw((400,), repeats=1, seed=1))
    assert not np.array_equal(other.load(e).probas_cal, again.load(e).probas_cal)


def test_pooled_split_is_redrawn(source):
    both = DrawnSource(source, Draw((SPLIT,), repeats=10, rows="both"))
    assert {(e.n_cal, e.n_test) for e in both.experiments()} == {(N, 300)}
    e = both.experiments()[0]
    part = both.load(e)
    everything = np.sort(np.concatenate([part.probas_cal[:, 0], part.probas_test[:, 0]]))
    np.testing.assert_array_equal(everything, np.linspace(0.01, 0.4, N + 300))
    with pytest.raises(ValueError, match="only from the rows of both parts"):
        Draw((SPLIT,))
    assert both.name == "numbered, draws of all rows"


def test_draws_from_the_test_part(source):
    with pytest.raises(ValueError, match="no experiment of numbered has enough rows: a draw of 10 must leave 500"):
        DrawnSource(source, Draw((10,), rows="test")).experiments()
    p = np.linspace(0.01, 0.4, 600)
    long = SplitPredictions.checked(p[:1], [0], p, np.arange(600) % 2)
    tested = DrawnSource(MemorySource({("d", "m", 0): long}, name="long"), Draw((20,), repeats=1, rows="test"))
    part = tested.load(tested.experiments()[0])
    np.testing.assert_array_equal(np.sort(np.concatenate([part.probas_cal[:, 1], part.probas_test[:, 1]])), p)
    assert tested.name == "long, draws of test rows"


def test_drawn_labels_follow_the_predictions():
    p = np.tile([0.2, 0.5, 0.3], (6000, 1))
    source = MemorySource({("d", "m", 0): SplitPredictions.checked(p, np.zeros(6000, int), p[:1], [0])})
    labels = with_drawn_labels(source.load(source.experiments()[0]), source.experiments()[0], seed=0).labels_cal
    share = np.bincount(labels, minlength=3) / len(labels)
    np.testing.assert_allclose(share, p[0], atol=5 * np.sqrt(0.25 / len(labels)))


def test_identity_does_no_harm_and_a_shift_its_divergence(source):
    harm = DrawnSource(source, Draw((100,), repeats=1, labels="drawn"))
    assert harm.name == "numbered, draws with drawn labels"
    part = harm.load(harm.experiments()[0])
    q = part.probas_test
    none = evaluate(part, make_spec("none"), expected=True)
    entropy = -(q * np.log(q)).sum(axis=1).mean()
    assert none["logloss"] == pytest.approx(entropy, rel=1e-14)
    shift = evaluate(part, MethodSpec("shift", f"{__name__}:Shift"), expected=True)
    moved = Shift().predict_proba(q)
    assert shift["logloss"] - none["logloss"] == pytest.approx((q * np.log(q / moved)).sum(axis=1).mean(), rel=1e-9)
    assert shift["brier"] - none["brier"] == pytest.approx(((q - moved) ** 2).sum(axis=1).mean(), rel=1e-9)
    # The labels of the test rows play no part.
    other = SplitPredictions(part.probas_cal, part.labels_cal, part.probas_test, 1 - part.labels_test)
    assert evaluate(other, make_spec("none"), expected=True)["logloss"] == none["logloss"]


def test_what_cannot_be_drawn(source):
    with pytest.raises(ValueError, match="sizes of draws are positive"):
        Draw(())
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        Draw((10,), repeats=0)
    e = source.experiments()[0]
    with pytest.raises(ValueError, match="cannot draw 1200 of 1200 rows of rows/one/0"):
        drawn(source.load(e), e, N, seed=0)
    with pytest.raises(PredictionFileError, match="rows/one/0 is not among the experiments of"):
        DrawnSource(source, Draw((10,))).load(e)


@pytest.mark.slow  # many processes, fits or figures: run by `make test-optional`
@pytest.mark.bench
def test_a_run_with_draws_is_tidy_and_continues(source, tmp_path):
    pd = needs("pandas")
    needs("pyarrow")

    def run(draw):
        run_benchmark(source, ["ts"], tmp_path, options=Options(draw=draw), n_jobs=1, progress=False)
        table = pd.read_parquet(tmp_path / "results.parquet")
        return table, (tmp_path / "log.jsonl").read_text().count("\n")

    table, fits = run(Draw((50, 100), repeats=2))
    assert fits == len(table) == 2 * 2 * 2 * 2
    assert table.groupby("draw")[["n_cal", "n_test"]].first().to_numpy().tolist() == [[50, 1150], [100, 1100]]
    assert set(table["fold"]) == {f"0-n{n}-r{r}" for n in (50, 100) for r in (0, 1)}
    # Only what is new is fitted: another size, then harm beside what was there.
    assert run(Draw((50, 100, 200), repeats=2))[1] == fits + 8
    table, _ = run(Draw((100,), repeats=1, labels="drawn"))
    harm = table[table["labels"] == "drawn"].set_index(["model", "method"])["logloss"]
    assert set(table["benchmark"]) == {"numbered, draws", "numbered, draws with drawn labels"}
    assert (harm.xs("ts", level="method") > harm.xs("none", level="method")).all()
    drawn_source = DrawnSource(source, Draw((100,), repeats=1, labels="drawn"))
    part = drawn_source.load(drawn_source.experiments()[0])
    q, p = part.probas_test, get_calibrator("ts").fit(part.probas_cal, part.labels_cal).predict_proba(part.probas_test)
    expected = (q * np.log(q / p)).sum(axis=1).mean()
    assert harm["one", "ts"] - harm["one", "none"] == pytest.approx(expected, rel=1e-6)


def test_options_take_draws_or_a_limit():
    with pytest.raises(ValueError, match="draws have the size asked for"):
        Options(max_cal_rows=10, draw=Draw((10,)))


def test_sizes_as_they_are_written():
    assert draw_sizes("30, 100,30") == (30, 100)
    assert draw_sizes("split") == (0,)
    assert Draw((30,)) == Draw((30,), repeats=3, rows="cal", labels="real", seed=0)
    for wrong in ("0", "-3", "1.5", "all"):
        with pytest.raises(ValueError, match="a draw is a number of rows or 'split', not"):
            draw_sizes(f"30,{wrong}")

"""One contract for rows: what `predict_proba` accepts every target answers alike, what it refuses every target refuses.

Python, JavaScript and the runtime raise an error, a query gives NULL, graphs give NaN, and C returns 1.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import calibrant
from calibrant import runtime
from calibrant.steps import Log, Scale, Softmax
from tests.needs import needs
from tests.steps.maps import fitted
from tests.writers import answers
from tests.writers.test_source import boosted

INF, NAN = np.inf, np.nan

#: Rows of two probabilities, and whether they are predictions.
TWO = [
    ([0.25, 0.75], True),
    ([0.0, 1.0], True),
    ([-0.0, 1.0], True),
    ([5e-324, 1.0], True),
    ([0.5, 0.5], True),
    ([0.1, 0.9049], True),
    ([0.0, 1.005], True),
    ([0.497, 0.4985], True),
    ([0.5, 0.5051], False),
    ([0.0, 1.0051], False),
    ([0.497, 0.4979], False),
    ([0.0, 0.0], False),
    ([2.0, 2.0], False),
    ([25.0, 75.0], False),
    ([0.3, 0.3], False),
    ([-0.1, 1.1], False),
    ([-1e-9, 1.0], False),
    ([NAN, 1.0], False),
    ([0.5, NAN], False),
    ([NAN, NAN], False),
    ([INF, 0.0], False),
    ([-INF, 1.0], False),
    ([1e308, 1e308], False),
]
#: A single probability, that of the second class.
ONE = [
    *(([p], True) for p in (0.0, -0.0, 5e-324, 0.3, 0.5, 1.0, 1.004, 1.005)),
    *(([p], False) for p in (1.0051, 1.2, 5.0, 70.0, -0.1, -1e-12, INF, -INF, NAN, 1e308)),
]
#: Rows that are rescaled.
RESCALED = [
    *((row, True) for row in ([3.0, 1.0], [25.0, 75.0], [0.2, 0.2], [1e300, 3e300], [0.0, 5e-324], [1e-200, 2e-200])),
    *((row, True) for row in ([1e308, 1.7e308], [0.0, 5.0], [1e-30, 1e30], [0.25, 0.75])),
    *((row, False) for row in ([0.0, 0.0], [NAN, 1.0], [1.0, NAN], [INF, 1.0], [INF, INF], [-1.0, 2.0], [-1e-9, 1.0])),
]
LOGITS = [
    *((row, True) for row in ([0.0, 0.0], [-3.0, 2.0], [0.0, -INF], [-INF, 5.0], [800.0, -800.0], [-800.0, -801.0])),
    *((row, True) for row in ([1e308, -1e308], [1e308, 1e308], [5e-324, 0.0], [70.0, 30.0])),
    *((row, False) for row in ([-INF, -INF], [INF, 0.0], [0.0, INF], [INF, INF], [INF, -INF], [NAN, 0.0], [0.0, NAN])),
]
ONE_LOGIT = [
    *(([z], True) for z in (0.0, 3.0, -800.0, 800.0, -INF, 1e308, -1e308)),
    *(([z], False) for z in (INF, NAN)),
]


def three(rows):
    """Rows of three classes: the first shares its number with a new one, in halves that sum to it exactly."""
    return [([row[0] / 2.0, row[1], row[0] / 2.0], valid) for row, valid in rows if abs(row[0]) != 5e-324]


#: Every kind of predictions with its rows.
KINDS = {
    "two columns": ({}, TWO),
    "one column": ({}, ONE),
    "three columns": ({}, three(TWO)),
    "two columns, the other way round": ({"columns": np.array([1, 0])}, TWO),
    "one column, the other way round": ({"columns": np.array([1, 0])}, ONE),
    "two rescaled columns": ({"renormalize": True}, RESCALED),
    "three rescaled columns": ({"renormalize": True}, three(RESCALED)),
    "two logits": ({"logits": True}, LOGITS),
    "one logit": ({"logits": True}, ONE_LOGIT),
    "one logit, the other way round": ({"logits": True, "columns": np.array([1, 0])}, ONE_LOGIT),
    "three logits": ({"logits": True}, [([*row, row[0]], valid) for row, valid in LOGITS]),
}


def maps(k, options):
    """One that is smooth, one that decides by points, one that asks questions."""
    smooth = runtime.Map(list(range(k)), [Log(), Scale(0.5, np.arange(k) / k), Softmax()])
    return [replace(map_, **options) for map_ in (smooth, fitted("isotonic", k)[0].to_map(), boosted(k))]


TARGETS = [
    pytest.param(to, marks=getattr(pytest.mark, mark) if mark else ()) for to, (_, mark) in answers.TARGETS.items()
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("to", TARGETS)
def test_every_target_accepts_and_refuses_the_same_rows(to, kind):
    options, cases = KINDS[kind]
    rows, valid = [row for row, _ in cases], np.array([valid for _, valid in cases])
    for map_ in maps(3 if "three" in kind else 2, options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = np.array(answers.TARGETS[to][0](map_, rows))
        assert np.isfinite(found[valid]).all(), [row for row, ok in zip(rows, np.isfinite(found).all(axis=1)) if not ok]
        assert np.isnan(found[~valid]).all(), [row for row, no in zip(rows, np.isnan(found).all(axis=1)) if not no]
        accepted = [row for row, ok in cases if ok]
        np.testing.assert_allclose(found[valid], map_.predict_proba(accepted), rtol=0, atol=1e-12)


@pytest.mark.export
@pytest.mark.parametrize("to", ["onnx", pytest.param("torch", marks=pytest.mark.torch)])
@pytest.mark.parametrize("kind", ["two columns", "three columns", "two logits", "one logit"])
def test_single_precision_marks_the_same_rows(to, kind):
    needs("onnxruntime" if to == "onnx" else "torch")
    options, cases = KINDS[kind]
    cases = [(row, valid) for row, valid in cases if not any(1e38 < abs(v) < INF for v in row)]
    rows, valid = [row for row, _ in cases], np.array([valid for _, valid in cases])
    for map_ in maps(3 if "three" in kind else 2, options):
        found = answers.TARGETS[to][0](map_, rows, dtype="float32")
        assert np.array_equal(np.isfinite(found).all(axis=1), valid)
        assert np.isnan(found[~valid]).all()


@pytest.mark.torch
def test_scripted_and_exported_modules_and_networks_mark_rows_too(tmp_path):
    torch = needs("torch")
    from calibrant.writers.torch_module import CalibratedNetwork

    rows = torch.tensor([[0.25, 0.75], [2.0, 2.0], [NAN, 1.0]], dtype=torch.float64)
    module = calibrant.export(fitted("ts", 2)[0], to="torch")
    assert calibrant.export(fitted("ts", 2)[0], tmp_path / "cal.pt2") == tmp_path / "cal.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(module)
    network = CalibratedNetwork(torch.nn.Identity(), fitted("ts", 2)[0], "probabilities")
    for run in (module, scripted, torch.export.load(tmp_path / "cal.pt2").module(), network):
        assert run(rows).isnan().tolist() == [[False] * 2, [True] * 2, [True] * 2]
    assert network(torch.tensor([0.7, 1.004, 1.2], dtype=torch.float64)).isnan()[:, 0].tolist() == [False, False, True]
    with pytest.raises(ValueError, match="The predictions have 3 columns, this map needs one per class"):
        module(torch.full((1, 3), 1 / 3))


@pytest.mark.program
def test_javascript_takes_nothing_for_a_number():
    map_ = runtime.Map(["a", "b"], [Log(), Softmax()])
    script = """
const { calibrate } = require("./map.cjs");
for (const row of [[null, 1], [undefined, 1], ["", 1], [" ", 1], [[], 1], [null], [, 1]]) {
  try { console.log(calibrate(row)); } catch (error) { if (!(error instanceof RangeError)) throw error; }
}
console.log(JSON.stringify(calibrate(["0.5", 0.5])));
"""
    with answers.workshop({"map.cjs": answers.javascript.write(map_, []), "run.cjs": script}) as folder:
        assert answers.run_program(["node", "run.cjs"], folder) == "[0.5,0.5]\n"


def test_errors_show_the_row_that_was_given():
    scope: dict = {}
    exec(calibrant.export(fitted("ts", 2)[0], to="python"), scope)
    for row in ([1.2], [0.5, 0.6], [], [0.2, 0.3, 0.5]):
        with pytest.raises(ValueError, match="not probabilities of 2 classes: ") as error:
            scope["calibrate"](iter(row))
        assert str(error.value).endswith(str(row))

"""Compiled code: what is said about it, and that it is there without a cache and not asked for where none is needed."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching, event

from calibrant import compiling
from calibrant.softmax.kernels import exp, jit, log

PREDICT = """
import sys
import numpy as np, calibrant
calibrator = calibrant.load(sys.argv[1])
assert len(calibrator.tree_features_), "no trees"
calibrator.predict_proba(np.full((500, calibrator.n_features_in_), 1 / calibrator.n_features_in_))
print("numba" in sys.modules)
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_functions_are_compiled_without_any_folder_for_a_cache(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])  # as where no folder can be written

    def double(x):
        return 2.0 * x

    assert compiling.compiled()(double)(0.25) == 0.5
    # Nothing else is compiled in another way.
    sources = (Path(__file__).parents[1] / "src").rglob("*.py")
    assert [path.name for path in sources if "njit" in path.read_text(encoding="utf-8")] == ["compiling.py"]


def test_predicting_with_stored_trees_does_not_even_import_the_compiler(tmp_path: Path):
    import calibrant

    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 3))
    y = (z * z + rng.gumbel(size=z.shape)).argmax(axis=1)  # what no linear map of the logits can say
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    calibrant.save(calibrant.get_calibrator("auto").fit(p, y), tmp_path / "stored.json")
    assert run(PREDICT, str(tmp_path / "stored.json")) == "False"


@pytest.mark.parametrize(("function", "exact"), [(exp, np.exp), (log, np.log)])
def test_exponential_and_logarithm_are_those_of_numpy(function, exact):
    @jit()
    def fill(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    x = np.linspace(-700.0, 0.0, 9999) if exact is np.exp else np.geomspace(1e-300, 1e300, 9999)
    out = np.empty_like(x)
    fill(x, out)
    np.testing.assert_allclose(out, exact(x), rtol=1e-15, atol=1e-15)


def test_long_compiling_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(compiling, "_LONG", -1.0)
    stopwatch = compiling.Stopwatch()
    with caplog.at_level(logging.INFO, logger="calibrant"):
        for _ in range(3):
            stopwatch.on_start(event.Event("numba:compile", event.EventStatus.START))
            stopwatch.on_end(event.Event("numba:compile", event.EventStatus.END))
    assert [record.name for record in caplog.records] == ["calibrant"]
    assert "NUMBA_CACHE_DIR" in caplog.text

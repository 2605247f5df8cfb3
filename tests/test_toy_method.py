"""A new method takes one file and one registry entry: with them it is fitted, stored, benchmarked, ranked and listed.

A copy of the package gets both, as CONTRIBUTING.md says, and is tried in another process; its benchmark starts workers
that know nothing but the copy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant
from tests.needs import needs

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
METHOD, ENTRY = (re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[1] for kind in ("python", "text"))

TRIAL = """
import json, sys
import numpy as np
import pandas as pd
import calibrant
from calibrant import calibrators
from calibrant.bench import MemorySource, SplitPredictions, build_tables, read_results, run_benchmark

rng = np.random.default_rng(0)

def predictions():
    p = rng.dirichlet(np.full(3, 0.3), 120)
    y = np.array([rng.choice(3, p=0.5 * row + 0.5 / 3) for row in p])
    return SplitPredictions.checked(p[:80], y[:80], p[80:], y[80:])

sets = {(name, "LR", 0): predictions() for name in ("a", "b", "c")}
one = next(iter(sets.values()))
toy = calibrant.get_calibrator("Frequency").fit(one.probas_cal, one.labels_cal)
calibrant.save(toy, "toy.json")
stored = calibrant.load("toy.json").predict_proba(one.probas_test)
run_benchmark(MemorySource(sets), ["frequency"], "results", n_jobs=1)
tables, _ = build_tables(read_results("results"))
methods = tables["methods"].frame.set_index("method")
print(json.dumps({
    "exported": type(toy) is calibrators.FrequencyCalibrator and "FrequencyCalibrator" in dir(calibrators),
    "stored": bool((stored == toy.predict_proba(one.probas_test)).all()),
    "family": methods.loc["frequency", "family"],
    "coloured": methods.loc["frequency", "colour"] != methods.loc["none", "colour"],
    "status": pd.read_parquet("results/results.parquet").query("method == 'frequency'")["status"].tolist(),
    "ranked": [name for name in tables if "frequency" in tables[name].frame.to_csv() and "rank" in name],
}))
"""


@pytest.mark.bench
def test_one_file_and_one_entry_make_a_method(tmp_path):
    for name in ("pandas", "pyarrow", "typer"):
        needs(name)
    package = tmp_path / "src" / "calibrant"
    shutil.copytree(Path(calibrant.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "calibrators" / "frequency.py").write_text(METHOD)
    registry = package / "calibrators" / "registry.py"
    before = registry.read_text()
    registry.write_text(before.replace('    "TS": [\n', f'    "TS": [\n        {ENTRY}'))
    assert registry.read_text() != before
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    found = run("-c", TRIAL)
    assert len(found.pop("ranked")) >= 1
    assert found == {
        "exported": True,
        "stored": True,
        "family": "TS",
        "coloured": True,
        "status": ["ok"] * 3,
    }
    assert "frequency" in [method["name"] for method in run("-m", "calibrant", "methods", "--json")]

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

FITTED = """
import json, sys
import numpy as np
import calibrant
from calibrant import calibrators
from calibrant.cli import app
p = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]])
toy = calibrant.get_calibrator("Frequency").fit(p, [0, 1, 2, 2])
calibrant.save(toy, "toy.json")
assert (calibrant.load("toy.json").predict_proba(p) == toy.predict_proba(p)).all()
assert type(toy) is calibrators.FrequencyCalibrator and "FrequencyCalibrator" in dir(calibrators)
app(["methods", "--json"])
"""
RANKED = """
import json, sys
import numpy as np
import pandas as pd
from calibrant.bench import MemorySource, SplitPredictions, build_tables, read_results, run_benchmark

rng = np.random.default_rng(0)

def predictions():
    p = rng.dirichlet(np.full(3, 0.3), 120)
    y = np.array([rng.choice(3, p=0.5 * row + 0.5 / 3) for row in p])
    return SplitPredictions.checked(p[:80], y[:80], p[80:], y[80:])

run_benchmark(MemorySource({(name, "LR", 0): predictions() for name in "abc"}), ["frequency"], "results", n_jobs=1)
tables, _ = build_tables(read_results("results"))
methods = tables["methods"].frame.set_index("method")
print(json.dumps({
    "family": methods.loc["frequency", "family"],
    "coloured": methods.loc["frequency", "colour"] != methods.loc["none", "colour"],
    "status": pd.read_parquet("results/results.parquet").query("method == 'frequency'")["status"].tolist(),
    "ranked": [name for name in tables if "frequency" in tables[name].frame.to_csv() and "rank" in name],
}))
"""


@pytest.fixture
def in_copy(tmp_path):
    """Runs code with a copy of the package that has the method."""
    for name in ("pandas", "pyarrow", "typer"):
        needs(name)
    package = tmp_path / "src" / "calibrant"
    shutil.copytree(Path(calibrant.__file__).parent, package, ignore=shutil.ignore_patterns("*.nbi", "*.nbc"))
    (package / "calibrators" / "frequency.py").write_text(METHOD)
    registry = package / "calibrators" / "registry.py"
    before = registry.read_text()
    registry.write_text(before.replace('    "TS": [\n', f'    "TS": [\n        {ENTRY}'))
    assert registry.read_text() != before
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_one_file_and_one_entry_make_a_method(in_copy):
    assert {"name": "frequency", "family": "TS"}.items() <= {
        name: value for row in in_copy(FITTED) if row["name"] == "frequency" for name, value in row.items()
    }.items()


@pytest.mark.slow
@pytest.mark.bench
def test_the_method_is_benchmarked_and_ranked(in_copy):
    found = in_copy(RANKED)
    assert len(found.pop("ranked")) >= 1
    assert found == {"family": "TS", "coloured": True, "status": ["ok"] * 3}

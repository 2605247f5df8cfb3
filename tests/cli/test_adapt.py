"""`calibrant adapt` on files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import calibrant
from calibrant import adapt
from tests.cli.test_commands import CLASSES, ok, predictions, run


@pytest.fixture
def files(tmp_path):
    """A stored calibrator, the labelled rows it was fitted to, and today's rows without labels."""
    table = predictions(2000)
    pa.parquet.write_table(table, tmp_path / "cal.parquet")
    animal = table["animal"].to_numpy(zero_copy_only=False)
    rng = np.random.default_rng(0)
    kept = (animal == "dog") | (rng.random(len(animal)) < 0.2)
    today = table.filter(pa.array(kept)).select(["id", "p_cat", "p_dog", "p_bird"])
    pa.parquet.write_table(today, tmp_path / "today.parquet")
    ok("fit", tmp_path / "cal.parquet", "--label", "animal", "-m", "ts", "-o", tmp_path / "cal.json")
    return tmp_path, today, np.mean(animal[kept] == "dog")


def test_a_known_prior(files):
    folder, _, _ = files
    done = ok("adapt", folder / "cal.json", "--prior", "dog=0.2,cat=0.5,bird=0.3", "-o", folder / "new.json")
    assert "Adapted to the class frequencies given" in done.stdout
    adapted = calibrant.load(folder / "new.json")
    assert dict(zip(adapted.classes_, adapted.prior_)) == pytest.approx({"bird": 0.3, "cat": 0.5, "dog": 0.2})
    ok("apply", folder / "new.json", folder / "today.parquet", "-o", folder / "out.parquet")
    ok("export", folder / "new.json", "-o", folder / "new.py")


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_a_prior_estimated_from_a_file_without_labels(files, method):
    folder, today, dogs = files
    labelled = ["--labelled", folder / "cal.parquet", "--label", "animal"]
    arguments = ["--from", folder / "today.parquet", "--method", method, *labelled, "--json", "-o", folder / "new.json"]
    found = json.loads(ok("adapt", folder / "cal.json", *arguments).stdout)
    assert sorted(found["classes"]) == CLASSES
    assert found["rows"] == len(today)
    assert abs(dict(zip(found["classes"], found["prior"]))["dog"] - dogs) < 0.1
    base = calibrant.load(folder / "cal.json")
    table = predictions(2000)
    expected = adapt(
        base,
        unlabelled=today.select(list(base.feature_names_in_)).to_pandas(),
        method=method,
        labelled=(table.select(list(base.feature_names_in_)).to_pandas(), table["animal"].to_pylist()),
    )
    np.testing.assert_allclose(found["prior"], expected.prior_, rtol=1e-6)
    np.testing.assert_allclose(found["interval"], expected.interval_, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --prior"),
        (["--prior", "dog=1"], "lacks the class 'bird'"),
        (["--prior", "dog=0.2,cat=0.2,bird=0.2"], "sum to 0.6, not to 1"),
        (["--prior", "dog=0.2,cat=0.2,emu=0.6"], "'emu', which is not one of"),
        (["--prior", "dog,cat"], "label=share"),
        (["--prior", "dog=a"], "label=share"),
        (["--from", "nowhere.csv"], "there is no file nowhere.csv"),
        (["--prior", "dog=1", "--label", "y"], "belong together"),
    ],
)
def test_mistakes_are_explained(files, arguments, message):
    folder = files[0]
    result = run("adapt", folder / "cal.json", "-o", folder / "new.json", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "new.json").exists()


def test_a_single_share_is_that_of_the_second_of_two_classes(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(200)
    table = pd.DataFrame({"p_yes": p, "y": np.where(rng.random(200) < p, "yes", "no")})
    table.to_csv(tmp_path / "t.csv", index=False)
    ok("fit", tmp_path / "t.csv", "--label", "y", "-m", "ts", "-o", tmp_path / "c.json")
    for name, given in (("one", "0.02"), ("both", "no=0.98,yes=0.02")):
        ok("adapt", tmp_path / "c.json", "--prior", given, "-o", tmp_path / f"{name}.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "both.json").read_bytes()
    assert "shares are given as label=share" in run("adapt", tmp_path / "c.json", "--prior", "x", "-o", "-").stderr

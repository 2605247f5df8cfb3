"""`calibrant watch` on files: states, alarms, pages, repairs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import calibrant
from calibrant.deployment import CalibrationMonitor
from calibrant.files.locking import locked
from tests.cli.test_commands import ok, predictions, run


@pytest.fixture
def folder(tmp_path):
    """A calibrator, a batch as those it was fitted to, and one in which dogs became cats."""
    table = predictions(3000)
    pa.parquet.write_table(table.slice(0, 2000), tmp_path / "cal.parquet")
    pa.parquet.write_table(table.slice(2000), tmp_path / "good.parquet")
    animal = np.array(table["animal"].to_pylist(), dtype=object)
    animal[(animal == "dog") & (np.arange(3000) % 2 == 0)] = "cat"
    bad = table.set_column(table.column_names.index("animal"), "animal", pa.array(animal.tolist()))
    pa.parquet.write_table(bad.slice(2000), tmp_path / "bad.parquet")
    ok("fit", tmp_path / "cal.parquet", "--label", "animal", "-m", "ts", "-o", tmp_path / "cal.json")
    return tmp_path


def test_batches_states_alarm_page_and_repair(folder):
    watch = ["watch", folder / "cal.json"]
    state = ["--state", folder / "state.json", "--label", "animal", "--segments", "site"]
    first = ok(*watch, folder / "good.parquet", *state, "--reference", folder / "cal.parquet")
    assert "No alarm" in first.stdout
    assert "Predictions show no drift" in first.stdout
    outputs = ["--page", folder / "watch.html", "--repair", folder / "new.json"]
    second = run(*watch, folder / "bad.parquet", *state, *outputs)
    assert second.exit_code == 3, second.output + second.stderr
    assert "Alarm, raised after 2,000 labelled rows" in second.stdout or "Alarm, raised after 1,500" in second.stdout
    page = (folder / "watch.html").read_text()
    assert "Alarm: the calibrated probabilities are no longer right" in page
    assert page.count("<svg") == 3  # evidence, stability, expected accuracy
    assert "<script" not in page
    ok("apply", folder / "new.json", folder / "bad.parquet", "-o", folder / "out.parquet")
    cal = calibrant.load(folder / "cal.json")
    table = pa.parquet.read_table(folder / "good.parquet")
    frame = table.select(list(cal.feature_names_in_)).to_pandas()
    monitor = CalibrationMonitor(cal).update(frame, table["animal"].to_pylist(), table["site"].to_pylist())
    stored = json.loads((folder / "state.json").read_text())
    assert stored["labelled"]["rows"] == 2000
    assert stored["history"]["log_evidence"][0] == pytest.approx(monitor.log_evidence_)


def test_without_labels_and_late_ones(folder):
    watch = ["watch", folder / "cal.json", folder / "good.parquet", "--state", folder / "state.json", "--json"]
    found = json.loads(ok(*watch, "--page", folder / "watch.html").stdout)
    assert found["labelled_rows"] == 0
    assert "nan" not in (folder / "watch.html").read_text()
    assert found["expected"]["accuracy"][1] < found["expected"]["accuracy"][0] < found["expected"]["accuracy"][2]
    late = json.loads(ok(*watch, "--label", "animal", "--observed").stdout)
    assert late["labelled_rows"] == 1000
    assert late["expected"] == found["expected"]


def test_mistakes_are_explained(folder):
    state = folder / "state.json"
    ok("watch", folder / "cal.json", folder / "good.parquet", "--state", state, "--label", "animal")
    ok("fit", folder / "good.parquet", "--label", "animal", "-m", "ts", "-o", folder / "other.json")
    other = run("watch", folder / "other.json", folder / "good.parquet", "--state", state, "--label", "animal")
    assert other.exit_code == 1
    assert "This state belongs to another calibrator" in other.stderr
    changed = run("watch", folder / "cal.json", folder / "good.parquet", "--state", state, "--alpha", "0.1")
    assert changed.exit_code == 2
    assert "it began with" in changed.stderr
    for flag in ("--state", "--page", "--repair"):
        for output, message in (
            ("-", "standard output is for the findings"),
            (folder, "is a folder, not a regular file"),
        ):
            words = ["--state", state, flag, output]
            refused = run("watch", folder / "cal.json", folder / "good.parquet", *words)
            assert refused.exit_code == 2
            assert message in refused.stderr
    state.write_text("{")
    damaged = run("watch", folder / "cal.json", folder / "good.parquet", "--state", state)
    assert damaged.exit_code == 1
    assert "not the state of a monitor" in damaged.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_state_that_is_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe")
    refused = run("watch", folder / "cal.json", folder / "good.parquet", "--state", folder / "pipe")
    assert refused.exit_code == 2
    assert "is a pipe, not a regular file" in refused.stderr


def test_a_state_that_changed_during_the_wait_is_read_again(folder, monkeypatch):
    """What another process adds while this one waits for the lock is counted, too."""
    words = ["watch", folder / "cal.json", "--state", folder / "state.json", "-y", "animal"]
    ok(*words, folder / "good.parquet")
    other = (folder / "state.json").read_text()
    (folder / "state.json").unlink()
    holder = ExitStack()
    holder.enter_context(locked(folder / "state.json"))

    def finish(seconds):
        (folder / "state.json").write_text(other)
        holder.close()

    monkeypatch.setattr("calibrant.files.locking.time.sleep", finish)
    run(*words, folder / "bad.parquet")
    assert json.loads((folder / "state.json").read_text())["labelled"]["rows"] == 2000
    assert not list(folder.glob("*.lock"))


@pytest.mark.slow
def test_batches_of_several_processes_all_count(folder):
    """Twelve batches in two processes at a time, on one state: none is lost."""
    program = (
        "import sys; from calibrant.cli import main\n"
        "files = sys.argv[1:7]; words = sys.argv[7:]\n"
        "for file in files:\n"
        "    sys.argv = ['calibrant', 'watch', words[0], file, *words[1:]]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert end.code in (0, None, 3), end.code\n"
    )
    table = pa.parquet.read_table(folder / "good.parquet")
    for batch in range(12):
        pa.parquet.write_table(table.slice(80 * batch, 80), folder / f"{batch}.parquet")
    words = [folder / "cal.json", "--state", folder / "state.json", "-y", "animal"]
    files = [[folder / f"{batch}.parquet" for batch in range(first, first + 6)] for first in (0, 6)]
    commands = [[sys.executable, "-c", program, *map(str, [*six, *words])] for six in files]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert [process.wait() for process in processes] == [0, 0]
    stored = json.loads((folder / "state.json").read_text())
    assert stored["labelled"]["rows"] == 960
    assert not list(folder.glob("*.lock"))


def test_a_repaired_calibrator_is_replaced_by_the_state_that_wrote_it_alone(folder):
    words = ["watch", folder / "cal.json", "-y", "animal", "--repair", folder / "new.json", "--state"]
    assert run(*words, folder / "s.json", folder / "bad.parquet").exit_code == 3
    first = (folder / "new.json").read_bytes()
    table = pa.parquet.read_table(folder / "bad.parquet").slice(0, 700)
    pa.parquet.write_table(table, folder / "more.parquet")
    assert run(*words, folder / "s.json", folder / "more.parquet").exit_code == 3
    second = (folder / "new.json").read_bytes()
    assert second != first
    other = run(*words, folder / "other.json", folder / "bad.parquet")
    assert (other.exit_code, (folder / "other.json").exists()) == (2, False)
    assert "new.json exists already. --force overwrites it." in other.stderr
    (folder / "new.json").write_bytes(second + b" ")  # changed by somebody
    assert run(*words, folder / "s.json", folder / "good.parquet").exit_code == 2
    assert run(*words, folder / "s.json", folder / "good.parquet", "--force").exit_code == 3
    (folder / "new.json").write_bytes(b"\xff")
    assert run(*words, folder / "s.json", folder / "good.parquet").exit_code == 2


def test_a_state_in_use_is_waited_for_and_then_left(folder, monkeypatch):
    monkeypatch.setattr("calibrant.files.locking.locked.__wrapped__.__defaults__", (0.1, lambda message: None))
    words = ["watch", folder / "cal.json", folder / "good.parquet", "--state", folder / "state.json", "-y", "animal"]
    with locked(folder / "state.json"):
        result = run(*words)
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first == f"Note: another process is using {folder / 'state.json'}: waiting for it"
    assert second.startswith(f"Error: another process is using {folder / 'state.json'}, after a wait of 0.1 seconds")
    assert not (folder / "state.json").exists()
    ok(*words)


def test_a_repeated_batch_is_left_out_refused_or_replaced(folder):
    words = ["watch", folder / "cal.json", folder / "good.parquet", "--state", folder / "state.json", "-y", "animal"]
    named = [*words, "--batch-id", "2026-03"]
    ok(*named)
    again = ok(*named)
    assert "Note: already added with the same rows, not counted again: March 2026" in again.stderr
    table = pa.parquet.read_table(folder / "good.parquet").slice(0, 500)
    pa.parquet.write_table(table, folder / "good.parquet")
    refused = run(*named)
    assert refused.exit_code == 2
    assert "with other rows. --replace removes it" in refused.stderr
    assert "Note: replaced: March 2026" in ok(*named, "--replace").stderr
    assert json.loads((folder / "state.json").read_text())["labelled"]["rows"] == 500
    for more in (["--replace"], ["--period", "month"], ["--batch-id", " "], ["--on-alarm", "no-such-program-here"]):
        assert run(*words, *more).exit_code == 2


def test_periods_missing_labels_metrics_and_a_command(folder):
    table = pa.parquet.read_table(folder / "bad.parquet")
    days = [f"2026-{1 + 2 * (row // 500):02}-10" for row in range(table.num_rows)]
    animal = [None if row % 5 == 0 else name for row, name in enumerate(table["animal"].to_pylist())]
    table = table.set_column(table.column_names.index("animal"), "animal", pa.array(animal))
    pa.parquet.write_table(table.append_column("day", pa.array(days)), folder / "dated.parquet")
    words = ["watch", folder / "cal.json", folder / "dated.parquet", "--state", folder / "state.json", "-y", "animal"]
    words += ["--period", "month", "--date", "day"]
    code = f"import os; open({str(folder / 'told.txt')!r}, 'w').write(os.environ['CALIBRANT_ALARM_TEXT'])"
    command = f'{sys.executable} -c "{code}"'
    found = run(*words, "--metrics", folder / "m.prom", "--on-alarm", command)
    assert found.exit_code == 3, found.stderr
    assert "There is no batch for February 2026." in found.stdout
    assert "calibrant_alarm{" in (folder / "m.prom").read_text()
    assert "since January 2026" in (folder / "told.txt").read_text()
    assert json.loads((folder / "state.json").read_text())["labelled"]["rows"] == 800
    (folder / "told.txt").unlink()
    assert run(*words, "--on-alarm", command).exit_code == 3
    assert not (folder / "told.txt").exists()  # it is run when the alarm is raised, not again

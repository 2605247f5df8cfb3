"""The audit record: true, without names of people or files, kept by files, refused where it is forged."""

from __future__ import annotations

import datetime
import getpass
import json
import socket

import numpy as np
import pytest
from sklearn.metrics import log_loss

import calibrant
from calibrant.files.stored.audit import RowAudit, map_fingerprint, record_fit
from calibrant.files.stored.encoding import CalibratorFileError
from calibrant.steps.map_documents import canonical, checksum

THEN = datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC)


def rows(n=300, k=2, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), size=n)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return p**2 / (p**2).sum(axis=1, keepdims=True), np.array(["ann", "bob", "eve"])[y]


@pytest.fixture
def stored(tmp_path):
    p, y = rows()
    days = np.datetime64("2025-01-01") + np.arange(len(p))
    calibrant.save(record_fit(calibrant.SMSCalibrator().fit(p, y), p, y, dates=days, time=THEN), tmp_path / "cal.json")
    return tmp_path / "cal.json"


def test_a_record_holds_what_was_fitted_to_what(stored):
    p, y = rows()
    loaded, document = calibrant.load(stored), json.loads(stored.read_text())
    record = loaded.audit_
    assert record == document["audit"]
    assert record["map_sha256"] == document["map_sha256"] == map_fingerprint(loaded)
    assert (record["time"], record["period"]) == ("2026-03-01T12:30:00Z", ["2025-01-01", "2025-10-27"])
    assert record["class_counts"] == [(y == "ann").sum(), (y == "bob").sum()]
    assert (record["fitted_to"], record["classes"]) == ("300 rows", ["ann", "bob"])
    assert record["settings"]["penalty"] == "ridge"
    np.testing.assert_allclose(record["before"]["log_loss"], log_loss(y, p), rtol=1e-12)
    np.testing.assert_allclose(record["after"]["log_loss"], log_loss(y, loaded.predict_proba(p)), rtol=1e-12)


def test_the_file_is_the_same_byte_for_byte_and_a_second_save_keeps_the_record(stored, tmp_path):
    calibrant.save(calibrant.load(stored), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == stored.read_bytes()


def test_a_new_fit_drops_the_record_and_a_calibrator_without_one_is_stored_without(stored, tmp_path):
    fitted = calibrant.load(stored).fit(*rows(seed=1))
    assert not hasattr(fitted, "audit_")
    calibrant.save(fitted, tmp_path / "new.json")
    assert "audit" not in json.loads((tmp_path / "new.json").read_text())


def test_rows_have_one_fingerprint_however_they_are_parted_and_another_if_one_number_changes():
    p, y = rows(k=3)
    fitted = calibrant.get_calibrator("ts").fit(p, y)
    whole = RowAudit(fitted).add(p, y).fingerprint
    parts = RowAudit(fitted).add(p[:7], y[:7]).add(p[7:], y[7:])
    assert parts.fingerprint == whole
    assert RowAudit(fitted).add(p, y, np.ones(len(p))).fingerprint == whole
    changed = p.copy()
    changed[5] = changed[5][::-1]
    assert RowAudit(fitted).add(changed, y).fingerprint != whole
    assert RowAudit(fitted).add(p, np.roll(y, 1)).fingerprint != whole
    assert RowAudit(fitted).add(p, y, np.full(len(p), 2.0)).fingerprint != whole


def forge(path, change):
    """Change a record and give it a right checksum, as an attacker would."""
    document = json.loads(path.read_text())
    change(document["audit"])
    document["audit_sha256"] = checksum(canonical(document["audit"]))
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda record: record.update(map_sha256="0" * 64), "another map"),
        (lambda record: record.update(class_counts=[1.0, 2.0]), "class counts"),
        (lambda record: record.update(classes=["ann", "eve"]), "classes"),
        (lambda record: record.update(method="AutoCalibrator"), "method"),
        (lambda record: record.update(fitted_to="30,000 rows"), "fitted to"),
        (lambda record: record["settings"].update(penalty="lasso"), "settings"),
        (lambda record: record.update(calibrant="1" * 100), "its version or its number of rows is damaged"),
        (lambda record: record.update(time="yesterday"), "time"),
        (lambda record: record.update(period=["2025-01-01"]), "period"),
        (lambda record: record["before"].update(log_loss="low"), "losses"),
        (lambda record: record["after"].update(quality=1.0), "losses"),
        (lambda record: record.update(author="me"), "not a record"),
        (lambda record: record.pop("time"), "not a record"),
    ],
)
def test_a_forged_record_is_refused(stored, change, error):
    forge(stored, change)
    with pytest.raises(CalibratorFileError, match=f"audit record does not belong to its calibrator: .*{error}"):
        calibrant.load(stored)


def test_the_version_that_wrote_a_record_may_be_a_long_one(stored):
    forge(stored, lambda record: record.update(calibrant="1" * 99))
    assert calibrant.load(stored).audit_["calibrant"] == "1" * 99


def test_a_damaged_record_is_refused_and_one_of_another_map_is_not_stored(stored, tmp_path):
    text = stored.read_text()
    stored.write_text(text.replace('"2026-03-01T12:30:00Z"', '"2025-03-01T12:30:00Z"'))
    with pytest.raises(CalibratorFileError, match="its audit does not match its checksum"):
        calibrant.load(stored)
    stored.write_text(text)
    fitted = calibrant.load(stored)
    fitted.coef_ = fitted.coef_ * 2.0
    with pytest.raises(CalibratorFileError, match=r"another map\. Make a new one with calibrant\.record_fit"):
        calibrant.save(fitted, tmp_path / "changed.json")


def test_a_fixed_time_gives_the_same_record_and_nothing_in_it_is_personal(monkeypatch, tmp_path):
    p, y = rows()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    monkeypatch.chdir(tmp_path)
    records = [record_fit(calibrant.get_calibrator("ts").fit(p, y), p, y).audit_ for _ in range(2)]
    assert records[0] == records[1]
    assert records[0]["time"] == "2026-01-01T00:00:00Z"
    text = canonical(records[0])
    assert not [word for word in (str(tmp_path), getpass.getuser(), socket.gethostname(), "/") if word in text]

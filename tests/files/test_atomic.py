"""Files appear whole or not at all, whatever happens; only regular files are replaced."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import calibrant
from calibrant.files.atomic import NotARegularFileError, atomic_path, atomic_stream, write_text

posix = pytest.mark.skipif(os.name != "posix", reason="devices, pipes and access rights of POSIX")


def test_nothing_is_left_by_an_error(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old")

    def failing(error: BaseException) -> None:
        with atomic_stream(tmp_path / "file") as stream:
            stream.write(b"new")
            raise error

    for error in (ValueError("x"), KeyboardInterrupt(), SystemExit(143)):
        with pytest.raises(type(error)):
            failing(error)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_missing_folder_is_named_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none to write cal\.json into"):
        write_text(tmp_path / "none" / "cal.json", "")


def test_old_unfinished_files_are_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file.part").write_text("left by a killed process")
    with atomic_path(tmp_path / "file") as part:
        assert part.parent == tmp_path
        part.write_text("new")
    assert (tmp_path / "file").read_text() == "new"


def test_the_last_check_may_refuse(tmp_path: Path) -> None:
    def refuse() -> None:
        raise FileExistsError("made meanwhile")

    def write() -> None:
        with atomic_stream(tmp_path / "file", before_move=refuse) as stream:
            stream.write(b"new")

    with pytest.raises(FileExistsError):
        write()
    assert list(tmp_path.iterdir()) == []


@posix
def test_devices_pipes_and_folders_stay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    ts = calibrant.TemperatureScalingCalibrator().fit([0.1, 0.6, 0.9, 0.8], [0, 0, 1, 1])
    for name, what in (("pipe", "pipe"), ("folder", "folder"), ("link", "device"), ("/dev/null", "device")):
        with pytest.raises(NotARegularFileError, match=f"is a {what}, not a regular file"):
            write_text(tmp_path / name, "text")
        with pytest.raises(NotARegularFileError):
            calibrant.save(ts, tmp_path / name)
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert len(list(tmp_path.iterdir())) == 3


@posix
def test_links_and_access_rights_are_preserved(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "made through a link that pointed to nothing")
    os.chmod(tmp_path / "file", 0o600)
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"
    assert stat.S_IMODE(os.stat(tmp_path / "file").st_mode) == 0o600


@posix
def test_a_signal_that_became_an_exception_leaves_nothing(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import signal, sys, time
        from calibrant.files.atomic import atomic_stream
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        with atomic_stream(sys.argv[1]) as stream:
            stream.write(b"half")
            print("writing", flush=True)
            time.sleep(60)
    """)
    command = [sys.executable, "-c", program, str(tmp_path / "file")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 143
    assert list(tmp_path.iterdir()) == []


@posix
def test_links_that_appear_meanwhile_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "victim").write_text("precious")
    with atomic_stream(tmp_path / "out") as stream:
        stream.write(b"new")
        (tmp_path / "out").symlink_to(tmp_path / "victim")  # the place is taken by a link while the file is written
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "out").is_symlink()
    assert (tmp_path / "out").read_text() == "new"
    # Even who guesses the name of the unfinished file gains nothing by a link there.
    monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
    (tmp_path / "late.guessed.part").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "late", "text")
    assert (tmp_path / "victim").read_text() == "precious"

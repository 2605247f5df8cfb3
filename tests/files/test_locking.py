"""One process at a time changes a file; a holder that was killed blocks nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calibrant.files.locking import LockedError, locked

COUNT = """
import sys
from pathlib import Path
from calibrant.files.atomic import write_text
from calibrant.files.locking import locked
path = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with locked(path):
        write_text(path, str(int(path.read_text()) + 1))
"""
HOLD = """
import sys
from calibrant.files.locking import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == b"held"
    return process


def test_no_change_is_lost(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", COUNT, tmp_path / "number", "40"]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert (tmp_path / "number").read_text() == "160"
    assert os.listdir(tmp_path) == ["number"]


def test_waiting_is_said_and_ends_at_the_limit(tmp_path: Path) -> None:
    messages: list[str] = []
    with holder(tmp_path / "state") as process:
        with (
            pytest.raises(LockedError, match=r"state, after a wait of 0\.2 seconds"),
            locked(tmp_path / "state", 0.2, messages.append),
        ):
            pass  # pragma: no cover
        assert messages == [f"another process is using {tmp_path / 'state'}: waiting for it"]
        with pytest.raises(LockedError, match="state; try again"), locked(tmp_path / "state", 0):
            pass  # pragma: no cover
        assert process.stdin is not None
        process.stdin.close()
    with locked(tmp_path / "state", 0):
        assert os.listdir(tmp_path) == ["state.lock"]
    assert os.listdir(tmp_path) == []


def test_a_killed_holder_blocks_nobody(tmp_path: Path) -> None:
    with holder(tmp_path / "state") as process:
        process.kill()
        process.wait()
    assert os.listdir(tmp_path) == ["state.lock"]
    with locked(tmp_path / "state", 0):
        pass
    assert os.listdir(tmp_path) == []


def test_an_error_in_the_block_ends_the_lock(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "state", 0):
        raise KeyError
    with locked(tmp_path / "state", 0), pytest.raises(LockedError), locked(tmp_path / "state", 0):
        pass  # pragma: no cover


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "state.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"state\.lock"), locked(tmp_path / "state", 0):
        pass  # pragma: no cover
    assert not (tmp_path / "elsewhere").exists()
    # A link to the state itself is one name more of the same file: both names share the lock.
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with locked(tmp_path / "real", 0), pytest.raises(LockedError), locked(tmp_path / "link", 0):
        pass  # pragma: no cover

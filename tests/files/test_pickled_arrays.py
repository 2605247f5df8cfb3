"""Arrays in pickles: read as NumPy reads them when they are honest, refused without a crash when they are not."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from calibrant.files.prediction_sets.experiments import PredictionFileError
from calibrant.files.prediction_sets.open_set import open_predictions
from calibrant.files.prediction_sets.pickled_arrays import PickledArrayError, _numbers, read_pickled_arrays

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(20, 4)).astype(np.float32), rng.integers(4, size=(20, 1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("numpy_version", [1, 2])
def test_pickled_logits_and_labels(tmp_path: Path, protocol: int, numpy_version: int) -> None:
    logits, labels = rows()
    data = pickle.dumps(((logits[:12], labels[:12]), (logits[12:], labels[12:])), protocol=protocol)
    if numpy_version == 1:
        # Protocol 4 and later write the length of a name before it; a frame's length would change as well.
        data = data.replace(b"\x95" + data[3:11], b"", 1) if protocol >= 4 else data
        for module in (b"multiarray", b"numeric"):
            new, old = b"numpy._core." + module, b"numpy.core." + module
            data = data.replace(bytes([len(new)]) + new, bytes([len(old)]) + old).replace(new, old)
        assert b"_core" not in data
    path = tmp_path / "probs_resnet_wide32_c10_logits.p"
    path.write_bytes(data)
    source = open_predictions(path)
    assert [e.key for e in source.experiments()] == [("c10", "resnet_wide32", "0")]
    loaded = source.load(source.experiments()[0])
    by_hand = np.exp(logits[12:].astype(float))
    np.testing.assert_allclose(loaded.probas_test, by_hand / by_hand.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(loaded.labels_cal, labels[:12, 0])


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", ">i4", "<i8", "u8", "f2", ">f4", "f8"])
def test_arrays_return_as_numpy_reads_them(dtype: str) -> None:
    array = np.random.default_rng(1).integers(0, 2, size=(3, 5)).astype(dtype)
    value = (array, [np.asfortranarray(array), array[:, ::2], array.ravel()], 3, 2.5, True, array[0, 0])
    for protocol in PROTOCOLS:
        mine, theirs = read_pickled_arrays(pickle.dumps(value, protocol)), pickle.loads(pickle.dumps(value, protocol))
        for a, b in zip([mine[0], *mine[1], *mine[2:]], [theirs[0], *theirs[1], *theirs[2:]]):
            types = [np.asarray(item).dtype.newbyteorder("=") for item in (a, b)]  # NumPy may swap bytes on the way
            assert types[0] == types[1], protocol
            np.testing.assert_array_equal(a, b)


def test_strings_of_python_2() -> None:
    raw = np.array([1.0, -2.5]).tobytes()
    shape, order = pickle.dumps((2,), 2)[2:-1], b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    data = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + shape
        + b"cnumpy\ndtype\nU\x02f8K\x00K\x01\x87R"
        + order
        + b"\x89U"
        + bytes([len(raw)])
        + raw
        + b"tb."
    )
    np.testing.assert_array_equal(read_pickled_arrays(data), [1.0, -2.5])
    np.testing.assert_array_equal(pickle.loads(data, encoding="latin1"), [1.0, -2.5])


class Call:
    """Pickles as a call of anything, followed by any state."""

    def __init__(self, function: object, arguments: tuple, *state: object) -> None:
        self.parts = (function, arguments, *state)

    def __reduce__(self) -> tuple:
        return self.parts


def array(dtype: object, shape: object, data: object, fortran: object = False) -> Call:
    return Call(np._core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), (1, shape, dtype, fortran, data))


def dtype(spelling: str, *state: object) -> Call:
    return Call(np.dtype, (spelling, False, True), state or (3, "<", None, None, None, -1, -1, 0))


HOSTILE = {
    "lying flags": array(dtype("f8", 3, "|", None, None, None, -1, -1, 63), (1,), b"A" * 8),
    "lying size": array(dtype("f8", 3, "<", None, None, None, 1, 1, 0), (8,), b"A" * 8),
    "objects": np.array([object], dtype=object),
    "objects of bytes": array(dtype("O8", 3, "|", None, None, None, -1, -1, 63), (1,), b"A" * 8),
    "objects in a list": array(dtype("O8", 3, "|", None, None, None, -1, -1, 63), (1,), [1]),
    "structures": np.zeros(2, dtype=[("a", "f8"), ("b", "O")]),
    "subtype": array(dtype("f8", 3, "<", (np.dtype("O"), (1,)), None, None, 8, 8, 63), (1,), b"A" * 8),
    "text": np.array(["a"]),
    "dates": np.array(["2020"], dtype="M8[D]"),
    "negative shape": array(dtype("f8"), (-1,), b"A" * 8),
    "two negative sizes": array(dtype("f8"), (-1, -1), b"A" * 8),
    "huge shape": array(dtype("f8"), (1 << 40, 1 << 40), b"A" * 8),
    "shape of floats": array(dtype("f8"), (1.0,), b"A" * 8),
    "short": array(dtype("f8"), (2,), b"A" * 8),
    "long": array(dtype("f8"), (1,), b"A" * 9),
    "no bytes": array(dtype("f8"), (1,), [1.0]),
    "type that is a number": array(3, (1,), b"A" * 8),
    "contents twice removed": array(array(dtype("f8"), (1,), b"A" * 8), (1,), b"A" * 8),
    "other encoding": Call(__import__("codecs").encode, ("b", "hex")),
    "system": Call(os.system, ("touch calibrant-was-here",)),
    "inside an array": np.array([Call(os.system, ("touch calibrant-was-here",))], dtype=object),
    "generator": np.random.default_rng(),
    "function": print,
    "dictionary": {"a": 1},
    "set": {1},
    "nothing": None,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    good = rows()
    for value in (HOSTILE[name], (good, (HOSTILE[name], good[1]))):
        for protocol in PROTOCOLS:
            data = pickle.dumps(value, protocol)
            if name == "lying flags":
                # What the file says beyond the name of the type is not believed: these are eight bytes of a float.
                read_pickled_arrays(data)
                continue
            with pytest.raises(PickledArrayError):
                read_pickled_arrays(data)
        if name != "lying flags":
            Path("evil.p").write_bytes(data)
            with pytest.raises(PredictionFileError, match=r"evil\.p: expected pickled arrays"):
                open_predictions("evil.p")
    assert not Path("calibrant-was-here").exists()


def test_flags_are_not_believed() -> None:
    value = read_pickled_arrays(pickle.dumps(HOSTILE["lying flags"]))
    assert value.dtype == np.float64
    assert value.tobytes() == b"A" * 8


def test_bombs_and_loops() -> None:
    text, names = b"\x80\x04X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x01", b"c_codecs\nencode\nq\x02"
    bomb = text + names + b"(" + b"h\x02h\x01X\x06\x00\x00\x00latin1\x86R" * 5000 + b"t."
    with pytest.raises(PickledArrayError, match="damaged"):
        read_pickled_arrays(bomb)
    laughs = b"\x80\x02(]K\x01aq\x00" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(60)) + b"t."
    nested = read_pickled_arrays(laughs)[-1]
    with pytest.raises(PredictionFileError, match="expected an array"):
        _numbers(nested, 1)
    with pytest.raises(PickledArrayError, match="contains itself"):
        read_pickled_arrays(b"\x80\x02]q\x00h\x00a.")
    with pytest.raises(PickledArrayError):
        read_pickled_arrays(b"\x80\x02" + b"(" * 10_000 + b"t" * 10_000 + b".")
    with pytest.raises(PickledArrayError, match="damaged"):
        read_pickled_arrays(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"abc.")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_truncated_or_changed_anywhere(protocol: int) -> None:
    logits, labels = rows()
    data = pickle.dumps((logits[:2], labels[:2]), protocol)
    rng = np.random.default_rng(protocol)
    for length in range(0, len(data), 7):
        with pytest.raises(PickledArrayError):
            read_pickled_arrays(data[:length])
    for _ in range(300):
        changed = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        try:
            read_pickled_arrays(bytes(changed))
        except PickledArrayError:
            continue


def test_a_large_number_to_remember_by_takes_no_memory() -> None:
    with pytest.raises(PickledArrayError, match="damaged"):
        read_pickled_arrays(b"\x80\x02]r" + struct.pack("<I", (1 << 32) - 1) + b".")

"""Flow files in their three formats; errors on invalid files."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from medfaith.builders.surgxbench.flow_files import FlowFiles, read_flow
from medfaith.builders.surgxbench.pairs import Pair
from medfaith.loaders.errors import InputError
from tests.support.builders.surgx_scenes import SIZE, compute_moving_flow, encode_flo, make_pairs, write_flow


@pytest.mark.parametrize("extension", ["npy", "npz", "flo"])
def test_flow_is_read_from_files(tmp_path, extension):
    forward = compute_moving_flow(2.0)
    forward[0, 0, 1] = 1.7e9 if extension == "flo" else np.nan  # unknown
    write_flow(tmp_path, "VID42", 7, forward, extension)
    [(read_forward, read_backward)] = FlowFiles(tmp_path).flows("VID42", [Pair(7, "a", "b", SIZE)])
    expected = forward.copy()
    expected[:, 0, 1] = np.nan  # a vector with one unknown component is unknown
    assert np.array_equal(read_forward, expected, equal_nan=True)
    assert np.array_equal(read_backward, -expected, equal_nan=True)
    assert read_forward.dtype == np.float32


def save(array: np.ndarray, *, more: np.ndarray | None = None) -> bytes:
    out = io.BytesIO()
    if more is None:
        np.save(out, array)
    else:
        np.savez(out, flow=array, more=more)
    return out.getvalue()


GOOD = compute_moving_flow(1.0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.flo", b"JUNK" + encode_flo(GOOD)[4:], r"begins with b'JUNK' and not with b'PIEH'"),
        ("x.flo", encode_flo(GOOD)[:-3], r"bytes are not those of 32 x 24 vectors"),
        ("x.flo", encode_flo(GOOD) + b"\0", r"bytes are not those of 32 x 24 vectors"),
        ("x.flo", b"PIEH\x01", "ends within its header"),
        ("x.flo", struct.pack("<4sii", b"PIEH", -1, 4), "12 bytes are not those of -1 x 4"),
        ("x.npy", b"", "cannot be read"),
        ("x.npy", b"not numpy's", "cannot be read"),
        ("x.npy", save(np.array([{}], dtype=object)), "cannot be read"),
        ("x.npy", save(GOOD.transpose(1, 2, 0)), r"(?s)shape \(24, 32, 2\).*expected: numbers \(2, height, width\)"),
        ("x.npy", save(GOOD.astype(str)), "an array of shape"),
        ("x.npy", save(GOOD[:, 1:]), r"(?s)a flow of \(23, 32\) \(height, width\).*the frame's \(24, 32\)"),
        ("x.npy", save(np.full_like(GOOD, np.nan)), "no vector of it is known"),
        ("x.npz", save(GOOD, more=GOOD), r"an archive of 2 arrays \(flow, more\), not of one"),
        ("x.npz", save(GOOD), "cannot be read: not an archive"),
        ("x.npz", save(GOOD, more=GOOD)[:100], "cannot be read"),
    ],
)
def test_flow_files_that_are_not_as_they_should_be(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        read_flow(tmp_path / name, size=SIZE)
    assert str(tmp_path / name) in str(raised.value)


def test_flow_files_that_are_missing_or_there_twice_or_of_two_sizes(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        FlowFiles(tmp_path / "none")
    write_flow(tmp_path, "VID42", 0, GOOD)
    source = FlowFiles(tmp_path)
    with pytest.raises(InputError, match=r"(?s)000001_forward: no flow file.*one of 000001_forward\.npy, 000001_f"):
        list(source.flows("VID42", make_pairs(2)))
    (tmp_path / "VID42/000000_backward.npy").unlink()
    with pytest.raises(InputError, match="000000_backward: no flow file"):
        source.identity("VID42", make_pairs(1))
    write_flow(tmp_path, "VID42", 0, GOOD, "npy")
    write_flow(tmp_path, "VID42", 0, GOOD, "flo")
    with pytest.raises(InputError, match=r"several files for one flow: 000000_forward\.npy, 000000_forward\.flo"):
        list(source.flows("VID42", make_pairs(1)))
    write_flow(tmp_path, "VID43", 0, GOOD)
    np.save(tmp_path / "VID43/000000_backward.npy", GOOD[:, :-1])
    with pytest.raises(InputError, match=r"000000_backward\.npy: a flow of \(23, 32\)"):
        list(source.flows("VID43", make_pairs(1)))

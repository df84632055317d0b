"""Random calls: they fit, they honour what is fixed, and a failing one becomes a script that fails alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from vdev.backends.base import LocalBytes
from vdev.harness import FindingsError, Program, assert_allclose, assert_equal, empty
from vdev.harness.arguments import Empty
from vdev.harness.calls import Call, written

SOURCE = r"""
typedef struct { int a; float3 b; char c; } record_t;
kernel void add(global float *o, global const float *x, float v, int n) {
  int i = get_global_id(0);
  if (i < n) o[i] = x[i] + v;
}
kernel void late(global float *o, global const float *x, int n) {
  int i = get_global_id(0);
  o[i] = x[n > 37 ? i + 1 : i];
}
kernel void every(global record_t *r, global float3 *v, constant int *c, float3 by, record_t one, local int *t, uchar n,
                  half h, global half *p, double d, ulong u) {
  int i = get_global_id(0);
  t[get_local_id(0)] = c[0];
  r[i].a = n ^ t[get_local_id(0)];
  r[i].c = one.c;
  v[i] = by;
  if (p) p[i] = h;
}
kernel void plane(global int *o) { o[get_global_id(1) * get_global_size(0) + get_global_id(0)] = 1; }
kernel __attribute__((reqd_work_group_size(4, 2, 1))) void fixed(global int *o) { o[0] = 1; }
kernel void drops(global int *offset, global const int *x) {
  int i = get_global_id(0);
  offset[i] = x[i] > 999 ? 0 : x[i];
}
"""
PROGRAM = Program(SOURCE)
FEW = settings(
    max_examples=10,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SHRUNK = settings(phases=[Phase.generate, Phase.shrink], max_examples=100, database=None, derandomize=True)


def drawn(calls: Any) -> Call:
    """One of them."""
    return find(calls, lambda call: True, settings=FEW)


RECORD = {"a": 0, "b.x": 16, "b.y": 20, "b.z": 24, "c": 32}


@FEW
@given(PROGRAM.add.calls(o=empty, n=lambda draft: draft.items))
def test_results_of_random_calls(call: Call) -> None:
    (sums,) = call.run()
    assert_allclose(sums, call["x"] + np.float32(call["v"]), ulp=1)


@FEW
@given(PROGRAM.every.calls(null=["p"], allow_nan=True, allow_infinity=True, allow_subnormal=True))
def test_arguments_of_every_type(call: Call) -> None:
    """They are taken, and each is of its type's shape."""
    (items,) = call.global_size
    assert call.local_size is not None
    assert items % call.local_size[0] == 0
    assert (call["r"].shape, call["r"].dtype.itemsize) == ((items,), 48)
    assert {name: place[1] for name, place in call["r"].dtype.fields.items()} == RECORD
    assert (call["v"].shape, call["v"].dtype) == ((items, 4), np.float32)
    assert (call["c"].shape, len(call["by"])) == ((items,), 3)
    assert call["t"] == LocalBytes(4 * call.local_size[0])
    assert call["p"] is None or call["p"].dtype == np.float16
    assert 0 <= call["n"] < 256

    outputs = call.run()

    assert outputs["v"].tobytes() == np.tile(np.float32([*call["by"], 0]), (items, 1)).tobytes() or any(
        np.isnan(call["by"])
    )


def test_what_is_fixed_is_honoured() -> None:
    x = np.arange(6, dtype=np.float32)
    call = drawn(
        PROGRAM.add.calls(
            o=lambda draft: empty(draft.n + 1, np.float32),
            x=x,
            n=st.integers(3, 5),
            v=2,
            global_size=lambda draft: 2 * draft.n,
        )
    )

    assert call["x"] is x
    assert call["o"] == Empty((call["n"] + 1,), np.dtype(np.float32))
    assert call["n"] in (3, 4, 5)
    assert (call["v"], call.global_size) == (2, (2 * call["n"],))
    shaped = drawn(PROGRAM.every.calls(r=3, v=(2, 5), t=7, global_size=8, local_size=4))
    assert (shaped["r"].shape, shaped["v"].shape, shaped["t"]) == ((3,), (2, 5, 4), LocalBytes(28))
    assert (shaped.global_size, shaped.local_size) == ((8,), (4,))
    small = drawn(PROGRAM.add.calls(x=50, elements={"x": st.floats(2, 3, width=32)}))
    assert ((small["x"] >= 2) & (small["x"] <= 3)).all()
    named = drawn(PROGRAM.drops.calls({"offset": empty}, offset=3, global_size=4))
    assert (named["offset"].shape, named.offset) == ((7,), (3,))


def test_sizes_follow_the_kernel() -> None:
    calls = [drawn(PROGRAM.plane.calls()) for _ in range(3)]
    assert {len(call.global_size) for call in calls} == {2}
    required = drawn(PROGRAM.fixed.calls())
    assert required.local_size is None
    assert [size % group for size, group in zip(required.global_size, (4, 2), strict=True)] == [0, 0]
    chosen = drawn(Program(SOURCE, local_size=8).add.calls())
    assert (chosen.local_size, chosen.global_size[0] % 8) == (None, 0)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    ("edge", "wanted"),
    [
        ("allow_nan", lambda value: value != value),
        ("allow_infinity", lambda value: abs(value) == float("inf")),
        ("allow_subnormal", lambda value: 0 < abs(value) < 2.0**-126),
    ],
    ids=["nan", "infinity", "subnormal"],
)
def test_edges_are_drawn_where_they_are_allowed(edge: str, wanted: Any, allowed: bool) -> None:
    calls = PROGRAM.add.calls(o=1, x=1, n=1, global_size=1, local_size=1, **{edge: allowed})
    try:
        find(
            calls,
            lambda call: wanted(call["v"]),
            settings=settings(FEW, max_examples=3000 if allowed else 300),
        )
        found = True
    except NoSuchExample:
        found = False
    assert found is allowed


def test_wrong_names_and_circles() -> None:
    with pytest.raises(
        TypeError, match="kernel add has no argument m; it has o, x, v, n; sizes are global_size"
    ):
        PROGRAM.add.calls(m=1)
    with pytest.raises(ValueError, match="v needs n needs v: fix one of them"):
        drawn(PROGRAM.add.calls(n=lambda draft: draft.v, v=lambda draft: draft.n))


def failure_of(test: Any, kind: type[AssertionError]) -> Any:
    with pytest.raises(kind) as caught:
        test()
    return caught.value


def rerun(error: Any, folder: Path) -> str:
    """What the script that a failure shows says when it runs alone."""
    script = error.script
    (folder / "again.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "again.py"], cwd=folder, text=True, capture_output=True, timeout=900, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "hypothesis" not in script
    return done.stderr


def test_a_finding_shrinks_to_a_script(tmp_path: Path) -> None:
    @SHRUNK
    @given(PROGRAM.late.calls(o=empty))
    def test(call: Call) -> None:
        call.run()

    error = failure_of(test, FindingsError)

    assert "    38,  # n\n    global_size=(1,)," in error.script
    again = rerun(error, tmp_path)
    assert "FindingsError: out-of-bounds in kernel late, line 9" in again
    assert "reads 4 bytes at byte 4 of x, which has 4" in again


def test_a_comparison_shrinks_to_a_script(tmp_path: Path) -> None:
    @SHRUNK
    @given(PROGRAM.drops.calls({"offset": empty}, x=lambda draft: draft.items))
    def test(call: Call) -> None:
        (result,) = call.run()
        assert_equal(result[::-1], call["x"][::-1])

    error = failure_of(test, AssertionError)

    expected = (
        "1 of 1 elements (int32) are not equal\n  at [0]: 0, expected 1000\n"
        "    written by work-item (0) of work-group (0) at <kernel>:24"
    )
    assert str(error).startswith(expected)
    assert expected in rerun(error, tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        np.float32([0.1, np.nan, -np.inf, -0.0, 1e-45]),
        np.frombuffer(b"\x01\x00\xc0\x7f", np.float32),
        np.array(7, np.uint8),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.arange(10_000, dtype=np.int64),
        np.zeros(
            2,
            np.dtype(
                {"names": ["a", "b.x"], "formats": ["i4", ("f4", 2)], "offsets": [0, 16], "itemsize": 32}
            ),
        ),
        np.complex64([1 + 2j]),
        np.array([True, False]),
        np.float64(0.1),
        np.zeros(1, np.dtype([("a", "i4")]))[0],
    ],
    ids=lambda value: f"{value.dtype} {value.shape}",
)
def test_arrays_are_written_bit_for_bit(value: Any) -> None:
    import base64
    import zlib

    names = {"np": np, "nan": np.nan, "inf": np.inf, "base64": base64, "zlib": zlib}
    again = eval(written(value), names)
    assert (again.dtype, again.shape, again.tobytes()) == (value.dtype, value.shape, value.tobytes())


def test_a_script_has_the_programs_settings() -> None:
    program = Program(
        SOURCE + "// \"quotes\" ''' and \\", "-DA=1", workers="native", report=["same-value-race"]
    )
    (call,) = [drawn(program.plane.calls(global_size=(2, 2), local_size=(1, 1)))]
    script = call.script()

    assert (
        "Program(SOURCE, ['-DA=1'], workers='native', report=['same-value-race']).kernel('plane')" in script
    )
    exec(script, {})

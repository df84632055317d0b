"""Kernels called with arrays: what comes back, what is refused and how, what a check says beside findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdev.errors import BuildError
from vdev.harness import ArgumentError, FindingsError, Program, assert_equal, empty, engine_names, local
from vdev.harness.running import open_session

SOURCE = """
typedef struct { int a; float b[2]; } record_t;
kernel void scale(global float *out, const global float *in, float f) {
  int i = get_global_id(0);
  out[i] = f * in[i];
}
kernel void all(global record_t *r, global float4 *v, constant int *c, float4 by, record_t one, local int *t, uchar n) {
  int i = get_global_id(0);
  t[get_local_id(0)] = c[0];
  r[i].a = one.a + n + t[get_local_id(0)];
  r[i].b[1] = one.b[1];
  v[i] = by;
}
kernel __attribute__((reqd_work_group_size(8, 1, 1))) void fixed(global int *out) { out[get_global_id(0)] = get_local_size(0); }
kernel void ids(global int *out) { out[get_global_id(0) - 100] = get_global_id(0); }
"""
RECORD = np.dtype([("a", np.int32), ("b", np.float32, 2)])
X = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(SOURCE)


@pytest.mark.parametrize(
    "way",
    [
        {"workers": "cpu:1"},
        {"workers": "cpu:3"},
        {"workers": "native"},
        {"order": "forward"},
        {"order": "backward"},
        {"order": "shuffled:5"},
        {"check": False},
        {"local_size": 4},
    ],
    ids=str,
)
def test_arrays_come_back(way: dict[str, Any]) -> None:
    given = X.copy()
    outputs = Program(SOURCE, **way).scale(empty((8, 8), np.float32), given, 3, global_size=64)

    assert_equal(outputs["out"], 3 * X.reshape(8, 8))
    assert len(outputs) == 1
    assert_equal(given, X)


def test_every_kind_of_argument(program: Program) -> None:
    one = np.array((5, (1, 2)), RECORD)
    records, vectors = program.all(
        np.zeros(16, RECORD), empty((16, 4), np.float32), np.int32([3]), (1, 2, 3, 4), one, local(4, np.int32), 7,
        global_size=16, local_size=4,
    )  # fmt: skip

    assert_equal(records["a"], np.full(16, 15))
    assert_equal(records["b"], np.tile(np.float32([0, 2]), (16, 1)))
    assert_equal(vectors, np.tile(np.float32([1, 2, 3, 4]), (16, 1)))


def test_a_vector_as_pyopencl_makes_them(program: Program) -> None:
    by = np.array([(1, 2, 3, 4)], [("x", "f4"), ("y", "f4"), ("z", "f4"), ("w", "f4")])
    _, vectors = program.all(
        np.zeros(4, RECORD), empty((4, 4), np.float32), np.int32([3]), by, np.zeros((), RECORD), local(4, np.int32), 7,
        global_size=4, local_size=4,
    )  # fmt: skip

    assert_equal(vectors, np.tile(np.float32([1, 2, 3, 4]), (4, 1)))


def test_an_offset_and_a_required_size(program: Program) -> None:
    (ids,) = program.ids(empty(16, np.int32), global_size=16, offset=100)
    (sizes,) = program.fixed(empty(16, np.int32), global_size=16)

    assert_equal(ids, np.arange(100, 116))
    assert_equal(sizes, np.full(16, 8))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((X, X), r"kernel scale takes 3 arguments \(float\* out, float\* in, float f\), 2 were given"),
        ((X, X.astype(np.float64), 1), r"argument 1 \(float\* in\): expected an array of float32; got an array of float64, shape"),
        ((X, X[::2], 1), r"expected an array in C order without gaps; got .*strides \(8,\)"),
        ((X, [1, 2], 1), r"expected an array of float32, or None for a null pointer; got \[1, 2\] of type list"),
        ((X[:0], X, 1), r"argument 0 .*expected at least one element"),
        ((X, X, np.float64(1)), r"argument 2 \(float f\): expected a number of type float32; got .* of type float64"),
        ((X, X, "1"), r"expected a number of type float32; got '1' of type str"),
        ((X, X, local(4)), r"got local memory of 4 bytes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(program: Program, args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        program.scale(*args, global_size=64)


@pytest.mark.parametrize(
    ("index", "arg", "text"),
    [
        (0, np.zeros(16, np.dtype([("a", np.int32), ("b", np.float64)])), "expected an array of structures of 12 bytes"),
        (1, np.zeros(6, np.float32), "expected a multiple of 16 bytes"),
        (3, (1, 2, 3), "expected 4 numbers of type float32"),
        (4, np.zeros(1, np.int32), "expected one element of a structured array, of 12 bytes"),
        (5, np.zeros(4, np.int32), "expected local memory"),
        (5, local(3), "a multiple of 4 bytes; got local memory of 3 bytes"),
        (6, 256, r"expected a number of type uint8 \(0 to 255\); got 256 of type int"),
        (6, 1.0, "expected a number of type uint8"),
    ],
)  # fmt: skip
def test_what_does_not_fit_elsewhere(program: Program, index: int, arg: Any, text: str) -> None:
    args = [
        np.zeros(16, RECORD), empty((16, 4), np.float32), np.int32([3]), (1, 2, 3, 4), np.zeros(1, RECORD),
        local(4, np.int32), 7,
    ]  # fmt: skip
    args[index] = arg
    with pytest.raises(ArgumentError, match=f"kernel all, argument {index} .*{text}"):
        program.all(*args, global_size=16, local_size=4)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"global_size": 64, "local_size": 7}, "does not divide"),
        ({"global_size": (64, 1), "local_size": 8}, "need the same number of dimensions"),
        ({"global_size": 0}, "too small"),
        ({"global_size": 1 << 20, "local_size": 1 << 20}, "is more than"),
    ],
)
def test_index_spaces_that_cannot_be(program: Program, sizes: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        program.scale(X, X, 1, **sizes)


def test_kernels_by_name(program: Program, tmp_path: Path) -> None:
    assert program.kernels == ("scale", "all", "fixed", "ids")
    with pytest.raises(KeyError, match="there is no kernel scales; the program has: scale, all, fixed, ids"):
        program.kernel("scales")
    with pytest.raises(AttributeError, match="no kernel 'scales'; it has: scale, all, fixed, ids"):
        _ = program.scales
    (tmp_path / "four.h").write_text("#define FOUR 4")
    (tmp_path / "k.cl").write_text(
        '#include "four.h"\nkernel void k(global int *a) { a[get_global_id(0)] = FOUR * M; }'
    )
    (out,) = Program(tmp_path / "k.cl", "-DM=2").k(empty(3, np.int32), global_size=3)
    assert_equal(out, [8, 8, 8])


def test_a_finding_says_it_all(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text("kernel void k(global int *a) {\n  a[get_global_id(0) + 4] = 1;\n}")
    with pytest.raises(FindingsError) as caught:
        Program(tmp_path / "k.cl").k(empty(16, np.int32), global_size=16, local_size=4, offset=0)
    (finding,) = caught.value.findings

    assert (finding.kind, finding.kernel, finding.argument, finding.action) == (
        "out-of-bounds",
        "k",
        "a",
        "write",
    )
    assert (finding.place.file, finding.place.line, finding.place.column) == (str(tmp_path / "k.cl"), 2, 3)
    assert (finding.place.expression, finding.place.excerpt) == (
        "a[get_global_id(0) + 4]",
        "  a[get_global_id(0) + 4] = 1;",
    )
    assert finding.who is not None
    assert finding.who.group == (3,)
    assert finding.who.item in {(12,), (13,), (14,), (15,)}
    assert (finding.nbytes, finding.count) == (64, 4)
    assert finding.offset in {64, 68, 72, 76}
    assert "remedy: compare the index" in str(caught.value)


def test_both_sides_of_a_race() -> None:
    source = """kernel void k(global int *a) {
      local int t[4];
      t[get_local_id(0)] = 1;
      a[get_local_id(0)] = t[3 - get_local_id(0)];
    }"""
    with pytest.raises(FindingsError) as caught:
        Program(source).k(np.zeros(4, np.int32), global_size=4, local_size=4)
    (finding,) = caught.value.findings

    assert finding.other is not None
    assert {finding.place.line, finding.other.line} == {3, 4}
    assert finding.who != finding.other_who


def test_races_that_write_the_same_value_are_reported_on_request() -> None:
    source = "kernel void k(global int *a) { a[0] = 7; local int t; t = 3; }"
    outputs = Program(source).k(np.zeros(1, np.int32), global_size=64, local_size=16)
    with pytest.raises(FindingsError) as caught:
        Program(source, report=["same-value-race"]).k(np.zeros(1, np.int32), global_size=64, local_size=16)

    assert {finding.kind for finding in outputs.findings} == {"same-value-race"}
    assert {finding.argument for finding in caught.value.findings} == {"a", "t"}


_MEANT = '__attribute__((annotate("vdev: intended race")))'


@pytest.mark.parametrize(
    "source",
    [
        "kernel void k(global int *a @) { a[0] = get_global_id(0); }",
        "@ kernel void k(global int *a) { a[0] = get_global_id(0); }",
        "@ void f(global int *a) { a[0] = get_global_id(0); }\nkernel void k(global int *a) { f(a); }",
        "kernel void k(global int *a) { local int t @; t = get_local_id(0); a[get_global_id(0)] = t; }",
    ],
    ids=["argument", "kernel", "function", "local memory"],
)
def test_an_attribute_says_that_races_are_intended(source: str) -> None:
    def kinds(attribute: str) -> set[str]:
        program = Program(
            source.replace("@", attribute), ignore=["race-between-groups", "race-between-items"]
        )
        return {
            found.kind for found in program.k(np.zeros(64, np.int32), global_size=64, local_size=16).findings
        }

    assert any(kind.startswith("race-") for kind in kinds(""))
    assert kinds(_MEANT) == set()


def test_what_depends_on_sub_groups_is_noted() -> None:
    source = "kernel void k(global int *a) {\n  a[get_global_id(0)] = get_sub_group_size();\n}"
    ((line, what),) = Program(source).k(np.zeros(64, np.int32), global_size=64, local_size=16).notes

    assert line == 2
    assert what.startswith("the result may depend on the size of sub-groups")


def test_a_race_that_is_meant_is_none() -> None:
    source = "kernel void k(global int *a) {\n  a[0] = get_group_id(0); // vdev: intended race\n}"
    assert Program(source).k(np.zeros(1, np.int32), global_size=64, local_size=16).findings == ()


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        # the last group to come adds up what the others have left
        (
            """kernel void k(global int *out, volatile global int *count) {
             local int last;
             if (get_local_id(0) == 0) {
               out[1 + get_group_id(0)] = get_group_id(0);
               mem_fence(CLK_GLOBAL_MEM_FENCE);
               last = atomic_inc(count) == (int)get_num_groups(0) - 1;
               mem_fence(CLK_GLOBAL_MEM_FENCE);
               if (last) for (int g = 0; g < (int)get_num_groups(0); g++) out[0] += out[1 + g];
             }
           }""",
            4,
        ),
        # places given out by a counter
        (
            """kernel void k(global int *out, volatile global int *count) {
             if (get_global_id(0) % 5 == 0) out[1 + atomic_inc(count)] = get_global_id(0);
           }""",
            13,
        ),
    ],
    ids=["last group", "places"],
)
def test_order_by_atomics_is_no_race(source: str, counted: int) -> None:
    """A race would be raised."""
    _, count = Program(source).k(np.zeros(32, np.int32), np.zeros(1, np.int32), global_size=64, local_size=16)
    assert count.tolist() == [counted]


def test_what_is_not_followed_is_noted() -> None:
    source = "kernel void k(global int *a) { float4 v = (float4)(1); a[0] = (int)v[get_local_id(0) & 3]; }"
    outputs = Program(source).k(np.zeros(1, np.int32), global_size=1)

    assert outputs.notes == ((1, "an element of a vector, chosen by number, is not checked"),)


def test_too_much_local_memory_to_be_checked_is_noted() -> None:
    source = "kernel void k(global int *a, local int *t) { t[0] = 1; a[0] = t[0]; }"
    outputs = Program(source).k(
        np.zeros(1, np.int32), local(30_000, np.int32), global_size=4096, local_size=1
    )

    assert "accesses are not checked: checking the local memory of kernel k" in outputs.notes[0][1]


def test_why_a_call_is_not_split() -> None:
    source = """
    kernel void own(global int *a) { a[get_global_id(0)] = 1; }
    kernel void order(volatile global int *a) { a[get_global_id(0) + 1] = atomic_xchg(a, 1); }
    kernel void jumps(global int *a) { if (a[0]) goto end; a[get_global_id(0)] = 1; end: ; }
    """
    program, a = Program(source, check=False), np.zeros(65, np.int32)

    assert program.own(a, global_size=64, local_size=16).one_worker == ()
    assert program.own(a, global_size=64, local_size=64).one_worker == ("it has a single work-group",)
    assert "atomic" in program.order(a, global_size=64, local_size=16).one_worker[0]
    assert program.jumps(a, global_size=64, local_size=16).one_worker == ("goto is not followed (line 4)",)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            (X.astype(">f4"), X, 1),
            r"got an array of float32 in the other byte order.*give array\.astype\(float32\)",
        ),
        (
            (X, np.asfortranarray(X.reshape(8, 8)), 1),
            r"in C order without gaps.*numpy\.ascontiguousarray makes one",
        ),
        ((X, np.array([None] * 64), 1), "not of Python's objects"),
        ((X, X, 1e300), "expected a number of type float32; got 1e.300"),
        ((X, X, 1j), "expected a number of type float32; got 1j"),
        ((X, X, np.bool_(1)), r"got np\.True_ of type bool \(give a Python number, or numpy\.float32"),
        ((X, [1.0] * 1000, 1), r"got \[1\.0, 1\.0, .*\.\.\.\] of type list"),
    ],
)
def test_what_else_does_not_fit(program: Program, args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        program.scale(*args, global_size=64)


VECTORS = """
typedef struct { int a; float3 b; } record_t;
kernel void threes(global float3 *out, float3 by) { out[get_global_id(0)] = by; }
kernel void pairs(global float2 *out, float2 by) { out[get_global_id(0)] = by; }
kernel void bytes(global uchar4 *out, uchar4 by) { out[get_global_id(0)] = by; }
kernel void records(global float *out, record_t one) { out[get_global_id(0)] = one.b.y; }
kernel void void_(global void *out) { ((global short *)out)[get_global_id(0)] = 7; }
"""


@pytest.fixture(scope="module")
def vectors() -> Program:
    return Program(VECTORS)


def test_vectors_as_arrays_have_them(vectors: Program) -> None:
    (threes,) = vectors.threes(empty((4, 4), np.float32), (1, 2, 3), global_size=4)
    (pairs,) = vectors.pairs(empty(4, np.complex64), 1 + 2j, global_size=4)
    (shorts,) = vectors.void_(np.zeros(4, np.int16), global_size=4)

    assert_equal(threes[:, :3], np.tile(np.float32([1, 2, 3]), (4, 1)))
    assert_equal(pairs, np.full(4, 1 + 2j, np.complex64))
    assert_equal(shorts, np.full(4, 7))


@pytest.mark.parametrize(
    ("kernel", "args", "text"),
    [
        (
            "threes",
            (empty((4, 3), np.float32), (1, 2, 3)),
            "a multiple of 16 bytes.*the fourth of four is padding",
        ),
        ("threes", (empty((4, 4), np.int32), (1, 2, 3)), "an array of float32 with four for each float3"),
        (
            "pairs",
            (empty(4, np.complex128), 1j),
            "expected an array of float32; got an empty array of complex128",
        ),
        (
            "bytes",
            (empty((4, 4), np.uint8), (1, 2, 3, 256)),
            r"4 numbers of type uint8 \(0 to 255\); got \(1, 2, 3, 256\)",
        ),
        ("bytes", (empty((4, 4), np.uint8), (1, 2, 3, 0.5)), "4 numbers of type uint8"),
        (
            "records",
            (empty(4, np.float32), np.zeros(8, np.float32)),
            "of 32 bytes: structures of 32 bytes .int32 at byte 0",
        ),
        ("void_", (np.array([None] * 4),), "not of Python's objects"),
    ],
)
def test_vectors_and_structures_that_do_not_fit(
    vectors: Program, kernel: str, args: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(ArgumentError, match=text):
        vectors.kernel(kernel)(*args, global_size=4)


def test_sizes_are_whole_numbers(program: Program) -> None:
    with pytest.raises(ArgumentError, match=r"one to three whole numbers; got 64\.5"):
        program.scale(X, X, 1, global_size=64.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a shape has no negative sizes"):
        empty((4, -1), np.int32)
    assert program.scale(X, X, 1, global_size=np.int64(64))["out"].shape == (64,)  # type: ignore[arg-type]


def test_excerpts_are_the_users_lines() -> None:
    """Where images have put text of ours in front of the program."""
    source = "\nkernel void im(read_only image2d_t i) {}\nkernel void k(global int *a) {\n  a[1] = 1;\n}"
    with pytest.raises(FindingsError) as caught:
        Program(source).k(np.zeros(1, np.int32), global_size=1)
    (finding,) = caught.value.findings
    assert (finding.place.line, finding.place.excerpt) == (4, "  a[1] = 1;")
    assert str(caught.value).startswith("out-of-bounds in kernel k, line 4\n\n<kernel>:4:3:")


def test_kinds_are_switched_by_name() -> None:
    source = "kernel void k(global int *a, int by) { a[0] = 1 >> by; }"
    with pytest.raises(FindingsError, match="shift-too-wide"):
        Program(source).k(np.zeros(1, np.int32), 99, global_size=1)
    outputs = Program(source, ignore=["shift-too-wide"]).k(np.zeros(1, np.int32), 99, global_size=1)
    assert [finding.kind for finding in outputs.findings] == ["shift-too-wide"]
    with pytest.raises(ValueError, match="unknown kind of finding 'shifts'; the kinds are out-of-bounds"):
        Program(source, ignore=["shifts"])


def test_engines_by_a_part_of_their_name() -> None:
    own = open_session("cpu:1").workers[0].name
    for workers in ("cpu:1", "cpu:2", "native"):
        (out,) = Program(SOURCE, engine=own.upper(), workers=workers).scale(X, X, 2, global_size=64)
        assert_equal(out, 2 * X)
    with pytest.raises(engine_names.NoEngine, match=r"no device matches 'abacus'; available: .*\(.*\)"):
        Program(SOURCE, engine="abacus")
    with pytest.raises(ValueError, match="with an engine, give the number of its workers"):
        Program(SOURCE, engine=own, workers="cuda:0")


def test_a_build_error_is_the_compilers_alone() -> None:
    with pytest.raises(BuildError, match="use of undeclared identifier 'b'") as caught:
        Program("kernel void k(global int *a) { a[0] = b; }")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_remedy_for_an_uninitialised_variable() -> None:
    source = "kernel void k(global int *a) {{ int t{}; a[get_global_id(0)] = t; }}"
    with pytest.raises(FindingsError) as caught:
        Program(source.format("")).k(empty(4, np.int32), global_size=4)

    assert "remedy: give it a value on every path that leads here" in str(caught.value)
    assert Program(source.format(" = 0")).k(empty(4, np.int32), global_size=4).findings == ()

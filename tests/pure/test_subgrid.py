"""The sub-grid translator's text: what is threaded, left alone, refused, and what clang says of it."""

from __future__ import annotations

import re

import pytest
from vdev.translators.dialects.subgrid import SubgridProgram, Untranslatable, translate_subgrid
from vdev.translators.frontend.edits import Edits, Functions
from vdev.translators.frontend.source import CompileError, parse_program


def translate(source: str, *options: str) -> SubgridProgram:
    return translate_subgrid(parse_program(source, options))


def user_part(program: SubgridProgram) -> str:
    return program.source.split('#line 1 "<kernel>"\n')[1]


def test_translated_text_is_valid_and_keeps_lines() -> None:
    source = """#define ID get_group_id(0)
ulong helper(int x) { return ID + x; }

kernel void k(global ulong *a, int n)
{
  a[ID] = helper(n);
}
"""
    program = translate(source)
    again = parse_program(program.source)
    assert again.kernels["k"].line == 4
    assert [a.name for a in again.kernels["k"].args] == ["vdev_p_a", "n", "vdev_hidden"]
    assert again.kernels["k"].args[2].nbytes == program.kernels["k"].hidden_nbytes
    lines = user_part(program).split("\n")
    assert lines[1] == (
        "ulong helper(__private const struct vdev_grid *vdev_g, int x) "
        "{ return vdev_get_group_id(vdev_g, 0) + x; }"
    )
    assert lines[5] == "  a[vdev_get_group_id(vdev_g, 0)] = helper(vdev_g, n);"


def test_global_ids_are_the_engines_own_if_launches_have_offsets() -> None:
    source = (
        "size_t place(void) { return get_global_id(0); } kernel void k(global int *a) { a[place()] = 1; }"
    )
    assert "size_t place(void) { return get_global_id(0); }" in user_part(translate(source))
    without = translate_subgrid(parse_program(source), offsets=False)
    assert "{ return vdev_get_global_id(vdev_g, 0); }" in user_part(without)
    assert list(parse_program(without.source).kernels) == ["k"]


def test_only_what_needs_the_grid_is_threaded() -> None:
    source = """
int plain(int x) { return x + get_local_id(0); }
int needs(int x) { return x + get_group_id(0); }
int both(int x) { return plain(x) + needs(x); }
kernel void k(global int *a) { a[plain(0)] = both(1); }
"""
    text = user_part(translate(source))
    assert "int plain(int x)" in text
    assert "int needs(__private const struct vdev_grid *vdev_g, int x)" in text
    assert "return plain(x) + needs(vdev_g, x);" in text
    assert "a[plain(0)] = both(vdev_g, 1);" in text


@pytest.mark.parametrize(
    ("offsets", "renumbers"), [(True, False), (False, False), (True, True), (False, True)]
)
@pytest.mark.parametrize(
    ("call", "needed"),
    [
        ("1", set()),
        ("get_global_id(1)", {"global_id"}),
        ("get_group_id(1)", {"group_id"}),
        ("get_num_groups(1)", {"num_groups"}),
        ("get_global_size(1) - get_global_offset(1)", {"global_size", "global_offset"}),
        ("get_global_linear_id()", {"global_linear_id", "global_id", "global_size", "global_offset"}),
    ],
)
def test_only_functions_that_are_used_are_written(
    call: str, needed: set[str], offsets: bool, renumbers: bool
) -> None:
    source, options = f"kernel void k(global ulong *a) {{ a[0] = {call}; }}", ("-cl-std=CL2.0",)
    program = translate_subgrid(parse_program(source, options), offsets=offsets, renumbers=renumbers)
    again = parse_program(program.source, options)  # which raises if anything is not declared
    assert list(again.kernels) == ["k"]
    written = set(re.findall(r"^size_t vdev_get_(\w+)\(.*return", program.source, re.MULTILINE)) - {"block"}
    own_ids = offsets and not renumbers  # the engine's are right
    assert written == needed - ({"global_id"} if own_ids else set())
    low = set(re.findall(r"^uint vdev_low_get_(\w+)\(.*return", program.source, re.MULTILINE))
    assert low == (set() if offsets else needed)


def test_digraphs_around_bodies_and_indices() -> None:
    source = "%:define S(x) %:x\nint f(int x) <% return x + get_group_id(0); %>\n"
    source += "kernel void k(global int *a) <% a<:get_group_id(0):> = f(1) + S(<%)<:0:>; %>\n"
    program = translate(source)
    again = parse_program(program.source)
    assert again.kernels["k"].args[-1].name == "vdev_hidden"
    assert '"<%"[ 0 ]' in program.source


def test_prefix_avoids_the_users_names() -> None:
    text = user_part(
        translate("kernel void k(global int *vdev_g, int vdev1_x) { vdev_g[get_group_id(0)] = vdev1_x; }")
    )
    assert "vdev2_get_group_id(vdev2_g, 0)" in text
    assert "__typeof__(vdev2_p_vdev_g) vdev_g =" in text


def test_strings_and_comments_are_left_alone() -> None:
    source = 'kernel void k(global int *a) { printf("get_group_id(0) ) (", a[0]); /* get_num_groups(0) */'
    source += " a[get_group_id(0)] = 1; }"
    text = user_part(translate(source))
    assert 'printf("get_group_id(0) ) (", a[0]);' in text
    assert text.count("vdev_get_") == 1


def test_prototypes_and_kernels_that_are_called() -> None:
    source = """
kernel void inner(global int *a, int n);
void through(global int *a);
kernel void outer(global int *a) { inner(a, (1, 2)); through(a); }
kernel void inner(global int *a, int n) { a[get_global_id(0)] = n; }
void through(global int *a) { inner(a + 1, 3); }
kernel void none(void) { }
"""
    program = translate(source)
    text = user_part(program)
    number = re.search(r"inner\(a, \(1, 2\), vdev_unshifted(\d)\(vdev_g\)\)", text)
    assert number is not None
    assert f"kernel void inner(global int *a, int n, struct vdev_args{number.group(1)} vdev_hidden);" in text
    assert "void through(__private const struct vdev_grid *vdev_g, global int *a);" in text
    assert program.kernels["none"].hidden_index == 0
    assert re.search(r"kernel void none\(struct vdev_args\d vdev_hidden\)", text)
    parse_program(program.source)


@pytest.mark.parametrize(
    ("source", "options", "reason", "line"),
    [
        (
            "global int n;\nkernel void k(global int *a) { a[0] = n++; }",
            ["-cl-std=CL2.0"],
            "variable at program scope",
            1,
        ),
        (
            "kernel void k(global int *a) {\n void (^b)(void) = ^{ a[0] = 1; }; b(); }",
            ["-cl-std=CL2.0"],
            "block",
            2,
        ),
        (
            "kernel void k(int n) {\n\n enqueue_kernel(get_default_queue(), 0, ndrange_1D(1), ^{}); }",
            ["-cl-std=CL2.0"],
            "enqueue_kernel",
            3,
        ),
        (
            "int f(a) int a; { return a + get_group_id(0); }\nkernel void k(global int *a) { a[0] = f(1); }",
            [],
            "after the list of their names",
            1,
        ),
        (
            "#define ID(x) x\nkernel void k(global int *a) { a[0] = ID(\n#undef X\n 1); }",
            [],
            "macros could not be expanded",
            0,
        ),
    ],
)
def test_refused(source: str, options: list[str], reason: str, line: int) -> None:
    with pytest.raises(Untranslatable, match=reason) as caught:
        translate(source, *options)
    assert caught.value.line == line


def test_constants_at_program_scope_are_not_refused() -> None:
    source = (
        "constant int c[] = {1}; constant sampler_t s = 0; kernel void k(global int *a) { a[0] = c[0] ^ 3; }"
    )
    translated = parse_program(translate(source, "-cl-std=CL2.0").source, ["-cl-std=CL2.0"])
    assert list(translated.kernels) == ["k"]


def test_edits() -> None:
    edits = Edits("aä(b)".encode())
    edits.insert(4, "1")
    edits.insert(4, "2")
    edits.replace(4, 5, "B")
    edits.replace(0, 1, "")
    assert edits.apply() == "ä(12B)"
    edits.replace(3, 5, "x")
    with pytest.raises(Untranslatable):
        edits.apply()


def test_parts_of_a_text_trade_places() -> None:
    edits = Edits(b"f(one, {two, three}) rest")
    edits.insert(2, "-")  # stays with what begins there
    edits.replace(13, 18, "THREE")
    edits.put(2, 5, (7, 19))
    edits.put(7, 19, (2, 5), "!")
    edits.put(8, 11, (13, 18))
    edits.put(13, 18, (8, 11))
    edits.put(0, 0, (21, 25), " ")
    edits.put(21, 25)
    edits.replace(22, 23, "E")
    assert edits.apply() == "rEst f({THREE, two}, -one!) "


def test_labels_come_first() -> None:
    source = "kernel void k(global int *a) { __label__ one, two;\n __label__ three; one: a[0]++; two: three: return; }"
    text = translate(source).source
    parse_program(text)
    assert text.index("__label__ three;") < text.index("hidden.grid") < text.index("one: ")


def test_pragmas_of_a_body_come_first() -> None:
    source = "kernel void k(global float *a) {\n  #pragma OPENCL FP_CONTRACT OFF\n#pragma unroll\n for (int i = 0; i < 4; i++) a[i] = 1; }"
    text = translate(source).source
    parse_program(text)
    assert text.index("FP_CONTRACT") < text.index("hidden.grid") < text.index("unroll")


def test_errors_stay_the_parsers() -> None:
    with pytest.raises(CompileError):
        translate("kernel void k(global int *a) { a[0] = ; }")


QUOTED = r"""kernel void f(global int *n)
{
    char c = 'n', d = '\'';
    printf("n \" n %d\n", n[0]);
#pragma ours n
    for (int i = 0; i < 1; ++i) n[i] = c + d;
}
"""


def test_names_are_found_where_they_are_code() -> None:
    """In no literal, behind which the text goes on, and in no directive."""
    functions = Functions(parse_program(QUOTED))
    text = functions.text
    code = [text.index(each) + len(each) - 1 for each in (b"int *n", b'%d\\n", n', b"++i) n")]
    assert functions.offsets("n") == code
    assert functions.offsets("c") == [text.index(b"c = 'n'"), text.index(b"c + d")]
    assert functions.offsets("ours") == ()

"""Images lowered to plain memory: text, arguments, descriptors, what the analysis sees, and dialects that compile."""

from __future__ import annotations

import struct

import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.dialects.image_lowering import (
    LoweredProgram,
    Untranslatable,
    lower_images,
    pack_descriptor,
    pack_sampler,
    uses_images,
)
from vdev.translators.dialects.subgrid import translate_subgrid
from vdev.translators.frontend.source import Target, parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.grain import of_unit
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from tests.pure.nvrtc import MISSING, compile_cuda, library

RGBA, R = 0x10B5, 0x10B0
FLOAT, UINT8 = 0x10DE, 0x10DA
TARGET = Target(
    extensions=("cl_khr_fp64", "cl_khr_fp16", "cl_khr_3d_image_writes", "cl_khr_depth_images"),
    features=(
        "__opencl_c_images",
        "__opencl_c_read_write_images",
        "__opencl_c_3d_image_writes",
        "__opencl_c_int64",
    ),
)


def lowered(source: str) -> LoweredProgram:
    return lower_images(parse_program(source, ["-cl-std=CL3.0"], target=TARGET))


def body(program: LoweredProgram) -> str:
    """The user's part of the text."""
    return program.program.source.partition('#line 1 "<kernel>"\n')[2]


class TestText:
    def test_a_program_without_images_is_itself(self) -> None:
        program = parse_program("kernel void f(global int *a) { a[0] = 1; }", target=TARGET)
        result = lower_images(program)
        assert result.program is program
        assert result.model is program
        assert not result.images

    def test_arguments(self) -> None:
        program = lowered(
            """kernel void f(int n, read_only image2d_t a, sampler_t s, __write_only const image3d_t b, global float *o)
            { write_imagef(b, (int4)(n), read_imagef(a, s, (float2)(0))); }"""
        )
        info = program.program.kernels["f"]
        assert [arg.kind for arg in info.args] == [
            "value",
            "global",
            "value",
            "global",
            "global",
            "value",
            "value",
        ]
        assert [arg.name for arg in info.args[:5]] == ["n", "a", "s", "b", "o"]
        assert [arg.pointee_const for arg in info.args if arg.kind == "global"] == [True, False, False]
        assert [info.args[index].nbytes for index in (2, 5, 6)] == [4, 32, 32]
        assert program.images == {"f": (1, 3)}
        assert program.model.kernels["f"].args[1].name == "a"

    def test_lines_stay(self) -> None:
        source = "\n\nkernel void f(write_only image1d_t a)\n{\n  write_imagef(a, 0, (float4)(0));\n}\n"
        program = lowered(source)
        assert program.program.kernels["f"].line == 3
        assert [access.line for access in analyse_kernel(program.model, "f").accesses] == [5] * 5

    @pytest.mark.parametrize(
        "operand",
        [
            "(image2d_t)", "(read_only image2d_t)", "(I)", " a", "((a))", "(image3d_t)", "(sampler_t)", "(S)", " s",
        ],
    )  # fmt: skip
    def test_sizes_are_those_of_pointers(self, operand: str) -> None:
        text = body(
            lowered(
                f"""typedef image2d_t I; typedef sampler_t S;
                kernel void f(read_only image2d_t a, sampler_t s, global int *o) {{ *o = sizeof{operand} + sizeof(o); }}"""
            )
        )
        assert "*o = sizeof(__global uchar *) + sizeof(o);" in text

    def test_samplers_and_constants(self) -> None:
        text = body(
            lowered(
                """const sampler_t a = CLK_FILTER_NEAREST | CLK_ADDRESS_CLAMP;
                __constant sampler_t b = CLK_NORMALIZED_COORDS_TRUE | CLK_FILTER_LINEAR, c = CLK_ADDRESS_REPEAT;
                float4 g(read_only image2d_t i, sampler_t s) { const sampler_t t = CLK_ADDRESS_NONE;
                  work_group_barrier(CLK_IMAGE_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
                  return read_imagef(i, s, (int2)(0)) + read_imagef(i, t, (int2)(0)); }
                kernel void f(read_only image2d_t i, global int *o)
                { o[0] = get_image_channel_order(i) == CLK_RGBA; o[1] = (int)g(i, a).x + (int)g(i, b).x; }"""
            )
        )
        assert "sampler_t" not in text
        assert "CLK_IMAGE" not in text
        assert "const __constant uint a = 0x10 | 4;" in text
        assert "__constant uint b = 1 | 0x20, c = 6;" in text
        assert "const uint t = 0;" in text
        assert "CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE" in text
        assert "== 0x10B5" in text

    def test_names_do_not_clash(self) -> None:
        program = lowered(
            "kernel void f(write_only image2d_t vimg_p_a) { write_imagei(vimg_p_a, 1, (int4)(2)); }"
        )
        assert "vimg1_write_imagei_2d_wo(vimg_p_a" in body(program)

    def test_type_definitions_and_overloads(self) -> None:
        program = lowered(
            """typedef read_only image2d_t picture;
            float4 __attribute__((overloadable)) g(picture p) { return read_imagef(p, (int2)(1, 2)); }
            float4 __attribute__((overloadable)) g(read_only image3d_t p) { return read_imagef(p, (int4)(1)); }
            kernel void f(picture a, image3d_t b, image2d_t __read_write c)
            { write_imagef(c, (int2)(0), g(a) + g(b) + read_imagef(c, (int2)(3))); }"""
        )
        assert program.images == {"f": (0, 1, 2)}
        assert [arg.kind for arg in program.program.kernels["f"].args] == ["global"] * 3 + ["value"] * 3

    def test_kernels_that_are_called(self) -> None:
        program = lowered(
            """kernel void g(read_only image2d_t a, global float4 *o, write_only image2d_t b);
            kernel void f(read_only image2d_t a, global float4 *o, write_only image2d_t b) { g((a), o, b); }
            kernel void g(read_only image2d_t a, global float4 *o, write_only image2d_t b)
            { o[0] = read_imagef(a, (int2)(get_global_id(0))); write_imagef(b, (int2)(0), o[0]); }"""
        )
        assert "g(((a)).p, o, (b).p, ((a)).d, (b).d)" in body(program)
        assert translate_subgrid(program.program).kernels["f"].hidden_index == 5

    def test_macros(self) -> None:
        program = lowered(
            """#define READ(i, x, y) read_imageui(i, (int2)(x, y))
            #define KIND image2d_t
            kernel void f(read_only KIND a, global uint *o) { o[0] = READ(a, 1, 2).s3; }"""
        )
        assert "read_imageui_2d_ro(a, (int2)(1, 2)).s3" in body(program)

    def test_words_in_strings_stay(self) -> None:
        text = body(
            lowered("""kernel void f(read_only image2d_t a) { printf("image2d_t read_only CLK_RGBA"); }""")
        )
        assert '"image2d_t read_only CLK_RGBA"' in text

    @pytest.mark.parametrize(
        ("source", "reason"),
        [
            ("kernel void f(read_only image2d_t a, read_only pipe int p) {}", "pipe is used"),
            ("kernel void f(read_only image2d_msaa_t a) {}", "image2d_msaa_t is used"),
        ],
    )
    def test_what_is_refused(self, source: str, reason: str) -> None:
        with pytest.raises(Untranslatable, match=reason):
            lowered(source)

    def test_mentions(self) -> None:
        assert uses_images(parse_program("kernel void f(sampler_t s) {}", target=TARGET))
        assert not uses_images(parse_program("kernel void f(int image2d) {}", target=TARGET))


def test_packing() -> None:
    packed = pack_descriptor((640, 480, 1), 2560, 1228800, RGBA, UINT8, 4, 4)
    assert struct.unpack("<3iIq2I", packed) == (640, 480, 1, 2560, 1228800, 4, 5 | 10 << 8 | 4 << 16)
    assert pack_sampler(normalized=True, addressing=0x1133, linear=True) == struct.pack("<I", 1 | 6 | 0x20)
    assert pack_sampler(normalized=False, addressing=0x1130, linear=False) == struct.pack("<I", 0x10)


WIDTH, HEIGHT = 64, 48


def ranges(
    source: str, chunk: Chunk, *, element: int = 4, pitch: int = WIDTH
) -> dict[tuple[int, str], AccessRange]:
    """The ranges of a kernel of two images of bytes over their pixels, by argument and mode."""
    program = lowered(source)
    summary = analyse_kernel(program.model, "f")
    assert not summary.one_worker
    channels = {1: (R, UINT8, 1), 4: (RGBA, UINT8, 4), 16: (RGBA, FLOAT, 4)}[element]
    row = pitch * element
    packed = pack_descriptor((WIDTH, HEIGHT, 1), row, row * HEIGHT, *channels, element)
    kinds = [arg.kind for arg in program.program.kernels["f"].args]
    values = {index: packed for index, kind in enumerate(kinds) if kind == "value"}
    sizes = {index: row * HEIGHT for index, kind in enumerate(kinds) if kind == "global"}
    ndrange = NDRange((WIDTH, HEIGHT), (8, 8), (0, 0))
    return {(found.arg, found.mode): found for found in summary.evaluate(ndrange, chunk, values, sizes)}


ROWS = Chunk((0, 2), (WIDTH // 8, 4))  #: work-groups of rows 16 to 31
COLUMNS = Chunk((1, 0), (3, HEIGHT // 8))  #: of columns 8 to 23


class TestAnalysis:
    @pytest.mark.parametrize("element", [1, 4, 16])
    def test_own_pixels(self, element: int) -> None:
        source = """kernel void f(read_only image2d_t a, write_only image2d_t b)
        { int2 p = (int2)(get_global_id(0), get_global_id(1)); write_imageui(b, p, read_imageui(a, p)); }"""
        row = WIDTH * element
        found = ranges(source, ROWS, element=element)
        for key in ((0, "read"), (1, "write")):
            assert found[key].region == Region.span(16 * row, 32 * row)
            assert found[key].exact
        assert [grain for _, grain in found[1, "write"].grains] == [of_unit(element)]
        boxes = Region.boxes(8 * element, 16 * element, ((row, HEIGHT),))
        found = ranges(source, COLUMNS, element=element)
        assert found[0, "read"].region == found[1, "write"].region == boxes
        assert found[1, "write"].exact

    def test_gaps_between_rows(self) -> None:
        source = """kernel void f(write_only image2d_t b)
        { write_imageui(b, (int2)(get_global_id(0), get_global_id(1)), (uint4)(0)); }"""
        found = ranges(source, ROWS, pitch=80)[0, "write"]
        assert found.region == Region.boxes(16 * 320, 256, ((320, 16),))
        assert found.exact

    def test_neighbours_are_clamped(self) -> None:
        source = """constant sampler_t s = CLK_ADDRESS_CLAMP;
        float4 at(read_only image2d_t a, int x, int y) { return read_imagef(a, s, (int2)(x, y)); }
        kernel void f(read_only image2d_t a, write_only image2d_t b)
        { int x = get_global_id(0), y = get_global_id(1); float4 sum = 0;
          for (int j = -3; j <= 3; j++) for (int i = -3; i <= 3; i++) sum += at(a, x + i, y + j);
          write_imagef(b, (int2)(x, y), sum); }"""
        found = ranges(source, ROWS)
        assert found[0, "read"].region == Region.span(13 * 256, 35 * 256)
        assert found[1, "write"].exact
        top = ranges(source, Chunk((0, 0), (WIDTH // 8, 2)))
        assert top[0, "read"].region == Region.span(0, 19 * 256)

    def test_guards_by_the_image_itself(self) -> None:
        source = """kernel void f(write_only image2d_t b)
        { int2 p = (int2)(get_global_id(0) * 2, get_global_id(1));
          if (p.x < get_image_width(b) && p.y < get_image_height(b) - 20) write_imagef(b, p, (float4)(0)); }"""
        found = ranges(source, ROWS)[0, "write"]
        assert found.region == Region.boxes(16 * 256, 4, ((8, 32), (256, 12)))
        assert found.exact

    def test_outside_is_not_written(self) -> None:
        source = """kernel void f(write_only image2d_t b)
        { write_imagef(b, (int2)(get_global_id(0) - 4, get_global_id(1) + 20), (float4)(0)); }"""
        found = ranges(source, ROWS)[0, "write"]
        assert found.region == Region.boxes(36 * 256, 240, ((256, 12),))
        assert found.exact

    def test_floating_point_reads_the_whole_image(self) -> None:
        source = """kernel void f(read_only image2d_t a, write_only image2d_t b)
        { int2 p = (int2)(get_global_id(0), get_global_id(1));
          write_imagef(b, p, read_imagef(a, (sampler_t)0, convert_float2(p))); }"""
        source = source.replace("(sampler_t)0", "s").replace("kernel", "constant sampler_t s = 0;\nkernel")
        found = ranges(source, ROWS)
        assert found[0, "read"].region == Region.span(0, 256 * HEIGHT)
        assert "floating_point" in str(found[0, "read"].reason)
        assert found[1, "write"].exact

    def test_values_that_were_read_are_not_known(self) -> None:
        source = """kernel void f(read_only image2d_t a, write_only image2d_t b)
        { int2 p = (int2)(get_global_id(0), get_global_id(1));
          write_imageui(b, convert_int2(read_imageui(a, p).xy), (uint4)(1)); }"""
        found = ranges(source, ROWS)[1, "write"]
        assert not found.exact
        assert found.region == Region.span(0, 256 * HEIGHT)


EVERYTHING = """
kernel void f(read_only image1d_t a, read_only image1d_array_t b, read_only image1d_buffer_t c, read_only image2d_t d,
    read_only image2d_array_t e, read_only image3d_t g, image2d_depth_t h, image2d_array_depth_t i, sampler_t s,
    read_write image2d_t rw, write_only image3d_t wo, write_only image2d_array_depth_t wd, global float4 *o) {
  float4 v = read_imagef(a, s, 0.5f) + read_imagef(b, s, (float2)(1)) + read_imagef(c, 3) + read_imagef(d, s, (int2)(2));
  v += read_imagef(e, s, (float4)(1)) + read_imagef(g, s, (float4)(1)) + read_imagef(h, s, (float2)(1));
  v += read_imagef(i, (int4)(1)) + read_imagef(rw, (int2)(1)) + convert_float4(read_imagei(d, s, (int2)(1)));
  v += convert_float4(read_imageui(g, (int4)(1)));
  v.xy += convert_float2(get_image_dim(d) + get_image_dim(e)) + get_image_array_size(b) + get_image_depth(g);
  write_imagef(rw, (int2)(2), v); write_imagei(wo, (int4)(2), convert_int4(v));
  write_imageui(wo, (int4)(3), convert_uint4(v)); write_imagef(wd, (int4)(1), v.x);
  o[get_global_id(0)] = v + get_image_width(rw) + get_image_height(wo) + get_image_channel_data_type(a);
}
"""


def test_everything_is_lowered() -> None:
    program = lowered(EVERYTHING)
    assert len(program.images["f"]) == 11
    assert translate_subgrid(program.program).kernels["f"].pointer_args == (*range(8), 9, 10, 11, 12)
    summary = analyse_kernel(program.model, "f")
    assert not summary.one_worker
    assert {access.arg for access in summary.accesses} == {*range(8), 9, 10, 11, 12}


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_everything_compiles_for_cuda() -> None:
    program = translate_cuda(lowered(EVERYTHING).program)
    done, text = compile_cuda(program.source, program.options)
    assert done, text[:4000]

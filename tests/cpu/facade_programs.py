"""Programs, pools, caches and pickles, for `test_facade_behaviour`."""

from __future__ import annotations

import copy
import pickle
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdev.process.finalisers import collect

from .facade_world import CALLS, SOURCE, content, ints, see
from .side_by_side import Call

HEADER = """
#ifndef H
#define H
typedef struct { int a; } box;
static int helper(int x);
static inline int three(void) { return helper(3); }
int outside(box b);
#endif
"""
ONE = """
#include "h.h"
enum { KIND = 4 };
typedef struct { int first; } private_type;
__constant int table[2] = {1, 2};
static int helper(int x) { private_type p; p.first = x + KIND; return p.first + table[1]; }
int outside(box b) { return helper(b.a) + three(); }
"""
TWO = """
#include "h.h"
enum { KIND = 900 };
typedef struct { float second; int first; } private_type;
static int helper(int x) { private_type p; p.second = x * KIND; return (int) p.second; }
__kernel void f(__global int *out)
{ box b; b.a = 1; out[0] = outside(b); out[1] = helper(2); out[2] = three(); }
"""


def compiled(w: Any, *sources: str) -> list[Any]:
    header = w.raw._Program(w.ctx, HEADER)
    programs = [w.raw._Program(w.ctx, source) for source in sources]
    for program in programs:
        program.compile(b"", None, [("h.h", header)])
    return programs


def result_of(w: Any, program: Any, count: int = 3) -> list[int]:
    out = ints(w, count)
    kernel = w.cl.Kernel(program, "f")
    kernel.set_args(out)
    w.cl.enqueue_nd_range_kernel(w.queue, kernel, (1,), None)
    return content(w, out)


@see
def linked_with_names_of_their_own(w: Any) -> Any:
    """Static functions, types and enumerators of one name in two programs."""
    return result_of(w, w.raw._Program.link(w.ctx, compiled(w, ONE, TWO), b""))


@see
def linked_the_other_way_round(w: Any) -> Any:
    return result_of(w, w.raw._Program.link(w.ctx, compiled(w, TWO, ONE), b""))


@see
def linked_through_two_libraries(w: Any) -> Any:
    """What was renamed once may have to be again."""
    three = """
    #include "h.h"
    enum { KIND = 7 };
    static int helper(int x) { return x - KIND; }
    int more(int x) { return helper(x); }
    """
    four = """
    int more(int x);
    enum { KIND = 5 };
    static int helper(int x) { return more(x) * KIND; }
    int most(int x) { return helper(x); }
    """
    five = "int most(int x); int outside2(int x);" + TWO.replace("out[2] = three();", "out[2] = most(100);")
    objects = compiled(w, ONE, three, four, five)
    first = w.raw._Program.link(w.ctx, objects[:2], b"-create-library")
    second = w.raw._Program.link(w.ctx, [objects[2], first], b"-create-library")
    return result_of(w, w.raw._Program.link(w.ctx, [objects[3], second], b""))


@see
def linked_with_a_name_that_another_shares(w: Any) -> Any:
    """A static function here, an external one of that name there."""
    one = "static int same(int x) { return x + 1; } int outside(int x) { return same(x); }"
    two = "int same(int x) { return x * 10; } int outside(int x); kernel void f(global int *p) { p[0] = same(3); p[1] = outside(3); }"
    found = []
    for order in ((one, two), (two, one)):
        found.append(result_of(w, w.raw._Program.link(w.ctx, compiled(w, *order), b""), 2))
    return found


@see
def linked_with_a_type_that_a_variable_s_declaration_defines(w: Any) -> Any:
    """The type is the same one in both programs, whichever comes first; a type that is another one there keeps its own."""
    one = """
    #pragma OPENCL FP_CONTRACT ON
    constant struct bar { float x; struct inner { int a; } y; int color; } foo = {1.5f, {2}, 3};
    enum { KIND = 4 } unused(void);
    static constant struct other { int a; } here = {5};
    typedef struct { int n; } number;
    constant struct holder { number n; } held = {{6}};
    int outside(int x) { struct inner i = foo.y; return x + i.a + here.a + KIND; }
    """
    two = """
    extern constant struct bar { float x; struct inner { int a; } y; int color; } foo;
    typedef struct { int n; } number;
    extern constant struct holder { number n; } held;
    static constant struct other { float b; int a; } here = {7.0f, 8};
    struct bar access(void) { return foo; }
    int outside(int x);
    kernel void f(global int *p) { p[0] = access().x * 2 + foo.color; p[1] = outside(10) + here.a; p[2] = here.b + held.n.n; }
    """
    found = []
    for order in ((one, two), (two, one)):
        found.append(result_of(w, w.raw._Program.link(w.ctx, compiled(w, *order), b"")))
    return found


@see
def linked_through_a_library(w: Any) -> Any:
    one, two = compiled(w, ONE, TWO)
    library = w.raw._Program.link(w.ctx, [one], b"-create-library")
    info = w.cl.program_build_info.BINARY_TYPE
    types = [program.get_build_info(w.device, info) for program in (one, library)]
    linked = w.raw._Program.link(w.ctx, [library, two], b"")
    return types, linked.get_build_info(w.device, info), result_of(w, linked), linked.kind().name


@see
def states_of_a_program(w: Any) -> Any:
    info = w.cl.program_build_info
    source = "kernel void f(global int *p) { *p = N; }"

    def state(program: Any) -> list[Any]:
        queries = (info.STATUS, info.BINARY_TYPE, info.OPTIONS)
        return [program.get_build_info(w.device, query) for query in queries]

    new, wrong, object_, built = (w.raw._Program(w.ctx, source) for _ in range(4))
    object_.compile(b"-DN=3", None, [])
    built._build(b"-DN=4 -cl-fast-relaxed-math")
    with pytest.raises(w.cl.RuntimeError):
        wrong._build(b"")
    return [state(program) for program in (new, wrong, object_, built)]


@see
def binaries(w: Any) -> Any:
    program = w.cl.Program(w.ctx, "kernel void f(global int *p) { *p = 42; } kernel void g() {}").build()
    again = w.cl.Program(w.ctx, [w.device], program.binaries).build()
    sizes = [len(binary) for binary in program.binaries] == program.binary_sizes
    names = sorted(again.kernel_names.split(";"))
    return (
        result_of(w, again, 1),
        sizes,
        names,
        again.num_kernels,
        [k.function_name for k in again.all_kernels()],
    )


@see
def programs_tell_of_themselves(w: Any) -> Any:
    program = w.program
    return (
        program.source == SOURCE, program.num_devices, program.devices == [w.device], program.context == w.ctx,
        sorted(program.kernel_names.split(";")), program.reference_count > 0, program.num_kernels,
        program.get_build_info(w.device, w.cl.program_build_info.STATUS),
    )  # fmt: skip


@see
def includes_and_definitions(w: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "value.h").write_text("#define VALUE (N + M)\n")
        source = '#include "value.h"\nkernel void f(global int *p) { *p = VALUE; }'
        options = ["-I", f'"{folder}"', "-D", "N=40", "-DM=2"]
        return result_of(w, w.cl.Program(w.ctx, source).build(options=options), 1)


@see
def builds_from_the_cache(w: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for number in (1, 2, 1):
            source = f"kernel void f(global int *p) {{ *p = {number}; }}"
            program = w.cl.Program(w.ctx, source).build(cache_dir=folder)
            found.append(result_of(w, program, 1))
        files = len(list(Path(folder).iterdir())) > 0
    return found, files


@see
def built_by_many_threads(w: Any) -> Any:
    found: list[Any] = []

    def build(number: int) -> None:
        source = f"kernel void f(global int *p) {{ *p = {number % 3}; }}"
        queue, out = w.cl.CommandQueue(w.ctx), ints(w, 1)
        kernel = w.cl.Program(w.ctx, source).build().f
        kernel(queue, (1,), None, out).wait()
        found.append(content(w, out)[0])

    threads = [threading.Thread(target=build, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found)


@see
def with_a_log(w: Any) -> Any:
    program = w.raw._Program(w.ctx, "kernel void f(global int *p) { *p = undeclared; }")
    try:
        program._build(b"")
    except w.cl.RuntimeError as error:
        log = program.get_build_info(w.device, w.cl.program_build_info.LOG)
        return error.code, "undeclared" in log, type(error).__name__
    return None


def _counts(pool: Any) -> list[int]:
    return [pool.held_blocks, pool.active_blocks, pool.managed_bytes, pool.active_bytes]


@see
def pools_count(w: Any) -> Any:
    pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue))
    found = [_counts(pool)]
    blocks = [pool.allocate(size) for size in (1, 1000, 1024, 1025, 100_000)]
    found.append(_counts(pool))
    sizes = [block.size for block in blocks]
    blocks[1].release()
    found.append(_counts(pool))
    again = pool.allocate(1010)
    found.append(_counts(pool))
    del again, blocks[0]
    collect()
    found.append(_counts(pool))
    pool.free_held()
    found.append(_counts(pool))
    pool.stop_holding()
    blocks.clear()
    collect()
    return [*found, _counts(pool)], sizes


@see
def pools_of_other_bins(w: Any) -> Any:
    found = []
    for bits in (0, 1, 4, 7):
        pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue), leading_bits_in_bin_id=bits)
        found.append([pool.allocate(size).size for size in (1, 3, 100, 5000, 70_001)])
    return found


@see
def allocators_make_memory(w: Any) -> Any:
    found = []
    for allocator in (
        w.tools.DeferredAllocator(w.ctx),
        w.tools.DeferredAllocator(w.ctx, w.mf.READ_ONLY),
        w.tools.ImmediateAllocator(w.queue, w.mf.READ_WRITE | w.mf.ALLOC_HOST_PTR),
    ):
        buffer = allocator(256)
        found.append([type(buffer).__name__, buffer.size, buffer.flags, allocator(0) is None])
    return found


@see
def pooled_memory_is_memory(w: Any) -> Any:
    pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue))
    block = pool.allocate(256)
    w.cl.enqueue_fill_buffer(w.queue, block, np.int32(3), 0, 256)
    w.program.add(w.queue, (64,), None, block, np.int32(4))
    host = np.zeros(64, np.int32)
    w.cl.enqueue_copy(w.queue, host, block)
    kinds = (
        isinstance(block, w.cl.MemoryObjectHolder),
        isinstance(block, w.cl.MemoryObject),
        bool(block.int_ptr),
    )
    return host.tolist(), kinds, block == block, block.get_info(w.cl.mem_info.TYPE)


@see
def devices_are_keys(w: Any) -> Any:
    again = w.cl.get_platforms()
    table = {w.device: 1, w.ctx: 2, w.queue: 3, w.device.platform: 4}
    same = w.device.platform in again, w.device.platform.get_devices()[0] == w.device
    return same, [table[key] for key in (w.ctx.devices[0], w.queue.context, w.queue, w.queue.device.platform)]


@see
def memoized_by_context(w: Any) -> Any:
    calls = []

    @w.tools.first_arg_dependent_memoize
    def make(context: Any, number: int) -> int:
        calls.append(number)
        return number

    answers = [make(w.ctx, 1), make(w.ctx, 1), make(w.ctx, 2), make(w.cl.Context([w.device]), 1)]
    w.tools.clear_first_arg_caches()
    make(w.ctx, 1)
    return answers, calls


@see
def kept_on_disk(w: Any) -> Any:
    """pytools' dictionaries on disk with what PyOpenCL puts into their keys."""
    from pytools.persistent_dict import KeyBuilder, WriteOncePersistentDict

    with tempfile.TemporaryDirectory() as folder:
        kept: Any = WriteOncePersistentDict("t", key_builder=KeyBuilder(), container_dir=folder)
        key = (w.device.persistent_unique_id, np.dtype(np.int32), w.cl.mem_flags.READ_WRITE)
        kept.store_if_not_present(key, (w.cl.status_code.SUCCESS, w.cl.program_kind.SOURCE))
        return list(map(str, kept.fetch(key)))


@see
def pickled_constants_and_errors(w: Any) -> Any:
    kinds = w.cl.program_kind.SOURCE, w.cl.channel_order, w.cl.mem_flags, w.cl.Device
    found = [
        pickle.loads(pickle.dumps(kind)) is kind or pickle.loads(pickle.dumps(kind)) == kind for kind in kinds
    ]
    return found


def _items(w: Any) -> dict[str, Any]:
    array, _ = w.cl.enqueue_map_buffer(w.queue, ints(w), w.cl.map_flags.READ, 0, 4, np.int32)
    form = w.cl.ImageFormat(w.cl.channel_order.R, w.cl.channel_type.FLOAT)
    sampler = w.cl.Sampler(w.ctx, False, w.cl.addressing_mode.CLAMP, w.cl.filter_mode.NEAREST)
    pool = w.cl.tools.MemoryPool(w.cl.tools.ImmediateAllocator(w.queue))
    return {
        "device": w.device, "context": w.ctx, "queue": w.queue, "kernel": w.program.add, "program": w.program._get_prg(),
        "buffer": ints(w), "event": w.cl.enqueue_marker(w.queue), "gate": w.cl.UserEvent(w.ctx), "platform": w.device.platform,
        "array": w.array.zeros(w.queue, 4, np.int32), "local": w.cl.LocalMemory(4), "sampler": sampler,
        "format": form, "image": w.cl.Image(w.ctx, w.mf.READ_WRITE, form, shape=(4, 4)), "map": array.base,
        "allocator": w.cl.tools.ImmediateAllocator(w.queue), "pool": pool, "pooled": pool.allocate(64),
        "svm": w.cl.SVM(w.cl.csvm_empty(w.ctx, 4, np.int32)), "allocation": w.cl.SVMAllocation(w.ctx, 64, 0, 1),
        "svm_allocator": w.cl.tools.SVMAllocator(w.ctx),
    }  # fmt: skip


def _attempt(name: str, what: Callable[[Any], Any]) -> Call:
    def attempt(w: Any) -> Any:
        try:
            what(_items(w)[name])
        except Exception as error:
            return f"refused: {type(error).__name__}"
        return "done"

    return attempt


ITEMS = (
    "device",
    "context",
    "queue",
    "kernel",
    "program",
    "buffer",
    "event",
    "gate",
    "platform",
    "array",
    "local",
    "sampler",
    "format",
    "image",
    "map",
    "allocator",
    "pool",
    "pooled",
    "svm",
    "allocation",
    "svm_allocator",
)
for _name in ITEMS:
    CALLS[f"pickled_{_name}"] = _attempt(_name, pickle.dumps)
    CALLS[f"copied_{_name}"] = _attempt(_name, copy.copy)


@see
def magics(w: Any) -> Any:
    """The IPython extension, where IPython is installed."""
    try:
        from IPython.core.interactiveshell import InteractiveShell
    except ImportError:
        return "not installed"
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "pyopencl.ipython_ext")
    shell.user_ns["cl_ctx"] = w.ctx
    shell.run_cell_magic("cl_kernel", "-o -DN=5", "kernel void ip(global int *p) { *p = N; }")
    out = ints(w, 1)
    shell.user_ns["ip"](w.queue, (1,), None, out)
    return content(w, out)


@see
def infos(w: Any) -> Any:
    """What is the same on every device."""
    ctx = (
        w.ctx,
        w.cl.Context(properties=[(w.cl.context_properties.PLATFORM, w.device.platform)], devices=[w.device]),
    )
    context = [[c.num_devices, c.devices == [w.device]] for c in ctx]
    queue = [
        [q.properties, q.reference_count, q.context == w.ctx, q.device == w.device] for q in (w.queue, w.free)
    ]
    device = w.device
    kinds = [
        type(getattr(device, name)).__name__
        for name in ("name", "version", "max_work_item_sizes", "global_mem_size", "extensions", "profile", "available",
                     "max_compute_units", "local_mem_size", "opencl_c_version", "driver_version", "platform")
    ]  # fmt: skip
    return context, queue, kinds

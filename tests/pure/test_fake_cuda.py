"""What a GPU's driver must not be asked is found by the driver for machines without one, each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: Mistakes by name, each with what the driver says of it. `d` is the driver, `r` the runtime, `m` the calls for modules; `s` and `t` are
#: streams of two GPUs, the first of which is at hand; `a` and `b` memory of theirs, `p` pinned memory; `k` a kernel of the first.
MISTAKES = {
    "a null stream": ("d.fill_1(a, 0, 8, 0)", "no stream"),
    "a stream that is gone": (
        "r.streamDestroy(s); d.fill_1(a, 0, 8, s)",
        "a stream that is gone|one that is gone",
    ),
    "a stream destroyed twice": ("r.streamDestroy(s); r.streamDestroy(s)", "one that is gone"),
    "a stream of another GPU": ("d.event_record(d.new_event(), t)", "an event of another context"),
    "an event of another GPU": (
        "e = d.new_event(); d.set_context(other); d.event_record(e, t)",
        "an event of another context",
    ),
    "no event": ("d.event_query(s)", "no event"),
    "an event that was never recorded": ("d.stream_wait(s, d.new_event(), 0)", "never recorded"),
    "no context": ("d.set_context(0); d.take_memory(8)", "no context"),
    "a context that is none": ("d.set_context(s)", "no context"),
    "pinned memory without a context": ("d.set_context(0); r.hostAlloc(8, 1)", "no context"),
    "memory given back twice": ("d.give_memory(a); d.give_memory(a)", "given back twice"),
    "a part of memory given back": ("d.give_memory(a + 512)", "no memory begins there"),
    "memory that was given back": ("d.give_memory(a); d.fill_1(a, 0, 8, s)", "memory that was given back"),
    "memory given back that is in use": (
        "d.fill_1(a, 0, 8, s); d.give_memory(a)",
        "may still be in use",
    ),
    "pinned memory given back that is in use": (
        "d.copy(a, p, 8, s); r.freeHost(p)",
        "may still be in use",
    ),
    "memory in use behind a wait for another GPU": (
        "e = d.new_event(); d.fill_1(a, 0, 8, s); d.event_record(e, s); d.stream_wait(t, e, 0); d.event_query(e);"
        "d.set_context(other); d.copy(b, p, 8, t); d.set_context(own); d.give_memory(a); r.freeHost(p)",
        "may still be in use",
    ),
    "bytes beyond memory": ("d.fill_1(a, 0, 4097, s)", "beyond the end"),
    "a fill that is not aligned": ("d.fill_4(a + 2, 0, 1, s)", "not aligned"),
    "a fill of a peer's memory": ("d.fill_1(b, 0, 8, s)", "not memory of the stream's GPU"),
    "a copy from a peer without access": ("d.copy(a, b, 8, s)", "without access"),
    "a read from a peer": ("d.read_pinned(p, b, 8, s)", "not from the stream's GPU"),
    "a copy between GPUs in the wrong order": (
        "r.memcpyPeerAsync(a, 1, b, 0, 8, s)",
        "not memory of these GPUs",
    ),
    "a kernel on a peer's memory without access": (
        "launch(fill(b))",
        "a kernel touches memory of a GPU without access",
    ),
    "a kernel on memory that is not aligned": (
        "k = m.moduleGetFunction(loaded('copy_u8'), 'copy_u8'); launch(struct.pack('<9Q', a + 4, a + 64, 8, 1, 8, 0, 0, 0, 0))",
        "not aligned to 8 bytes",
    ),
    "a kernel beyond memory": ("launch(fill(a + 4096))", "a kernel touches memory that is nobody's"),
    "a kernel on memory that was given back": (
        "d.give_memory(a); launch(fill(a))",
        "a kernel touches memory that was given back",
    ),
    "a kernel of a module that was unloaded": ("m.moduleUnload(module); launch(fill(a))", "unloaded"),
    "a module unloaded twice": ("m.moduleUnload(module); m.moduleUnload(module)", "unloaded"),
    "a module unloaded under its kernel": (
        "launch(fill(a)); m.moduleUnload(module)",
        "a kernel of it may run",
    ),
    "a module unloaded elsewhere": (
        "d.set_context(other); m.moduleUnload(module)",
        "a module of another context",
    ),
    "a function of another GPU": (
        "d.set_context(other); launch(fill(b), stream=t)",
        "a function of another context",
    ),
    "no groups": ("launch(fill(a), groups=(0, 1, 1))", "without groups"),
    "too many groups": ("launch(fill(a), groups=(1, 65536, 1))", "too many groups"),
    "too many work-items": ("launch(fill(a), items=(1024, 2, 1))", "too many work-items"),
    "too much shared memory": ("launch(fill(a), shared=(48 << 10) + 1)", "more shared memory"),
    "parameters of another kernel": ("launch(fill(a)[:-8])", "not as many bytes"),
}

#: and what it must not find fault with
RIGHT = {
    "memory given back behind an event": (
        "e = d.new_event(); d.fill_1(a, 0, 8, s); d.event_record(e, s); d.event_synchronize(e); d.give_memory(a)"
    ),
    "memory given back behind a wait for another GPU": (
        "e, f = d.new_event(), d.new_event(); d.fill_1(a, 0, 8, s); d.event_record(e, s); d.stream_wait(t, e, 0);"
        "d.set_context(other); f = d.new_event(); d.event_record(f, t); d.event_synchronize(f); d.set_context(own);"
        "d.give_memory(a)"
    ),
    "a module unloaded behind its kernel": (
        "launch(fill(a)); d.stream_synchronize(s); m.moduleUnload(module); d.give_memory(a)"
    ),
    "a kernel on a peer's memory": ("r.deviceEnablePeerAccess(1); launch(fill(b))"),
    "a copy between GPUs": (
        "r.memcpyPeerAsync(a, 0, b, 1, 8, s); r.deviceEnablePeerAccess(1); d.copy(a, b, 8, s)"
    ),
    "work from other contexts": (
        "e = d.new_event()\nfor there in (other, 0):\n    d.set_context(there)\n"
        "    assert not any((launch(fill(a)), d.event_record(e, s), d.stream_wait(s, e, 0), d.fill_4(a, 0, 8, s),"
        "                    d.copy(a, a + 8, 8, s), d.read_pinned(p, a, 8, s)))"
    ),
    "more shared memory": ("m.funcSetAttribute(k, 8, 100_000); launch(fill(a), shared=100_000)"),
}

SCRIPT = """
import ctypes, json, os, struct, sys
from cupy_backends.cuda.api import runtime as r
from tests.pure import fake_cuda
from vdev.backends.cuda import kernels
from vdev.backends.cuda.cupy_parts import ModuleCalls
from vdev.backends.cuda.driver import Driver, launch_handles
d, m = Driver(), ModuleCalls()
r.setDevice(1)
other, t, b = d.context(), r.streamCreateWithFlags(1), d.take_memory(4096)[1]
r.setDevice(0)
own, s, a, p = d.context(), r.streamCreateWithFlags(1), d.take_memory(4096)[1], r.hostAlloc(4096, 1)
def loaded(name):
    return m.moduleLoadData(str(fake_cuda.library_of(kernels.SOURCE_OF[name], ())).encode())
module = loaded("fill_pattern")
k = m.moduleGetFunction(module, "fill_pattern")
def fill(address):
    return struct.pack("<3Q", address, 8, 1) + bytes(kernels.PATTERN_NBYTES)
def launch(parameters, groups=(1, 1, 1), items=(32, 1, 1), shared=0, stream=s):
    packed, size = ctypes.create_string_buffer(parameters, len(parameters)), ctypes.c_size_t(len(parameters))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
    return d.starting((*groups, *items), shared, stream, launch_handles(k, ctypes.addressof(extra)))()
said = {}
for name, code in json.loads(sys.stdin.read()).items():
    end, begin = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(begin, 2)
        exec(code)
        os._exit(0)
    os.close(begin)
    with os.fdopen(end) as pipe:
        text = pipe.read()
    said[name] = text, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(said))
"""


def test_mistakes_are_found_and_nothing_else(tmp_path: Path) -> None:
    codes = {name: code for name, (code, _) in MISTAKES.items()} | RIGHT
    assert len(codes) == len(MISTAKES) + len(RIGHT)
    said = json.loads(fake_cuda.run(SCRIPT, fake_cuda.environment(tmp_path), json.dumps(codes)))
    wrong = {name: said[name] for name in RIGHT if said[name] != ["", 0]}
    for name, (_, expected) in MISTAKES.items():
        text, status = said[name]
        if status != 99 or not any(each in text for each in expected.split("|")):
            wrong[name] = said[name]
    assert wrong == {}


IN_THREADS = """
import threading
import numpy as np, pyopencl as cl
from vdev.executor.line import Line
made, again = [], Line.again
def counted(*args):
    made.append(again(*args))
    return made[-1]
Line.again = counted
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
found = np.zeros(64, np.uint32)
counts = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=found)
source = "kernel void count(global uint *counts, uint step) { counts[get_global_id(0)] += step; }"
kernel = cl.Kernel(cl.Program(context, source).build(), "count")
kernel.set_arg_types([None, np.uint32])
def launches():
    queue.finish()  # nothing is left to the worker's thread
    for _ in range(200):
        kernel(queue, (64,), (64,), counts, np.uint32(3))
for _ in range(3):
    thread = threading.Thread(target=launches)
    thread.start()
    thread.join()
    launches()
cl.enqueue_copy(queue, found, counts)
print(set(found.tolist()), any(each is not None for each in made))
"""


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("workers", ["cuda:0", "cuda:1"])
def test_launches_are_made_again_in_any_context(tmp_path: Path, workers: str, strict: bool) -> None:
    """Also where the driver launches in the calling thread's context only, which threads then have to enter."""
    env = fake_cuda.environment(tmp_path, workers) | ({"FAKE_CUDA_STRICT": "1"} if strict else {})
    assert fake_cuda.run(IN_THREADS, env) == "{3600} True\n"


FIRST_LOOP = """
import sys
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
kernel = cl.Program(context, "kernel void k(global int *a) { a[get_global_id(0)] += 1; }").build().k
before, large, small = set(sys.modules), np.zeros(1 << 16, np.int32), np.zeros(16, np.int32)
buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=large)
kernel(queue, (1 << 16,), None, buffer)
for host in large, small:
    cl.enqueue_copy(queue, host, buffer)
assert large.all() and small.all()
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("workers", ["cuda:0", "cuda:0,1"])
def test_a_first_loop_loads_no_modules(tmp_path: Path, workers: str) -> None:
    assert fake_cuda.run(FIRST_LOOP, fake_cuda.environment(tmp_path, workers)) == "[]\n"

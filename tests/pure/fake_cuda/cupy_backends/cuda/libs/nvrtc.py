"""What vdev uses of NVRTC, by CuPy's names. A cubin is the path of a library that the host's compiler has made."""

from __future__ import annotations

from collections.abc import Sequence

from tests.pure import fake_cuda


class NVRTCError(RuntimeError):
    """A program that is refused."""


class _Program:
    def __init__(self, source: str) -> None:
        self.source = source
        self.cubin = b""
        self.is_gone = False


def getVersion() -> tuple[int, int]:
    return 0, 0  # of none, so that no GPU is given what is kept of here


def createProgram(source: str, name: str, headers: Sequence[str], names: Sequence[str]) -> _Program:
    assert not headers
    assert not names
    return _Program(source)


def compileProgram(program: _Program, options: Sequence[str]) -> None:
    assert not program.is_gone
    assert "--gpu-architecture=sm_90" in options
    program.cubin = str(fake_cuda.library_of(program.source, options)).encode()


def getCUBIN(program: _Program) -> bytes:
    assert not program.is_gone
    assert program.cubin
    return program.cubin


def getProgramLog(program: _Program) -> str:
    assert not program.is_gone
    return ""


def destroyProgram(program: _Program) -> None:
    assert not program.is_gone
    program.is_gone = True

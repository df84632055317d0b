"""When NVRTC is loaded only to tell its version: `vdev.backends.cuda.nvrtc`."""

from __future__ import annotations

import importlib
import math
import os
from pathlib import Path

import pytest

from vdev.backends.cuda import nvrtc


class _Nvrtc:
    """CuPy's module, which loads the library when it is first asked for something."""

    def __init__(self, version: tuple[int, int] = (13, 0)) -> None:
        self.loads = 0
        self.version = version

    def getVersion(self) -> tuple[int, int]:
        self.loads += 1
        return self.version


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the library, and what says that the process has loaded it."""
    path = tmp_path / "a folder" / "libnvrtc.so.13"
    path.parent.mkdir()
    path.write_bytes(b"the library")
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r-xp 00000000 fe:00 12   /lib/libc.so.6\n7f02-7f03 rw-p 00000000 00:00 0\n"
        f"7f04-7f05 r-xp 00000000 fe:00 13    {path}\n"
    )
    monkeypatch.setattr(nvrtc, "_MAPPED", maps)
    return path


def test_the_version_is_known_while_the_library_is_the_same(tmp_path: Path, library: Path) -> None:
    first, second = _Nvrtc(), _Nvrtc((0, 0))
    assert nvrtc.nvrtc_version(first, tmp_path / "kept") == "13.0"
    assert nvrtc.nvrtc_version(second, tmp_path / "kept") == "13.0"
    assert (first.loads, second.loads) == (1, 0)


@pytest.mark.parametrize("what", ["content", "time", "gone", "replaced"])
def test_another_library_is_loaded(tmp_path: Path, library: Path, what: str) -> None:
    assert nvrtc.nvrtc_version(_Nvrtc(), tmp_path / "kept") == "13.0"
    times = os.stat(library).st_atime_ns, os.stat(library).st_mtime_ns
    if what == "content":
        library.write_bytes(b"another library")
        os.utime(library, ns=times)
    elif what == "time":
        os.utime(library, ns=(times[0], times[1] + 1))
    elif what == "replaced":
        other = library.with_suffix(".new")
        other.write_bytes(library.read_bytes())
        os.utime(other, ns=times)
        other.replace(library)
    else:
        library.unlink()
        nvrtc._MAPPED.write_text("")  # another one is found where nothing tells its file
    later = _Nvrtc((13, 1))
    assert nvrtc.nvrtc_version(later, tmp_path / "kept") == "13.1"
    assert later.loads == 1


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"])
def test_another_environment_has_its_own_record(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert nvrtc.nvrtc_version(_Nvrtc(), tmp_path / "kept") == "13.0"
    monkeypatch.setenv(name, "/elsewhere")
    assert nvrtc.nvrtc_version(_Nvrtc((12, 4)), tmp_path / "kept") == "12.4"


def test_what_a_link_leads_to_is_part_of_the_environment(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "cuda"
    link.symlink_to(tmp_path / "cuda-13.0")
    monkeypatch.setenv("CUDA_PATH", str(link))
    assert nvrtc.nvrtc_version(_Nvrtc(), tmp_path / "kept") == "13.0"
    link.unlink()
    link.symlink_to(tmp_path / "cuda-13.1")
    assert nvrtc.nvrtc_version(_Nvrtc((13, 1)), tmp_path / "kept") == "13.1"


@pytest.mark.parametrize("name", ["_bindings_path", "_LINKER_CACHE"])
def test_another_cupy_or_linker_cache_has_its_own_record(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for content, version in (("one", (13, 0)), ("another", (13, 1))):
        path = tmp_path / "file"
        path.write_text(content)
        monkeypatch.setattr(nvrtc, name, str(path) if name.isupper() else lambda path=str(path): path)
        expected = ".".join(map(str, version))
        assert nvrtc.nvrtc_version(_Nvrtc(version), tmp_path / "kept") == expected


def test_what_cupy_as_a_whole_has_found_is_not_there_for_its_bindings_alone(
    tmp_path: Path, library: Path
) -> None:
    assert nvrtc.nvrtc_version(_Nvrtc(), tmp_path / "kept") == "13.0"
    with pytest.raises(ModuleNotFoundError):
        nvrtc.nvrtc_version(nvrtc.LoadedWhenUsed(_no_such_module), tmp_path / "kept")


@pytest.mark.parametrize("maps", ["gone", "deleted"])
def test_a_library_whose_file_is_not_known_is_used(
    tmp_path: Path, library: Path, maps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if maps == "gone":
        nvrtc._MAPPED.unlink()
    else:  # as the kernel tells of a file that was removed
        nvrtc._MAPPED.write_text(f"7f04-7f05 r-xp 00000000 fe:00 13    {library} (deleted)\n")
    assert nvrtc.nvrtc_version(_Nvrtc(), tmp_path / "kept") == "13.0"
    assert nvrtc.nvrtc_version(_Nvrtc((13, 1)), tmp_path / "kept") == "13.1"


def test_a_search_path_of_any_bytes(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", os.fsdecode(b"/lib/\xff"))
    assert nvrtc.nvrtc_version(_Nvrtc(), tmp_path / "kept") == "13.0"


def test_without_a_record_that_can_be_read_it_is_loaded(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = nvrtc.Store(tmp_path / "kept" / "cubins", ".nvrtc")
    for content in (b"not JSON", b"[]", b"7", b'["/nowhere", 1, 2, 3, "9.9"]', b'{"path": 1}'):
        records.put(nvrtc._environment(_Nvrtc()), content, 1 << 20)
        assert nvrtc.nvrtc_version(_Nvrtc(), tmp_path / "kept") == "13.0", content


def test_no_nvrtc_is_what_cupy_says(tmp_path: Path, library: Path) -> None:
    class Missing(_Nvrtc):
        def getVersion(self) -> tuple[int, int]:
            raise RuntimeError("no NVRTC")

    with pytest.raises(RuntimeError, match="no NVRTC"):
        nvrtc.nvrtc_version(Missing(), tmp_path / "kept")


def _no_such_module() -> object:
    return importlib.import_module("vdev.no_such_module")


def test_a_module_is_loaded_once_it_is_used() -> None:
    lazy = nvrtc.LoadedWhenUsed(_no_such_module)
    with pytest.raises(ModuleNotFoundError):
        lazy.anything  # noqa: B018
    lazy = nvrtc.LoadedWhenUsed(lambda: math.no_such_function)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no_such_function"):
        lazy.anything  # noqa: B018
    loads: list[object] = [math, None]
    lazy = nvrtc.LoadedWhenUsed(lambda: loads.pop(0))
    assert len(loads) == 2
    assert lazy.pi > lazy.e
    assert loads == [None]


@pytest.mark.parametrize("what", ["no /proc", "replaced meanwhile"])
def test_the_version_is_told_where_its_file_is_not_known(tmp_path: Path, library: Path, what: str) -> None:
    if what == "no /proc":
        nvrtc._MAPPED.unlink()
    else:
        library.unlink()
    for _ in range(2):
        module = _Nvrtc()
        assert nvrtc.nvrtc_version(module, tmp_path / "kept") == "13.0"
        assert module.loads == 1

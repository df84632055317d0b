"""Which drivers the OpenCL loader is told of; folders are made up, and no driver is loaded."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vdev.start import engines
from vdev.start.engines import find_engines, register_engines


class Machine:
    """A machine with nothing on it, to begin with."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.vendors = root / "vendors"
        self.packages = root / "site packages"
        self._patch = monkeypatch
        monkeypatch.setenv("OCL_ICD_VENDORS", "")  # so that it is put back whatever a test makes of it
        del os.environ["OCL_ICD_VENDORS"]
        monkeypatch.setenv("OPENCL_VENDOR_PATH", str(self.vendors))
        monkeypatch.setenv("VDEV_CACHE_DIR", str(root / "cache"))
        monkeypatch.setattr("sys.prefix", str(root / "prefix"))
        monkeypatch.setattr(engines, "_LIBRARY_FOLDERS", (str(root / "usr"),))
        monkeypatch.setattr(engines.PathFinder, "find_spec", lambda name: None)
        monkeypatch.setattr("sys.path", [str(root / "none"), str(root / "file.zip"), str(self.packages)])

    def install(self, distribution: str, *paths: Path) -> None:
        """The record of a distribution whose files these are."""
        folder = self.packages / f"{distribution.replace('-', '_')}-2026.1.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            f'"{os.path.relpath(path, self.packages)}",sha256=aA_b,12'
            for path in (*paths, folder / "METADATA")
        ]
        (folder / "RECORD").write_text("\n".join([*lines, f"{folder.name}/RECORD,,"]))

    def library(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def icd(self, name: str, content: object, folder: Path | None = None) -> Path:
        path = (folder or self.vendors) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
        return path

    def setenv(self, value: object) -> None:
        self._patch.setenv("OCL_ICD_VENDORS", str(value))


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def libraries() -> list[str]:
    return [engine.library for engine in find_engines()]


def test_nothing_there(machine):
    assert find_engines() == ()
    assert register_engines() == ()
    assert "OCL_ICD_VENDORS" not in os.environ


def test_nothing_there_says_what_to_install(machine):
    assert engines.no_engine().startswith(
        "vdev found no OpenCL device to run on. On x86-64 Linux, pip install"
    )


def test_a_driver_that_does_not_load_is_named_with_its_reason(machine):
    library = machine.library("usr/lib/libpocl.so.2")
    machine.icd("pocl.icd", library)
    said = engines.no_engine()
    assert f"{library} ({machine.vendors / 'pocl.icd'}) cannot be loaded: " in said
    assert said.endswith("file too short.")


@pytest.mark.parametrize(
    ("library", "is_misplaced"),
    [
        ("/home/an other/venv/lib/libintelocl.so", True),
        ("/home/other/venv/lib/libintelocl.so", False),
        ("/home/an other/lib/libpocl.so", False),
    ],
)
def test_a_place_where_a_driver_does_not_work(library, is_misplaced, monkeypatch):
    """Intel's: one with a space in its path."""
    monkeypatch.setattr(engines, "find_engines", lambda: (engines.Engine(library, "somewhere"),))
    found = engines.misplaced()
    assert len(found) == is_misplaced
    assert all(library in text for text in found)


def test_in_the_environments_lib(machine):
    library = machine.library("prefix/lib/libintelocl.so")
    assert libraries() == [str(library)]


def test_where_the_package_was_installed(machine):
    """`pip install --user` puts it elsewhere than in the environment."""
    library = machine.library("home/.local/lib/libintelocl.so")
    machine.install("intel-opencl-rt-extras", machine.library("elsewhere/libintelocl.so"))
    machine.install("intel-opencl-rt", library.with_name("libother.so"), library)
    assert libraries() == [str(library)]


def test_a_record_that_is_missing_or_names_nothing_that_is_there(machine):
    machine.install("intel-opencl-rt", machine.root / "gone/libintelocl.so")
    assert libraries() == []
    (machine.packages / "intel_opencl_rt-2026.1.dist-info/RECORD").unlink()
    assert libraries() == []
    library = machine.library("prefix/lib/libintelocl.so")
    assert libraries() == [str(library)]


def test_looking_for_engines_loads_little():
    """importlib.metadata alone takes more of a program's start than all that is looked for."""
    script = "import sys; from vdev.start import engines; engines.find_engines(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert not {"importlib.metadata", "email", "tempfile"} & set(done.stdout.split())


def test_what_the_machine_has_registered(machine):
    pocl = machine.library("usr/lib/libpocl.so.2")
    machine.icd("pocl.icd", pocl)
    machine.icd("nvidia.icd", "libnvidia-opencl.so.1")  # a name for the dynamic linker
    machine.icd("gone.icd", machine.root / "gone.so")
    machine.icd("empty.icd", "")
    (machine.vendors / "readme.txt").write_text(str(pocl))
    assert libraries() == ["libnvidia-opencl.so.1", str(pocl)]


def test_beside_pyopencl(machine, monkeypatch):
    package = machine.root / "site/pyopencl"
    pocl = machine.library("site/pyopencl/.libs/libpocl.so.2.9")
    machine.icd("pocl.icd", pocl, package / ".libs")
    spec = type("Spec", (), {"submodule_search_locations": [str(package)]})
    monkeypatch.setattr(engines.PathFinder, "find_spec", lambda name: spec)
    assert libraries() == [str(pocl)]


def test_installed_but_not_registered(machine):
    nvidia = machine.library("usr/libnvidia-opencl.so.1")
    assert libraries() == [str(nvidia)]
    machine.icd("nvidia.icd", "libnvidia-opencl.so.1")
    assert libraries() == ["libnvidia-opencl.so.1"]


def test_one_copy_of_a_driver(machine):
    """The environment's own comes first; a second one in the same process would clash with it."""
    mine = machine.library("prefix/lib/libintelocl.so")
    machine.icd("intel.icd", machine.library("opt/libintelocl.so.2025.1"))
    assert libraries() == [str(mine)]


@pytest.mark.parametrize("form", ["folder", "file", "library", "name"])
def test_the_users_word_decides_alone(machine, form):
    machine.library("prefix/lib/libintelocl.so")
    pocl = machine.library("pocl/libpocl.so")
    icd = machine.icd("pocl.icd", pocl, machine.vendors if form == "name" else machine.root / "mine")
    value = {"folder": icd.parent, "file": icd, "library": pocl, "name": icd.name}[form]
    machine.setenv(value)
    assert [engine.library for engine in register_engines()] == [str(pocl)]
    assert os.environ["OCL_ICD_VENDORS"] == str(value)


@pytest.mark.parametrize("value", ["", "nowhere", "gone.icd", "empty"])
def test_a_word_that_names_nothing_does_not_count(machine, value):
    """Natively nothing would run at all then."""
    mine = machine.library("prefix/lib/libintelocl.so")
    (machine.root / "empty").mkdir()
    machine.setenv(machine.root / value if value else value)
    assert [engine.library for engine in register_engines()] == [str(mine)]
    assert registered() == {str(mine)}


def registered() -> set[str]:
    """What the folder named by OCL_ICD_VENDORS says."""
    return {path.read_text().strip() for path in Path(os.environ["OCL_ICD_VENDORS"]).iterdir()}


def test_the_loader_gets_a_folder_with_all_of_them(machine):
    mine = machine.library("prefix/lib/libintelocl.so")
    machine.icd("pocl.icd", machine.library("usr/lib/libpocl.so.2"))
    found = register_engines()
    assert (
        registered()
        == {engine.library for engine in found}
        == {str(mine), str(machine.root / "usr/lib/libpocl.so.2")}
    )
    assert all(path.suffix == ".icd" for path in Path(os.environ["OCL_ICD_VENDORS"]).iterdir())


def test_registering_again_changes_nothing(machine):
    machine.library("prefix/lib/libintelocl.so")
    first = [engine.library for engine in register_engines()]
    folder = os.environ["OCL_ICD_VENDORS"]
    # as in a process that this one starts
    assert [engine.library for engine in register_engines()] == first
    assert os.environ["OCL_ICD_VENDORS"] == folder


def test_other_engines_get_another_folder(machine, monkeypatch):
    machine.library("prefix/lib/libintelocl.so")
    register_engines()
    first = os.environ["OCL_ICD_VENDORS"]
    monkeypatch.delenv("OCL_ICD_VENDORS")
    machine.icd("pocl.icd", machine.library("usr/lib/libpocl.so.2"))
    register_engines()
    assert os.environ["OCL_ICD_VENDORS"] != first


def test_a_damaged_folder_is_mended(machine, monkeypatch):
    mine = machine.library("prefix/lib/libintelocl.so")
    register_engines()
    next(Path(os.environ["OCL_ICD_VENDORS"]).iterdir()).write_text("/half")
    monkeypatch.delenv("OCL_ICD_VENDORS")
    register_engines()
    assert registered() == {str(mine)}


def test_where_nothing_can_be_kept(machine, monkeypatch, tmp_path):
    """A home that cannot be written to: the temporary folder serves."""
    mine = machine.library("prefix/lib/libintelocl.so")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(mine))  # a file
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    register_engines()
    folder = Path(os.environ["OCL_ICD_VENDORS"])
    assert folder.parent.parent == tmp_path
    assert registered() == {str(mine)}


def test_the_users_drivers_where_programs_are_led_to_vdev(machine, monkeypatch):
    """As `vdev-run` does: the loader gets what the user named before, or else what is found."""
    packaged, own = machine.library("prefix/lib/libintelocl.so"), machine.library("driver/libvdev_opencl.so")
    machine.icd("vdev.icd", own, own.parent)
    mine = machine.library("mine.so")
    folder = machine.icd("mine.icd", mine, machine.root / "mine").parent
    machine.setenv(own.parent)
    assert libraries() == [str(packaged)]
    monkeypatch.setenv("_VDEV_OCL_ICD_VENDORS", str(folder))
    register_engines()
    assert libraries() == [str(mine)]
    assert os.environ["OCL_ICD_VENDORS"] == str(folder)


def test_a_folder_of_somebody_else_is_not_trusted(machine, monkeypatch, tmp_path):
    """What its files name would be loaded as code: the loader is given a library instead."""
    mine = machine.library("prefix/lib/libintelocl.so")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    register_engines()
    assert os.environ["OCL_ICD_VENDORS"] == str(mine)


def test_others_cannot_write_what_is_loaded(machine):
    machine.library("prefix/lib/libintelocl.so")
    mask = os.umask(0)
    try:
        register_engines()
    finally:
        os.umask(mask)
    folder = Path(os.environ["OCL_ICD_VENDORS"])
    for path in (folder.parent, folder, *folder.iterdir()):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


@pytest.mark.parametrize("inherited", [False, True])
def test_a_foreign_file_is_left_alone_and_not_loaded(machine, monkeypatch, inherited):
    """Also where a process that started this one had the folder made."""
    mine = machine.library("prefix/lib/libintelocl.so")
    register_engines()
    folder = Path(os.environ["OCL_ICD_VENDORS"])
    foreign = machine.icd("foreign.icd", machine.library("foreign.so"), folder)
    if not inherited:
        monkeypatch.delenv("OCL_ICD_VENDORS")
    assert libraries() == [str(mine)]
    register_engines()
    assert os.environ["OCL_ICD_VENDORS"] != str(folder)
    assert registered() == {str(mine)}
    assert foreign.exists()


@pytest.mark.parametrize("part", ["cache", "folder"])
def test_what_others_may_write_to_is_not_used(machine, monkeypatch, tmp_path, part):
    mine = machine.library("prefix/lib/libintelocl.so")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    register_engines()
    folder = Path(os.environ["OCL_ICD_VENDORS"])
    (folder if part == "folder" else folder.parent).chmod(0o777)
    monkeypatch.delenv("OCL_ICD_VENDORS")
    register_engines()
    assert folder.parent not in Path(os.environ["OCL_ICD_VENDORS"]).parents
    assert registered() == {str(mine)}


def test_a_link_in_the_place_of_our_file_is_replaced(machine, monkeypatch):
    mine = machine.library("prefix/lib/libintelocl.so")
    register_engines()
    file = next(Path(os.environ["OCL_ICD_VENDORS"]).iterdir())
    elsewhere = machine.icd("elsewhere", file.read_text())
    file.unlink()
    file.symlink_to(elsewhere)
    monkeypatch.delenv("OCL_ICD_VENDORS")
    register_engines()
    assert not file.is_symlink()
    assert registered() == {str(mine)}


BROKEN = (b"", b"\n", b"lib\0\xff.so\n", b"\xff" * 5000, b"/" + b"a" * 5000, b"n" * 300)


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_passed_over_with_one_warning(machine, caplog, content):
    mine = machine.library("prefix/lib/libintelocl.so")
    machine.vendors.mkdir()
    (machine.vendors / "bad.icd").write_bytes(content)
    engines._pass_over.cache_clear()
    register_engines()
    find_engines()
    assert registered() == {str(mine)}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "bad.icd" in caplog.text


def test_a_file_that_cannot_be_read_is_passed_over(machine, caplog):
    mine = machine.library("prefix/lib/libintelocl.so")
    (machine.vendors / "folder.icd").mkdir(parents=True)
    engines._pass_over.cache_clear()
    assert libraries() == [str(mine)]
    assert "folder.icd" in caplog.text


def test_a_library_whose_name_is_no_text(machine):
    library = os.fsencode(machine.root) + b"/lib\xff\xfe.so"
    open(library, "wb").close()
    machine.vendors.mkdir()
    (machine.vendors / "odd.icd").write_bytes(library + b"\n")
    register_engines()
    written = [path.read_bytes() for path in Path(os.environ["OCL_ICD_VENDORS"]).iterdir()]
    assert written == [library + b"\n"]


def test_without_a_home(machine, monkeypatch, tmp_path):
    """A user that no table knows, in a container: the temporary folder serves."""
    mine = machine.library("prefix/lib/libintelocl.so")
    monkeypatch.delenv("VDEV_CACHE_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # which then leaves the name as it is
    register_engines()
    assert Path(os.environ["OCL_ICD_VENDORS"]).parent == tmp_path / f"vdev-{os.getuid()}"
    assert registered() == {str(mine)}


def test_a_full_disk(machine, monkeypatch):
    mine = machine.library("prefix/lib/libintelocl.so")

    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(engines, "write_private", full)
    register_engines()
    assert os.environ["OCL_ICD_VENDORS"] == str(mine)


def test_a_machine_where_nothing_can_be_written(machine, monkeypatch):
    """A container whose file systems are read-only: the driver itself is named."""

    def nowhere():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    library = machine.library("prefix/lib/libintelocl.so")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(machine.library("a file") / "cache"))
    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    register_engines()
    assert os.environ["OCL_ICD_VENDORS"] == str(library)

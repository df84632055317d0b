"""The start-up hook and `python -m vdev`, with a stand-in that is made up: no device, no PyOpenCL needed.

Each test starts Python with a folder of its own first on the path; it holds a package `pyopencl` with a
"native" module `_cl`, and a `sitecustomize` that does what the installed hook does and puts a fake in the
place of `vdev.facade.stand_in`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import vdev.packaging

HOOK = Path(vdev.packaging.__file__).with_name("vdev.pth").read_text()
REPORT = "import pyopencl._cl as c; print(c.kind)"


@pytest.fixture
def python(tmp_path):
    """Runs Python with `VDEV` as given; returns its standard output, or its standard error where it must
    fail."""
    _write(tmp_path / "pyopencl/__init__.py", "")
    _write(tmp_path / "pyopencl/_cl.py", "kind = 'native'")
    fake = "import sys, types; module = types.ModuleType('vdev.facade.stand_in')\n"
    fake += "module.populate = lambda target: setattr(target, 'kind', 'stand-in')\n"
    fake += "sys.modules['vdev.facade.stand_in'] = module\n"
    fake += "handles = types.ModuleType('vdev.icd.joining'); handles.use_handles = lambda: None\n"
    fake += "sys.modules['vdev.icd.joining'] = handles\n"
    _write(tmp_path / "sitecustomize.py", fake + HOOK)

    def run(*arguments: str, vdev: str | None, fails: bool = False, cwd: Path = tmp_path) -> str:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
        environ["PYTHONPATH"] = str(tmp_path)
        if vdev is not None:
            environ["VDEV"] = vdev
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environ,
            cwd=cwd,
            text=True,
            capture_output=True,
            timeout=900,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout.strip()

    return run


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize(
    ("vdev", "kind"), [(None, "native"), ("", "native"), ("0", "native"), ("1", "stand-in")]
)
def test_the_switch_decides(python, vdev, kind):
    assert python("-c", REPORT, vdev=vdev) == kind


def test_unset_it_imports_nothing(python):
    assert (
        python("-c", "import sys; print([m for m in sys.modules if m.startswith('vdev.boot')])", vdev=None)
        == "[]"
    )


def test_set_it_imports_little(python):
    """Every Python process pays for it: nothing of vdev but the hook, and nothing heavy."""
    watched = ("numpy", "typing", "importlib", "vdev.process.switches", "vdev.boot")
    seen = f"import sys; print(*(name for name in {watched} if name in sys.modules))"
    # site itself imports importlib where the environment has editable packages: compare with a bare start
    with_it = set(python("-c", seen, vdev="1").split())
    without = set(python("-c", seen, vdev="0").split())
    assert with_it - without <= {"vdev.boot"}
    assert "vdev.boot" in with_it


@pytest.mark.parametrize("value", ["yes", "2", "true"])
def test_a_wrong_value_is_an_error_where_pyopencl_is_wanted(python, value):
    assert python("-c", "print('no OpenCL here')", vdev=value) == "no OpenCL here"
    assert f"SwitchError: VDEV={value!r} is not valid (valid: 0, 1)" in python(
        "-c", REPORT, vdev=value, fails=True
    )


def test_script_module_and_code(python, tmp_path):
    _write(tmp_path / "program.py", REPORT)
    assert python("program.py", vdev="1") == "stand-in"
    assert python("-m", "program", vdev="1") == "stand-in"


def test_processes_that_a_program_starts(python, tmp_path):
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {REPORT!r}], check=True)"
    assert python("-c", code, vdev="1") == "stand-in"
    assert python("-m", "vdev", "-c", code, vdev=None) == "stand-in"


MULTIPROCESSING = """
    import multiprocessing, sys

    def kind(n):
        import pyopencl._cl as c
        return c.kind, n

    if __name__ == "__main__":
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            print(pool.map(kind, [7]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("start", [("1", ()), (None, ("-m", "vdev"))], ids=["switch", "command"])
def test_multiprocessing(python, tmp_path, method, start):
    vdev, command = start
    _write(tmp_path / "pool.py", MULTIPROCESSING)
    assert python(*command, "pool.py", method, vdev=vdev) == "[('stand-in', 7)]"


def test_pytest(python, tmp_path):
    _write(
        tmp_path / "test_it.py",
        "def test_it():\n    import pyopencl._cl as c\n    assert c.kind == 'stand-in'\n",
    )
    options = ("-q", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in python("-m", "pytest", *options, vdev="1")
    assert "1 passed" in python("-m", "vdev", "-m", "pytest", *options, vdev=None)


# python -m vdev ---------------------------------------------------------------------------------

SURROUNDINGS = """
    import os, pickle, sys
    import pyopencl._cl as c
    class Thing: pass
    assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
    print(__name__, c.kind, sys.argv, sys.path[0], os.environ["VDEV"])
"""


@pytest.mark.parametrize("vdev", [None, "0", "1"])
def test_a_script_has_its_surroundings(python, tmp_path, vdev):
    script = _write(tmp_path / "scripts/program.py", SURROUNDINGS)
    expected = f"__main__ stand-in ['scripts/program.py', '-x', 'y'] {script.parent} 1"
    assert python("-m", "vdev", "scripts/program.py", "-x", "y", vdev=vdev) == expected


def test_a_module_has_its_surroundings(python, tmp_path):
    script = _write(tmp_path / "package/program.py", SURROUNDINGS)
    expected = f"__main__ stand-in [{str(script)!r}, '-x'] {tmp_path} 1"
    assert python("-m", "vdev", "-m", "package.program", "-x", vdev=None) == expected


def test_code_has_its_surroundings(python):
    code = "import sys, pyopencl._cl as c; print(__name__, c.kind, sys.argv, repr(sys.path[0]))"
    assert python("-m", "vdev", "-c", code, "-x", vdev=None) == "__main__ stand-in ['-c', '-x'] ''"


def test_the_programs_exit_status_and_errors_are_its_own(python):
    assert "boom" in python("-m", "vdev", "-c", "import sys; sys.exit('boom')", vdev=None, fails=True)
    assert "ZeroDivisionError" in python("-m", "vdev", "-c", "1/0", vdev=None, fails=True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "usage"),
        (("-c",), "-c needs"),
        (("-x",), "unknown option -x"),
        (("none.py",), "can't open file 'none.py'"),
    ],
)
def test_a_wrong_command_line(python, arguments, text):
    assert text in python("-m", "vdev", *arguments, vdev=None, fails=True)


def test_loaded_natively_already(python, tmp_path):
    code = "import pyopencl._cl, vdev.boot; vdev.boot.install()"
    assert "RuntimeError: vdev cannot take over" in python("-c", code, vdev=None, fails=True)
    with (tmp_path / "sitecustomize.py").open("a") as site:
        site.write("import pyopencl._cl\n")
    assert "vdev cannot take over" in python("-m", "vdev", "-c", REPORT, vdev=None, fails=True)


def test_a_checkout_in_the_current_directory_hides_nothing(python, tmp_path):
    """`python -m` puts the current directory first; an installed vdev is whole all the same."""
    checkout = tmp_path / "checkout"
    for name in ("__init__.py", "__main__.py", "boot.py"):
        _write(checkout / "vdev" / name, (Path(sys.modules["vdev"].__file__).parent / name).read_text())
    code = "import vdev, vdev.translators.ranges.region; print(vdev.__file__)"
    assert not python("-m", "vdev", "-c", code, vdev=None, cwd=checkout).startswith(str(checkout))


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_goes_on_as_the_program_has_it(python, tmp_path, collects):
    """It pauses while vdev is loaded, also where that fails."""
    code = f"""
    import gc
    {"gc.enable" if collects else "gc.disable"}()
    try:
        import pyopencl._cl
    except Exception:
        pass
    print(gc.isenabled())
    """
    _write(tmp_path / "program.py", code)
    for value in ("1", "wrong"):
        assert python("program.py", vdev=value) == str(collects)

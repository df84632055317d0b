"""One process, one device: what PyOpenCL's façade makes and what C code makes are the same objects."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.icd.driver import HERE, LOADERS, need_library, run_on_vdev


@pytest.mark.parametrize("workers", ["cpu:1", "cpu:2"])
def test_c_functions_take_the_programs_objects(workers: str) -> None:
    need_library()
    if not LOADERS:
        pytest.skip("there is no OpenCL loader")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    environ |= {"VDEV": "1", "VDEV_WORKERS": workers, "PYTHONWARNINGS": "ignore"}
    # What a loader of this environment needs lies beside it.
    environ["LD_LIBRARY_PATH"] = str(LOADERS[-1].path.parent)
    words = [sys.executable, str(HERE / "joined.py"), str(LOADERS[-1].path)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n") == [
        "0 16384", "0", "0", "0", "0 True", "0", "0 0", "0", "0", "0", "0 16384 True", "0 64", "-38", "",
    ]  # fmt: skip


#: prints the devices, and what one of them has computed
PYOPENCL = """
import numpy, pyopencl, pyopencl.array
context = pyopencl.create_some_context(interactive=False)
queue = pyopencl.CommandQueue(context)
print([device.name[:9] for device in context.devices], (pyopencl.array.arange(queue, 9, dtype=numpy.int32) + 1).get().sum())
"""


def test_a_pyopencl_program_that_vdev_run_starts() -> None:
    need_library()
    done = run_on_vdev(sys.executable, "-W", "ignore", "-c", PYOPENCL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['vdev: 3 x'] 45\n", "")


def test_a_pyopencl_program_is_told_what_it_needs() -> None:
    """Without the stand-in, the loader that vdev asks for native drivers is the program's, which knows only vdev."""
    need_library()
    done = run_on_vdev(sys.executable, "-W", "ignore", "-c", PYOPENCL, VDEV="0")
    assert done.returncode == 1
    assert done.stderr.count("vdev: this program uses PyOpenCL, and needs VDEV=1 in its environment") == 1

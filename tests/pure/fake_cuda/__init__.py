"""CUDA workers on machines without a GPU: the CUDA back end as it is, on a driver in C++ (`driver.cc`) and stand-ins for CuPy's bindings.

Programs run as they would: `run` gives a script an environment in which vdev finds these GPUs. Kernels are compiled by the host's
compiler (`cuda_host`). What a GPU may do in another order than it was told can be made to happen (`late`, `seed`). What a driver must
not be asked ends the process.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from ..cuda_host import COMPILER, FLAGS, HEADER

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
#: names the folder that the tests of a run share: a library there is whatever its key says, flags included, for whoever comes first
SHARED = "FAKE_CUDA_SHARED"
#: names a defect (`tests.fuzz.mutations`) that scripts run with
PLANTED = "FAKE_CUDA_PLANTED"
#: how a translated program defines kernels: CUDA's name, and that of the kernel which is called with the arguments
KERNELS = re.compile(
    r'^extern "C" __global__ void (?:__launch_bounds__\([^)]*\)+|\w+_bounds) (\w+)\(.*[;{] (?:vdev_cuda_\d+_)?(\w+)\(.*\); \}$',
    re.MULTILINE,
)


def _built(text: str, folder: Path, name: str, flags: Sequence[str] = ()) -> Path:
    """The library of a C++ program, compiled once: in the folder, or for all tests of the run."""
    folder = Path(os.environ.get(SHARED, folder))
    key = hashlib.sha256("\0".join([text, *FLAGS, *flags]).encode()).hexdigest()[:24]
    library = folder / f"{name}-{key}.so"
    if not library.exists():
        own = f"{os.getpid()}-{threading.get_ident()}"
        source, made = folder / f"{name}-{own}.cc", folder / f"{name}-{own}"
        source.write_text(text)
        assert COMPILER is not None
        command = [COMPILER, *FLAGS, *flags, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:6000]
        made.replace(library)
    return library


def driver_text() -> str:
    """The driver's C++, complete in itself."""
    text, textures = ((HERE / name).read_text() for name in ("driver.cc", "textures.h"))
    return text.replace('#include "textures.h"\n', textures)


def own_kernel(source: str) -> str:
    """The name of vdev's own kernel that a program has."""
    from vdev.backends.cuda.kernels import SOURCE_OF

    return next(name for name, each in SOURCE_OF.items() if each == source)


def library_of(source: str, options: Sequence[str], folder: Path | None = None) -> Path:
    """What stands for a cubin: the library of a program for CUDA, vdev's own kernels or translated ones."""
    header, text, space = HERE / "plain.h", source, ""
    if (at := source.find('#line 1 "vdev/vectors.h"')) >= 0:
        header, text, space = HEADER, source[at:], "vdev_cl::user"
        text = re.sub(
            r"extern __shared__ __align__\((\d+)\) (.*?)\[\];", r"alignas(\1) static \2[232448];", text
        )
        text = text.replace("static __constant__", "__constant__").replace("static __shared__", "__shared__")
        text = re.sub(r"\bconst(?:\s+const\b)+", "const", text)
    named = dict(KERNELS.findall(text))  # and the program's names of them
    if not space:
        own = own_kernel(source)
        named = {own: own}
    kernels = "\n".join(f"KERNEL({space}, {name}, {own})" for name, own in named.items())
    defined = [option for option in options if option.startswith("-D")]
    defined += ["-DSAME_STACKS", "-fsanitize=alignment"]
    whole = f'#include "{header}"\n{text}\n#include "{HERE / "kernels.h"}"\n{kernels}\n'
    return _built(whole, folder or Path(os.environ["FAKE_CUDA_FOLDER"]), "module", defined)


def environment(
    folder: Path, workers: str = "cuda:0,1", late: int | None = None, seed: int | None = None
) -> dict[str, str]:
    """What a process needs to find these GPUs. `late`: the number of the one that does nothing until somebody waits for it.
    `seed`: of what all of them do by chance until then.
    """
    driver = _built(driver_text(), folder, "driver", ["-Wl,-soname,libcuda.so.1"])
    named = folder / "libcuda.so.1"
    if named.resolve() != driver.resolve():  # a folder of before may name an older one
        made = folder / f"libcuda-{os.getpid()}-{threading.get_ident()}"
        made.symlink_to(driver)
        made.replace(named)
    found = os.environ | {
        "LD_LIBRARY_PATH": str(folder),
        "PYTHONPATH": f"{HERE}:{ROOT}",
        "FAKE_CUDA_FOLDER": str(folder),
        "VDEV": "1",
        "VDEV_WORKERS": workers,
        "VDEV_CACHE_DIR": str(folder / "cache"),
    }
    orders = {"FAKE_CUDA_LATE": late, "FAKE_CUDA_SEED": seed}
    return found | {name: str(value) for name, value in orders.items() if value is not None}


def run(script: str, env: dict[str, str], given: str = "", status: int = 0) -> str:
    """What a script prints. `given`: what it reads. `status`: how it ends."""
    if PLANTED in env:
        script = f"from tests.fuzz.mutations import plant; plant({env[PLANTED]!r})\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout

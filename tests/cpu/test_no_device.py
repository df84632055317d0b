"""A machine whose only driver does not load: what a program is told."""

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = (
    "import pyopencl as cl\ntry:\n    cl.get_platforms()\nexcept cl.Error as error:\n    print(error)\n"
)


def said(folder: Path, **environment: str) -> tuple[str, str]:
    """What a program that asks for the platforms prints, and what stands in its standard error."""
    library = folder / "libempty.so"
    library.touch()
    (folder / "empty.icd").write_text(f"{library}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=kept | {"OCL_ICD_VENDORS": str(folder), "VDEV": "1"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_the_log_names_the_driver_if_the_status_is_the_native_one(tmp_path):
    output, log = said(tmp_path)
    assert "PLATFORM_NOT_FOUND_KHR" in output
    assert log.count("libempty.so") == 2, log  # which, and what the dynamic linker says of it
    assert "file too short" in log


def test_the_error_names_it_where_the_user_asked_for_workers(tmp_path):
    output, _ = said(tmp_path, VDEV_WORKERS="cpu:2")
    assert "cannot be loaded" in output
    assert "file too short" in output

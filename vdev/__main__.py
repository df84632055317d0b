"""`python -m vdev script.py …`, `python -m vdev -m module …`, `python -m vdev -c code …`: run a program on
the virtual device without setting VDEV in its environment.

Decides only that the stand-in is installed before the program's first line; then the program runs as Python
itself would run it, with its own `sys.argv`, `sys.path[0]` and `__main__`.
"""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

USAGE = """\
usage: python -m vdev [-m module | -c code | script.py] [argument ...]

Runs a program as `python` would, with PyOpenCL on vdev's virtual device: the same as with VDEV=1 set.
"""


def main(arguments: list[str]) -> int | str | None:
    """Run what `arguments` (without the command's own name) say, as `python` would; the exit status or
    message."""
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(USAGE)
        return 0 if arguments else 2
    option, rest = arguments[0], arguments[1:]
    if option in ("-m", "-c"):
        if not rest:
            return f"python -m vdev: {option} needs an argument\n\n{USAGE}"
    elif option.startswith("-"):
        return f"python -m vdev: unknown option {option}\n\n{USAGE}"
    try:
        _install()
    except RuntimeError as error:
        return str(error)
    if option == "-m":
        _run_module(rest)
    elif option == "-c":
        _run_code(rest[0], rest[1:])
    else:
        _run_script(option, rest)
    return None


def _install() -> None:
    """Install the hook from where vdev is installed, not from a checkout in the current directory.

    `python -m` puts that directory first, where a checkout's `vdev` would hide the installed one and lack
    `vdev.translators`; what the program then imports must be one vdev, whole.
    """
    if not getattr(sys.flags, "safe_path", False) and sys.path:
        del sys.path[0]
    here = sys.modules.pop("vdev")
    try:
        from vdev import boot  # only now does the path say which
    except ImportError:
        sys.path.insert(0, os.getcwd())
        sys.modules["vdev"] = here
        from vdev import boot
    boot.install()


def _run_module(arguments: list[str]) -> None:
    sys.path.insert(0, os.getcwd())
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _run_code(code: str, arguments: list[str]) -> None:
    sys.path.insert(0, "")
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<string>", "exec"), _fresh_main().__dict__)


def _run_script(path: str, arguments: list[str]) -> None:
    if os.path.isfile(path):  # a folder or a zip archive is put on the path by runpy itself
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    elif not os.path.exists(path):
        sys.exit(f"python -m vdev: can't open file {path!r}")
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")


def _fresh_main() -> ModuleType:
    module = sys.modules["__main__"] = ModuleType("__main__")
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

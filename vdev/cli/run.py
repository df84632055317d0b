"""`vdev-run`: any program that uses OpenCL, in whatever language it is written, on the virtual device.

Decides what the program's environment says; the program then takes this process's place. It never looks at the
program.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys
from collections.abc import Sequence

from vdev.icd import library

USAGE = """\
usage: vdev-run program [argument ...]

Runs a program that uses OpenCL on vdev's virtual device: all workers that VDEV_WORKERS names, as one device. For programs
in Python, VDEV=1 does the same; vdev-run does both. `vdev-info --icd` prints what it sets.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program in this process's place; 127 if it cannot be started, 2 if vdev cannot."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        (sys.stdout if words else sys.stderr).write(USAGE)
        return 0 if words else 2
    if words[0] == "--":
        del words[0]
    try:
        environ = dict(os.environ) | library.environment()
    except library.NoLibrary as error:
        print(f"vdev-run: {error}", file=sys.stderr)
        return 2
    sys.stdout.flush()
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(
            number, _signal.SIG_DFL
        )  # Python ignores them, and what a process ignores is inherited
    try:
        os.execvpe(words[0], words, environ)
    except OSError as error:
        print(f"vdev-run: {words[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())

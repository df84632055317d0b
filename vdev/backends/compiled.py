"""What each launch passes through, from the program's call to the driver's, compiled from C (`native/launches/`).

Decides whether methods of a kernel's calls, of what makes launches of a form, and of the direct way to a worker are those in Python or
compiled ones, as `vdev.translators.native_code` says.
"""

from __future__ import annotations

from pathlib import Path

from vdev.translators import native_code

NAME = "libvdev_launches.so"

_HERE = Path(__file__).parent
_COMMON = Path(native_code.__file__).with_name("native")  #: what all such libraries are made from as well
code = native_code.NativeCode(_HERE / NAME, [_HERE / "native" / "launches", _COMMON], "vdev_launch")

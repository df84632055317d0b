"""Reference workers that repeat launches, as drivers' back ends do (`Backend.again`)."""

from __future__ import annotations

from collections.abc import Sequence

from vdev.backends.base import KernelArgument, LaunchShape, Repeated
from vdev.backends.reference import ReferenceBackend


def again(
    backend: ReferenceBackend, kernel: object, args: list[KernelArgument], shape: LaunchShape
) -> Repeated:
    """Takes the place of `ReferenceBackend.again`, which repeats nothing."""

    def launch(changed: Sequence[tuple[int, bytes]] = (), other: LaunchShape | None = None, /) -> int:
        nonlocal shape
        shape = shape if other is None else other
        for index, value in changed:
            args[index] = value
        backend.launch(kernel, args, shape)  # a test may have replaced it by then
        return backend.pending()

    return launch

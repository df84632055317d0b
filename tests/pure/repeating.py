"""Reference workers that repeat launches, as drivers' back ends do (`Backend.again`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vdev.backends.base import KernelArgument, LaunchShape
from vdev.backends.reference import ReferenceBackend


def again(
    backend: ReferenceBackend, kernel: object, args: list[KernelArgument], shape: LaunchShape
) -> Callable[[], None]:
    """Takes the place of `ReferenceBackend.again`, which repeats nothing."""
    return partial(backend.launch, kernel, args, shape)

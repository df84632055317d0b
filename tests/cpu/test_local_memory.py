"""How much local memory a work-group may have where that is more than programs are told to plan with."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import pytest

from vdev.backends.cuda.info import worker_info
from vdev.facade import launch
from vdev.facade.kernel import KernelState
from vdev.session.commands import LocalArg

KB = 1 << 10


def kernel_of(workers: list[Any], static: int, *local_args: int) -> Any:
    session = SimpleNamespace(workers=workers)
    kernel = SimpleNamespace(
        kernel=SimpleNamespace(resources=SimpleNamespace(local_memory_nbytes=static)),
        args=[None, *map(LocalArg, local_args)],
        signature=SimpleNamespace(locals=range(1, 1 + len(local_args))),
        known_to_fit=-1,
        context=SimpleNamespace(
            _vdev_state=SimpleNamespace(limits={"LOCAL_MEM_SIZE": 48 * KB}, session=session)
        ),
    )
    kernel.local_nbytes = partial(KernelState.local_nbytes, kernel)
    return kernel


@pytest.mark.parametrize(("most", "allowed"), [((0, 0), 48), ((227, 99), 99), ((227, 0), 48)])
def test_a_launch_is_refused_beyond_what_every_worker_can_have(most: tuple[int, int], allowed: int) -> None:
    workers = [SimpleNamespace(local_memory_nbytes=48 * KB, most_local_nbytes=each * KB) for each in most]
    launch._check_local_memory(kernel_of(workers, 40 * KB, 8 * KB))
    launch._check_local_memory(kernel_of(workers, 40 * KB, 4 * KB, allowed * KB - 44 * KB))
    with pytest.raises(cl.RuntimeError, match="OUT_OF_RESOURCES"):
        launch._check_local_memory(kernel_of(workers, 40 * KB, 4 * KB, allowed * KB - 44 * KB + 1))


def test_a_gpu_says_both() -> None:
    properties = {
        "name": b"GPU", "totalGlobalMem": 140 << 30, "multiProcessorCount": 132, "maxThreadsPerBlock": 1024,
        "maxThreadsDim": (1024, 1024, 64), "sharedMemPerBlock": 48 * KB, "sharedMemPerBlockOptin": 227 * KB,
        "l2CacheSize": 50 << 20, "ECCEnabled": 1,
    }  # fmt: skip
    runtime = SimpleNamespace(
        getDeviceProperties=lambda number: properties,
        memGetInfo=lambda: (100 << 30, 0),
        driverGetVersion=lambda: 13000,
    )
    info = worker_info(SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)), 0, 1)
    assert (info.local_memory_nbytes, info.most_local_nbytes) == (48 * KB, 227 * KB)
    del properties["sharedMemPerBlockOptin"]
    info = worker_info(SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)), 0, 1)
    assert info.most_local_nbytes == 0

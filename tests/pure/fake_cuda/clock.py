"""The clock of GPUs whose work takes time (`FAKE_CUDA_TIMES`), for Python: it goes on with the processor time of the process, and jumps
where a program waits for a GPU. So nothing depends on what else the machine does.

Decides nothing: the driver keeps it.
"""

from __future__ import annotations

import ctypes
import time


def use() -> None:
    """Have `time.perf_counter` and `time.perf_counter_ns` tell this clock, for whoever asks them from now on, and `time.thread_time_ns`
    what the calling thread has taken by it.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    now, busy = driver.fake_now, driver.fake_busy
    for each in (now, busy):
        each.restype, each.argtypes = ctypes.c_long, ()
    time.perf_counter_ns, time.thread_time_ns = now, busy
    time.perf_counter = lambda: now() * 1e-9

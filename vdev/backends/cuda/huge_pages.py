"""Memory of the host in huge pages, for CUDA to pin.

CUDA pins page by page, for each GPU that is to use the memory, and gives it back in the same way: huge pages are taken and given back
sooner. Decides whether the system gives huge pages to those who ask for them.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import lru_cache
from pathlib import Path

PAGE_NBYTES = 2 << 20
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@lru_cache(maxsize=1)
def are_given() -> bool:
    """Whether the system gives huge pages to whoever asks for them (Linux: `madvise` or `always`)."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return False
    try:
        return "[never]" not in _SETTING.read_text()
    except OSError:  # a system without them
        return False


class HugePages:
    """So many bytes at `address`, which is a multiple of `PAGE_NBYTES`. They are let go with the object."""

    __slots__ = ("_mapped", "address")

    def __init__(self, nbytes: int) -> None:
        self._mapped = mmap.mmap(-1, nbytes + PAGE_NBYTES)
        self._mapped.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._mapped))
        self.address: int = -(-start // PAGE_NBYTES) * PAGE_NBYTES

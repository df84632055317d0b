"""Virtual buffers: identity and size, a home in host memory made on first use, and the directory's state.

A buffer decides nothing. Its replicas on workers belong to its `Holdings`, which frees them when the buffer
is gone.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

import numpy as np

from vdev.commands import Bytes
from vdev.executor.executor import Executor
from vdev.executor.holdings import Holdings
from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.translators.region import Region

#: Alignment of a home in bytes: that of the largest OpenCL type (CL_DEVICE_MEM_BASE_ADDR_ALIGN is in bits),
#: and of a page for mappings.
_HOME_ALIGNMENT = 4096
_making = threading.Lock()


class _Home:
    """Host memory of a buffer.

    Apart from the buffer, so that its holdings refer to no buffer and are freed with it.
    """

    __slots__ = ("_memory", "_nbytes")

    def __init__(self, nbytes: int, memory: Bytes | None) -> None:
        self._nbytes = nbytes
        self._memory = memory

    def __call__(self) -> Bytes:
        memory = self._memory
        if memory is None:
            with _making:
                if self._memory is None:
                    # Untouched pages of fresh memory cost nothing: a home holds what came to the host, not
                    # the whole buffer. They are zero, which `Holdings.blank` counts on.
                    raw = np.zeros(self._nbytes + _HOME_ALIGNMENT, np.uint8)
                    start = -raw.ctypes.data % _HOME_ALIGNMENT
                    self._memory = raw[start : start + self._nbytes]
                memory = self._memory
        return memory


#: every buffer that is alive, by the identity of its holdings, which live at least as long
_by_holdings: WeakValueDictionary[int, VirtualBuffer] = WeakValueDictionary()


def buffer_of(holdings: Holdings) -> VirtualBuffer | None:
    """The buffer with these holdings; None where the program has dropped it."""
    return _by_holdings.get(id(holdings))


class VirtualBuffer:
    """One buffer of the virtual device, `nbytes` long. `state` is changed under the session's lock only."""

    __slots__ = ("__weakref__", "holdings", "home", "nbytes", "state")

    state: BufferState

    def __init__(self, executor: Executor, nbytes: int, host_memory: Bytes | None = None) -> None:
        """`host_memory` (1-D uint8, `nbytes` long) becomes the home, with its content (CL_MEM_USE_HOST_PTR,
        CL_MEM_COPY_HOST_PTR).
        """
        self.nbytes = nbytes
        self.home = _Home(nbytes, host_memory)
        self.holdings = executor.holdings(nbytes, self.home, blank=host_memory is None)
        valid = () if host_memory is None else ((HOST, Region.span(0, nbytes)),)
        self.state = buffer_state(nbytes, valid)
        _by_holdings[id(self.holdings)] = self

    def __repr__(self) -> str:
        return f"<VirtualBuffer {self.state!r}>"

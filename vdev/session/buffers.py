"""Virtual buffers: identity and size, a home in host memory made on first use, and the directory's state.

A buffer decides nothing. Its replicas on workers belong to its `Holdings`, which frees them when the buffer
is gone. An `Occupancy` adds up what the directory has given to all buffers of a session.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any
from weakref import ref

import numpy as np

from vdev.backends import compiled
from vdev.backends.base import Bytes
from vdev.executor.direct_reads import RepeatedRead
from vdev.executor.executor import Executor
from vdev.executor.holdings import Holdings
from vdev.planner.directory import HOST, BufferState, Replicas, buffer_state, fine_grain_state, new_state
from vdev.translators.ranges.region import Region

#: Alignment of a home in bytes: that of the largest OpenCL type (CL_DEVICE_MEM_BASE_ADDR_ALIGN is in bits),
#: and of a page for mappings.
_HOME_ALIGNMENT = 4096
_making = threading.Lock()
#: of buffers that begin with their content: sizes whose states are kept
_MOST_SIZES = 256


class _Home:
    """Host memory of a buffer. It is an object of its own, so that the buffer's holdings do not refer to the buffer
    and are freed with it.
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
                    # Untouched pages of fresh memory take no room: a home holds what came to the host, not the whole
                    # buffer. They are zero, on which `Holdings.blank` relies.
                    raw = np.zeros(self._nbytes + _HOME_ALIGNMENT, np.uint8)
                    start = -raw.ctypes.data % _HOME_ALIGNMENT
                    self._memory = raw[start : start + self._nbytes]
                memory = self._memory
        return memory


#: every live buffer, by the identity of its holdings, which live at least as long. Programs make many buffers: a
#: dictionary of weak values would need an object and a call for each.
_by_holdings: dict[int, ref[VirtualBuffer]] = {}


def buffer_of(holdings: Holdings) -> VirtualBuffer | None:
    """The buffer with these holdings; None if the program has dropped it."""
    found = _by_holdings.get(id(holdings))
    return None if found is None else found()


class Occupancy:
    """How much of each worker's memory replicas take, according to the directory. Under the session's lock, except
    `release`.

    Memory of buffers that are gone counts as free immediately. On the worker it is free when the work that used it is
    done; an allocation that does not fit before waits for that.
    """

    __slots__ = ("released", "room", "taken")

    def __init__(self, room: Sequence[int]) -> None:
        #: by worker: bytes that replicas may take
        self.room = list(room)
        #: by worker: bytes that they take, including those given to `release` that `settle` has not counted yet
        self.taken = [0] * len(self.room)
        self.released: deque[Replicas] = deque()  #: what `settle` has not counted yet

    def change(self, before: Replicas, after: Replicas) -> None:
        """A buffer's replicas have changed."""
        taken = self.taken
        for worker, start, stop in before:
            taken[worker] -= stop - start
        for worker, start, stop in after:
            taken[worker] += stop - start

    def release(self, replicas: Replicas) -> None:
        """A buffer with these replicas is gone. Called from a finaliser: takes no lock."""
        self.released.append(replicas)

    def settle(self) -> None:
        """Count what was released."""
        while self.released:
            self.change(self.released.popleft(), ())

    def free(self) -> list[int]:
        """By worker: bytes that may still be taken."""
        return [room - taken for room, taken in zip(self.room, self.taken, strict=True)]


@lru_cache(maxsize=_MOST_SIZES)
def _state_at_home(nbytes: int) -> BufferState:
    """The state of a buffer that begins with its content. Programs make many of few sizes."""
    return buffer_state(nbytes, ((HOST, Region.span(0, nbytes)),))


class VirtualBuffer:
    """One buffer of the virtual device, `nbytes` long. `state` and `used` are changed under the session's lock
    only.
    """

    __slots__ = (
        "__weakref__",
        "_state",
        "account",
        "holdings",
        "home",
        "last_read",
        "later",
        "mapped",
        "nbytes",
        "occupancy",
        "reading",
        "resident",
        "span",
        "stays",
        "used",
        "writer",
        "writing",
    )

    def __init__(
        self,
        executor: Executor,
        nbytes: int,
        host_memory: Bytes | None = None,
        occupancy: Occupancy | None = None,
        fine: bool = False,
    ) -> None:
        """`host_memory` (1-D uint8, `nbytes` long) becomes the home, with its content (CL_MEM_USE_HOST_PTR,
        CL_MEM_COPY_HOST_PTR). `occupancy`: where its replicas are counted. `fine`: the host uses that memory at any
        time without a command (CL_MEM_SVM_FINE_GRAIN_BUFFER).
        """
        self.occupancy = occupancy  #: where its replicas are counted
        self.nbytes = nbytes
        #: the number of the last command on it, in the session's count
        self.used = 0
        self.span = (
            0  #: over how many workers launches on it are split (`planner.spans`); 0: nothing has been chosen
        )
        #: the account of the buffers that belong together with it, where ways are chosen (`accounts`)
        self.account: Any = None
        #: the worker on which launches on it run without plans, as one has shown, whatever their size, and that alone has all of it; None:
        #: that is not known, as whenever its state, its account or the way of that changes
        self.stays: int | None = None
        #: makes the last small read again, in the same state (`moves`)
        self.reading: RepeatedRead | None = None
        #: which bytes the last small read took, and the states before and after it: the second like it can be made again
        self.last_read: Hashable = None
        #: makes the last read again that nobody waited for, in the same state (`immediate_moves.LaterRead`)
        self.later: Any = None
        #: makes the last small write again, in the same state (`immediate_moves.RepeatedWrite`, `RecalledWrite`)
        self.writing: Any = None
        #: makes the last small mapping again, in the same state (`immediate_maps.MadeMapping`)
        self.mapped: Any = None
        #: the cache of plans of the launch that changed it last, and what identifies similar launches; None:
        #: something else changed it
        self.writer: tuple[Any, Hashable] | None = None
        self.home = _Home(nbytes, host_memory)
        self.holdings = executor.holdings(nbytes, self.home, blank=host_memory is None, fine=fine)
        if fine:
            self._state = fine_grain_state(nbytes)
        elif host_memory is None:
            self._state = new_state(nbytes)
        else:
            self._state = _state_at_home(nbytes)
        #: the worker that alone holds all of it according to its state, which each launch asks for
        self.resident: int | None = None
        _by_holdings[id(self.holdings)] = ref(self)

    @property
    def state(self) -> BufferState:
        """Which holder has what of it."""
        return self._state

    @state.setter
    def state(self, state: BufferState) -> None:
        before = self._state
        if state is not before:
            self._state, self.resident, self.reading, self.writing = state, state.resident, None, None
            self.mapped = self.later = self.stays = None
            if self.occupancy is not None and state.replicas != before.replicas:
                self.occupancy.change(before.replicas, state.replicas)

    def __del__(self, known: dict[int, ref[VirtualBuffer]] = _by_holdings) -> None:
        try:
            occupancy, replicas = self.occupancy, self._state.replicas
            known.pop(id(self.holdings), None)
        except AttributeError:  # `__init__` has failed
            return
        if occupancy is not None and replicas:
            occupancy.release(replicas)

    def __repr__(self) -> str:
        return f"<VirtualBuffer {self._state!r}>"


def buffers_of(occupancy: Occupancy) -> list[VirtualBuffer]:
    """The buffers that are counted there and have replicas, the longest unused first."""
    found = [
        buffer
        for buffer in [found() for found in list(_by_holdings.values())]
        if buffer is not None and buffer.occupancy is occupancy and buffer.state.replicas
    ]
    return sorted(found, key=lambda buffer: buffer.used)


compiled.code.replace_methods(VirtualBuffer, ())  # which compiled methods read and write

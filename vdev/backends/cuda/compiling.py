"""Plans compiled for one GPU (`vdev.backends.cuda.backend`): launches and copies whose parameters are packed once.

Decides what is made once, and what is looked at in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vdev.backends.base import Allocation, Backend, KernelArgument, LaunchShape
from vdev.backends.compiling import Call, CompilingBackend, PeerCopy
from vdev.backends.cuda import kernels as cuda_kernels
from vdev.backends.cuda.boxes import placed
from vdev.backends.cuda.launch import Kernel, address_of
from vdev.backends.cuda.launching import CudaLaunches
from vdev.backends.cuda.own_kernels import OwnKernels

#: A GPU fetches fewer bytes than this from another one with a kernel of its own: loads over the link are nearly as
#: fast as the copy engine (361 against 383 GB/s on H200), and one launch replaces 8 us and more for each row.
FETCHED_NBYTES = 32 << 20


class CudaCompiling(CudaLaunches, CompilingBackend):
    """The part of a GPU's back end that plans are compiled for."""

    number: int  #: of the GPU
    _own: OwnKernels
    _fence = 0  #: the event that is its fence, once there is one

    def reaches(self, peer: CudaCompiling) -> bool:
        """Make this GPU address the peer's memory; whether it can."""
        raise NotImplementedError

    def _fetch(self) -> None:
        """Start the copies from peers that have been requested."""
        raise NotImplementedError

    def fence(self) -> None:
        if self._fetches:
            self._fetch()
        if not self._fence:
            self._fence = self.driver.new_event()
        result = self.driver.event_record(self._fence, self.stream)
        if result:
            raise self._gpu.error(result, "a fence")

    def order_after_fence(self, peer: Backend) -> None:
        assert isinstance(peer, CudaCompiling)
        if self.driver.stream_wait(self.stream, peer._fence, 0):
            # Refused. If the peer's work fails, whoever handed it over reports that; here only the order matters.
            self.driver.event_synchronize(peer._fence)

    def own_launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> Call | None:
        assert type(kernel) is Kernel
        known = kernel.grids(shape)
        if len(known.grids) != 1:  # the second may be refused after the first has started
            return None
        if known.threads > kernel.threads:
            kernel = self._modules.with_full_groups(kernel)
        own = kernel.with_own_parameters(args, self.driver)
        if own is None:
            return None
        own.set_hidden(known.grids[0][6])
        start = own.assembled(known.grids[0], self.stream, self.driver)
        counters, set_value = self.counters, own.set_argument

        def launch(changed: Sequence[tuple[int, bytes]]) -> None:
            for index, value in changed:
                set_value(index, value)  # the driver copies the parameters when it is called
            if self._fetches or not self._first or self._gpu.lost is not None:
                self._begin()
            else:
                self._count += 1
            result = start()
            if result:
                raise self._gpu.error(result, f"launch of kernel {own.info.name}")
            counters.launches += 1

        return launch

    def fills(self, target: Allocation, runs: Sequence[tuple[int, int]], pattern: bytes) -> Call | None:
        calls = [
            self._filling(address_of(target) + start, nbytes, pattern) for start, nbytes in runs if nbytes
        ]
        counters, check = self.counters, self._gpu.check
        total = sum(nbytes for _, nbytes in runs)

        def fill(_: object) -> None:
            for call in calls:
                self._begin()
                result = call()
                if result:
                    check(result, "fill")
            counters.filled += total

        return fill

    def _filling(self, address: int, nbytes: int, pattern: bytes) -> Callable[[], int | None]:
        """What fills bytes with a pattern whose length divides their number, at an address that it divides where a GPU's fills ask
        for that. A CUresult, or it raises what is wrong.
        """
        while len(pattern) > 1 and pattern[: len(pattern) // 2] * 2 == pattern:
            pattern = pattern[: len(pattern) // 2]
        size, driver = len(pattern), self.driver
        fills = {1: driver.fill_1, 2: driver.fill_2, 4: driver.fill_4}
        if size not in fills or address % size:
            return self._own.filling(address, nbytes, pattern)
        value = int.from_bytes(pattern, "little")
        return partial(fills[size], address, value, nbytes // size, self.stream)

    def copies(self, copies: Sequence[PeerCopy]) -> Call | None:
        boxes, gpus, nbytes = [], [], 0
        for peer, source, target, wanted in copies:
            assert isinstance(peer, CudaCompiling)
            of_peer = sum(box.nbytes for box in wanted)
            if not self.reaches(peer) or of_peer >= FETCHED_NBYTES:
                return None
            gpus.append(peer._gpu)
            boxes += [placed(address_of(source), address_of(target), box) for box in wanted if box.nbytes]
            nbytes += of_peer
        if not 0 < len(boxes) <= cuda_kernels.MOST_BOXES:
            return None
        if any(one.may_overlap(other) for at, one in enumerate(boxes) for other in boxes[:at]):
            return None  # the later one must be the last
        start, counters, more = self._own.copying(boxes), self.counters, len(boxes) - 1

        def copy(_: object) -> None:
            for gpu in gpus:
                if gpu.lost is not None:
                    gpu.check_live()  # its memory goes with it
            if self._fetches or not self._first or self._gpu.lost is not None:
                self._begin()
            else:
                self._count += 1
            self._count += more
            start()
            counters.from_peer += nbytes

        return copy

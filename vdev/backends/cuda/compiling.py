"""Plans compiled for one GPU (`vdev.backends.cuda.backend`): launches and copies whose parameters are packed once.

Decides what is made once, and what is looked at in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import Array, addressof, c_char, c_int64, c_size_t, c_uint64, c_void_p
from functools import partial
from typing import Any, NamedTuple

from vdev.backends.base import Allocation, Backend, Box, FoldPart, KernelArgument, LaunchShape, Marker
from vdev.backends.call_lists import Boxes, CallList, DriverCall, PreparedCall, changing
from vdev.backends.compiling import Call, CompilingBackend, ListedCall, PeerCopy, Placed
from vdev.backends.cuda import kernels as cuda_kernels
from vdev.backends.cuda.aside import Aside
from vdev.backends.cuda.boxes import PlacedBox, placed
from vdev.backends.cuda.driver import FUNCTION
from vdev.backends.cuda.errors import ELSEWHERE
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.launch import Grid, Kernel, address_of, bases_of, grids, moved
from vdev.backends.cuda.launching import CudaLaunches
from vdev.backends.cuda.marker import CudaMarker
from vdev.backends.cuda.own_kernels import PARTS_AT, WORDS_OF_BOX, OwnKernels, Prepared
from vdev.errors import BackendError
from vdev.translators.frontend.kernels import SampledImage

#: A GPU fetches fewer bytes than this from another one with a kernel of its own: loads over the link are nearly as
#: fast as the copy engine, and one launch replaces a call, of several microseconds, for each row.
FETCHED_NBYTES = 32 << 20


class CudaCall(ListedCall):
    """Calls of the driver, each behind what was requested before."""

    __slots__ = ("_addressed", "_backend", "_kept", "_kernel", "_peers")

    def __init__(
        self,
        backend: CudaCompiling,
        what: str,
        calls: Sequence[DriverCall | Prepared],
        *,
        counted: Sequence[tuple[str, int]],
        operations: int = 1,
        peers: Sequence[Gpu] = (),
        kernel: Kernel | None = None,
        placed: Sequence[Placed] | None = None,
        addressed: Sequence[tuple[int, c_uint64, Allocation]] = (),
    ) -> None:
        """`peers`: whose memory is read. `kernel`: whose parameters change. `placed`: as of `ListedCall`. `addressed`: calls, by number,
        whose first parameter is an address in a memory; the other addresses are `placed`.
        """
        driver_calls = [each.call if isinstance(each, Prepared) else each for each in calls]
        super().__init__(what, driver_calls, operations, counted, placed)
        self._backend, self._peers, self._kernel = backend, peers, kernel
        self._kept, self._addressed = calls, addressed

    def was_listed(self, calls: CallList, start: int) -> None:
        if self._addressed and self.placed is not None:
            words = addressof(calls.words)
            self.placed = [
                *self.placed,
                *[
                    Placed((addressof(alone), words + 8 * calls.place(start + number).parameter), memory)
                    for number, alone, memory in self._addressed
                ],
            ]

    def set_values(self, changed: Sequence[tuple[int, bytes]]) -> None:
        if self._kernel is not None:
            for index, value in changed:
                self._kernel.set_value(index, value)  # the driver copies the parameters when it is called

    def __call__(self, changed: Sequence[tuple[int, bytes]]) -> None:
        backend = self._backend
        if changed:
            self.set_values(changed)
        for gpu in self._peers:
            if gpu.lost is not None:
                gpu.check_live()  # its memory goes with it
        for number, call in enumerate(self.calls):
            backend.begin_operations(self.operations)
            result = call()
            if result and not self.is_let_pass(number):
                raise backend.refused(result, self.what)
        counters = backend.counters
        for name, more in self.counted:
            setattr(counters, name, getattr(counters, name) + more)


class CudaTexturedLaunch(CudaCall):
    """A launch with textures where all images have one, and of the kernel's other version where they have not. Textures show the memory
    that they were made for: so none of its addresses are `placed`.
    """

    __slots__ = ("_args", "_plain", "_textured", "_words")

    def __init__(
        self,
        backend: CudaCompiling,
        what: str,
        start: DriverCall,
        kernel: Kernel,
        plain: Kernel,
        args: list[KernelArgument],
    ) -> None:
        """`kernel`: the version with textures, with parameters of its own. `args`: without textures."""
        super().__init__(backend, what, [start], counted=[("launches", 1)], kernel=kernel)
        self._textured, self._plain = kernel, plain
        self._args = args
        #: where the function is among a list's parameters
        self._words: tuple[Any, int] | None = None

    def was_listed(self, calls: CallList, start: int) -> None:
        self._words = calls.words, calls.place(start, FUNCTION).parameter

    def set_values(self, changed: Sequence[tuple[int, bytes]]) -> None:
        super().set_values(changed)
        args, kernel = self._args, self._textured
        assert kernel.info.textured is not None, "it takes textures"
        for index, value in changed:
            args[index] = value
        images, indices = kernel.info.textured.images, {index for index, _ in changed}
        if any(image.descriptor in indices or image.sampler in indices for image in images):
            given = self._backend.textured(images, args)
            if given is None:
                self._set_function(self._plain.function)
                return
            for image in images:
                kernel.set_argument(image.descriptor, given[image.descriptor])
            self._set_function(kernel.function)

    def _set_function(self, function: int) -> None:
        """Both versions have the same parameters."""
        self._textured.handles[0].value = function
        if self._words is not None:
            words, at = self._words
            words[at] = function


class CudaLaunch(CudaCall):
    """A launch of one grid, with parameters of its own."""

    __slots__ = ("_grid",)

    def __init__(self, backend: CudaCompiling, start: DriverCall, kernel: Kernel, grid: Grid) -> None:
        what, counted = f"launch of kernel {kernel.info.name}", [("launches", 1)]
        placed = kernel.placed_arguments()
        super().__init__(backend, what, [start], counted=counted, kernel=kernel, placed=placed)
        self._grid = grid

    def take_launch(self, args: list[KernelArgument] | None, shape: LaunchShape) -> bool:
        kernel = self._kernel
        assert kernel is not None, "it launches one"
        found = grids(kernel.info, shape)
        grid = found[0]
        if len(found) != 1 or grid[3:6] != self._grid[3:6]:
            return False
        if args is not None:
            kernel.set_arguments(moved(args, bases_of(shape)))
        kernel.set_hidden(grid[6])
        if grid[:3] != self._grid[:3]:
            self.calls[0].args[0].kept.groups[:] = grid[:3]
        self._grid = grid
        return True


class CudaCopies(CudaCall):
    """Boxes that are copied by one launch of vdev's own kernels."""

    __slots__ = ("_copy", "_own", "_words")

    def __init__(
        self,
        backend: CudaCompiling,
        own: OwnKernels,
        copy: Prepared,
        boxes: int,
        *,
        counted: Sequence[tuple[str, int]],
        peers: Sequence[Gpu],
        placed: Sequence[Placed],
    ) -> None:
        """`boxes`: how many."""
        super().__init__(
            backend, "copy", [copy], counted=counted, operations=boxes, peers=peers, placed=placed
        )
        self._own, self._copy = own, copy
        #: where the function is among a list's parameters
        self._words: tuple[Any, int] | None = None

    def was_listed(self, calls: CallList, start: int) -> None:
        self._words = calls.words, calls.place(start, FUNCTION).parameter

    def take_copies(self, copies: Sequence[PeerCopy]) -> bool:
        wanted = self._backend.wanted_of(copies)
        if wanted is None or len(wanted.boxes) != self.operations:
            return False
        self._peers, self.counted = wanted.peers, (("from_peer", wanted.nbytes),)
        started = self._own.copy_others(self._copy, wanted.boxes)
        if self._words is not None:
            words, at = self._words
            words[at] = started
        return True

    def block_copies(
        self,
        blocks: Array[c_int64],
        memories: Array[c_int64],
        boxes: Sequence[tuple[int, int, int]],
    ) -> Callable[[], bool] | None:
        if self._words is None or len(boxes) != self.operations:
            return None
        words, at = self._words
        self._backend.enter()  # functions may have to be loaded
        launch = self._own.copying_launch(self._copy, addressof(words) + 8 * at, FETCHED_NBYTES)
        found = Boxes(launch, blocks, memories, boxes)

        def take() -> bool:
            if not found.fill():
                return False
            self.counted = (("from_peer", found.nbytes),)
            return True

        return take


class _Wanted(NamedTuple):
    """Boxes to be copied from peers by one call."""

    boxes: Sequence[PlacedBox]
    #: by box, the memory that it comes from and the one where it goes
    memories: Sequence[tuple[Allocation, Allocation]]
    peers: Sequence[Gpu]
    nbytes: int


class CudaUpload(CudaCall):
    """A write of bytes that are a value of the command's, from memory of its own."""

    __slots__ = ("_at", "_memory", "_value")

    def __init__(
        self,
        backend: CudaCompiling,
        target: Allocation,
        start: int,
        nbytes: int,
        value: tuple[int, bytes],
        at: int,
    ) -> None:
        """`nbytes` from byte `at` on of a value, of which the number and the bytes are given, to byte `start` of the target."""
        self._memory = (c_char * nbytes)()
        self._value, self._at = value[0], at
        address = c_uint64(address_of(target) + start)
        self.set_values([value])
        copy = partial(
            backend.driver.copy_assembled,
            address,
            c_uint64(addressof(self._memory)),
            c_size_t(nbytes),
            c_void_p(backend.stream),
        )
        super().__init__(
            backend,
            "upload",
            [copy],
            counted=[("from_host", nbytes)],
            placed=(),
            addressed=[(0, address, target)],
        )

    def set_values(self, changed: Sequence[tuple[int, bytes]]) -> None:
        for index, value in changed:
            if index == self._value:  # what was there before was taken when the driver was called
                self._memory.raw = value[self._at : self._at + len(self._memory)]


class CudaCompiling(CudaLaunches, CompilingBackend):
    """The part of a GPU's back end that plans are compiled for."""

    number: int  #: of the GPU
    _own: OwnKernels
    _fence: int  #: the event that is its fence
    _aside: Aside | None = None  #: once anything was carried out aside

    def reaches(self, peer: CudaCompiling) -> bool:
        """Make this GPU address the peer's memory; whether it can."""
        raise NotImplementedError

    def textured(
        self, images: Sequence[SampledImage], args: Sequence[KernelArgument]
    ) -> list[KernelArgument] | None:
        """As `Textures.given`."""
        return self._textures.given(images, args)

    def _fetch(self) -> None:
        """Start the copies from peers that have been requested."""
        raise NotImplementedError

    def aside(self) -> Aside:
        """What is carried out aside; in the GPU's context."""
        raise NotImplementedError

    def begin_operations(self, count: int) -> None:
        """So many operations are about to be handed over."""
        if self._fetches or not self._first or self._gpu.lost is not None:
            self._begin()
            self._count += count - 1
        else:
            self._count += count

    def fence(self) -> None:
        if self._fetches:
            self._fetch()
        result = self.driver.event_record(self._fence, self.stream)
        if result:
            raise self._gpu.error(result, "a fence")

    def order_after_fence(self, peer: Backend, *, aside: bool = False) -> None:
        assert isinstance(peer, CudaCompiling)
        if self.driver.stream_wait(self._stream_of(aside), peer._fence, 0):
            # Refused. If the peer's work fails, whoever handed it over reports that; here only the order matters.
            self.driver.event_synchronize(peer._fence)

    def open_aside(self) -> None:
        if self._fetches:
            self._fetch()
        self.aside().open()

    def close_aside(self) -> None:
        self.aside().close()

    def own_launch(
        self, kernel: object, args: list[KernelArgument], shape: LaunchShape, *, aside: bool = False
    ) -> Call | None:
        assert type(kernel) is Kernel
        known = kernel.grids(shape)
        if len(known.grids) != 1:  # the second may be refused after the first has started
            return None
        if known.threads > kernel.threads:
            kernel = self._modules.with_full_groups(kernel)
        version, given = self._version(kernel, moved(args, known.bases), known.threads)
        own = version.with_own_parameters(given, self.driver)
        if own is None:
            return None
        own.set_hidden(known.grids[0][6])
        start = own.assembled(known.grids[0], self._stream_of(aside), self.driver)
        if version is kernel.textured:
            args = [*moved(args, known.bases)]
            plain = self._fitting(kernel, args, known.threads)
            what = f"launch of kernel {own.info.name}"
            return CudaTexturedLaunch(self, what, start, own, plain, args)
        return CudaLaunch(self, start, own, known.grids[0])

    def _stream_of(self, aside: bool) -> int:
        return self.aside().stream if aside else self.stream

    def fills(self, target: Allocation, runs: Sequence[tuple[int, int]], pattern: bytes) -> Call | None:
        calls: list[DriverCall | Prepared] = []
        places: list[Placed] = []
        addressed: list[tuple[int, c_uint64, Allocation]] = []
        for start, nbytes in runs:
            if not nbytes:
                continue
            call = self._filling(address_of(target) + start, nbytes, pattern)
            if isinstance(call, Prepared):
                places.append(Placed((call.address(0),), target))
            else:
                address = c_uint64(call.args[0])
                addressed.append((len(calls), address, target))
                call = partial(call.func, address, *call.args[1:])
            calls.append(call)
        total = sum(nbytes for _, nbytes in runs)
        return CudaCall(self, "fill", calls, counted=[("filled", total)], placed=places, addressed=addressed)

    def _filling(self, address: int, nbytes: int, pattern: bytes) -> DriverCall | Prepared:
        """What fills bytes with a pattern whose length divides their number, at an address that it divides where a GPU's fills ask
        for that. A CUresult, or it raises what is wrong.
        """
        pattern = shortest(pattern)
        fill = self._fills.get(len(pattern))
        if fill is None or address % len(pattern):
            return self._own.filling(address, nbytes, pattern)
        return partial(fill, address, int.from_bytes(pattern, "little"), nbytes // len(pattern), self.stream)

    def _plain_fill(
        self, nbytes: int, pattern: bytes
    ) -> tuple[PreparedCall, Sequence[Callable[[int], object]]] | None:
        """The same by the GPU's own fills, at an address that is set for each (`call_lists.changing`); None where there is none for such a
        pattern, which is the shortest.
        """
        fill = self._fills.get(len(pattern))
        if fill is None:
            return None
        value, count = int.from_bytes(pattern, "little"), nbytes // len(pattern)
        return changing(partial(fill, c_uint64(), value, count, self.stream), 0)

    @property
    def _fills(self) -> Mapping[int, Callable[..., int]]:
        """The GPU's own fills, by the length of their pattern."""
        driver = self.driver
        return {1: driver.fill_1, 2: driver.fill_2, 4: driver.fill_4}

    def uploads(self, target: Allocation, start: int, nbytes: int, value: tuple[int, bytes], at: int) -> Call:
        return CudaUpload(self, target, start, nbytes, value, at)

    def copies(self, copies: Sequence[PeerCopy], *, aside: bool = False) -> Call | None:
        wanted = self.wanted_of(copies)
        return None if wanted is None else self._copies_of(wanted, "from_peer", aside=aside)

    def own_copies(self, source: Allocation, target: Allocation, wanted: Sequence[Box]) -> Call | None:
        found = _together([(source, target, box) for box in wanted], ())
        return None if found is None else self._copies_of(found, "local")

    def wanted_of(self, copies: Sequence[PeerCopy]) -> _Wanted | None:
        """What copies from peers come to where one call can make them."""
        gpus: list[Gpu] = []
        wanted: list[tuple[Allocation, Allocation, Box]] = []
        for peer, source, target, boxes in copies:
            assert isinstance(peer, CudaCompiling)
            if not self.reaches(peer) or sum([box.nbytes for box in boxes]) >= FETCHED_NBYTES:
                return None
            gpus.append(peer._gpu)
            wanted += [(source, target, box) for box in boxes]
        return _together(wanted, gpus)

    def _copies_of(self, wanted: _Wanted, counter: str, *, aside: bool = False) -> Call:
        """One call that copies boxes. `counter`: of the bytes."""
        call = self._own.copying(wanted.boxes, self._stream_of(aside))
        first = 0 if len(wanted.boxes) == 1 else 1  # behind the number of units (`OwnKernels`)
        places = [
            Placed((call.address(first + WORDS_OF_BOX * number + side),), memory)
            for number, memories in enumerate(wanted.memories)
            for side, memory in enumerate(memories)
        ]
        counted = [(counter, wanted.nbytes)]
        boxes = len(wanted.boxes)
        return CudaCopies(self, self._own, call, boxes, counted=counted, peers=wanted.peers, placed=places)

    def folds(
        self, target: Allocation, target_start: int, parts: Sequence[FoldPart], op: str, dtype: str
    ) -> Call | None:
        gpus = []
        for part in parts:
            if not isinstance(part.peer, CudaCompiling) or not self.reaches(part.peer):
                return None
            gpus.append(part.peer._gpu)
        where = [(address_of(part.source) - part.start, part.region) for part in parts]
        folds = self._own.folds(address_of(target) - target_start, where, op, dtype)
        places = [Placed((fold.call.address(0),), target) for fold in folds]
        places += [
            Placed((fold.call.address(PARTS_AT + at),), parts[number].source)
            for fold in folds
            for at, number in enumerate(fold.parts)
        ]
        nbytes = sum(part.region.nbytes for part in parts)
        counted = [("merged", nbytes), ("from_peer", nbytes)]
        calls = [fold.call for fold in folds]
        return CudaCall(self, "fold", calls, counted=counted, peers=gpus, placed=places)

    def folding(
        self, target: Allocation, target_start: int, parts: Sequence[FoldPart], op: str, dtype: str
    ) -> Callable[[], object] | None:
        call = self.folds(target, target_start, parts, op, dtype)
        return None if call is None else partial(call, ())

    # lists --------------------------------------------------------------------------------------

    def takes_lists(self) -> bool:
        return not self._fetches and self._gpu.lost is None

    def entry(self) -> DriverCall:
        return partial(self.driver.set_context, self.context)

    def is_elsewhere(self, result: int) -> bool:
        return result in ELSEWHERE

    def fencing(self) -> DriverCall:
        return partial(self.driver.event_record, self.fence_event(), self.stream)

    def has_passed(self) -> bool:
        return self._gpu.lost is None and not self.driver.event_query(self._fence)

    def fence_event(self) -> int:
        return self._fence

    def waiting(self, event: int, *, aside: bool = False) -> DriverCall:
        return partial(self.driver.stream_wait, self._stream_of(aside), event, 0)

    def opening(self) -> Sequence[DriverCall]:
        return self.aside().opening()

    def closing(self) -> Sequence[DriverCall]:
        return self.aside().closing()

    def settle_aside(self, *, opened: bool) -> bool:
        return self.aside().settle(opened=opened)

    def event_of(self, marker: Marker) -> int | None:
        if isinstance(marker, CudaMarker):
            return 0 if marker.is_known_to_be_done else marker.event
        return 0 if marker.done() else None

    def made(self, operations: int, launches: int = 0) -> int:
        self._count = count = self._count + operations
        if launches:
            self.counters.launches += launches
        return count

    def refused(self, result: int, what: str) -> BackendError:
        return self._gpu.error(result, what)


def _together(wanted: Sequence[tuple[Allocation, Allocation, Box]], peers: Sequence[Gpu]) -> _Wanted | None:
    """Boxes, each from a memory to another, for one call that copies them; None where there is none."""
    wanted = [each for each in wanted if each[2].nbytes]
    if not 0 < len(wanted) <= cuda_kernels.MOST_BOXES:
        return None
    boxes = [placed(address_of(source), address_of(target), box) for source, target, box in wanted]
    for at, one in enumerate(boxes):
        for other in boxes[:at]:
            if one.may_overlap(other):
                return None  # the later one must be the last
    memories = [(source, target) for source, target, _ in wanted]
    return _Wanted(boxes, memories, peers, sum([box.nbytes for box in boxes]))


def shortest(pattern: bytes) -> bytes:
    """The shortest pattern that repeats to the same bytes.

    >>> shortest(b"aaaa"), shortest(b"abab"), shortest(b"abba")
    (b'a', b'ab', b'abba')
    """
    while len(pattern) > 1 and pattern[: len(pattern) // 2] * 2 == pattern:
        pattern = pattern[: len(pattern) // 2]
    return pattern

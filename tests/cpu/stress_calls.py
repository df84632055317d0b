"""What programs do besides: loops, arguments set once, parts of buffers, mappings that are kept, shared memory, images.

Decides which of these come next, as `stress_actor` does of the rest, and what they must give. A loop does the same things again:
its random numbers begin anew with each turn, and only its numbers and the order of two buffers change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.cpu.stress_actor import Actor, Cell, Different, Ground, Held

#: images, kernels that are ready, and ints that a part may begin at a multiple of
_MOST_PICTURES, _MOST_READY, _ALIGNED = 2, 4, 256


@dataclass(eq=False)
class Picture(Cell):
    """An image of four ints a pixel; `model` has its rows, columns and channels."""


@dataclass(frozen=True)
class Ready:
    """A kernel with arguments, for `n` ints of two cells."""

    kernel: Any
    source: Cell
    target: Cell
    n: int


class Caller(Actor):
    """An actor that does all that programs do."""

    def __init__(
        self, cl: Any, grounds: list[Ground], seed: int, setter: Callable[[Any], None], *, loops: int = 14
    ) -> None:
        """`loops`: their weight among its actions."""
        super().__init__(cl, grounds, seed, setter)
        self._pictures: list[Picture] = []
        self._ready: list[Ready] = []
        self._parts = 0
        flags = cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST
        self._samplers = [cl.Sampler(ground.context, False, *flags) for ground in grounds]
        more: list[tuple[int, Callable[[], None]]] = [
            (6, self._set), (8, self._launch_ready), (5, self._part), (6, self._hold), (6, self._shared),
            (8, self._picture), (4, self._arrive),
        ]  # fmt: skip
        made = (self._renew, self._part, self._set, self._fail, self._callback, self._arrive)
        self._actions += more
        self._again = [(24, self._launch), *(each for each in self._actions if each[1] not in made)]
        self._actions.append((loops, self._loop))

    def _end(self) -> None:
        super()._end()
        for picture in self._pictures:
            self._compare_picture(picture)
        self._settle()
        self._ready.clear()
        self._pictures.clear()

    # loops ----------------------------------------------------------------------------------------

    def _loop(self) -> None:
        """The same again and again, as programs do, and now and then something else between."""
        outer, numbers = self.random, self.numbers
        body = [outer.getrandbits(32) for _ in range(outer.choice((1, 1, 2, 3, 5)))]
        turns = outer.choice((3, 6, 12)) * (3 if len(body) == 1 else 1)
        self._calm, self._turn_queue = outer.random() < 0.7, outer.choice((0, 0, 1, 2))
        self._stays = outer.choice((0.85, 1.0))
        weights = [weight for weight, _ in self._again]
        try:
            for self._turn in range(turns):
                for seed in body:
                    self.random, self.numbers = random.Random(seed), np.random.default_rng(seed + self._turn)
                    self._act(self.random.choices(self._again, weights)[0][1])
                if outer.random() < 0.1:
                    self.random = outer
                    self._act(outer.choices(self._again, weights)[0][1])
                if len(self._events) > 60:
                    self._settle()
        finally:
            self.random, self.numbers = outer, numbers
            self._calm, self._turn = False, 0

    def _arrive(self) -> None:
        """Look at one command that has ended, while others are under way."""
        if not self._events:
            return
        pending = self._events.pop(self.random.randrange(len(self._events)))
        self._open_gates()
        if pending.queue is not None and self.random.random() < 0.3:
            pending.queue.finish()
            self._ended(pending.queue)
            if pending.event.command_execution_status != 0:
                raise Different("a command of a queue that has finished has not ended")
        self._arrived(pending)

    # kernels --------------------------------------------------------------------------------------

    def _set(self) -> None:
        """Set arguments now for a launch that comes later, in a kernel of its own or a copy of another."""
        cells = self._some(2)
        if cells is None:
            return
        source, target = cells
        n = self.random.randint(1, min(source.model.size, target.model.size))
        kernel = self.cl.Kernel(source.ground.program, "stencil")
        kernel.set_args(self._arg(source), self._arg(target), np.int32(n))
        if self.random.random() < 0.3 and self.cl.get_cl_header_version() >= (2, 1):
            kernel = kernel.clone()
        if len(self._ready) == _MOST_READY:
            self._ready.pop(self.random.randrange(_MOST_READY))
        self._ready.append(Ready(kernel, source, target, n))

    def _launch_ready(self) -> None:
        """Launch what is ready: as it is, with one argument set anew, or with that in a copy only."""
        alive = [ready for ready in self._ready if {ready.source, ready.target} <= {*self._cells}]
        if not alive:
            return
        ready = self.random.choice(alive)
        kernel, source, target, n = ready.kernel, ready.source, ready.target, ready.n
        how = self.random.randrange(4)
        if how == 0:
            n = self.random.randint(1, min(source.model.size, target.model.size))
            kernel.set_arg(2, np.int32(n))
            self._ready[self._ready.index(ready)] = Ready(kernel, source, target, n)
        elif how == 1:
            copy = kernel.clone()
            copy.set_arg(2, np.int32(n // 2 + 1))
            if self.random.random() < 0.5:
                kernel, n = copy, n // 2 + 1
        queue = self._queue(source.ground)
        waits = self._waits(queue, [source], [target])
        shape, local = ((n + 63) // 64 * 64,), self.random.choice(((64,), (16,), None))
        event = self.cl.enqueue_nd_range_kernel(queue, kernel, shape, local, wait_for=waits)
        self._note(queue, event, [source], [target])
        padded = np.concatenate((source.model[:1], source.model[:n], source.model[n - 1 : n]))
        with np.errstate(over="ignore"):
            target.model[:n] = padded[:-2] + 2 * padded[1:-1] + padded[2:]

    # buffers --------------------------------------------------------------------------------------

    def _part(self) -> None:
        """A part of a buffer is used as buffers are, and goes on when the whole is dropped; parts overlap."""
        cell = self.random.choice(self._cells)
        if cell.parent is not None or cell.is_pooled or cell.model.size < 4 * _ALIGNED:
            return
        start = self.random.randrange(cell.model.size // _ALIGNED - 1) * _ALIGNED
        stop = self.random.randint(start + 64, cell.model.size)
        part = cell.buffer.get_sub_region(4 * start, 4 * (stop - start))
        self._cells.append(Cell(cell.ground, part, cell.model[start:stop], parent=cell, first=start))

    def _hold(self) -> None:
        """Map a part of a buffer, and let go of it when a command may not find it mapped."""
        cell = self.random.choice(self._cells)
        queue, flags = self._queue(cell.ground), self.cl.map_flags
        how = self.random.choice(
            (flags.READ, flags.READ, flags.READ | flags.WRITE, flags.WRITE_INVALIDATE_REGION)
        )
        start, stop = self._span(cell.model.size)
        waits = self._waits(queue, [], [cell])
        self._open_gates()
        blocking = not self._is_native and self.random.random() < 0.5
        array, event = self.cl.enqueue_map_buffer(
            queue,
            cell.buffer,
            how,
            4 * start,
            (stop - start,),
            np.int32,
            wait_for=waits,
            is_blocking=blocking,
        )
        queue.flush()
        event.wait()
        if how != flags.WRITE_INVALIDATE_REGION:
            self._same("mapping", array, cell.model[start:stop])
        if how != flags.READ:
            array[:] = self.numbers.integers(0, 1000, stop - start)
            cell.model[start:stop] = array
        if cell.root.held is not None:  # another part's
            self._unmap(cell.root)
        cell.root.held = Held(array, cell.first + start, cell.first + stop, how != flags.READ)

    def _shared(self) -> None:
        """Copy, fill or map shared virtual memory, which is a buffer as well."""
        cells = [cell for cell in self._cells if cell.shared is not None]
        if not cells:
            return
        cell = self.random.choice(cells)
        start, stop = self._span(cell.model.size)
        piece, queue = self.cl.SVM(cell.shared.mem[start:stop]), self._queue(cell.ground)
        kind = self.random.randrange(4)
        waits = self._waits(queue, [cell] if kind == 0 else [], [] if kind == 0 else [cell])
        if kind == 0:
            found = np.empty(stop - start, np.int32)
            event = self.cl.enqueue_copy(queue, found, piece, wait_for=waits, is_blocking=False)
            self._checks.append(("shared", found, cell.model[start:stop].copy()))
            return self._note(queue, event, [cell], [])
        data = self.numbers.integers(0, 1000, stop - start).astype(np.int32)
        if kind == 1:
            event = self.cl.enqueue_copy(queue, piece, data, wait_for=waits, is_blocking=False)
        elif kind == 2:
            data[:] = data[0]
            event = self.cl.enqueue_svm_memfill(queue, piece, data[:1].copy(), wait_for=waits)
        else:
            self._open_gates()
            mapped = piece.map_rw(queue, wait_for=waits, is_blocking=False)
            queue.flush()
            mapped.event.wait()
            self._same("mapped shared memory", mapped.array, cell.model[start:stop])
            mapped.array[:] = data
            event = mapped.release(queue)
        cell.model[start:stop] = data
        self._note(queue, event, [], [cell], data if kind == 1 else None)

    # images ---------------------------------------------------------------------------------------

    def _make_picture(self) -> None:
        ground = self.random.choice(self.grounds)
        high, wide = self.random.choice(((1, 40), (16, 16), (30, 50), (64, 33)))
        model = self.numbers.integers(-(2**31), 2**31, (high, wide, 4), dtype=np.int64).astype(np.int32)
        flags, order = self.cl.mem_flags, self.cl.channel_order.RGBA
        form = self.cl.ImageFormat(order, self.cl.channel_type.SIGNED_INT32)
        how = flags.READ_WRITE | flags.COPY_HOST_PTR
        image = self.cl.Image(ground.context, how, form, shape=(wide, high), hostbuf=model)
        self._pictures.append(Picture(ground, image, model))

    def _picture(self) -> None:
        """One of all that commands do to images."""
        if not self._pictures or (len(self._pictures) < _MOST_PICTURES and not self._turn):
            self._make_picture()
        picture = self.random.choice(self._pictures)
        high, wide = picture.model.shape[:2]
        x, y = self.random.randrange(wide), self.random.randrange(high)
        region = self.random.randint(1, wide - x), self.random.randint(1, high - y)
        if self.random.random() < 0.3:
            x, y, region = 0, 0, (wide, high)
        actions = (self._move_picture, self._fill_picture, self._sample, self._paint, self._copy_pixels)
        self.random.choice(actions)(picture, (x, y), region)

    @staticmethod
    def _view(picture: Picture, at: tuple[int, int], region: tuple[int, int]) -> np.ndarray:
        return picture.model[at[1] : at[1] + region[1], at[0] : at[0] + region[0]]

    def _move_picture(self, picture: Picture, at: tuple[int, int], region: tuple[int, int]) -> None:
        queue, view = self._queue(picture.ground), self._view(picture, at, region)
        reads = self.random.random() < 0.5
        host = np.zeros_like(view) if reads else self.numbers.integers(-99, 99, view.shape).astype(np.int32)
        ends = (host, picture.buffer) if reads else (picture.buffer, host)
        cells: tuple[Sequence[Cell], Sequence[Cell]] = ([picture], []) if reads else ([], [picture])
        waits = self._waits(queue, *cells)
        event = self.cl.enqueue_copy(
            queue, *ends, origin=at, region=region, wait_for=waits, is_blocking=False
        )
        if reads:
            self._checks.append(("image", host, view.copy()))
        else:
            view[:] = host
        self._note(queue, event, *cells, None if reads else host)

    def _fill_picture(self, picture: Picture, at: tuple[int, int], region: tuple[int, int]) -> None:
        queue = self._queue(picture.ground)
        color = self.numbers.integers(-99, 99, 4).astype(np.int32)
        waits = self._waits(queue, [], [picture])
        event = self.cl.enqueue_fill_image(
            queue, picture.buffer, color, (*at, 0), (*region, 1), wait_for=waits
        )
        self._view(picture, at, region)[:] = color
        self._note(queue, event, [], [picture])

    def _with_room(self, picture: Picture, n: int) -> Cell | None:
        cells = [cell for cell in self._cells if cell.ground is picture.ground and cell.model.size >= n]
        return self.random.choice(cells) if cells else None

    def _copy_pixels(self, picture: Picture, at: tuple[int, int], region: tuple[int, int]) -> None:
        """Between an image and a buffer, where the pixels lie close together."""
        view, queue = self._view(picture, at, region), self._queue(picture.ground)
        cell = self._with_room(picture, view.size)
        if cell is None:
            return
        start = self.random.randint(0, (cell.model.size - view.size) // 4) * 4
        there = cell.model[start : start + view.size]
        to_image = self.random.random() < 0.5
        cells: tuple[list[Cell], list[Cell]] = ([cell], [picture]) if to_image else ([picture], [cell])
        ends = (picture.buffer, cell.buffer) if to_image else (cell.buffer, picture.buffer)
        waits = self._waits(queue, *cells)
        event = self.cl.enqueue_copy(queue, *ends, offset=4 * start, origin=at, region=region, wait_for=waits)
        if to_image:
            view[:] = there.reshape(view.shape)
        else:
            there[:] = view.ravel()
        self._note(queue, event, *cells)

    def _sample(self, picture: Picture, at: tuple[int, int], region: tuple[int, int]) -> None:
        """Read an image with a sampler, some pixels beside it."""
        high, wide = picture.model.shape[:2]
        cell = self._with_room(picture, picture.model.size)
        if cell is None:
            return
        dx, dy = self.random.randint(-3, 3), self.random.randint(-2, 2)
        sampler = self._samplers[self.grounds.index(picture.ground)]
        args = (picture.buffer, sampler, cell.buffer, np.int32(dx), np.int32(dy))
        self._enqueue("sample", _over(wide, high), args, [picture], [cell], (8, 4))
        rows, columns = np.clip(np.arange(high) + dy, 0, high - 1), np.clip(np.arange(wide) + dx, 0, wide - 1)
        cell.model[: picture.model.size] = picture.model[rows][:, columns].ravel()

    def _paint(self, picture: Picture, at: tuple[int, int], region: tuple[int, int]) -> None:
        """Write pixels from a buffer: a box of an image, or all of it."""
        view = self._view(picture, at, region)
        cell = self._with_room(picture, view.size)
        if cell is None:
            return
        args = (cell.buffer, picture.buffer, *(np.int32(n) for n in (*at, *region)))
        self._enqueue("paint", _over(*region), args, [cell], [picture], (8, 4))
        view[:] = cell.model[: view.size].reshape(view.shape)

    def _compare_picture(self, picture: Picture) -> None:
        queue = self._queue(picture.ground)
        found = np.empty_like(picture.model)
        waits = self._waits(queue, [picture], [])
        self._open_gates()
        region = picture.model.shape[1::-1]
        ends = {"origin": (0, 0), "region": region, "is_blocking": False, "wait_for": waits}
        event = self.cl.enqueue_copy(queue, found, picture.buffer, **ends)
        self._checks.append(("image at the end", found, picture.model))
        self._note(queue, event, [picture], [])
        self._settle()


def _over(wide: int, high: int) -> tuple[int, int]:
    """An index space in groups of 8 by 4."""
    return -(-wide // 8) * 8, -(-high // 4) * 4


__all__ = ["Caller", "Picture", "Ready"]

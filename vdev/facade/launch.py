"""Launches: `enqueue_nd_range_kernel`.

Decides whether an index space is valid (specification 5.10), and which work-group size is used when the program gives
none. Everything is checked before anything is submitted. An index space once found valid is remembered with the
kernel; integers of another type that equal the remembered ones then pass as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from operator import gt, mod
from typing import TYPE_CHECKING, Any

from vdev.facade.errors import cast_int, check_type, fail, fail_type, native, status
from vdev.facade.event import Event, make_event, parse_wait_list
from vdev.facade.handles import state_of
from vdev.facade.images import ImageMemory
from vdev.facade.index_spaces import Grouping
from vdev.facade.kernel import Kernel, KernelState
from vdev.facade.memory import Memory
from vdev.facade.queue import CommandQueue, QueueState
from vdev.facade.rotation import Rotation
from vdev.facade.svm import reached_by_address
from vdev.facade.svm_memory import SVMArgument, starts
from vdev.planner.partitioner import choose_local_size
from vdev.session.commands import ONCE, Launch, LocalArg, Marker
from vdev.session.immediate_moves import completion_of
from vdev.translators.ranges.ndrange import NDRange

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.stretch import Part
    from vdev.facade.rotation import Key, Known
    from vdev.session.commands import Argument, Repeater
    from vdev.session.in_a_row import ReadyLaunch

_ROUTINE = "clEnqueueNDRangeKernel"
#: Why sizes are refused that some devices take from programs in OpenCL C 2.0 and later.
_UNEVEN = "the local size does not divide the global size, and the workers have no non-uniform work-groups"
_FUNCTION = "enqueue_nd_range_kernel"
_COMMAND = native.command_type.NDRANGE_KERNEL
_MARKER = native.command_type.MARKER
_MOST_DIMENSIONS = 10  #: of a size tuple the native module looks at
#: of a kernel: index spaces, and local sizes
_MOST_REMEMBERED = 512
_LONGEST_PAUSE = 63  #: launches like the last one before the next of them is prepared to be repeated

_PLAIN = {int}
#: kept arguments of launches that are made again; and of those that are handed over at once, whose images lie whole on one worker
_REPEATED = frozenset({Memory, SVMArgument, bytes, LocalArg, type(None)})
_REPEATED_AT_ONCE = _REPEATED | {ImageMemory}

Sizes = Sequence[int]


def enqueue_nd_range_kernel(
    queue: CommandQueue,
    kernel: Kernel,
    global_work_size: Sizes,
    local_work_size: Sizes | None,
    global_work_offset: Sizes | None = None,
    wait_for: Iterable[Event] | None = None,
    g_times_l: bool = False,
    allow_empty_ndrange: bool = False,
) -> Event:
    """Launch `kernel` with the arguments it has now. An empty index space completes without running anything
    (OpenCL 2.1 and later).
    """
    try:
        state, line = state_of(kernel), state_of(queue)
        ndrange = state.ndranges[global_work_size, local_work_size, global_work_offset, g_times_l]
        if ndrange is None or ndrange.global_size is not global_work_size:
            _check_whole(global_work_size, local_work_size, global_work_offset)
        elif ndrange.local_size is not local_work_size or global_work_offset is not None:
            _check_whole(local_work_size, global_work_offset)
        context = line.context
    except (KeyError, TypeError, ValueError, AttributeError):
        check_type(_FUNCTION, queue, CommandQueue)
        check_type(_FUNCTION, kernel, Kernel)
        context = line.context
        sizes = (global_work_size, local_work_size, global_work_offset)
        ndrange = _remembered(state, *sizes, g_times_l, allow_empty_ndrange)
    after = parse_wait_list(wait_for, context, _ROUTINE) if wait_for else ()
    if state.context is not context:
        fail(_ROUTINE, status.INVALID_CONTEXT)
    if ndrange is None and allow_empty_ndrange:
        return make_event(queue, _MARKER, line.submit(Marker(), after))
    captured = state.capture(_ROUTINE)
    if ndrange is None:
        if state.has_local:
            _check_local_memory(state)
        return make_event(queue, _COMMAND, line.submit(Marker(), after))
    return _launched(queue, state, captured, ndrange, after)


def launch_captured(
    queue: CommandQueue,
    kernel: Kernel,
    args: tuple[Argument, ...],
    global_size: Sizes,
    local_size: Sizes | None,
    wait_for: Iterable[Event] | None,
) -> Event:
    """`enqueue_nd_range_kernel` where the kernel's arguments have been captured already."""
    state = kernel._vdev_state
    try:
        line = queue._vdev_state
        context, ndrange = line.context, state.ndranges.get((global_size, local_size, None, False))
        if ndrange is None:
            if type(queue) is CommandQueue:
                ndrange = _resized(state, global_size, local_size, None)
        elif ndrange.global_size is not global_size or (
            local_size is not None and local_size is not ndrange.local_size
        ):
            _check_whole(global_size, local_size)
    except (TypeError, ValueError, AttributeError):
        ndrange = None
    if ndrange is None or state.context is not context:
        return enqueue_nd_range_kernel(queue, kernel, global_size, local_size, None, wait_for)
    after = parse_wait_list(wait_for, context, _ROUTINE) if wait_for else ()
    repetition = state.repetition
    # Whether the kernel uses addresses takes its analysis, which matters only where there is shared virtual memory (`starts`).
    by_address = starts and state.kernel.addresses is not None
    if state.has_local or by_address or line.is_finalized:
        return _launched(queue, state, args, ndrange, after)
    # the same as there, with fewer calls
    completion: Completion | None
    if repetition is None or repetition is ONCE:
        completion = None if state.formed is None else _at_once_by_form(state, line, args, ndrange, after)
    else:
        completion = repetition.again(line.order, ndrange, args, after)
    if completion is None:
        return _launched(queue, state, args, ndrange, after, tried=True)
    return Event._vdev_of_command(queue, context, _COMMAND, completion)


def ready_launch(
    queue: CommandQueue,
    kernel: Kernel,
    global_size: Sizes,
    local_size: Sizes | None,
    offset: Sizes | None,
    own: object | None,
) -> ReadyLaunch | None:
    """What makes the launch that was made last of a kernel, with these sizes, again without Python (`AtOnce.ready`); None where
    that is not possible.
    """
    state, line = state_of(kernel), state_of(queue)
    ndrange, at_once = state.ndranges.get((global_size, local_size, offset, False)), line.session.at_once
    if ndrange is None or at_once is None or state.images or line.is_finalized:
        return None
    if starts and state.kernel.addresses is not None:
        return None
    return at_once.ready(state.kernel, state.capture(_ROUTINE), ndrange, line.order, own)


Kernel._vdev_launch = staticmethod(launch_captured)


def _launched(
    queue: CommandQueue,
    kernel: KernelState,
    args: tuple[Argument, ...],
    ndrange: NDRange,
    after: Sequence[Completion],
    *,
    tried: bool = False,
) -> Event:
    """Launch, without a submission where that is possible; the event. `tried`: neither what repeats the kernel's last launch nor
    `_at_once_by_form` makes it.
    """
    line, key = queue._vdev_state, None
    if kernel.has_local:
        _check_local_memory(kernel)
    completion: Completion | None = None
    # Of others more than an argument's value may change under its name.
    if not (line.is_finalized or (starts and kernel.kernel.addresses is not None)):
        known = kernel.repetition, kernel.launched
        if not tried and kernel.formed is not None and (known[0] is None or known[0] is ONCE):
            completion = _at_once_by_form(kernel, line, args, ndrange, after)
            if completion is not None:
                return Event._vdev_of_command(queue, line.context, _COMMAND, completion)
        if known[0] is None:
            known, key = _known_by_buffers(kernel, args, known)
        repetition = known[0]
        was_tried = tried and repetition is kernel.repetition  # those for other arguments were not
        if repetition is not None and repetition is not ONCE and not was_tried:
            completion = repetition.again(line.order, ndrange, args, after)
            if completion is not None and key is not None:
                _stay(kernel, args, known)
        if completion is None:
            completion = _handed_over(line, kernel, args, ndrange, after, known, key)
    if completion is None:
        completion = _submit(line, kernel, Launch(kernel.kernel, args, ndrange, tried=True), after, key)
    return Event._vdev_of_command(queue, line.context, _COMMAND, completion)


def _known_by_buffers(
    kernel: KernelState, args: tuple[Argument, ...], known: Known
) -> tuple[Known, Key | None]:
    """What was kept for launches with the same buffers, or what is `known` otherwise; and the name under which that is kept."""
    rotation = kernel.rotation
    if rotation is None:  # many kernels are looked up for each launch
        kernel.rotation = Rotation()
        return known, None
    key = rotation.key(kernel, args)
    return known if key is None else rotation.find(key) or known, key


def _stay(kernel: KernelState, args: tuple[Argument, ...], known: Known) -> None:
    """What was kept for launches with the same buffers has made one: if it has made the one before as well, the next one needs no look."""
    if kernel.rotation is not None and kernel.rotation.stays:
        _keep(kernel, args, known[0])
        kernel.launched = known[1]


def _handed_over(
    line: QueueState,
    kernel: KernelState,
    args: tuple[Argument, ...],
    ndrange: NDRange,
    after: Sequence[Completion],
    known: Known,
    key: Key | None = None,
) -> Completion | None:
    """Launch without a submission; None where that is not possible. The second launch with the same arguments, with nothing
    in between that went elsewhere, prepares for more of them. `known`: what was kept for launches with the same arguments. `key`: the
    name under which it is kept for them from now on, even if there are others in between.
    """
    kernel.repetition = None
    repetition, last = known
    at_once = line.session.at_once
    if at_once is None:
        return None
    is_kept = repetition is not None and _is_worthwhile(kernel, repetition) and at_once.is_undisturbed(last)
    part = None
    if kernel.formed is not None and not is_kept:
        part = kernel.formed.launch(line.order, ndrange, args, after)
    if part is None:
        part = at_once.launch(kernel.kernel, args, ndrange, after, line.order)
        if part is None:
            return None
        if not is_kept:
            kernel.formed = at_once.formed(kernel.kernel, kernel.formed)
    kernel.launched = launched = part.stretch.last
    kept: Repeater | None = None
    if not is_kept:
        kernel.repetition = kept = ONCE
    elif all(type(arg) in _REPEATED_AT_ONCE for arg in kernel.args):
        again = (args, ndrange) if line.order.profiled else None
        kept = at_once.in_a_row(kernel.kernel, line.order, part, again)
        _keep(kernel, args, kept)
    if key is not None and kernel.rotation is not None:
        kernel.rotation.keep(key, (kept, launched))
    return completion_of(part) if line.order.profiled else part


def _at_once_by_form(
    kernel: KernelState,
    line: QueueState,
    args: tuple[Argument, ...],
    ndrange: NDRange,
    after: Sequence[Completion],
) -> Part | None:
    """Launch by the kernel's form, which there is, while nobody looks for what repeats launches with the same arguments. None where that
    is not possible.
    """
    formed, is_like_last = kernel.formed, kernel.repetition is ONCE
    assert formed is not None, "the caller has looked"
    # Launches of a whole form take no longer with other buffers; with other images they may have others' textures.
    if is_like_last or kernel.images or not formed.is_whole:
        rotation = kernel.rotation
        if kernel.paused < kernel.pause:
            kernel.paused += 1
        elif rotation is not None and rotation.left and not is_like_last:
            rotation.left -= 1
        else:
            return None
    part = formed.launch(line.order, ndrange, args, after)
    if part is not None:
        kernel.repetition, kernel.launched = ONCE, part.stretch.last
    return part


def _is_worthwhile(kernel: KernelState, before: Repeater | None) -> bool:
    """Whether to keep what repeats a launch: not while one after the other has repeated nothing. `before`: the last one."""
    if before is not None and before is not ONCE:
        kernel.pause = 0 if before.used[0] else min(2 * kernel.pause + 1, _LONGEST_PAUSE)
        kernel.paused = 0
    kernel.paused += 1
    return kernel.paused > kernel.pause


def _keep(kernel: KernelState, args: tuple[Argument, ...], repetition: Repeater | None) -> None:
    """Keep what makes a launch with these arguments again, unless another thread has set one since they were captured."""
    kernel.repetition = repetition
    try:
        now: Sequence[Argument] = kernel.capture(_ROUTINE)
    except native.Error:  # a memory object's last reference is gone
        now = ()
    # Only now, since arguments are set first and what repeats a launch is forgotten afterwards.
    if now != args:
        kernel.repetition = None


def _submit(
    line: QueueState,
    kernel: KernelState,
    command: Launch,
    after: Sequence[Completion],
    key: Key | None,
) -> Completion:
    """Submit a launch, and keep what makes it again. `key`: as in `_handed_over`."""
    if starts:
        command.shared = reached_by_address(kernel.context, kernel.kernel, command.args, _ROUTINE)
    completion = line.submit(command, after)
    repetition = command.repetition
    # Of others more than an argument's value may change under its name.
    if repetition is not None and all(type(arg) in _REPEATED for arg in kernel.args):
        _keep(kernel, command.args, repetition)
        if (
            key is not None and kernel.rotation is not None and repetition.takes_values
        ):  # under that name they may be any
            kernel.rotation.keep(key, (repetition, 0))
    return completion


def _remembered(
    kernel: KernelState,
    global_size: Any,
    local_size: Any,
    offset: Any,
    g_times_l: bool,
    may_be_empty: bool = False,
) -> NDRange | None:
    """The index space, checked; kept with the kernel where the program gave it as tuples."""
    if global_size is None or (g_times_l is not True and g_times_l is not False):
        fail_type(_FUNCTION, global_size, g_times_l)
    if may_be_empty and _is_empty(global_size, local_size, offset, g_times_l):
        return None
    ndrange = None if g_times_l else _resized(kernel, global_size, local_size, offset)
    if ndrange is not None:
        return ndrange
    ndrange = _parse(kernel, global_size, local_size, offset, g_times_l)
    if ndrange is not None and not g_times_l:  # with the program's own tuples, which it may give again
        ndrange = replace(
            ndrange,
            global_size=_same(ndrange.global_size, global_size),
            local_size=_same(ndrange.local_size, local_size),
        )
    if all(_is_key(sizes) for sizes in (global_size, local_size, offset)):
        _remember(kernel, (global_size, local_size, offset, g_times_l), ndrange)
        if ndrange is not None and not g_times_l:
            is_chosen = local_size is None and not any(kernel.kernel.resources.compile_work_group_size)
            signature = kernel.signature
            if len(signature.groupings) >= _MOST_REMEMBERED:
                signature.groupings.clear()
            signature.groupings[local_size] = Grouping(
                local_size,
                _chooser(kernel) if is_chosen else ndrange.local_size,
                state_of(kernel.context).limits["ADDRESS_BITS"],
                takes_partial=signature.allows_partial_groups,
                regroups=is_chosen and signature.regroups,
            )
    return ndrange


def _same(sizes: tuple[int, ...], given: Any) -> tuple[int, ...]:
    """What the program has given, if it is a tuple of just these integers."""
    found: tuple[int, ...] = (
        given if type(given) is tuple and {*map(type, given)} == _PLAIN and given == sizes else sizes
    )
    return found


def _check_whole(*each: Any) -> None:
    """Raise TypeError or ValueError unless these sizes are integers, as those are that they equal: `range` takes no others."""
    for sizes in each:
        if sizes:
            range(*sizes)


def _is_key(sizes: Any) -> bool:
    """Whether these sizes can be looked up: not where one is an array without dimensions, which is a size, but has no hash."""
    return sizes is None or (isinstance(sizes, tuple) and all(isinstance(size, Hashable) for size in sizes))


def _remember(kernel: KernelState, given: tuple[Any, ...], ndrange: NDRange | None) -> None:
    if len(kernel.ndranges) >= _MOST_REMEMBERED:
        kernel.ndranges.clear()
    kernel.ndranges[given] = ndrange


def _resized(kernel: KernelState, global_size: Any, local_size: Any, offset: Any) -> NDRange | None:
    """The index space of that global size and offset, where one with the same local size was found valid, or one without: what is left to
    be checked then is little. None where there was none, or where this one is not valid, or takes a closer look.
    """
    try:
        grouping = kernel.signature.groupings.get(local_size)
    except TypeError:
        return None
    if grouping is None or not (local_size is grouping.given or grouping.is_given(local_size)):
        return None
    ndrange = grouping.over(global_size, offset)
    if ndrange is not None:
        _remember(kernel, (global_size, local_size, offset, False), ndrange)
    return ndrange


def suggested_local_size(
    kernel: KernelState, global_size: tuple[int, ...], offset: tuple[int, ...] | None
) -> tuple[int, ...]:
    """The local size of a launch with that index space, which is not empty, and without a local size of its own.

    From now on such launches of the kernel have it, even on a worker whose compiler alone understands the kernel, and chose another
    one. Raises what the launch would for its index space.
    """
    if kernel.signature.regroups and not kernel.kernel.blind:
        kernel.signature.regroups = False
        kernel.ndranges.clear()
        kernel.signature.groupings.clear()
        kernel.forget()
    ndrange = _remembered(kernel, global_size, None, offset, False)
    assert ndrange is not None, "an empty index space has no local size"
    return ndrange.local_size


def _sizes(name: str, values: Iterable[Any]) -> list[int]:
    if (
        type(values) is tuple
        and {*map(type, values)} == _PLAIN
        and min(values) >= 0
        and max(values) < 1 << 64
    ):
        result = [*values]  # as it nearly always is
    else:
        result = [cast_int(value) for value in values]
    if len(result) > _MOST_DIMENSIONS:
        fail(_FUNCTION, status.INVALID_VALUE, f"too many entries in {name} argument")
    return result


def _parse(
    kernel: KernelState, global_size: Any, local_size: Any, offset: Any, g_times_l: bool
) -> NDRange | None:
    """The index space a call asks for; None where it is empty."""
    return _checked(kernel, *_parsed(global_size, local_size, offset, g_times_l))


def _is_empty(global_size: Any, local_size: Any, offset: Any, g_times_l: bool) -> bool:
    """Whether PyOpenCL enqueues a marker for a launch that may be empty: it does without asking OpenCL whether the local size is valid."""
    sizes, local, _ = _parsed(global_size, local_size, offset, g_times_l)
    return 0 in sizes or (local is not None and 0 in local)


def _parsed(
    global_size: Any, local_size: Any, offset: Any, g_times_l: bool
) -> tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...]]:
    """A call's global size, local size and offset in numbers, with as many dimensions."""
    sizes = _sizes("global_work_size", global_size)
    local: list[int] | None = None
    if local_size is not None:
        local = _sizes("local_work_size", local_size)
        if not g_times_l and len(sizes) != len(local):
            fail(_FUNCTION, status.INVALID_VALUE, "global/local work sizes have differing dimensions")
        dims = max(len(sizes), len(local))
        local += [1] * (dims - len(local))
        sizes += [1] * (dims - len(sizes))
    start = [0] * len(sizes)
    if g_times_l and local:
        sizes = [size * group for size, group in zip(sizes, local, strict=True)]
    if offset is not None:
        start = _sizes("global_work_offset", offset)
        if len(start) != len(sizes):
            fail(_FUNCTION, status.INVALID_VALUE, "global work size and offset have differing dimensions")
        if g_times_l and local:
            start = [first * group for first, group in zip(start, local, strict=True)]
    if not 1 <= len(sizes) <= 3:
        fail(_ROUTINE, status.INVALID_WORK_DIMENSION)
    return tuple(sizes), None if local is None else tuple(local), tuple(start)


def _checked(
    kernel: KernelState, sizes: tuple[int, ...], local: tuple[int, ...] | None, offset: tuple[int, ...]
) -> NDRange | None:
    context = state_of(kernel.context)
    values = context.limits
    largest = 2 ** values["ADDRESS_BITS"] - 1
    if max(sizes) > largest:
        fail(_ROUTINE, status.INVALID_GLOBAL_WORK_SIZE)
    if max(offset) > largest:
        fail(_ROUTINE, status.INVALID_GLOBAL_OFFSET)
    if all(required := tuple(kernel.kernel.resources.compile_work_group_size)[: len(sizes)]):
        # Drivers take a size with fewer dimensions that is given, but choose none.
        if local is None and prod(required) < prod(kernel.kernel.resources.compile_work_group_size):
            fail(_ROUTINE, status.INVALID_WORK_GROUP_SIZE)
        local = required if local is None else local
        if local != required:
            fail(_ROUTINE, status.INVALID_WORK_GROUP_SIZE)
    if local is not None:
        _check_group(kernel, sizes, local, values)
    if 0 in sizes:
        return None
    if local is None:
        return NDRange(sizes, _chooser(kernel)(sizes), offset, kernel.signature.regroups)
    return NDRange(sizes, local, offset)


def _chooser(kernel: KernelState) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """What chooses the local size of a launch without one, whose kernel requires none, for a global size."""
    context, resources = state_of(kernel.context), kernel.kernel.resources
    return partial(
        choose_local_size,
        max_group_size=resources.work_group_size,
        max_item_sizes=context.limits["MAX_WORK_ITEM_SIZES"],
        hint=kernel.kernel.declared.work_group_size_hint,
        multiple=resources.preferred_multiple,
        min_groups=len(context.session.workers),
    )


def _check_group(kernel: KernelState, sizes: tuple[int, ...], local: tuple[int, ...], values: Any) -> None:
    """What clEnqueueNDRangeKernel refuses in a work-group size."""
    total = prod(local)
    if total == 0 or total > kernel.kernel.resources.work_group_size:
        fail(_ROUTINE, status.INVALID_WORK_GROUP_SIZE)
    if any(map(gt, local, values["MAX_WORK_ITEM_SIZES"])):
        fail(_ROUTINE, status.INVALID_WORK_ITEM_SIZE)
    if not kernel.signature.allows_partial_groups and any(map(mod, sizes, local)):
        uneven = "" if values["NON_UNIFORM_WORK_GROUP_SUPPORT"] else _UNEVEN
        fail(_ROUTINE, status.INVALID_WORK_GROUP_SIZE, uneven)


def _check_local_memory(kernel: KernelState) -> None:
    nbytes = kernel.local_nbytes()
    if nbytes <= kernel.known_to_fit:
        return
    context = state_of(kernel.context)
    total = kernel.kernel.resources.local_memory_nbytes + nbytes
    if total > context.limits["LOCAL_MEM_SIZE"] and total > min(
        max(worker.local_memory_nbytes, worker.most_local_nbytes) for worker in context.session.workers
    ):
        fail(_ROUTINE, status.OUT_OF_RESOURCES)
    kernel.known_to_fit = nbytes

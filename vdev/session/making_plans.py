"""From a captured launch to a plan that is ready to run: filled in where launches like it were traced, made on views of its
buffers where that is cheaper, made of the whole otherwise.

Decides which workers a launch may run on, and what becomes of ranges that cannot be evaluated. The plan itself is the
planner's; which of them are kept is decided in `launch_plans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vdev.executor.executor import Executor
from vdev.executor.launch_step import LaunchRecipe
from vdev.executor.prepare import PreparedPlan
from vdev.observe.tallies import (
    ArgumentTally,
    CopyTraffic,
    Outcome,
    Routes,
    Traffic,
    arguments_by_slot,
    count_plan,
    routes_of,
    traffic_of,
)
from vdev.planner.directory import BufferState, kept_on
from vdev.planner.footprints import PointerArg
from vdev.planner.in_place import plan_in_place
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import Evaluate, LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.pending import Unfolded
from vdev.planner.regret import keepers, weighty
from vdev.planner.turns import plan_in_turns
from vdev.session.buffers import VirtualBuffer
from vdev.session.capabilities import shares_host_memory
from vdev.session.commands import Launch
from vdev.session.filling import Forms
from vdev.session.launch_plans import KEPT, CachedPlan, LaunchCache
from vdev.session.requests import (
    EvaluationFault,
    everything,
    hidden_packer,
    recipe_of,
    request_of,
    request_with,
)
from vdev.session.view_plans import view_plan
from vdev.translators.interpreter.summaries import Reason
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.values import dataclass


class NoTurns(Exception):
    """No part of a launch fits into the workers' memory."""


def make_plan(  # noqa: C901 (on the way of every launch)
    launch: Launch,
    buffers: Sequence[VirtualBuffer],
    options: LaunchOptions,
    executor: Executor,
    room: Sequence[int] = (),
) -> CachedPlan:
    """The plan of a launch on buffers as they are, ready to run.

    `room`: by worker, what it may take at a time; then it is taken in turns, or NoTurns is raised.
    """
    kernel, forms = launch.kernel, None
    states = [buffer.state for buffer in buffers]
    if (
        kernel.plans is not None
        and not room
        and options.cuts is None
        and _may_be_filled_in(launch, states, kernel.plans)
        and not kernel.plans.interiors.want_a_plan()
    ):
        filled = _filled_in(launch, buffers, states, options, executor)
        if filled is not None:
            return filled
        forms = kernel.plans.forms
    request = request_of(launch, buffers, forms)
    if kernel.plans is not None and kernel.plans.successors:
        request = replace(request, readings=kernel.plans.readings(launch, request.args))
    if kernel.plans is not None and kernel.program.runs_in_turn:
        request = replace(request, in_turn=True)
    pointers, evaluate = request.args, request.evaluate
    options, kept = _on_workers(launch, states, options, executor)
    if any(state.fine for state in states):
        able = all(shares_host_memory(executor.workers[number]) for number in options.workers)
        request = replace(request, in_place=able)
    try:
        if launch.shared:
            plan = _plan_in_place(launch, buffers, pointers, options, executor)
        else:
            plan, evaluate = _planned(launch, states, request, options, room, forms)
    except Unfolded as refusal:
        plan = Plan((), (), (), tuple(states))
        return CachedPlan(plan, executor.prepare(plan), plan.states, unfolded=refusal.slots)
    if forms is not None:
        forms.planned(plan)
    if kernel.one_worker and not plan.reasons:
        plan = replace(plan, reasons=tuple(str(reason) for reason in kernel.one_worker))
    if kept is not None:
        plan = keep(plan, kept, options.links)
    recipe = recipe_of(launch, plan.partition, executor)
    if recipe is None:  # chunks in turn are not to be had
        kernel.plans.successors.clear()
        return make_plan(launch, buffers, replace(options, cuts=None), executor, room)
    prepared = executor.prepare(plan, recipe)
    if kernel.plans is None:
        return CachedPlan(plan, prepared, plan.states)
    ranges = [evaluate(chunk) for _, chunk in plan.partition]
    available = len(executor.all_workers) - 1
    counted = count_plan(kernel.plans.tally, kernel, launch.ndrange, pointers, plan, ranges, available)
    given = launch, plan, pointers, evaluate, recipe, executor
    prepared, inside = kernel.plans.interiors.prepared(*given, prepared)
    steady = tuple(states) == plan.states
    return CachedPlan(plan, prepared, plan.states, *counted, steady=steady, divided=inside)


def _on_workers(
    launch: Launch, states: Sequence[BufferState], options: LaunchOptions, executor: Executor
) -> tuple[LaunchOptions, int | None]:
    """`options` with the workers on which a launch may run, and the one on which its buffers are kept, if they are."""
    if launch.kernel.stays:
        return replace(options, workers=options.workers[:1]), None
    if launch.shared:
        return options, None
    kept = next(iter(keepers(states, options.links)), None)
    if kept is not None:
        return replace(options, workers=(kept,)), kept
    if any(state.fine for state in states):
        return replace(options, workers=_near_home(options, executor)), None
    return options, None


def _planned(
    launch: Launch,
    states: Sequence[BufferState],
    request: LaunchRequest,
    options: LaunchOptions,
    room: Sequence[int],
    forms: Forms | None,
) -> tuple[Plan, Evaluate]:
    """A plan and the ranges that it goes by: everything, on one worker, where a kernel's own cannot be evaluated. `forms`: where
    the planner alone decides on the launch.
    """
    try:
        plan = None if forms is None else view_plan(states, request, options)
        if plan is not None:
            return plan, request.evaluate
        return _plan(states, request, options, room), request.evaluate
    except EvaluationFault:
        reason = Reason("its access ranges could not be evaluated (see the log)", launch.kernel.info.line)
        evaluate = everything(request.args)
        everywhere = replace(request, evaluate=evaluate, one_worker=(reason,))
        return _plan(states, everywhere, options, room), evaluate


def _may_be_filled_in(launch: Launch, states: Sequence[BufferState], cache: LaunchCache) -> bool:
    """Whether the planner alone decides on the launch, by what `Forms` goes by."""
    if launch.shared or launch.kernel.stays or launch.kernel.summary is None:
        return False
    for state in states:
        if state.fine or state.kept is not None or state.pending:
            return False
    if cache.successors and cache.is_read_in_stripes(launch):
        return False
    return not cache.balance.elsewhere(launch.ndrange.num_groups)


@dataclass(slots=True, eq=False)
class _Filled:
    """What the plans of one form have in common beside what the planner says."""

    prepared: PreparedPlan
    recipe: LaunchRecipe
    reasons: tuple[str, ...]
    outcome: Outcome
    by_slot: dict[int, ArgumentTally]
    routes: Routes | None


def _filled_in(
    launch: Launch,
    buffers: Sequence[VirtualBuffer],
    states: Sequence[BufferState],
    options: LaunchOptions,
    executor: Executor,
) -> CachedPlan | None:
    """The plan of a launch like earlier ones, if it is one of theirs with other numbers."""
    kernel = launch.kernel
    cache: LaunchCache = kernel.plans
    place, offsets = cache.place_of(launch, buffers)
    readers, ndrange = cache.readers, launch.ndrange
    count, work_dim = len(readers), ndrange.work_dim

    def request(values: Sequence[Any]) -> LaunchRequest:
        behind = count + 2 * work_dim
        sizes, offset = tuple(values[count : count + work_dim]), tuple(values[count + work_dim : behind])
        by_argument = {index: value for (index, _), value in zip(readers, values, strict=False)}
        index_space = NDRange(sizes, ndrange.local_size, offset, ndrange.regroups)
        return request_with(launch, index_space, place.pointers(values[behind:]), by_argument)

    args = launch.args
    passed = [args[index] if unpack is None else unpack(args[index])[0] for index, unpack in readers]
    scalars = (*passed, *ndrange.global_size, *ndrange.offset, *offsets)
    found = cache.forms.find(place, scalars, states, options, cache.habits, ndrange.num_groups, request)
    if found is None:
        return None
    plan, shape = found.plan, found.shape
    steady = tuple(states) == plan.states
    kept: _Filled | None = shape.kept
    if kept is None or kept.recipe.ndrange != ndrange:
        recipe = LaunchRecipe(kernel.program.native, kernel.name, ndrange, hidden_packer(kernel.subgrid))
    else:
        recipe = kept.recipe
    if kept is None:
        if kernel.one_worker and not plan.reasons:
            plan = replace(plan, reasons=tuple(str(reason) for reason in kernel.one_worker))
        prepared = executor.prepare(plan, recipe)
        evaluate = cache.forms.ranges(request(scalars))
        ranges = [evaluate(chunk) for _, chunk in plan.partition]
        available = len(executor.all_workers) - 1
        pointers = place.pointers(offsets)
        counted = count_plan(cache.tally, kernel, launch.ndrange, pointers, plan, ranges, available)
        by_slot = arguments_by_slot(cache.tally, pointers)
        if not found.longer:
            routes = routes_of(plan, by_slot)
            shape.kept = _Filled(prepared, recipe, plan.reasons, counted[0], by_slot, routes)
        return CachedPlan(plan, prepared, plan.states, *counted, steady=steady, filled=True)
    if plan.reasons != kept.reasons:
        plan = replace(plan, reasons=kept.reasons)
    cache.tally.plans += 1
    traffic: Traffic | CopyTraffic | None
    if kept.routes is None or found.longer:
        traffic = traffic_of(cache.tally, plan, kept.by_slot)
    else:
        traffic = CopyTraffic(kept.routes, plan.instructions) if kept.routes else None
    if found.longer:
        prepared = executor.prepare(plan, recipe)
    else:
        prepared = kept.prepared = kept.prepared.with_numbers(plan, recipe)
        kept.recipe = recipe
    return CachedPlan(plan, prepared, plan.states, kept.outcome, traffic, steady=steady, filled=True)


def _plan(
    states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions, room: Sequence[int]
) -> Plan:
    if not room:
        return plan_launch(states, request, options)
    plan = plan_in_turns(states, request, options, room)
    if plan is None:
        raise NoTurns
    return plan


def keep(plan: Plan, worker: int, links: LinkCosts, *, small: bool = False) -> Plan:
    """The plan of a launch that runs whole on `worker` because a buffer of it is kept there: all that count are then.

    `small`: as in `regret.weighty`.
    """
    slots = weighty(plan.states, links, small=small)
    states = [kept_on(state, worker) if slot in slots else state for slot, state in enumerate(plan.states)]
    return replace(plan, states=tuple(states), reasons=plan.reasons or (KEPT,))


def _plan_in_place(
    launch: Launch,
    buffers: Sequence[VirtualBuffer],
    pointers: Sequence[PointerArg],
    options: LaunchOptions,
    executor: Executor,
) -> Plan:
    """The plan of a launch that works on the homes of what is shared. Raises Unfolded where anything is pending."""
    homes = set(map(id, launch.shared))
    shared = {slot for slot, buffer in enumerate(buffers) if id(buffer) in homes}
    able = [number for number, info in enumerate(executor.workers) if shares_host_memory(info)]
    workers = [number for number in options.workers if number in able] or able
    states = [buffer.state for buffer in buffers]
    if unfolded := tuple(slot for slot, state in enumerate(states) if state.pending):
        raise Unfolded(unfolded)
    reason = str(launch.kernel.addresses)
    return plan_in_place(states, pointers, shared, launch.ndrange, workers, options.links, reason)


def _near_home(options: LaunchOptions, executor: Executor) -> tuple[int, ...]:
    """The workers for a launch on fine-grain buffers: those that use them in place, if there are any. To others each
    launch brings what it needs, and brings home what it has changed.
    """
    able = [number for number in options.workers if shares_host_memory(executor.workers[number])]
    return tuple(able) or options.workers

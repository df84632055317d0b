"""Plans that launches on kept buffers would have if they were split.

Decides nothing: it makes such plans beside those in use, each for the states in which the one before would have left
the buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vdev.planner.directory import BufferState, kept_on
from vdev.planner.launch_request import LaunchOptions
from vdev.planner.launches import plan_launch
from vdev.planner.pending import folded
from vdev.planner.regret import Stake, stake_of
from vdev.session.accounts import Account
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.launch_plans import CachedPlan
from vdev.session.requests import EvaluationFault, request_of
from vdev.translators.values import replace

_MOST_PLANS = 1024


class SplitPlans:
    """Such plans of one session. Under its lock."""

    def __init__(self, options: LaunchOptions) -> None:
        self._options = options
        self.made = 0  #: plans so far
        #: by everything that they depend on: the states that a launch leaves if it is split, and its stake
        self._found: dict[Any, tuple[tuple[BufferState, ...], Stake | None]] = {}

    def stake(
        self,
        account: Account,
        span: int,
        launch: Launch,
        cached: CachedPlan,
        buffers: Sequence[VirtualBuffer],
    ) -> Stake | None:
        """The stake that the launch would have over `span` workers if its buffers had never been kept. None if it
        would run whole.
        """
        assert cached.stake is not None, "only what is at stake is weighed"
        known, nitems = account.split_states, cached.stake.nitems
        links = self._options.links
        states = [folded(known.get(buffer) or kept_on(buffer.state, None), links) for buffer in buffers]
        # Two launches with one plan differ only in their buffers' states.
        key = (cached, *states)
        found = self._found.get(key)
        if found is None:
            self.made += 1
            try:
                # What is folded later counts as exchanged, too.
                options = replace(self._options, workers=self._options.workers[:span], pending=False)
                plan = plan_launch(states, request_of(launch, buffers), options)
            except EvaluationFault:  # it runs whole
                return None
            if len(self._found) >= _MOST_PLANS:
                self._found.clear()
            found = self._found[key] = (plan.states, stake_of(plan, states, links, nitems))
        after, split = found
        for buffer, state in zip(buffers, after, strict=True):
            known[buffer] = state
        return split

"""The table of planted mistakes: what `pairs_form` says, by kinds."""

from __future__ import annotations

from tests.harness.pairs_barriers import BARRIERS
from tests.harness.pairs_bounds import INDEX, NULL, OUTSIDE
from tests.harness.pairs_groups import AMONG, FILLED
from tests.harness.pairs_members import GIVEN, MEMBERS
from tests.harness.pairs_numbers import NUMBERS, VALUES
from tests.harness.pairs_races import GROUPS, WITHIN
from tests.harness.pairs_shapes import SHAPES
from tests.harness.pairs_users import USERS
from tests.harness.pairs_values import COPIES, LEAVING, ORDERS, POINTERS, PRIVATE

PAIRS = [
    *OUTSIDE,
    *INDEX,
    *NULL,
    *GROUPS,
    *WITHIN,
    *AMONG,
    *FILLED,
    *SHAPES,
    *MEMBERS,
    *GIVEN,
    *VALUES,
    *NUMBERS,
    *BARRIERS,
    *PRIVATE,
    *LEAVING,
    *POINTERS,
    *COPIES,
    *ORDERS,
    *USERS,
]

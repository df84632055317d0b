"""What OpenCL C 2.0 brought: C11's atomics, and pointers that name no address space.

Decides how an effect that a program has anyway is written with them: an atomic that commutes, an exchange, a store.
"""

from __future__ import annotations

import random

from .values import IntType

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
#: a store has no part in reading
STORE_ORDERS = ("relaxed", "release", "seq_cst")
SCOPES = ("", ", memory_scope_device", ", memory_scope_all_svm_devices")
#: how a loop of exchanges computes what is to be there, of the unsigned numbers `o` and `v`
COMPUTED = {"add": "o + v", "sub": "o - v", "and": "o & v", "or": "o | v", "xor": "o ^ v"}


def atomic_object(t: IntType, place: str) -> str:
    return f"((volatile global atomic_{t.name} *)({place}))"


def atomic_update(rng: random.Random, op: str, t: IntType, place: str, value: str) -> str:
    """A statement with the effect of `op` (add, sub, inc, dec, min, max, and, or, xor) on the `t` at `place` in global memory.

    `value` is a text of type `t`, and stands there once.
    """
    if op in ("inc", "dec"):
        op, value = {"inc": "add", "dec": "sub"}[op], f"({t.name})1"
    if rng.random() < 0.3:
        return _loop_of_exchanges(rng, op, t, place, value)
    target = atomic_object(t, place)
    if rng.random() < 0.4:
        return f"atomic_fetch_{op}({target}, {value});"
    order, scope = rng.choice(ORDERS), rng.choice(SCOPES)
    return f"atomic_fetch_{op}_explicit({target}, {value}, memory_order_{order}{scope});"


def _loop_of_exchanges(rng: random.Random, op: str, t: IntType, place: str, value: str) -> str:
    """Until nobody else has changed what was there: by C11's exchange, or by that of OpenCL C 1.x."""
    u = t.partner(False).name
    computed = COMPUTED.get(op)
    new = f"{op}(seen, with)" if computed is None else f"({t.name})({computed})"
    new = new.replace("o ", f"({u})seen ").replace(" v", f" ({u})with") if computed else new
    head = f"const {t.name} with = {value}; volatile global {t.name} *at = (volatile global {t.name} *)({place}); {t.name} seen = *at;"
    if rng.random() < 0.5:
        prefix = "atomic" if t.bits == 32 else "atom"
        loop = f"for ({t.name} before = seen; (seen = {prefix}_cmpxchg(at, before, {new})) != before; before = seen);"
        return f"{{ {head} {loop} }}"
    how = rng.choice(["weak", "strong"])
    call = f"atomic_compare_exchange_{how}({atomic_object(t, 'at')}, &seen, {new})"
    if rng.random() < 0.5:
        orders = (
            f"memory_order_{rng.choice(['relaxed', 'acq_rel'])}, memory_order_relaxed{rng.choice(SCOPES)}"
        )
        call = f"atomic_compare_exchange_{how}_explicit({atomic_object(t, 'at')}, &seen, {new}, {orders})"
    return f"{{ {head} while (!{call}); }}"


def atomic_store(rng: random.Random, t: IntType, place: str, value: str) -> str:
    """A statement that stores `value` at `place` in global memory."""
    target = atomic_object(t, place)
    return rng.choice(
        [
            f"atomic_store({target}, {value});",
            f"atomic_store_explicit({target}, {value}, memory_order_{rng.choice(STORE_ORDERS)}{rng.choice(SCOPES)});",
            f"atomic_exchange({target}, {value});",
            f"atomic_exchange_explicit({target}, {value}, memory_order_{rng.choice(ORDERS)}{rng.choice(SCOPES)});",
        ]
    )

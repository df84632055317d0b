"""Sources of large programs, for what vdev does before the first launch: each a shape that real programs have.

Every function gives OpenCL C with a kernel `work(global uint *a, uint n)` that takes one work-item for each number, and
which `large_kernels.py` builds and launches. `size` is about how many statements there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable

HEAD = "kernel void work(global uint *a, uint n) {\n    uint i = get_global_id(0);\n"


def straight(size: int) -> str:
    """A hash by hand: one statement after another."""
    names = [f"x{number}" for number in range(16)]
    lines = [f"    uint {name} = a[i] + {number}u;" for number, name in enumerate(names)]
    for number in range(size):
        to, one, two = names[number % 16], names[(number + 3) % 16], names[(number + 7) % 16]
        lines.append(f"    {to} = rotate({to} ^ ({one} + {number * 2654435761 % (1 << 32)}u), 7u) + {two};")
    lines.append(f"    a[i] = {' ^ '.join(names)};")
    return HEAD + "\n".join(lines) + "\n}\n"


def macros(size: int) -> str:
    """The same through macros that use macros, with the message in an array: rounds of a digest."""
    head = """
#define F(x, y, z) (z ^ (x & (y ^ z)))
#define G(x, y, z) (y ^ (z & (x ^ y)))
#define ROTATE(x, s) ((x << s) | (x >> (32 - s)))
#define STEP(f, a, b, c, d, k, s) { a += f(b, c, d) + w[k & 15] + k##u; a = ROTATE(a, s); a += b; }
#define TWO(f, a, b, c, d, k, l, s, t) STEP(f, a, b, c, d, k, s) STEP(f, d, a, b, c, l, t)
#define FOUR(f, k0, k1, k2, k3) TWO(f, p, q, r, s, k0, k1, 7, 12) TWO(f, r, s, p, q, k2, k3, 17, 22)
#define SIXTEEN(f) FOUR(f, 0, 1, 2, 3) FOUR(f, 4, 5, 6, 7) FOUR(f, 8, 9, 10, 11) FOUR(f, 12, 13, 14, 15)
"""
    rounds = "".join(f"    SIXTEEN({'FG'[number % 2]})\n" for number in range(max(1, size // 48)))
    fill = "    uint w[16];\n    for (int k = 0; k < 16; ++k) w[k] = a[i] + k;\n    uint p = 1, q = 2, r = 3, s = 4;\n"
    return head + HEAD + fill + rounds + "    a[i] = p ^ q ^ r ^ s;\n}\n"


def inlined(size: int) -> str:
    """Helper functions that call two others each, twelve deep."""
    depth, body = 11, max(1, size >> 12)
    lines = "".join(f"    x = (x << 5) ^ (x >> 3) + {number}u + y;\n" for number in range(body))
    functions = [f"uint f0(uint x, uint y) {{\n{lines}    return x;\n}}\n"]
    for level in range(1, depth + 1):
        call = f"f{level - 1}"
        functions.append(
            f"uint f{level}(uint x, uint y) {{\n    if (x & {1 << level % 20}u) x = {call}(x + y, y);\n"
            f"    else y += {level}u;\n    return x + {call}(y, x);\n}}\n"
        )
    return "".join(functions) + HEAD + f"    a[i] = f{depth}(a[i], n);\n}}\n"


def cases(size: int) -> str:
    """An interpreter of programs in memory: one `switch` in a loop."""
    count = max(2, size // 4)
    text = "".join(
        f"        case {number}: x = x * {2 * number + 1}u + y; y ^= x >> {number % 31}; z += y; break;\n"
        for number in range(count)
    )
    start = "    uint x = a[i], y = i, z = 0;\n    for (uint step = 0; step < 16; ++step) {\n"
    return (
        HEAD
        + start
        + f"        switch (x % {count}u) {{\n{text}        }}\n    }}\n    a[i] = x + y + z;\n}}\n"
    )


def branches(size: int) -> str:
    """A path tracer's: conditions on what has been computed, with early ends, in a loop."""
    lines = ["    uint x = a[i], y = i, z = n, hit = 0;", "    for (int bounce = 0; bounce < 4; ++bounce) {"]
    for number in range(max(1, size // 6)):
        lines.append(
            f"        if ((x >> {number % 29} & 3u) == {number % 4}u) {{ x += y * {number + 3}u; hit = {number}u; }}"
        )
        lines.append(
            f"        else if (y > z + {number}u) {{ y = y / 3 + x; z ^= hit; }} else z += x ^ {number}u;"
        )
        if number % 40 == 39:
            lines.append(f"        if (z == {number}u) break;")
    return HEAD + "\n".join(lines) + "\n    }\n    a[i] = x + y + z + hit;\n}\n"


def chemistry(size: int) -> str:
    """Rates of reactions: floating-point statements over private arrays, and a matrix set element by element."""
    draws, count = random.Random(1), 60
    lines = [
        f"    float y[{count}], rate[{count}];",
        f"    for (int k = 0; k < {count}; ++k) y[k] = (float)(a[i] >> (k & 7)) * 1e-9f;",
        f"    for (int k = 0; k < {count}; ++k) rate[k] = 0;",
    ]
    for number in range(size):
        p, q, r = (draws.randrange(count) for _ in range(3))
        if number % 4 == 0:
            lines.append(
                f"    float k{number} = {number % 97 + 1}e-3f * exp(-{number % 13 + 1}.5f / (1.0f + y[{p}]));"
            )
        last = number // 4 * 4
        lines.append(f"    rate[{r}] += k{last} * y[{p}] * y[{q}] - 0.25f * k{last} * rate[{q}];")
    lines.append(
        "    float sum = 0;\n"
        + f"    for (int k = 0; k < {count}; ++k) sum += rate[k];\n    a[i] = as_uint(sum);"
    )
    return HEAD + "\n".join(lines) + "\n}\n"


def stores(size: int) -> str:
    """A result of many members, each stored by itself."""
    lines = ["    uint x = a[i];"]
    for number in range(size):
        lines.append(f"    x = x * {2 * number + 1}u + {number}u;")
        lines.append(f"    if (i * {size}u + {number}u < n) a[i * {size}u + {number}u] = x;")
    return HEAD + "\n".join(lines) + "\n}\n"


def loops(size: int) -> str:
    """Loops in loops, with bounds out of one another."""
    lines = ["    uint x = a[i], y = 0;"]
    for number in range(max(1, size // 8)):
        lines += [
            f"    for (uint p = 0; p < (n & {number % 7}u); ++p) {{",
            f"        for (uint q = p; q < p + {number % 5}u; q += 1 + (y & 1)) {{",
            f"            x ^= a[(i + p * q + {number}u) % n]; if (x == {number}u) break; y += q;",
            "        }",
            "    }",
        ]
    return HEAD + "\n".join(lines) + "\n    a[i] = x + y;\n}\n"


def many(size: int) -> str:
    """A library: small kernels, of which two are launched."""
    text = "".join(
        f"kernel void other{number}(global uint *a, global const uint *b, uint n) {{\n"
        f"    uint i = get_global_id(0);\n    uint x = b[i] + {number}u;\n"
        f"    for (uint k = 0; k < {number % 9}u; ++k) x = x * 3u + b[(i + k) % n];\n"
        "    if (i < n) a[i] = x;\n}\n"
        for number in range(max(1, size // 8))
    )
    return text + HEAD + "    if (i < n) a[i] = a[i] * 3u + 1u;\n}\n"


SHAPES: dict[str, Callable[[int], str]] = {
    each.__name__: each
    for each in (straight, macros, inlined, cases, branches, chemistry, stores, loops, many)
}

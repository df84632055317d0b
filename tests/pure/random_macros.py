"""Random programs that are hard on a preprocessor: macros that use each other, that name themselves, that paste and make
strings; conditions; lines that are spliced, comments in odd places, alternative tokens.

Every program is valid whatever its macros come to: names that stay are variables, values are looked at as strings and
through conditions. `python -m tests.pure.random_macros SEED COUNT` compares that many with what clang makes of them.
"""

from __future__ import annotations

import random
import sys

from vdev.translators.frontend.source import CompileError, parse_program

_NAMES = ("A", "B", "C", "D", "E", "F", "G", "H", "AB", "BA", "A1", "x", "y", "foo")
_PARAMETERS = ("a", "b", "c")
_SPACES = ("", " ", "  ", "\t", "/**/", " /* c */ ", "\\\n", " \\\n ")
_PIECES = (
    "1", "0x1f", ".5e+3", "1e", "'a'", "'\\''", '"s"', '"\\n\\""', "+", "-", "*", "<<", "<", ":", "%", "->", ".", "x", "foo",
    "__LINE__", "__COUNTER__", "__INCLUDE_LEVEL__", "<:", "%>", "==", "!", "y", "$z", "L'a'", "@", "\\",
)  # fmt: skip


class Generator:
    """One program after the other, all from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        #: parameters of the macros that are defined: None for one without; whether the last takes the rest
        self._macros: dict[str, tuple[tuple[str, ...] | None, bool]] = {}

    def program(self) -> str:
        """A program; its kernel is called `k`."""
        self._macros = {}
        lines = ["#define STR_(...) #__VA_ARGS__", "#define STR(...) STR_(__VA_ARGS__)"]
        for number in range(self._random.randint(8, 20)):
            lines += self._directive(number)
        lines += ["kernel void k(global int *out) {", "  out[0] = __LINE__;", "}", ""]
        return "\n".join(lines)

    def _directive(self, number: int) -> list[str]:
        kind = self._random.random()
        if kind < 0.45:
            return self._definition()
        if kind < 0.5 and self._macros:
            name = self._random.choice(sorted(self._macros))
            self._macros.pop(name)
            return [f"{self._mark()}undef {name}"]
        if kind < 0.65:
            return self._condition(number)
        if kind < 0.7:
            return [self._random.choice(("/* a", "// b \\")), "  #define A nothing */ // */"]
        return [f"constant char s{number}[] = STR({self._text(3)});", f"constant int n{number} = __LINE__;"]

    def _mark(self) -> str:
        return self._random.choice(("#", "#", "# ", " #", "%:", "/**/#", "??="))

    def _space(self) -> str:
        return self._random.choice(_SPACES) if self._random.random() < 0.5 else ""

    def _definition(self) -> list[str]:
        name = self._random.choice(_NAMES[:11])
        lines = [f"#undef {name}"] if name in self._macros else []
        count = self._random.choice((None, None, 0, 1, 2, 3))
        parameters = None if count is None else _PARAMETERS[:count]
        variadic = parameters is not None and self._random.random() < 0.3
        self._macros[name] = (parameters, variadic)
        head = name
        if parameters is not None:
            head += f"({', '.join([*parameters, *(['...'] if variadic else [])])})"
        return [*lines, f"{self._mark()}define {head} {self._space()}{self._body(parameters, variadic)}"]

    def _body(self, parameters: tuple[str, ...] | None, variadic: bool) -> str:
        words = [*(parameters or ()), *(["__VA_ARGS__"] if variadic else [])]
        found: list[str] = []
        for _ in range(self._random.randint(0, 5)):
            kind = self._random.random()
            if words and kind < 0.25:
                found.append(self._random.choice(words))
            elif words and kind < 0.35:
                found.append(f"{self._random.choice(('#', '%:', '# '))}{self._random.choice(words)}")
            elif words and kind < 0.45:
                found.append(
                    f"{self._random.choice(words)} {self._random.choice(('##', '%:%:'))} {self._pasted(words)}"
                )
            elif variadic and kind < 0.5:
                found.append(f"__VA_OPT__({self._random.choice(words)} y)")
            elif variadic and kind < 0.55:
                found.append(", ## __VA_ARGS__")
            elif kind < 0.8:
                found.append(self._use(1))
            else:
                found.append(self._random.choice([piece for piece in _PIECES if piece != "\\"]))
            found.append(self._space() or " ")
        return "".join(found)

    def _pasted(self, words: list[str]) -> str:
        # What stands on both sides may be anything: only names and numbers make a token together in any case.
        return self._random.choice(["A", "1", *words])

    def _use(self, depth: int) -> str:
        name = self._random.choice(_NAMES)
        parameters, variadic = self._macros.get(name, (None, False))
        if parameters is None or self._random.random() < 0.1:
            return name
        count = len(parameters) + (self._random.randint(0, 2) if variadic else 0)
        arguments = ",".join(self._text(2 if depth else 1, depth - 1) for _ in range(count))
        return f"{name}{self._random.choice(('', ' ', self._space()))}({arguments})"

    def _text(self, length: int, depth: int = 2) -> str:
        found = []
        for _ in range(self._random.randint(0, length)):
            if depth > 0 and self._random.random() < 0.6:
                found.append(self._use(depth))
            else:
                found.append(self._random.choice([piece for piece in _PIECES if piece != "\\"]))
            found.append(self._random.choice(("", " ", "\n", self._space())))
        return " ".join(found) if self._random.random() < 0.5 else "".join(found)

    def _condition(self, number: int) -> list[str]:
        first, second = self._random.sample(_NAMES, 2)
        opening = self._random.choice((f"if {self._value()}", f"ifdef {first}", f"ifndef {first}"))
        other = self._random.choice((f"elif {self._value()}", f"elifdef {second}", f"elifndef {second}"))
        return [
            f"{self._mark()}{opening}", f"#define V{number} 1", "#if 0", "don't", "#else", "#endif", f"#{other}", f"#define V{number} 2",
            f"#{self._space()}else // {number}", f"#define V{number} 3", f"{self._mark()}endif", f"constant int v{number} = V{number};",
        ]  # fmt: skip

    def _value(self) -> str:
        atoms = (
            "1", "0", "-1", "2u", "0x7fffffffffffffff", "'a'", "'\\xff'", "'ab'", "true", "false", "x", "defined A", "defined(B)",
            "__LINE__", "-7 / 2", "-7 % 3", "(1 << 3)", "~0u", "(0 && 1 / 0)", "!y", "(1, 2)", "010", "0b11",
            "__has_builtin(__builtin_popcount)",
        )  # fmt: skip
        words = [self._random.choice(atoms)]
        for _ in range(self._random.randint(0, 3)):
            operator = self._random.choice(
                ("+", "-", "*", "<", ">", "==", "!=", "&&", "||", "&", "|", "^", ">=", "? 3 :")
            )
            words += [operator, self._random.choice(atoms)]
        return " ".join(words)


def verdict(source: str) -> str:
    """`same` where clang and the project's preprocessor agree, `invalid` where clang refuses the program, else what differs."""
    try:
        program = parse_program(source)
    except CompileError:
        return "invalid"
    return "same" if program.exact else "; ".join(program.doubts)


def main(seed: int, count: int) -> int:
    generator = Generator(seed)
    tally: dict[str, int] = {}
    for _ in range(count):
        source = generator.program()
        answer = verdict(source)
        tally[answer if answer in ("same", "invalid") else "different"] = tally.get(answer, 0) + 1
        if answer not in ("same", "invalid"):
            print(f"{source}\n--- {answer}")
    print(f"seed {seed}: {tally}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))

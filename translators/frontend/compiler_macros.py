"""Which macros a worker's own compiler has defined: programs ask in conditions, and clang's answer may differ.

Decides how to ask a compiler that reveals nothing except the names of a program's kernels: each question is a kernel
whose name contains the answer. Never builds anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from . import clang
from .conditions import NAME, Malformed, evaluate_integer
from .macros import FEATURE
from .tokens import tokenize

_DIGITS = 16
_ANSWER = re.compile(r"vdev_answer_(\d+)_(?:(none)|(some)|([mp])([0-9a-f]{16}))")
_HEAD = "#define VDEV_NAME_(k, s, {names}) vdev_answer_##k##_##s##{pasted}\n#define VDEV_NAME(...) VDEV_NAME_(__VA_ARGS__)\n"


def questions_of(asked: Collection[str]) -> tuple[str, ...]:
    """The entries of `Preprocessed.asked` that a worker's compiler has to answer: extensions and features depend on
    the device.
    """
    return tuple(sorted(question for question in asked if not FEATURE.match(question)))


def question_program(questions: Sequence[str], *, values: bool = True) -> str:
    """OpenCL C that any compiler takes if the values asked for are integers; without `values`, it always does."""
    names = [f"d{digit}" for digit in range(_DIGITS)]
    text = [_HEAD.format(names=", ".join(names), pasted="##".join(names))]
    for number, question in enumerate(questions):
        operator = question.partition("(")[0]
        text.append(f"#ifdef {operator}\n")
        if values and (operator != question or _is_integer(question)):
            text.append(_value(number, question))
        else:
            text.append(f"kernel void vdev_answer_{number}_some(void) {{}}\n")
        text.append(f"#else\nkernel void vdev_answer_{number}_none(void) {{}}\n#endif\n")
    return "".join(text)


def _is_integer(name: str) -> bool:
    """Whether a name's value can be asked for, as far as clang knows."""
    known = clang.definition(name)
    if known is None:
        return True
    try:
        evaluate_integer([token.text for token in tokenize(known)])
    except Malformed:
        return False
    return True


def _value(number: int, question: str) -> str:
    """Directives for one question, digit by digit, and the kernel whose name they form."""
    lines = [f"#if ({question}) < 0\n#define s m\n#else\n#define s p\n#endif\n"]
    for digit in range(_DIGITS):
        part = f"(({question}) >> {4 * (_DIGITS - 1 - digit)} & 15)"
        for value in range(16):
            lines.append(f"#{'el' if value else ''}if {part} == {value}\n#define d{digit} {value:x}\n")
        lines.append("#endif\n")
    digits = [f"d{digit}" for digit in range(_DIGITS)]
    lines.append(f"kernel void VDEV_NAME({number}, s, {', '.join(digits)})(void) {{}}\n")
    lines += [f"#undef {name}\n" for name in ("s", *digits)]
    return "".join(lines)


def clangs_answers(asked: Collection[str]) -> dict[str, str | None]:
    """What clang itself answers."""
    found: dict[str, str | None] = {}
    for question in asked:
        if NAME.fullmatch(question):
            found[question] = None if FEATURE.match(question) else clang.definition(question)
        else:
            found[question] = str(int(bool(clang.holds(question))))
    return found


def answers_from(questions: Sequence[str], kernels: Collection[str]) -> Mapping[str, str | None]:
    """The answers in the names of a question program's kernels (None: not defined)."""
    found: dict[str, str | None] = {}
    for match in filter(None, map(_ANSWER.fullmatch, kernels)):
        number, none, some, sign, digits = match.groups()
        question = questions[int(number)]
        if none:
            found[question] = None
        elif some:
            found[question] = clang.definition(question) if NAME.fullmatch(question) else "1"
            found[question] = found[question] or ""
        else:
            value = int(digits, 16)
            found[question] = f"({value - (1 << 64)})" if sign == "m" else str(value)
    return found

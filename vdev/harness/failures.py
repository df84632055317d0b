"""How a call of a kernel fails a test: the error with its findings, and the script that reproduces them.

Decides what the error's text says; `formats` prints the findings.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdev.harness import sections
from vdev.harness.findings import Finding
from vdev.harness.formats import as_text


class FindingsError(AssertionError):
    """A run of a kernel showed mistakes: `findings`, which the error's text lists. `script`: reproduces them."""

    def __init__(self, findings: Sequence[Finding], script: str = "") -> None:
        super().__init__(with_script(f"{_headline(findings)}\n\n{as_text(findings)}", script))
        self.script = script
        self.findings = tuple(findings)


def with_script(text: str, script: str) -> str:
    """A failure's text, with the script that shows it again, unless the plugin shows that in a section of its own."""
    if not script or sections.scripts_have_sections:
        return text
    return f"{text}\n\n# --- a script that shows it again\n{script}# --- end of the script"


def _headline(findings: Sequence[Finding]) -> str:
    """All of them in one line, for summaries of tests."""
    names = list(
        dict.fromkeys(f"{each.kind} in kernel {each.kernel}, line {each.place.line}" for each in findings)
    )
    rest = f", and {len(names) - 2} more" if len(names) > 2 else ""
    return "; ".join(names[:2]) + rest

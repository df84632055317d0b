"""Findings printed: text for people, JSON, GitHub's annotations, SARIF 2.1.0 for services.

Decides what each format says of a finding; all of them say the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from vdev.harness.findings import REMEDIES, Finding, Place, Who

#: The name for a program that was given as text.
NO_FILE = "<kernel>"


def as_text(findings: Sequence[Finding]) -> str:
    """Every finding with its lines of source, one paragraph each."""
    return "\n\n".join(_paragraph(finding) for finding in findings)


def as_json(findings: Sequence[Finding]) -> str:
    """A list of objects, with the fields of `Finding`."""
    return json.dumps([asdict(finding) | {"remedy": finding.remedy} for finding in findings], indent=1)


def as_github(findings: Sequence[Finding]) -> str:
    """Workflow commands of GitHub Actions: one annotation for each finding."""
    return "\n".join(
        f"::error file={_property(finding.place.file or NO_FILE)},line={finding.place.line},"
        f"col={finding.place.column},title={_property(finding.kind)}::"
        f"{_data(_sentence(finding) + ' ' + finding.remedy)}"
        for finding in findings
    )


def as_sarif(findings: Sequence[Finding]) -> str:
    """Static Analysis Results Interchange Format 2.1.0 (OASIS)."""
    rules = [{"id": kind, "help": {"text": remedy}} for kind, remedy in REMEDIES.items()]
    driver = {"name": "vdev-check", "rules": rules}
    results = [_result(finding) for finding in findings]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=1)


FORMATS: dict[str, Callable[[Sequence[Finding]], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}


def _paragraph(finding: Finding) -> str:
    lines = [f"{_where(finding.place)}: {finding.kind}: {finding.message}", *_excerpt(finding.place)]
    times = f"; {finding.count} times in the launch" if finding.count > 1 else ""
    if finding.who is not None:
        lines.append(f"  by {describe(finding.who)}{times}")
    if finding.other is not None:
        lines.append(f"  other side: {_where(finding.other)}: {finding.other.expression}")
        lines += _excerpt(finding.other) if finding.other.line != finding.place.line else []
    if finding.other_who is not None:
        lines.append(f"  by {describe(finding.other_who)}")
    return "\n".join([*lines, f"  remedy: {finding.remedy}"])


def _sentence(finding: Finding) -> str:
    return f"{finding.message}." + ("" if finding.who is None else f" By {describe(finding.who)}.")


def _where(place: Place) -> str:
    return f"{place.file or NO_FILE}:{place.line}:{place.column}"


def _excerpt(place: Place) -> list[str]:
    return [f"{place.line:6d} | {place.excerpt.rstrip()}"] if place.excerpt.strip() else []


def describe(who: Who) -> str:
    """A work-item, or a work-group, in words."""
    group = f"work-group {_ids(who.group)}"
    return group if who.item is None else f"work-item {_ids(who.item)} of {group}"


def _ids(ids: Sequence[int]) -> str:
    return f"({', '.join(map(str, ids))})"


def _result(finding: Finding) -> dict[str, Any]:
    related = [] if finding.other is None else [_location(finding.other)]
    return {
        "ruleId": finding.kind,
        "level": "error",
        "message": {"text": _sentence(finding)},
        "locations": [_location(finding.place)],
        "relatedLocations": related,
    }


def _location(place: Place) -> dict[str, Any]:
    region = {"startLine": max(1, place.line), "startColumn": max(1, place.column)}
    region_with_text = region | {"snippet": {"text": place.excerpt}}
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": place.file or NO_FILE},
            "region": region_with_text,
        }
    }


def _data(text: str) -> str:
    """A message of a workflow command: per cent signs and line ends are written as numbers."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

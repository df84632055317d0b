"""Coverage for services: lcov's tracefiles and Cobertura's XML.

Decides how figures are written in formats that others read; see lcov's geninfo(1), "Tracefile format", and Cobertura's
coverage-04.dtd.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from vdev.harness.coverage.figures import FileFigures, LineFigures, Total, total_of

_DOCTYPE = '<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">'


def as_lcov(files: Sequence[FileFigures]) -> str:
    """A tracefile."""
    return "".join(f"TN:\n{_record(each)}end_of_record\n" for each in files)


def _record(file: FileFigures) -> str:
    functions = [(line, name, hits) for (line, name, _), hits in sorted(file.count.functions.items())]
    lines = [f"SF:{file.count.name}"]
    lines += [f"FN:{line},{name}" for line, name, _ in functions]
    lines += [f"FNDA:{hits},{name}" for _, name, hits in functions]
    lines += [f"FNF:{len(functions)}", f"FNH:{sum(hits > 0 for *_, hits in functions)}"]
    for line in file.lines:
        outcomes = [(block, hits) for block, c in enumerate(line.conditions) for hits in c.outcomes.values()]
        lines += [
            f"BRDA:{line.line},{block},{number},{hits if line.hits else '-'}"
            for number, (block, hits) in enumerate(outcomes)
        ]
    total = file.total
    lines += [f"BRF:{total.noutcomes}", f"BRH:{total.taken}"]
    lines += [f"DA:{line.line},{line.hits}" for line in file.lines]
    lines += [f"LF:{total.nlines}", f"LH:{total.lines_hit}"]
    return "".join(f"{line}\n" for line in lines)


def as_cobertura(files: Sequence[FileFigures], root: Path) -> str:
    """An XML document; files are relative to `root`. A package is a folder, a class a file, a method a function."""
    total = total_of(files)
    top = Element(
        "coverage",
        _rates(total)
        | {
            "lines-covered": str(total.lines_hit),
            "lines-valid": str(total.nlines),
            "branches-covered": str(total.taken),
            "branches-valid": str(total.noutcomes),
            "complexity": "0",
            "version": "vdev",
            "timestamp": str(int(time.time() * 1000)),
        },
    )
    SubElement(SubElement(top, "sources"), "source").text = str(root)
    packages = SubElement(top, "packages")
    folders: dict[str, list[FileFigures]] = {}
    for each in files:
        folders.setdefault(each.count.name.rpartition("/")[0], []).append(each)
    for folder, inside in sorted(folders.items()):
        name = folder.replace("/", ".") or "."
        package = SubElement(
            packages, "package", {"name": name} | _rates(total_of(inside)) | {"complexity": "0"}
        )
        classes = SubElement(package, "classes")
        for each in inside:
            _class(classes, each)
    indent(top)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{_DOCTYPE}\n{tostring(top, encoding='unicode')}\n"


def _class(classes: Element, file: FileFigures) -> None:
    name = file.count.name
    found = {"name": name.rpartition("/")[2], "filename": name} | _rates(file.total) | {"complexity": "0"}
    element = SubElement(classes, "class", found)
    methods = SubElement(element, "methods")
    for (line, function, _), hits in sorted(file.count.functions.items()):
        rate = "1" if hits else "0"
        rates = {"line-rate": rate, "branch-rate": rate, "complexity": "0"}
        method = SubElement(methods, "method", {"name": function, "signature": "()"} | rates)
        SubElement(SubElement(method, "lines"), "line", {"number": str(line), "hits": str(hits)})
    lines = SubElement(element, "lines")
    for each in file.lines:
        _line(lines, each)


def _line(lines: Element, line: LineFigures) -> None:
    element = SubElement(lines, "line", {"number": str(line.line), "hits": str(line.hits), "branch": "false"})
    taken, total = line.outcomes
    if not total:
        return
    element.set("branch", "true")
    element.set("condition-coverage", f"{100 * taken // total}% ({taken}/{total})")
    conditions = SubElement(element, "conditions")
    for number, condition in enumerate(line.conditions):
        hits = condition.outcomes.values()
        rate = 100 * sum(each > 0 for each in hits) // len(hits)
        kind = "switch" if len(hits) != 2 or "true" not in condition.outcomes else "jump"
        SubElement(conditions, "condition", {"number": str(number), "type": kind, "coverage": f"{rate}%"})


def _rates(total: Total) -> dict[str, str]:
    return {"line-rate": f"{total.line_rate:.4g}", "branch-rate": f"{total.branch_rate:.4g}"}

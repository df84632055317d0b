"""Coverage of kernels: what each construct counts, merging, and reports, on kernels whose every line says what to expect.

A line of a kernel that has something to run ends with `//=`, `+` where it runs or `-` where it does not, and the ways its
conditions go, in their order: T and F, of a switch the numbers of its cases, capital letters where they are taken.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange

from vdev.cli import check
from vdev.harness import Program, assert_equal, empty
from vdev.harness.checked_launch import Memory, Pointer
from vdev.harness.coverage import counting, data, reports
from vdev.harness.coverage.counting import Counting
from vdev.harness.coverage.data import Data, FileCount
from vdev.harness.coverage.figures import FileFigures, State, Threshold, figures_of, total_of
from vdev.harness.coverage.reports import Wish
from vdev.harness.running import open_session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A count of this test's own."""
    mine = Counting(tmp_path)
    monkeypatch.setattr(counting, "_counting", mine)
    return mine


def expected(text: str) -> dict[int, tuple[bool, list[str]]]:
    """By line: whether it runs, and the ways of its conditions."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r"//= ([+-])(.*)$", line):
            found[number] = match[1] == "+", match[2].split()
    return found


def actual(count: FileCount) -> dict[int, tuple[bool, list[str]]]:
    (found,) = figures_of([count])
    return {line.line: (line.hits > 0, [ways(c.outcomes) for c in line.conditions]) for line in found.lines}


def ways(outcomes: dict[str, int]) -> str:
    """Of a condition `TF`, the one that was not taken as a small letter; of a switch `1,2,D`."""
    if set(outcomes) == {"true", "false"}:
        return "".join(
            way if outcomes[name] else way.lower() for name, way in (("true", "T"), ("false", "F"))
        )
    names = [name.removeprefix("case ").replace(" ", "") for name in outcomes]
    return ",".join(
        f"{'' if hits else '!'}{name}" for name, hits in zip(names, outcomes.values(), strict=True)
    )


CONSTRUCTS = {
    "if": """
kernel void k(global int *a, int n) {
  int unused;
  int i = get_global_id(0);  //= +
  if (i > 5)  //= + tF
    a[0] = 1;  //= -
  else if (i == n)  //= + TF
    a[1] = 1;  //= +
  else {
    a[2] = 1;  //= +
  }
  if (n) { a[3] = 1; } else a[3] = 2;  //= + Tf
}
""",
    "leaving": """
int f(int i) {
  if (i < 0)  //= + tF
    return 1;  //= -
  return 2;  //= +
}
int unused(int i) {
  i++;  //= -
  return i;  //= -
}
kernel void k(global int *a, int n) {
  a[0] = f(n);  //= +
  if (n == 2)  //= + Tf
    return;  //= +
  a[1] = 1;  //= -
  a[2] = 1;  //= -
}
kernel void never(global int *a) {
  a[0] = 1;  //= -
}
""",
    "loops": """
kernel void k(global int *a, int n) {
  for (int i = 0; i < n; i++)  //= + TF
    a[i] = 1;  //= +
  for (int i = 0; i < n - 2; i++)  //= + tF
    a[i] = 1;  //= -
  int j = 0;  //= +
  while (j < 3)  //= + TF
    j++;  //= +
  while (1) {  //= +
    if (j-- == 0)  //= + TF
      break;  //= +
    if (j > 5)  //= + tF
      continue;  //= -
  }
  do {
    a[0]++;  //= +
  } while (a[0] < n - 5);  //= + tF
  do a[1] = 2; while (0);  //= +
  for (;;)  //= +
    break;  //= +
  #pragma unroll 2
  for (int i = 0; i < n; i++) ;  //= + TF
  __attribute__((opencl_unroll_hint(2)))
  for (int i = 0;  //= +
       i < n;  //= + TF
       i++)
    a[2] = i;  //= +
}
""",
    "switch": """
enum sort { SMALL = 2, LARGE = 300 };
kernel void k(global int *a, int n) {
  switch (n) {  //= + !1,2,!3...5,!nocase
    case 1: a[0] = 1;  //= -
    case SMALL:
      a[1] = 1;  //= +
      a[2] = 1;  //= +
      break;  //= +
    case 3 ... 5: a[3] = 1; break;  //= -
  }
  switch ((uchar)n) {  //= + !200,default
    default: a[0] = 2;  //= +
    case 200: a[1] = 2;  //= +
  }
  switch (n + LARGE) case LARGE: a[2] = 5;  //= + !300,nocase
  switch (-(long)n) {  //= + -2,!nocase
    case -2L: { a[1] = 1; break; }  //= +
  }
  switch ((long)n << 32 | 1) {  //= + !1,8589934593,!nocase
    case 1: break;  //= -
    case 1L << 33 | 1: a[5] = 1;  //= +
  }
  switch (sizeof(int)) { case 4: a[4] = 1; }  //= +
}
""",
    "expressions": """
kernel void k(global int *a, int n, float x) {
  a[0] = n > 1 ? 3 : 4;  //= + Tf
  a[1] = n > 1 && n > 5 || n == 2;  //= + Tf tF Tf
  a[2] = !(n && x) ? 1 : 2;  //= + Tf Tf
  if (n < 1 && a[0])  //= + tF tf
    a[3] = 1;  //= -
  int4 v = (int4)(n), w = (v > 1) ? v : (int4)(0);  //= +
  v = v && w;  //= +
  if (x) a[3] = v.x;  //= + Tf
  if (n > 1 == (x > 0 ? 1 : 0)) a[3] = 1;  //= + Tf Tf
  a[4] = sizeof(n > 1 ? 1 : 2) > 2 ? 1 : 0;  //= +
  a[5] = ({ int t = n; if (t > 3) t = 3; t; });  //= + tF
  global int *p = n > 1 ? a : a + 1;  //= + Tf
  if (p) p[1]++;  //= + Tf
  a[6] = (n, x > 1) ? 1 : 0; a[7] = n < 2 ?: 7;  //= + Tf
}
""",
    "lines": """
#define TWICE(x) do { if (x) a[1] = 1; else a[2] = 1; } while (0)
#define NOTHING
constant int table[] = {1, 2, 1 ? 3 : 4};
kernel void k(global int *a, int n) {
  { int i = 1; } { a[0] = 1; }  //= +
  TWICE(n > 1);  //= + Tf
  TWICE(n > 5);  //= + tF
  a[0] = n +  //= +
    1;
  local int tile[4], *q; const int c = 3;  //= +
  NOTHING;
  goto end;  //= +
  a[1] = 1;  //= -
end:
  a[2] = 1;  //= +
#if 0
  a[3] = 1;
#endif
  if (n > 1) ; else a[3] = 1;  //= + Tf
}
""",
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_each_construct(name: str, counted: Counting) -> None:
    text = CONSTRUCTS[name]
    program = Program(text, check=False)  # all work-items do the same here
    extra = (2.0,) if name == "expressions" else ()
    program.k(np.zeros(8, np.int32), 2, *extra, global_size=3 if name == "if" else 1, local_size=1)
    (count,) = counted.data.files.values()

    assert actual(count) == expected(text)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_program_that_counts_computes_the_same(name: str, counted: Counting) -> None:
    program = Program(CONSTRUCTS[name], check=False)
    extra = (np.float32(2),) if name == "expressions" else ()
    (wanted,) = program.k(np.zeros(8, np.int32), 2, *extra, global_size=1, local_size=1)
    memory = Memory(np.zeros(32, np.uint8), np.ones(32, np.bool_))
    args = [Pointer(memory, 0, 32), np.int32(2).tobytes(), *(number.tobytes() for number in extra)]
    executor = open_session("cpu:1").executor
    counted.launch(program._program, "k", args, NDRange((1,), (1,), (0,)), lambda run: executor.call(0, run))

    assert counted.data.nlaunches == 2
    assert_equal(memory.content.view(np.int32), wanted)


def test_consecutive_statements_share_a_counter(counted: Counting) -> None:
    """A jump into the middle, and a loop around a label."""
    text = """
kernel void k(global int *a, int n) {
  int i = 0;  //= +
  switch (n) { case 0: do { a[0] = 1;  //= + TF !0,2,!nocase
    case 2: a[1] = 1;  //= +
    } while (i++ < 0);
    a[2] = 1;  //= +
  }
  if (n == 2) goto inside;  //= + Tf
  a[3] = 1;  //= -
  {
    a[4] = 1;  //= -
inside:
    a[5] = 1;  //= +
  }
  a[6] = 1;  //= +
}
"""
    Program(text, check=False).k(np.zeros(8, np.int32), 2, global_size=1)
    (count,) = counted.data.files.values()
    found = actual(count)

    assert found.pop(4)[1] == ["!0,2,!nocase"]
    assert found.pop(6) == (True, ["tF"])
    wanted = expected(text)
    wanted.pop(4)
    assert found == wanted


def test_what_is_left_out_is_said(counted: Counting) -> None:
    text = "kernel void k(global int *a, int n) {\n  a[0] = n ?: 3;\n}\n"
    Program(text).k(np.zeros(1, np.int32), 1, global_size=1)

    assert {(line, what) for _, line, what in counted.data.notes} == {
        (2, "the condition of ?: without a second operand")
    }


def test_a_program_that_cannot_be_followed_is_reported(counted: Counting) -> None:
    """A directive within a macro's arguments leaves no text without macros (C99 6.10.3p11)."""
    text = """
#define BOTH(x, y) x + y
kernel void k(global int *a) {
  a[0] = BOTH(1,
#if 1
    2
#endif
  );
}
"""
    (found,) = Program(text, check=False).k(np.zeros(1, np.int32), global_size=1)
    ((file, line, what),) = counted.data.notes

    assert found[0] == 3
    assert not counted.data.files
    assert (file[:2], line) == ("k-", 0)
    assert "directive within macro arguments" in what


# programs -----------------------------------------------------------------------------------------


def test_options_and_included_files(counted: Counting, tmp_path: Path) -> None:
    """Two builds of a file are one file: it has the lines of both."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "help.h").write_text("int help(int i) {\n  return i + 1;  //= +\n}\n")
    text = """#include "parts/help.h"
kernel void k(global int *a, int n) {
#if TWICE
  a[0] = 2 * help(n);  //= +
#else
  a[0] = help(n);  //= +
#endif
  if (TWICE)  //= +
    a[1] = 1;  //= -
  if (n > TWICE)  //= + TF
    a[2] = 1;  //= +
}
"""
    (tmp_path / "k.cl").write_text(text)
    Program(tmp_path / "k.cl", "-DTWICE=0").k(np.zeros(3, np.int32), 1, global_size=1)
    Program(tmp_path / "k.cl", "-DTWICE=2").k(np.zeros(3, np.int32), 1, global_size=1)
    Program(tmp_path / "k.cl", "-DTWICE=1")
    main, included = sorted(counted.data.files.values(), key=lambda count: count.name)

    assert (main.name, included.name) == ("k.cl", "parts/help.h")
    wanted = expected(text)
    wanted[9] = True, []  # in one build
    assert actual(main) == wanted
    assert actual(included) == expected(included.text)
    assert (main.functions, included.functions) == ({(2, "k", True): 2}, {(1, "help", False): 2})


def test_conditions_that_are_constants_in_one_build(counted: Counting, tmp_path: Path) -> None:
    """They keep their numbers: what stands beside them on the line is the same in both builds."""
    text = "kernel void k(global int *a, int n) {\n  a[0] = FIRST && n > 5;  //= + tF Tf\n}\n"
    (tmp_path / "k.cl").write_text(text)
    Program(tmp_path / "k.cl", "-DFIRST=1").k(np.zeros(1, np.int32), 6, global_size=1)
    Program(tmp_path / "k.cl", "-DFIRST=n").k(np.zeros(1, np.int32), 0, global_size=1)
    (count,) = counted.data.files.values()

    assert actual(count) == expected(text)


def test_files_elsewhere_are_left_out(counted: Counting, tmp_path: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "other.h").write_text("int other(int i) { return i; }\n")
    program = Program(
        '#include "other.h"\n#line 7 "rule.y"\nkernel void k(global int *a) { a[0] = other(3); }',
        f"-I{elsewhere}",
    )
    program.k(np.zeros(1, np.int32), global_size=1)
    ((name, count),) = ((count.name, actual(count)) for count in counted.data.files.values())

    assert (name, count) == ("rule.y", {7: (True, [])})


IN_PYTHON = """
kernel void k(global int *a, int n) {
  if (n) a[0] = 1;
}
"""


def test_a_text_in_a_python_file_is_reported_there(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Counting(ROOT)
    monkeypatch.setattr(counting, "_counting", mine)
    Program(IN_PYTHON).k(empty(1, np.int32), 1, global_size=1)
    Program(IN_PYTHON + "// made\n")
    here, made = sorted(mine.data.files.values(), key=lambda count: count.name, reverse=True)
    line = Path(__file__).read_text().splitlines().index("  if (n) a[0] = 1;") + 1

    assert here.name == "tests/harness/test_coverage.py"
    assert actual(here) == {line: (True, ["Tf"])}
    assert here.spans == {(line - 2, line + 2)}
    assert re.fullmatch(r"k-[0-9a-f]{8}\.cl", made.name)
    assert actual(made) == {3: (False, ["tf"])}


def test_a_launch_with_findings_is_not_made_to_count(counted: Counting) -> None:
    """It may do anything outside the checks."""
    program = Program("kernel void k(global int *a) {\n  a[get_global_id(0)] = 1;\n}\n")
    with pytest.raises(AssertionError, match="out-of-bounds"):
        program.k(empty(2, np.int32), global_size=4)

    assert [actual(count) for count in counted.data.files.values()] == [{2: (False, [])}]
    assert counted.data.nlaunches == 0


# data ---------------------------------------------------------------------------------------------


def test_data_of_processes_are_merged(tmp_path: Path) -> None:
    left, right = Data(), Data()
    for each, hits in ((left, (1, 0)), (right, (1, 2))):
        count = each.file("k.cl", "text")
        count.add_statement((1, 0), 1, hits[0])
        count.add_statement((2, 0), 3, hits[1])
        for outcome, number in zip(("true", "false"), hits, strict=True):
            count.add_outcome((1, 0, "if"), "n", outcome, number)
        each.nlaunches = 2
    right.file("k.cl", "edited").add_statement((9, 0), 9, 0)
    right.notes.add(("k.cl", 4, "why"))
    for each in (left, right):
        data.save(each, tmp_path / "data")
    merged = data.load(tmp_path / "data")

    count = merged.file("k.cl", "text")
    assert {key: found.hits for key, found in count.statements.items()} == {(1, 0): 2, (2, 0): 2}
    assert count.conditions[1, 0, "if"].outcomes == {"true": 2, "false": 2}
    assert (merged.nlaunches, merged.notes) == (4, {("k.cl", 4, "why")})
    (tmp_path / "k.cl").write_text("text")
    assert [each.text for each in merged.latest(tmp_path)] == ["text"]
    (tmp_path / "k.cl").write_text("edited")
    assert [each.text for each in merged.latest(tmp_path)] == ["edited"]
    data.erase(tmp_path / "data")
    assert not data.load(tmp_path / "data").files


def test_foreign_data_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"version": 0}))

    with pytest.raises(ValueError, match=r"x\.json is not coverage data of this version: version 0"):
        data.load(tmp_path)


# reports ------------------------------------------------------------------------------------------


def sample_data() -> Data:
    """A file with a line of each kind."""
    found = Data()
    count = found.file("folder/k<1>.cl", "void f() {\n  a;\n  if (b < 1) c;\n  d;\n  e(\n    1);\n}\n")
    for line, stop, hits in ((2, 2, 4), (3, 3, 4), (4, 4, 0), (5, 6, 0)):
        count.add_statement((line, 0), stop, hits)
    for outcome, hits in (("true", 0), ("false", 4)):
        count.add_outcome((3, 0, "if"), "b < 1", outcome, hits)
    for outcome in ("case 1", "case 2", "default"):
        count.add_outcome((5, 0, "switch"), "e", outcome, 0)
    count.add_function((1, "f", True), 4)
    found.file("other.cl", "x;").add_statement((1, 0), 1, 1)
    found.notes.add(("other.cl", 0, "why"))
    return found


def sample_files() -> list[FileFigures]:
    return figures_of(sample_data().latest(ROOT))


def test_figures() -> None:
    first, _ = sample_files()
    total = total_of(sample_files())
    two = FileCount("two.cl", "a; b;")
    two.add_statement((1, 0), 1, 3)
    two.add_statement((1, 1), 1, 0)
    (alone,) = figures_of([two])[0].lines

    assert (alone.state, alone.never) == (State.PARTIAL, ["a statement on the line never ran"])
    assert [line.state for line in first.lines] == [State.COVERED, State.PARTIAL, State.MISSED, State.MISSED]
    assert (total.lines_hit, total.nlines, total.taken, total.noutcomes) == (3, 5, 1, 5)
    assert Threshold.parse("60,20").failures(total) == []
    assert Threshold.parse("60.1").failures(total) == [
        "line coverage of kernels is 60%, and 60.1% is required"
    ]
    assert Threshold.parse("0,21").failures(total) == [
        "branch coverage of kernels is 20%, and 21% is required"
    ]
    for wrong in ("x", "101", "1,2,3", "nan"):
        with pytest.raises(ValueError, match=f"not a threshold: '{wrong}'"):
            Threshold.parse(wrong)


def test_the_table() -> None:
    assert reports.as_text(sample_data(), sample_files()).splitlines() == [
        "file            lines  missed  cover  branches  missed  cover  lines that never ran",
        "folder/k<1>.cl      4       2    50%         5       4    20%  4-5",
        "other.cl            1       0   100%         0       0      -",
        "in all              5       2    60%         5       4    20%",
        "  folder/k<1>.cl:3: b < 1 is never true",
        "  not counted: other.cl: why",
    ]


def parse_lcov(text: str) -> dict[str, dict[str, Any]]:
    """By file, what a tracefile says; every record must be one that geninfo(1) has, and its sums must hold."""
    files: dict[str, dict[str, Any]] = {}
    now: dict[str, Any] = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        parts = rest.split(",")
        if key == "SF":
            now = files[rest] = {"lines": {}, "branches": {}, "functions": {}, "sums": {}}
        elif key == "DA":
            now["lines"][int(parts[0])] = int(parts[1])
        elif key == "BRDA":
            number, block, branch = map(int, parts[:3])
            now["branches"][number, block, branch] = None if parts[3] == "-" else int(parts[3])
        elif key == "FN":
            now["functions"][parts[1]] = int(parts[0]), None
        elif key == "FNDA":
            now["functions"][parts[1]] = now["functions"][parts[1]][0], int(parts[0])
        elif key == "end_of_record":
            sums, lines, branches = now.pop("sums"), now["lines"], now["branches"]
            assert (sums["LF"], sums["LH"]) == (len(lines), sum(hits > 0 for hits in lines.values()))
            assert (sums["BRF"], sums["BRH"]) == (len(branches), sum(map(bool, branches.values())))
            assert sums["FNF"] == len(now["functions"])
        else:
            assert key in ("TN", "LF", "LH", "BRF", "BRH", "FNF", "FNH"), line
            now.get("sums", {})[key] = int(rest or 0)
    return files


def test_lcov() -> None:
    found = parse_lcov(reports.as_lcov(sample_files()))

    assert found["folder/k<1>.cl"] == {
        "lines": {2: 4, 3: 4, 4: 0, 5: 0},
        "branches": {(3, 0, 0): 0, (3, 0, 1): 4, (5, 0, 0): None, (5, 0, 1): None, (5, 0, 2): None},
        "functions": {"f": (1, 4)},
    }
    assert found["other.cl"] == {"lines": {1: 1}, "branches": {}, "functions": {}}


DTD_TOP = ("lines-valid", "branches-covered", "branches-valid", "complexity", "version", "timestamp")
#: coverage-04.dtd: by element, its children in order (`?`: may be missing, `*`: any number) and attributes; those behind `|`
#: may be missing.
DTD = {
    "coverage": ("sources? packages", f"line-rate branch-rate lines-covered {' '.join(DTD_TOP)} |"),
    "sources": ("source*", "|"),
    "source": ("", "|"),
    "packages": ("package*", "|"),
    "package": ("classes", "name line-rate branch-rate complexity |"),
    "classes": ("class*", "|"),
    "class": ("methods lines", "name filename line-rate branch-rate complexity |"),
    "methods": ("method*", "|"),
    "method": ("lines", "name signature line-rate branch-rate complexity |"),
    "lines": ("line*", "|"),
    "line": ("conditions*", "number hits | branch condition-coverage"),
    "conditions": ("condition*", "|"),
    "condition": ("", "number type coverage |"),
}  # fmt: skip


def check_element(element: ElementTree.Element) -> None:
    children, attributes = DTD[element.tag]
    pattern = "".join(
        f"(?:{word.rstrip('?*')} ){word[len(word.rstrip('?*')) :]}" for word in children.split()
    )
    assert re.fullmatch(pattern, "".join(f"{child.tag} " for child in element)), element.tag
    required, optional = (set(words.split()) for words in attributes.split("|"))
    assert required <= set(element.attrib) <= required | optional, element.tag
    for child in element:
        check_element(child)


def test_cobertura() -> None:
    top = ElementTree.fromstring(reports.as_cobertura(sample_files(), ROOT))
    check_element(top)
    first, second = (list(each.iter("class")) for each in top.iter("package"))
    lines = {int(line.get("number", "")): dict(line.attrib) for line in second[0].findall("lines/line")}

    assert (top.get("line-rate"), top.get("branch-rate"), top.findtext("sources/source")) == (
        "0.6",
        "0.2",
        str(ROOT),
    )
    assert (first[0].get("filename"), second[0].get("filename")) == ("other.cl", "folder/k<1>.cl")
    assert lines[2] == {"number": "2", "hits": "4", "branch": "false"}
    assert lines[3] == {"number": "3", "hits": "4", "branch": "true", "condition-coverage": "50% (1/2)"}
    assert [each.get("type") for each in second[0].iter("condition")] == ["jump", "switch"]


class Page(HTMLParser):
    """The rows of a page's source, and what is open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: dict[str, str] = {}
        self.links: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "link"):
            self._open.append(tag)
        found = dict(attrs)
        self.links += [found[name] or "" for name in ("href", "src") if name in found]
        if tag == "tr" and "id" in found:
            self.rows[found["id"] or ""] = found.get("class") or ""

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_pages(tmp_path: Path) -> None:
    outcome = reports.report(sample_data(), [Wish.parse("html:pages/of")], Threshold(), tmp_path)
    folder = tmp_path / "pages" / "of"
    index = Page((folder / "index.html").read_text())
    names = [link for link in index.links if link.endswith(".html")]
    pages = [Page((folder / name).read_text()) for name in names]

    assert outcome.text == "coverage of kernels as html: pages/of"
    assert len(names) == 2
    assert pages[0].rows == {
        "L1": "", "L2": "covered", "L3": "partial", "L4": "missed", "L5": "missed", "L6": "missed", "L7": "",
    }  # fmt: skip
    assert "b &lt; 1 is never true" in (folder / names[0]).read_text()
    assert "k&lt;1&gt;.cl" in (folder / "index.html").read_text()
    for page in (index, *pages):
        assert "script" not in page.tags
        for link in page.links:
            assert link.startswith("#") or (folder / link.partition("#")[0]).is_file(), link
        assert all(link[1:] in page.rows for link in page.links if link.startswith("#"))


def test_a_page_of_a_python_file_shows_its_programs_alone(tmp_path: Path) -> None:
    found = Data()
    count = found.file("a.py", "".join(f"line {number}\n" for number in range(1, 31)))
    count.add_statement((15, 0), 15, 1)
    count.spans.add((14, 16))
    reports.report(found, [Wish.parse("html:out")], Threshold(), tmp_path)
    (page,) = (path for path in (tmp_path / "out").glob("a_py_*.html"))

    assert list(Page(page.read_text()).rows) == [f"L{number}" for number in range(12, 19)]
    assert page.read_text().count("lines that are not OpenCL C") == 2


# whole runs ---------------------------------------------------------------------------------------

TESTS = """
import numpy as np
import pytest

from vdev.harness import empty


@pytest.mark.opencl("k.cl")
@pytest.mark.parametrize("n", [0, 1])
def test_k(kernels, n):
    kernels.k(empty(1, np.int32), n, global_size=1)
"""
KERNEL = """kernel void k(global int *a, int n) {
  if (n)
    a[0] = 1;
  else
    a[0] = 2;
}
kernel void unused(global int *a) {
  a[0] = 3;
}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "k.cl").write_text(KERNEL)
    (folder / "test_k.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return folder


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=900, check=False)
    return done.returncode, done.stdout + done.stderr


def lines_of(path: Path, name: str = "k.cl") -> dict[int, int]:
    found: dict[int, int] = parse_lcov(path.read_text())[name]["lines"]
    return found


def test_processes_of_xdist_are_merged(project: Path) -> None:
    """Each of the two tests runs in a process of its own."""
    status, output = run(
        project, "pytest", "-n2", "--dist=load",
        "--opencl-cov-report=lcov:each.lcov", "--opencl-cov-report=text", "--opencl-cov-fail-under=75,100",
    )  # fmt: skip

    assert status == 0, output
    assert lines_of(project / "each.lcov") == {2: 2, 3: 1, 5: 1, 8: 0}
    assert re.search(r"k\.cl +4 +1 +75% +2 +0 +100% +8$", output, re.MULTILINE), output


def test_a_threshold_fails_the_run_and_may_be_in_the_configuration(project: Path) -> None:
    options = [
        "-o",
        "opencl_cov=true",
        "-o",
        "opencl_cov_fail_under=76",
        "-o",
        "opencl_cov_report=lcov:ini.lcov",
    ]
    status, output = run(project, "pytest", *options)

    assert status == 1
    assert "2 passed" in output
    assert "line coverage of kernels is 75%, and 76% is required" in output
    assert lines_of(project / "ini.lcov") == {2: 2, 3: 1, 5: 1, 8: 0}


def test_pyopencl_on_the_virtual_device(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that are split count once each."""
    folder = project / "pyopencl"
    folder.mkdir()
    test = """
import numpy as np, pyopencl as cl, pyopencl.array as array

SOURCE = '''
kernel void k(global int *a) {
  if (a[get_global_id(0)] > 5)
    a[get_global_id(0)] = 5;
}
'''

def test_k():
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    found = array.to_device(queue, np.arange(64, dtype=np.int32))
    cl.Program(queue.context, SOURCE).build().k(queue, (64,), (4,), found.data)
    assert found.get().max() == 5
"""
    (folder / "test_pyopencl.py").write_text(test)
    monkeypatch.setenv("VDEV", "1")
    monkeypatch.setenv("VDEV_WORKERS", "cpu:2")
    status, output = run(folder, "pytest", "-p", "no:cacheprovider", "--opencl-cov-report=lcov:found.lcov")
    found = parse_lcov((folder / "found.lcov").read_text())["test_pyopencl.py"]

    assert status == 0, output
    assert found["lines"] == {6: 1, 7: 1}
    assert found["branches"] == {(6, 0, 0): 1, (6, 0, 1): 1}


def test_options_that_mean_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, output = run(project, "pytest", "--opencl-cov-report=pdf")

    assert status == pytest.ExitCode.USAGE_ERROR
    assert "unknown kind of coverage report: 'pdf'; the kinds are text, lcov, xml, html" in output
    with pytest.raises(SystemExit) as ended:
        check.main(["--coverage-fail-under", "1000", "x.py"])
    assert ended.value.code == 2
    assert "not a threshold: '1000'" in capsys.readouterr().err


PROGRAM = '''
import sys
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, open("k.cl").read()).build()
other = cl.Program(context, """
kernel void other(global int *a) {
  a[1] = 1;
}
""").build()
memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
program.k(queue, (1,), None, memory, np.int32(sys.argv[1]))
found = np.empty(1, np.int32)
cl.enqueue_copy(queue, found, memory)
print("found", found[0])
'''


def test_whole_programs_one_after_the_other(project: Path) -> None:
    """The second run adds to what the first has covered; what is built and not launched counts as not covered."""
    (project / "program.py").write_text(PROGRAM)
    first = ["--coverage-report", "lcov:first.lcov", "--coverage-fail-under", "99", "program.py", "1"]
    status, output = run(project, "vdev.cli.check", *first)
    assert status == 1, output
    assert "found 1" in output
    assert "line coverage of kernels is 40%, and 99% is required" in output
    second = ["--no-check", "--coverage-append", "--coverage-report", "lcov:both.lcov", "program.py", "0"]
    status, output = run(project, "vdev.cli.check", *second)
    assert status == 0, output
    assert "0 launches checked" in output
    both = parse_lcov((project / "both.lcov").read_text())

    # The program has read the file itself.
    assert both["k.cl"]["lines"] == {2: 2, 3: 1, 5: 1, 8: 0}
    assert both["program.py"]["lines"] == {11: 0}
    assert (project / data.FOLDER / ".gitignore").read_text() == "*\n"

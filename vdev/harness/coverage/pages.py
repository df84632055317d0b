"""Coverage as pages of HTML: an index, and a page for each file with its source.

Decides what the pages look like. They load nothing from elsewhere and run no script. Whatever a colour says, a word
or a sign says too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from vdev.harness.coverage.figures import FileFigures, LineFigures, State, Total, percent, total_of

_STYLE = """\
:root { color-scheme: light dark; --text: #1d2433; --quiet: #5a6478; --page: #ffffff; --band: #f3f5f9; --edge: #d8dde8;
  --covered: #1a7f4b; --covered-back: #e8f6ee; --partial: #8a5a00; --partial-back: #fff4d6; --missed: #b3261e;
  --missed-back: #fdebe9; --link: #1f5fbf; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8f1; --quiet: #a3adc2; --page: #14171f; --band: #1c212c;
  --edge: #343c4d; --covered: #63c98f; --covered-back: #14301f; --partial: #e8b64a; --partial-back: #382b0c;
  --missed: #ff8f86; --missed-back: #421916; --link: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1.5rem; font: 15px/1.5 system-ui, sans-serif; color: var(--text);
  background: var(--page); }
a { color: var(--link); }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
p { margin: .25rem 0 1rem; color: var(--quiet); }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0 1.5rem; padding: 0; list-style: none; }
.figures li { flex: 0 1 15rem; padding: .75rem 1rem; border: 1px solid var(--edge); border-radius: 8px; }
.figures strong { font-size: 1.6rem; display: block; line-height: 1.2; }
.bar { display: block; height: 6px; border-radius: 3px; background: var(--missed); margin-top: .4rem; min-width: 6rem; }
.bar i { display: block; height: 100%; border-radius: 3px; background: var(--covered); }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .45rem .75rem; text-align: right; border-bottom: 1px solid var(--edge); }
th { color: var(--quiet); font-weight: 600; }
tbody th { font-weight: 400; color: inherit; overflow-wrap: anywhere; }
th:first-child { text-align: left; }
tfoot th, tfoot td { font-weight: 600; border: 0; }
td.rate { min-width: 9rem; }
.source { font: 13px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; border: 1px solid var(--edge);
  border-radius: 8px; overflow-x: auto; }
.source table { width: auto; min-width: 100%; }
.source th, .source td { padding: 0 .6rem; border: 0; font-weight: 400; vertical-align: top; }
.source td.code { text-align: left; white-space: pre; width: 100%; tab-size: 8; }
.source tbody th { text-align: right; }
.source th { color: var(--quiet); user-select: none; white-space: nowrap; overflow-wrap: normal; }
.source th a { color: inherit; text-decoration: none; }
.source td.sign { padding: 0; width: 1.6rem; text-align: center; font-weight: 700; user-select: none; }
.source td.hits { color: var(--quiet); user-select: none; }
.source td.ways { white-space: nowrap; user-select: none; }
.covered td.sign { color: var(--covered); } .covered { background: var(--covered-back); }
.partial td.sign, .partial td.ways, .never { color: var(--partial); } .partial { background: var(--partial-back); }
.missed td.sign, .missed .never { color: var(--missed); } .missed { background: var(--missed-back); }
.never { display: block; white-space: pre-wrap; font-family: system-ui, sans-serif; font-size: 12px; }
.gap td { color: var(--quiet); text-align: left; background: var(--band); }
tr:target { outline: 2px solid var(--link); outline-offset: -2px; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
nav { margin: .75rem 0; display: flex; gap: 1.25rem; flex-wrap: wrap; }
.legend span { padding: .1rem .5rem; border-radius: 4px; margin-right: .5rem; }
"""
_SIGNS = {State.COVERED: "✓", State.PARTIAL: "◐", State.MISSED: "✗"}
_WORDS = {State.COVERED: "covered", State.PARTIAL: "covered in part", State.MISSED: "never ran"}
#: Lines shown around the programs in a file that is not OpenCL C throughout.
_AROUND = 2


def write_pages(files: Sequence[FileFigures], folder: Path) -> None:
    """Write `index.html` and a page for each file to `folder`, which is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "style.css").write_text(_STYLE, "utf-8")
    (folder / "index.html").write_text(_index(files), "utf-8")
    for each in files:
        (folder / page_name(each.count.name)).write_text(_page(each), "utf-8")


def page_name(name: str) -> str:
    """The name of a file's page: similar names stay apart."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')}_{digest}.html"


def _document(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="stylesheet" href="style.css">\n</head>\n<body>\n{body}</body>\n</html>\n'
    )


def _index(files: Sequence[FileFigures]) -> str:
    rows = "".join(
        f'<tr><th scope="row"><a href="{page_name(each.count.name)}">{escape(each.count.name)}</a></th>'
        f"{_cells(each.total)}</tr>\n"
        for each in files
    )
    total = total_of(files)
    body = (
        f"<main>\n<h1>Coverage of OpenCL kernels</h1>\n{_figures(total)}"
        '<table>\n<caption class="hidden">Coverage by file</caption>\n<thead><tr><th scope="col">File</th>'
        '<th scope="col">Lines</th><th scope="col">Missed</th><th scope="col">Line coverage</th>'
        '<th scope="col">Branches</th><th scope="col">Missed</th><th scope="col">Branch coverage</th></tr></thead>\n'
        f'<tbody>\n{rows}</tbody>\n<tfoot><tr><th scope="row">In all</th>{_cells(total)}</tr></tfoot>\n</table>\n</main>\n'
    )
    return _document("Coverage of OpenCL kernels", body)


def _cells(total: Total) -> str:
    lines = f"<td>{total.nlines}</td><td>{total.nlines - total.lines_hit}</td>{_rate(total.line_rate)}"
    if not total.noutcomes:
        return f'{lines}<td>0</td><td>0</td><td class="rate">–</td>'
    return (
        f"{lines}<td>{total.noutcomes}</td><td>{total.noutcomes - total.taken}</td>{_rate(total.branch_rate)}"
    )


def _rate(rate: float) -> str:
    return f'<td class="rate">{percent(rate)}{_bar(rate)}</td>'


def _bar(rate: float) -> str:
    return f'<span class="bar" aria-hidden="true"><i style="width: {100 * rate:.1f}%"></i></span>'


def _figures(total: Total) -> str:
    lines = (
        f"<li><strong>{percent(total.line_rate)}</strong>{total.lines_hit} of {total.nlines} lines"
        f"{_bar(total.line_rate)}</li>"
    )
    branches = "<li><strong>–</strong>no branches</li>"
    if total.noutcomes:
        branches = (
            f"<li><strong>{percent(total.branch_rate)}</strong>{total.taken} of {total.noutcomes} branches"
            f"{_bar(total.branch_rate)}</li>"
        )
    return f'<ul class="figures">{lines}{branches}</ul>\n'


def _page(file: FileFigures) -> str:
    legend = "".join(f'<span class="{state.value}">{_SIGNS[state]} {_WORDS[state]}</span>' for state in State)
    functions = ", ".join(
        f'<a href="#L{line}">{"kernel " if kernel else ""}{escape(name)}</a> ({_launches(hits)})'
        for (line, name, kernel), hits in sorted(file.count.functions.items())
    )
    open_lines = [line for line in file.lines if line.state is not State.COVERED]
    first = (
        f'<a href="#L{open_lines[0].line}">First line to look at: {open_lines[0].line}</a>'
        if open_lines
        else ""
    )
    name = escape(file.count.name)
    body = (
        f'<nav aria-label="Pages"><a href="index.html">All files</a>{first}</nav>\n<main>\n<h1>{name}</h1>\n'
        f"<p>Functions: {functions or 'none'}</p>\n{_figures(file.total)}"
        f'<p class="legend">{legend}</p>\n<div class="source" role="region" aria-label="Source" tabindex="0">\n<table>\n'
        f'<caption class="hidden">Source of {name}: line, state, launches that ran it, branches taken, text</caption>\n'
        '<thead class="hidden"><tr><th scope="col">Line</th><th scope="col">State</th><th scope="col">Launches</th>'
        f'<th scope="col">Branches</th><th scope="col">Source</th></tr></thead>\n<tbody>\n{"".join(_rows(file))}'
        "</tbody>\n</table>\n</div>\n</main>\n"
    )
    return _document(f"{file.count.name}: coverage of kernels", body)


def _launches(hits: int) -> str:
    return "never ran" if not hits else f"{hits} launch{'' if hits == 1 else 'es'}"


def _rows(file: FileFigures) -> Iterator[str]:
    texts = file.count.text.removesuffix("\n").split("\n")
    found = {line.line: line for line in file.lines}
    inside = _continuations(file)
    last = 0
    for number in _shown(file, len(texts)):
        yield from _gap(number - last - 1)
        last = number
        text = texts[number - 1] if number <= len(texts) else ""
        yield _row(number, text, found.get(number), inside.get(number))
    yield from _gap(len(texts) - last)


def _gap(nlines: int) -> Iterator[str]:
    """Lines of a file that belong to no program."""
    if nlines > 0:
        what = "1 line that is" if nlines == 1 else f"{nlines} lines that are"
        yield f'<tr class="gap"><td colspan="5">… {what} not OpenCL C</td></tr>\n'


def _shown(file: FileFigures, nlines: int) -> list[int]:
    """The numbers of the lines on a page."""
    last = max([nlines, *(line.line for line in file.lines)])
    if not file.count.spans:
        return list(range(1, last + 1))
    spans = [
        range(max(1, start - _AROUND), min(last, stop + _AROUND) + 1) for start, stop in file.count.spans
    ]
    return sorted({number for span in spans for number in span})


def _continuations(file: FileFigures) -> dict[int, State]:
    """The states of lines on which statements continue: those of the lines on which they start."""
    states = {line.line: line.state for line in file.lines}
    return {
        line: states[start]
        for (start, _), statement in sorted(file.count.statements.items())
        for line in range(start + 1, statement.stop + 1)
        if line not in states
    }


def _row(number: int, text: str, line: LineFigures | None, continued: State | None) -> str:
    head = f'<th scope="row"><a href="#L{number}">{number}</a></th>'
    state = continued if line is None else line.state
    start = f'<tr id="L{number}"' + (f' class="{state.value}">' if state else ">")
    code = escape(text) or " "
    if line is None:
        return f'{start}{head}<td class="sign"></td><td class="hits"></td><td class="ways"></td><td class="code">{code}</td></tr>\n'
    sign = f'<span aria-hidden="true">{_SIGNS[line.state]}</span><span class="hidden">{_WORDS[line.state]}</span>'
    taken, total = line.outcomes
    ways = f'<span title="{taken} of {total} branches taken">{taken}/{total}</span>' if total else ""
    never = "".join(
        f'<span class="never">{escape(what)}</span>' for what in (line.never if line.hits else ())
    )
    return (
        f'{start}{head}<td class="sign">{sign}</td><td class="hits">{line.hits}×</td><td class="ways">{ways}</td>'
        f'<td class="code">{code}{never}</td></tr>\n'
    )

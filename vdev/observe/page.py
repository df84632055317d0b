"""The report as one page of HTML: for a browser (`as_page`), or for a notebook (`as_fragment`).

Decides how figures are drawn. All of them come from `Statistics`; if some are missing, the page says so. It loads nothing
from elsewhere and runs no script. Its size is bounded whatever the run: rows beyond a limit are added up in a last one that
says how many there are. Names and source lines come from the program, so every text goes through `_text`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from vdev.observe.advice import AVOIDS_EXCHANGE, advise, costliest_exchange, most_expensive, size
from vdev.observe.exchanges import OTHERS, BufferHeld, Exchange, Held, LaunchHeld
from vdev.observe.explain import duration
from vdev.observe.figures import Times
from vdev.observe.history_data import BINS, PLANNING, Past, Piece, Told
from vdev.observe.statistics import CommandStatistics, KernelStatistics, Statistics, WayStatistics
from vdev.planner.instructions import HOST

_MOST_KERNELS = 60
_MOST_NAMES = 12  #: commands in the matrix
_MOST_ROUTES = 20  #: exchanges that are listed by route
_MOST_BUFFERS = 8  #: buffers of a launch whose holders are shown
_MOST_LAUNCHES = 12  #: launches of a period that are shown
_MOST_ADVICE = 30
_MOST_TRACKS = 32  #: workers that are drawn
_SHORT = 42  #: characters of a name in a table
_LONGEST = 240  #: characters of a name or a line of source
_KINDS = {
    "kernel": "kernels",
    "transfer": "transfers",
    "merge": "merges",
    "device": "fills and copies",
    "host": "host memory",
    "planning": "planning",
}
_WIDTH, _LABEL, _ROW = 960, 110, 22  #: sizes of a drawing, in its units

_STYLE = """
.vdev{--ink:#1c2430;--dim:#5b6675;--line:#d5dae1;--soft:#f3f5f8;--paper:#fff;--kernel:#2f6fb3;--transfer:#d9822b;
--merge:#a23b72;--device:#3a8f5c;--host:#7a6a52;--planning:#8b8fa3;color-scheme:light dark;color:var(--ink);
background:var(--paper);font:14px/1.45 system-ui,sans-serif;max-width:1200px;margin:0 auto;padding:16px 20px}
@media (prefers-color-scheme:dark){.vdev{--ink:#e4e8ee;--dim:#9aa5b4;--line:#3a4350;--soft:#222a34;--paper:#161b22;
--kernel:#6aa9ec;--transfer:#f0a657;--merge:#e07fb2;--device:#6cc48f;--host:#c0aa85;--planning:#a7abc0}}
.vdev h1{font-size:22px;margin:0 0 4px}.vdev h2{font-size:17px;margin:28px 0 6px}.vdev h3{font-size:14px;margin:14px 0 4px}
.vdev p{margin:4px 0 8px;max-width:90ch}.vdev{overflow-wrap:anywhere}.vdev abbr{text-decoration:none}.vdev .dim{color:var(--dim)}
.vdev .wide{overflow-x:auto}
.vdev table{border-collapse:collapse;margin:6px 0;font-size:13px;color:var(--ink)}
.vdev th,.vdev td{border-bottom:1px solid var(--line);padding:4px 9px;text-align:left;vertical-align:top;background:none}
.vdev thead th{background:var(--soft);font-weight:600}.vdev td.n{white-space:nowrap}
.vdev .n{text-align:right;max-width:16ch;font-variant-numeric:tabular-nums}
.vdev .name{min-width:14ch;max-width:42ch}.vdev th{overflow-wrap:normal}.vdev th abbr{overflow-wrap:anywhere}
.vdev code{font:12px ui-monospace,monospace;overflow-wrap:anywhere}
.vdev svg{display:block;width:100%;min-width:640px;height:auto}.vdev svg text{fill:var(--ink);font:11px system-ui,sans-serif}
.vdev svg .grid{stroke:var(--line);fill:none}.vdev summary{cursor:pointer;margin:4px 0}
.vdev .key{display:inline-block;margin-right:14px}.vdev .key i{display:inline-block;width:11px;height:11px;margin-right:5px}
.vdev .kernel{fill:var(--kernel);background:var(--kernel)}.vdev .transfer{fill:var(--transfer);background:var(--transfer)}
.vdev .merge{fill:var(--merge);background:var(--merge)}.vdev .device{fill:var(--device);background:var(--device)}
.vdev .host{fill:var(--host);background:var(--host)}.vdev .planning{fill:var(--planning);background:var(--planning)}
.vdev .strip{width:192px;min-width:192px;height:11px}.vdev .strip rect{fill:var(--kernel)}.vdev .strip .grid{fill:none}
"""


def as_page(figures: Statistics) -> str:
    """A whole document."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>vdev: what a run did</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"></head>'
        f'<body style="margin:0;background:Canvas">\n{as_fragment(figures)}\n</body></html>'
    )


def as_fragment(figures: Statistics) -> str:
    """The same as one element with its own style, to be placed among others."""
    if not figures.workers:
        body = ["<p>The virtual device was not used.</p>"]
    else:
        body = [
            _head(figures),
            _timeline(figures),
            _kernels(figures),
            _others(figures),
            _traffic(figures),
            _holders(figures),
            _advice(figures),
        ]
    text = "\n".join(body)
    return f'<div class="vdev"><style>{_STYLE}</style>\n<h1>vdev: what a run did</h1>\n{text}\n</div>'


# pieces -----------------------------------------------------------------------------------------


def _text(text: object) -> str:
    """Text of anybody's, safe to stand in elements and attributes, and no longer than `_LONGEST`.

    >>> _text('a<b> & "c"' + chr(0))
    'a&lt;b&gt; &amp; &quot;c&quot;�'
    """
    found = str(text)
    if len(found) > _LONGEST:
        found = found[: _LONGEST - 1] + "…"
    return html.escape("".join(each if each.isprintable() else "\ufffd" for each in found))


def _name(name: str) -> str:
    """A name in few characters; its whole is shown where the mouse rests.

    >>> _name("short"), _name("x" * 50)[:14]
    ('short', '<abbr title="x')
    """
    if len(name) <= _SHORT:
        return _text(name)
    head = _SHORT * 2 // 3
    return f'<abbr title="{_text(name)}">{_text(name[:head])}…{_text(name[head - _SHORT + 1 :])}</abbr>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], name: str, right: int = 1) -> str:
    """A table; its cells are HTML already, and columns from number `right` on hold numbers. `name`: by which others
    can find it.
    """

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="{"n" if column >= right else "name"}">{cell}</{tag}>'
            for column, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>\n" for row in rows)
    head = cells([_name(each) for each in heads], "th")
    return f'<div class="wide"><table data-name="{name}"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _holder(number: int) -> str:
    return "host" if number == HOST else f"worker {number}"


def _left_out(count: int, what: str) -> str:
    return f'<p class="dim">Left out: {count} further {what}.</p>' if count > 0 else ""


def _nbytes(nbytes: int) -> str:
    return f'<span title="{nbytes} bytes">{size(nbytes)}</span>' if nbytes else "–"


def _took(nanoseconds: int, timed: bool = True) -> str:
    if not timed:
        return "not timed"
    return f'<span title="{nanoseconds} ns">{duration(nanoseconds)}</span>' if nanoseconds else "–"


def _keys(kinds: Iterable[str]) -> str:
    return "".join(f'<span class="key"><i class="{kind}"></i>{_KINDS[kind]}</span>' for kind in kinds)


# sections ---------------------------------------------------------------------------------------


def _head(figures: Statistics) -> str:
    rows = [
        (
            f"{worker.number}: {_text(worker.name)} ({_text(worker.backend)})",
            str(worker.launches),
            _nbytes(worker.from_host_nbytes),
            _nbytes(worker.from_peer_nbytes),
            _nbytes(worker.to_host_nbytes),
            _nbytes(worker.peak_nbytes),
        )
        for worker in figures.workers
    ]
    heads = ("worker", "launches", "from host", "from workers", "to host", "most memory held")
    agree = (
        "The back ends counted the same bytes."
        if figures.counted == figures.moved
        else f"The back ends counted {size(figures.counted.nbytes)}; {size(figures.undone.nbytes)} were not carried out "
        "because commands failed."
    )
    timed = "" if figures.timed else " Times were not taken: run with VDEV_EXPLAIN=1 or vdev-info --explain."
    return (
        f"<p>{figures.launches} launches of {len(figures.kernels)} kernels on {len(figures.workers)} workers; "
        f"{size(figures.moved.nbytes)} planned to move. {agree}{timed}</p>\n" + _table(heads, rows, "workers")
    )


def _timeline(figures: Statistics) -> str:
    title = "<h2>Time line</h2>\n"
    past = figures.past
    if past is None or not past.busy:
        return title + '<p class="dim">Not known: commands were not timed in this run.</p>'
    rows = sorted({row.worker for row in past.busy})
    drawn = rows[:_MOST_TRACKS]
    kinds = [kind for kind in _KINDS if any(row.kind == kind for row in past.busy)]
    parts = [
        title,
        f"<p>How busy each worker was, in {BINS} parts of {duration(past.width)}: a bar as high as its row is all of a part.</p>",
        f"<p>{_keys(kinds)}</p>",
        f'<div class="wide">{_overview(past, drawn, kinds)}</div>',
        _left_out(len(rows) - len(drawn), "workers"),
        _one_by_one("The first commands", past.first),
        _one_by_one("The last commands", past.last),
        _left_out(past.commands - len(past.first) - len(past.last), "commands between these two"),
    ]
    return "\n".join(part for part in parts if part)


def _track_name(worker: int) -> str:
    return "planning" if worker == PLANNING else _holder(worker)


def _frame(rows: Sequence[int], length: int, body: str) -> str:
    """A drawing with a row for each worker; `length` nanoseconds from left to right."""
    height = len(rows) * _ROW
    labels = "".join(
        f'<text x="0" y="{index * _ROW + 15}">{_track_name(worker)}</text>'
        f'<path class="grid" d="M{_LABEL} {index * _ROW + _ROW - 0.5}h{_WIDTH}"/>'
        for index, worker in enumerate(rows)
    )
    ticks = "".join(
        f'<text x="{_LABEL + _WIDTH * tick // 4}" y="{height + 14}" text-anchor="middle">{duration(length * tick // 4)}</text>'
        for tick in range(5)
    )
    return f'<svg viewBox="0 0 {_LABEL + _WIDTH + 40} {height + 20}" role="img">{labels}{body}{ticks}</svg>'


def _overview(past: Past, rows: Sequence[int], kinds: Sequence[str]) -> str:
    busy = {(row.worker, row.kind): row.nanoseconds for row in past.busy}
    used = 1 + max(
        index for row in past.busy for index, took in enumerate(row.nanoseconds) if took or not index
    )
    step, drawn = _WIDTH / used, []
    for index, worker in enumerate(rows):
        base = [float(index * _ROW + _ROW - 1)] * used
        for kind in kinds:
            path = []
            for part, took in enumerate(busy.get((worker, kind), ())[:used]):
                high = min(took / past.width * (_ROW - 3), base[part] - index * _ROW)
                if high > 0.05:
                    base[part] -= high
                    path.append(
                        f"M{_LABEL + part * step:.1f} {base[part]:.1f}h{step:.1f}v{high:.1f}h-{step:.1f}z"
                    )
            if path:
                drawn.append(f'<path class="{kind}" d="{"".join(path)}"/>')
    return _frame(rows, used * past.width, "".join(drawn))


def _one_by_one(title: str, commands: Sequence[Told]) -> str:
    pieces = [(told, piece) for told in commands for piece in told.pieces]
    if not pieces:
        return ""
    zero, stop = min(piece.start for _, piece in pieces), max(piece.end for _, piece in pieces)
    all_rows = sorted({piece.worker for _, piece in pieces})
    rows = all_rows[:_MOST_TRACKS]
    places, length = {worker: index for index, worker in enumerate(rows)}, max(stop - zero, 1)
    body = "".join(
        _piece(told, piece, places[piece.worker], zero, length)
        for told, piece in pieces
        if piece.worker in places
    )
    steps = sum(told.left_out for told in commands)
    return (
        f"<details><summary>{title}: {len(commands)}, from {duration(zero) if zero else '0 s'} on</summary>"
        f'<div class="wide">{_frame(rows, length, body)}</div>{_left_out(steps, "steps of these commands")}</details>'
    )


def _piece(told: Told, piece: Piece, row: int, zero: int, length: int) -> str:
    left = _LABEL + (piece.start - zero) / length * _WIDTH
    wide = max((piece.end - piece.start) / length * _WIDTH, 0.6)
    moved = f", {size(piece.nbytes)}" if piece.nbytes else ""
    own = " (a share of several commands' time)" if piece.shared else ""
    title = f"{_text(told.name)}: {_text(piece.name)}{moved}, {duration(piece.end - piece.start)}{own}"
    return (
        f'<rect class="{piece.kind}" x="{left:.1f}" y="{row * _ROW + 3}" width="{wide:.1f}" height="{_ROW - 6}">'
        f"<title>{title}</title></rect>"
    )


# kernels ----------------------------------------------------------------------------------------


def _weight(kernel: KernelStatistics) -> tuple[int, int, int]:
    return kernel.times.kernel_ns + kernel.times.transfer_ns, kernel.moved.nbytes, kernel.launches


def _kernels(figures: Statistics) -> str:
    kernels = sorted(figures.kernels, key=_weight, reverse=True)
    shown, rest = kernels[:_MOST_KERNELS], kernels[_MOST_KERNELS:]
    rows = [_kernel(kernel, figures.timed) for kernel in shown]
    if rest:
        times = Times()
        for kernel in rest:
            times.include(kernel.times)
        planning = sum(kernel.planning_ns for kernel in rest)
        moved, launches = (
            sum(part) for part in zip(*((k.moved.nbytes, k.launches) for k in rest), strict=True)
        )
        rows.append((
            f"{len(rest)} further kernels, left out",
            str(launches), str(sum(kernel.split for kernel in rest)), "", _took(times.kernel_ns, figures.timed),
            _took(times.transfer_ns, figures.timed), _took(times.merge_ns, figures.timed), _nbytes(moved),
            "", "", "", _took(planning),
        ))  # fmt: skip
    heads = (
        "kernel", "launches", "split", "workers", "kernel time", "transfer", "merge", "moved",
        "predicted", "measured", "error", "planning",
    )  # fmt: skip
    return (
        "<h2>Kernels</h2>\n<p>Times are sums over all workers. Predicted and measured: the busiest worker's time for a "
        "launch, the mean of the sampled launches that ran in the most frequent way.</p>\n"
        + _table(heads, rows, "kernels")
        + "<h3>Ways</h3>\n<p>The ways in which launches ran, and why not on more workers. Predictions for ways "
        "in which no launch ran are not kept.</p>\n" + "\n".join(_ways(kernel) for kernel in shown)
    )


def _kernel(kernel: KernelStatistics, timed: bool) -> tuple[str, ...]:
    workers = sorted({part.workers for part in kernel.partitions})
    way = max(kernel.ways, key=lambda item: item.launches, default=None)
    at = "" if kernel.line is None else f", line {kernel.line}"
    return (
        f'<b>{_name(kernel.name)}</b><br><span class="dim">program {kernel.program}{at}</span>',
        str(kernel.launches),
        str(kernel.split),
        ", ".join(map(str, workers)),
        _took(kernel.times.kernel_ns, timed),
        _took(kernel.times.transfer_ns, timed),
        _took(kernel.times.merge_ns, timed),
        _nbytes(kernel.moved.nbytes),
        *_forecast(way),
        f"{_took(kernel.planning_ns)} ({kernel.plans})",
    )


def _forecast(way: WayStatistics | None) -> tuple[str, str, str]:
    """Predicted and measured time of a way, and the error."""
    if way is None or way.predicted is None or way.measured is None:
        return "not known", "not known", "not known"
    predicted, measured = (_took(round(each * 1e9)) for each in (way.predicted, way.measured))
    error = f"{(way.predicted - way.measured) / way.measured:+.0%}" if way.measured else "not known"
    return predicted, measured, error


def _ways(kernel: KernelStatistics) -> str:
    rows = []
    for way in kernel.ways:
        near = f"{way.close} of {way.judged}" if way.judged else "none judged"
        rows.append((
            _text(way.reason) or "all workers", str(way.workers), str(way.launches), *_forecast(way),
            str(way.measured_launches), near,
        ))  # fmt: skip
    heads = (
        "why this one", "workers", "launches", "predicted", "measured", "error", "samples", "within a quarter",
    )  # fmt: skip
    lines = [
        f"<li>{_text(reason.text)}{f': <code>{_text(reason.source)}</code>' if reason.source else ''}</li>"
        for part in kernel.partitions[:_MOST_BUFFERS]
        for reason in part.reasons
    ]
    why = f"<ul>{''.join(dict.fromkeys(lines))}</ul>" if lines else ""
    summary = f"<summary>{_name(kernel.name)}: {_count(len(kernel.ways), 'way')}</summary>"
    return f"<details>{summary}{_table(heads, rows, 'ways')}{why}</details>"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _others(figures: Statistics) -> str:
    def row(command: CommandStatistics) -> tuple[str, ...]:
        times, timed = command.times, figures.timed
        took = (times.transfer_ns, times.device_ns, times.merge_ns, times.host_ns)
        return (
            _text(command.kind),
            str(command.count),
            _nbytes(command.moved.nbytes),
            *(_took(each, timed) for each in took),
            _took(command.planning_ns),
        )

    if not figures.commands:
        return ""
    heads = ("command", "count", "moved", "transfer", "fills and copies", "merge", "host", "planning")
    return "<h2>Other commands</h2>\n" + _table(heads, [row(each) for each in figures.commands], "commands")


# traffic ----------------------------------------------------------------------------------------


def _traffic(figures: Statistics) -> str:
    title = "<h2>Traffic</h2>\n"
    rows = figures.exchanges
    if rows is None:
        return (
            title
            + (
                '<p class="dim">Not known between commands: that is recorded with VDEV_EXPLAIN only. By kernel:</p>'
            )
            + _by_kernel(figures)
        )
    if not rows:
        return title + "<p>Nothing moved between holders.</p>"
    return (
        title + "<p>Bytes by the holders they moved between (from the row's to the column's).</p>" + _by_holder(rows)
        + "<p>Bytes moved for the command of a column, of buffers that the command of a row had changed last. If several "
        "commands wrote parts of a buffer, all of it counts as written by the last; on one worker, where kernels are not "
        "analysed, each argument counts as written.</p>" + _by_command(rows)
    )  # fmt: skip


def _by_kernel(figures: Statistics) -> str:
    kernels = sorted(figures.kernels, key=lambda kernel: kernel.moved.nbytes, reverse=True)
    rows = [
        (
            _text(kernel.name),
            *map(
                _nbytes,
                (kernel.moved.host_to_worker, kernel.moved.worker_to_worker, kernel.moved.worker_to_host),
            ),
        )
        for kernel in kernels[:_MOST_KERNELS]
    ]
    heads = ("kernel", "host to workers", "between workers", "workers to host")
    return _table(heads, rows, "moved") + _left_out(len(kernels) - _MOST_KERNELS, "kernels")


def _sums(pairs: Iterable[tuple[tuple[str, str], int]]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for key, nbytes in pairs:
        found[key] = found.get(key, 0) + nbytes
    return found


def _by_holder(rows: Sequence[Exchange]) -> str:
    numbers = sorted({row.source for row in rows} | {row.target for row in rows})
    names = {
        number: _holder(number) if index <= _MOST_TRACKS else OTHERS for index, number in enumerate(numbers)
    }
    sums = _sums(((names[row.source], names[row.target]), row.nbytes) for row in rows)
    return _matrix(sums, list(dict.fromkeys(names.values())), "from", "between holders")


def _by_command(rows: Sequence[Exchange]) -> str:
    weights: dict[str, int] = {}
    for row in rows:
        for name in {row.writer, row.user}:
            weights[name] = weights.get(name, 0) + row.nbytes
    first = sorted(weights, key=lambda name: (-weights[name], name))
    shown = [name for name in first if name != OTHERS][:_MOST_NAMES]
    names = {name: name if name in shown else OTHERS for name in first}
    sums = _sums(((names[row.writer], names[row.user]), row.nbytes) for row in rows)
    left = [name for name in first if names[name] == OTHERS]
    labels = shown + ([OTHERS] if left else [])
    text = _left_out(len(left), f"commands, whose bytes are those of {OTHERS}")
    return _matrix(sums, labels, "last written by", "between commands") + text + _largest(rows)


def _matrix(sums: dict[tuple[str, str], int], names: Sequence[str], corner: str, name: str) -> str:
    """The matrix; `names` from which nothing came have no row, and those to which nothing went no column."""
    sources = [each for each in names if any(source == each for source, _ in sums)]
    targets = [each for each in names if any(target == each for _, target in sums)]
    rows = [
        (f"<b>{_name(source)}</b>", *(_nbytes(sums.get((source, target), 0)) for target in targets))
        for source in sources
    ]
    return _table((corner, *targets), rows, name)


def _largest(rows: Sequence[Exchange]) -> str:
    cells = [
        (
            f"{_name(row.writer)} → {_name(row.user)}",
            _holder(row.source),
            _holder(row.target),
            _nbytes(row.nbytes),
        )
        for row in rows[:_MOST_ROUTES]
    ]
    table = _table(("bytes of → for", "from", "to", "bytes"), cells, "routes")
    left = _left_out(len(rows) - _MOST_ROUTES, "exchanges")
    return f"<details><summary>The largest exchanges by route</summary>{table}{left}</details>"


# holders ----------------------------------------------------------------------------------------


def _holders(figures: Statistics) -> str:
    title = "<h2>Who holds what</h2>\n"
    steady = figures.steady
    if steady is None or not steady.launches:
        return (
            title
            + '<p class="dim">Not known: that is recorded with VDEV_EXPLAIN, of launches with plans.</p>'
        )
    what = "One repeating sequence of the launches" if steady.periodic else "The last launches"
    more = "" if steady.periodic else " (no repeating sequence was found)"
    shown = steady.launches[-_MOST_LAUNCHES:]
    text = f"<p>{what}{more}; a launch that changes nothing and follows itself is shown once. "
    text += "A strip is a buffer from its first byte to its last; the filled parts are valid at this holder.</p>\n"
    return (
        title + text + "\n".join(_launch(launch) for launch in shown)
        + _left_out(len(steady.launches) - len(shown), "launches of the sequence")
    )  # fmt: skip


def _launch(launch: LaunchHeld) -> str:
    rows = []
    for buffer in launch.buffers[:_MOST_BUFFERS]:
        rows += _buffer(buffer)
    table = _table(("buffer", "holder", "before", "", "after", ""), rows, "holders", right=6)
    left = _left_out(len(launch.buffers) - _MOST_BUFFERS, "buffers")
    return f"<h3>{_name(launch.kernel)}</h3>\n{table}{left}"


def _buffer(buffer: BufferHeld) -> list[tuple[str, ...]]:
    before, after = ({held.holder: held for held in part} for part in (buffer.before, buffer.after))
    label = f"<b>{_name(buffer.name) or 'not an argument'}</b>, buffer {buffer.buffer}, {size(buffer.nbytes)}"
    rows: list[tuple[str, ...]] = []
    holders = sorted({*before, *after})
    for holder in holders[:_MOST_TRACKS]:
        rows.append((label, _holder(holder), *_strip(before.get(holder)), *_strip(after.get(holder))))
        label = ""
    if len(holders) > _MOST_TRACKS:
        rows.append((label, f"{len(holders) - _MOST_TRACKS} further, left out", "", "", "", ""))
    if buffer.pending_before or buffer.pending_after:
        pending = (_nbytes(buffer.pending_before), _nbytes(buffer.pending_after))
        rows.append((label, "parts, to be combined", "", pending[0], "", pending[1]))
    elif not holders:
        rows.append((label, "nobody: not written yet", "", "", "", ""))
    return rows


def _strip(held: Held | None) -> tuple[str, str]:
    if held is None:
        return "", "–"
    cells = "".join(
        f'<rect x="{index * 6}" y="0" width="6" height="11" fill-opacity="{min(share, 1):.2f}"/>'
        for index, share in enumerate(held.shares)
        if share > 0
    )
    frame = '<rect class="grid" x="0.5" y="0.5" width="191" height="10"/>'
    return f'<svg class="strip" viewBox="0 0 192 11">{cells}{frame}</svg>', _nbytes(held.nbytes)


# advice -----------------------------------------------------------------------------------------


def _advice(figures: Statistics) -> str:
    expense, items = most_expensive(figures), advise(figures)
    parts = ["<h2>Advice</h2>"]
    if expense is not None:
        parts.append(
            f"<p>Largest expense apart from the kernels' own work: {_text(expense)} "
            f"[about {duration(expense.cost_ns)}].</p>"
        )
    exchange = _costliest(figures)
    if exchange:
        parts.append(exchange)
    found = []
    for item in items[:_MOST_ADVICE]:
        cost = "not timed" if item.cost_ns is None else f"about {duration(item.cost_ns)}"
        line = "" if item.line is None else f", line {item.line}"
        source = f"<code>{_text(item.text)}</code>, " if item.text else ""
        found.append(
            f"<li>{source}kernel <b>{_name(item.kernel)}</b>{line}: {_text(item.problem)}. {_text(item.change)} [{cost}]</li>"
        )
    parts.append(f"<ol>{''.join(found)}</ol>" if found else "<p>No advice.</p>")
    parts.append(_left_out(len(items) - _MOST_ADVICE, "pieces of advice"))
    return "\n".join(part for part in parts if part)


def _costliest(figures: Statistics) -> str:
    found = costliest_exchange(figures)
    if found is None:
        return ""
    writer, user, nbytes = found
    return (
        f"<p>Most bytes between workers went from what <b>{_name(writer)}</b> wrote to <b>{_name(user)}</b>: "
        f"{_nbytes(nbytes)}. {_text(AVOIDS_EXCHANGE)}</p>"
    )

"""The pytest plugin: fixtures that give a program's kernels, and the ways in which each test runs.

Decides in which ways a test runs: as its marker says, else as the command line says, else in one way. pytest loads
this module in every project, so it imports nothing but pytest until a test asks for a fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vdev.harness.accepted import Accepted
    from vdev.harness.program import Program

_MARKER = (
    "opencl(source, options=(), workers=None, engines=None, orders=None, local_sizes=None, report=(), ignore=(), check=None): "
    "the OpenCL C source of the fixture `kernels` (text, or a .cl file in the test's folder), and the ways in which the test runs"
)
_SETTINGS = ("options", "workers", "engines", "orders", "local_sizes", "report", "ignore", "check")
_WAY = "_opencl_way"
_LISTS = {
    "--opencl-workers": (
        "cpu:1",
        "run each test on these workers, as VDEV_WORKERS names them, or 'native'; separated by ';'",
    ),
    "--opencl-engines": (
        "",
        "run each test on these devices, selected by a part of their platform's name, their name or their version: "
        "intel;pocl;nvidia; devices that do not exist are skipped",
    ),
    "--opencl-orders": ("", "run the work-groups of kernels one by one: forward;backward;shuffled:SEED"),
    "--opencl-local-sizes": ("", "work-group sizes for launches that give none, such as 16;64 or 8,8"),
}
_KINDS = {
    "report": "kinds of findings that fail a test, in addition to the default ones; separated by ';'",
    "ignore": "kinds of findings that do not fail a test; separated by ';'",
}


@dataclass(frozen=True)
class _Way:
    """How one test's programs run, and which one the fixture `kernels` is made from."""

    folder: Path  #: where .cl files are looked for
    source: str | Path | None
    options: str | tuple[str, ...]
    workers: str
    engine: str | None
    order: str | None
    local_size: tuple[int, ...] | None
    check: bool
    report: tuple[str, ...]
    ignore: tuple[str, ...]
    prepared: bool  #: whether programs are built before the test begins


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for every test that uses the fixtures; markers take precedence."""
    group = parser.getgroup("opencl", "OpenCL kernels (vdev)")
    for option, (default, text) in _LISTS.items():
        group.addoption(option, default=default, metavar="LIST", help=text)
    for name, text in _KINDS.items():
        group.addoption(f"--opencl-{name}", default=None, metavar="KINDS", help=text)
        parser.addini(f"opencl_{name}", text, type="linelist", default=[])
    group.addoption(
        "--no-opencl-check",
        action="store_true",
        help="do not check the kernels' accesses",
    )
    accepted = "a file of accepted findings, with reasons"
    group.addoption("--opencl-accepted", default=None, metavar="FILE", help=accepted)
    parser.addini("opencl_accepted", accepted + " (relative to the configuration file's folder)", default="")
    group.addoption(
        "--opencl-write-accepted",
        action="store_true",
        help="let findings pass, and write them to the file of accepted findings",
    )

    _add_coverage(parser)


def _add_coverage(parser: pytest.Parser) -> None:
    """Options for the coverage of kernels, and the same options in the configuration file."""
    group = parser.getgroup("opencl")
    group.addoption(
        "--opencl-cov", action="store_true", help="report which lines and branches of kernels ran"
    )
    group.addoption(
        "--opencl-cov-report",
        action="append",
        default=[],
        metavar="KIND[:PATH]",
        help="text, lcov, xml (Cobertura) or html; may be given several times",
    )
    group.addoption(
        "--opencl-cov-fail-under",
        default="",
        metavar="LINES[,BRANCHES]",
        help="fail the run if coverage is below these percentages",
    )
    group.addoption("--opencl-cov-append", action="store_true", help="add to the coverage of earlier runs")
    parser.addini("opencl_cov", "as --opencl-cov", type="bool", default=False)
    parser.addini("opencl_cov_report", "as --opencl-cov-report, one per line", type="linelist", default=[])
    parser.addini("opencl_cov_fail_under", "as --opencl-cov-fail-under", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for --strict-markers; show scripts in sections of reports, where they can be copied; start counting
    if coverage is wanted.
    """
    from vdev.harness import sections

    config.addinivalue_line("markers", _MARKER)
    sections.scripts_have_sections = True
    option = config.option
    if option.opencl_write_accepted and _accepted_path(config) is None:
        raise pytest.UsageError(
            "--opencl-write-accepted needs --opencl-accepted FILE, or opencl_accepted in the configuration file"
        )
    wanted = option.opencl_cov or option.opencl_cov_report or option.opencl_cov_fail_under
    if wanted or config.getini("opencl_cov"):
        from vdev.harness.coverage.session import CoverageSession  # loads vdev

        config.pluginmanager.register(CoverageSession(config), "opencl-coverage")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each way in which it has to run."""
    if _WAY not in metafunc.fixturenames:
        return
    _check_pytest()
    marker, options = metafunc.definition.get_closest_marker("opencl"), metafunc.config.option
    said = {} if marker is None else marker.kwargs
    nodeid = metafunc.definition.nodeid
    _check_settings(nodeid, said)
    choices = list(
        product(
            _listed(said.get("workers"), options.opencl_workers),
            _listed(said.get("engines"), options.opencl_engines),
            _listed(said.get("orders"), options.opencl_orders),
            _listed(said.get("local_sizes"), options.opencl_local_sizes),
        )
    )
    report, ignore = _switched(metafunc.config, said)
    ways = [
        _Way(
            folder=metafunc.definition.path.parent,
            source=marker.args[0] if marker is not None and marker.args else None,
            options=_hashable(said.get("options", ())),
            workers=_workers(nodeid, str(workers)),
            engine=None if engine is None else str(engine),
            order=None if order is None else str(order),
            local_size=_size(nodeid, local_size),
            check=bool(said.get("check", not options.no_opencl_check)),
            report=report,
            ignore=ignore,
            prepared=bool(getattr(metafunc.function, "is_hypothesis_test", False)),
        )
        for workers, engine, order, local_size in choices
    ]
    names: list[Any] = ["-".join(str(part) for part in choice if part is not None) for choice in choices]
    # Hypothesis does not take fixtures of a function's scope: for it these have the session's scope, but each test
    # still gets its own.
    metafunc.parametrize(
        _WAY, ways, ids=names if len(ways) > 1 else [pytest.HIDDEN_PARAM], indirect=True, scope="function"
    )


def _check_pytest() -> None:
    """UsageError if pytest is too old."""
    if not hasattr(pytest, "HIDDEN_PARAM"):  # projects that do not use the fixtures may have an older one
        raise pytest.UsageError(
            f"fixtures for OpenCL kernels need pytest 8.4 or later; this is {pytest.__version__}"
        )


def _check_settings(nodeid: str, said: Mapping[str, object]) -> None:
    """UsageError if a marker has an unknown setting."""
    unknown = [name for name in said if name not in _SETTINGS]
    if unknown:
        raise pytest.UsageError(
            f"{nodeid}: the marker opencl has no {unknown[0]!r}; it has {', '.join(_SETTINGS)}"
        )


def _listed(said: object, option: str) -> list[object]:
    if said is None:
        return list(option.split(";")) if option else [None]
    return list(said) if isinstance(said, list | tuple) else [said]


def _hashable(options: Any) -> str | tuple[str, ...]:
    return options if isinstance(options, str) else tuple(options)


def _switched(config: pytest.Config, said: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Kinds of findings to report and to ignore: the marker takes precedence over the command line, and that over the
    ini-file.
    """
    on: dict[str, bool] = {}
    for source in (
        {name: config.getini(f"opencl_{name}") for name in _KINDS},
        {name: (getattr(config.option, f"opencl_{name}") or "").split(";") for name in _KINDS},
        {name: _listed(said.get(name, ()), "") for name in _KINDS},
    ):
        for name in _KINDS:
            on |= {kind.strip(): name == "report" for kind in map(str, source[name]) if kind.strip()}
    return tuple(kind for kind in on if on[kind]), tuple(kind for kind in on if not on[kind])


@pytest.fixture(scope="session")
def _opencl_way(request: pytest.FixtureRequest) -> _Way:
    way: _Way = request.param
    return way


@pytest.fixture(scope="session")
def opencl_program(pytestconfig: pytest.Config, _opencl_way: _Way) -> Callable[..., Program]:
    """Makes programs: `opencl_program(source, options="")` gives a `vdev.harness.Program` that runs in the test's way."""
    from vdev.harness.engine_names import NoEngine
    from vdev.harness.program import Program  # loads vdev, for tests that use it

    way = _opencl_way

    def make(source: str | Path, options: str | tuple[str, ...] = ()) -> Program:
        __tracebackhide__ = True
        try:
            return Program(
                _found(source, way.folder),
                options,
                workers=way.workers,
                engine=way.engine,
                order=way.order,
                local_size=way.local_size,
                check=way.check,
                report=way.report,
                ignore=way.ignore,
                accepted=_accepted(pytestconfig),
            )
        except NoEngine as missing:
            pytest.skip(str(missing))

    return make


@pytest.fixture(scope="session")
def kernels(_opencl_way: _Way, opencl_program: Callable[..., Program]) -> Program:
    """The program that the marker `opencl` names: its kernels are its attributes."""
    if _opencl_way.source is None:
        pytest.fail(
            "the fixture `kernels` needs a program: mark it with @pytest.mark.opencl(source or file)",
            pytrace=False,
        )
    from vdev.errors import BuildError

    try:
        program: Program = opencl_program(_opencl_way.source, _opencl_way.options)
        if _opencl_way.prepared:
            program.prepare()
        return program
    except BuildError as error:
        wrong = f"the program does not build:\n{error}"
    except OSError as error:
        if error.filename is None:
            raise
        wrong = f"the marker opencl names {str(_opencl_way.source)!r}, but {error.filename}: {error.strerror}"
    pytest.fail(wrong, pytrace=False)  # not while the error is handled: pytest would show it as well


def _found(source: str | Path, folder: Path) -> str | Path:
    """A file is looked for beside the test."""
    is_file = isinstance(source, Path) or (source.endswith(".cl") and "\n" not in source)
    return folder / source if is_file else source


def _workers(nodeid: str, text: str) -> str:
    """The workers that a test names. UsageError if there is no such kind."""
    from vdev.process.switches import parse_workers

    if text != "native":
        try:
            parse_workers(text)
        except ValueError as error:
            raise pytest.UsageError(
                f"{nodeid}: the workers {text!r} are not valid: {error} (valid: those of VDEV_WORKERS, such as cpu:2, and native)"
            ) from None
    return text


def _size(nodeid: str, given: object) -> tuple[int, ...] | None:
    """The local size that a test names. UsageError if it is none."""
    if given is None:
        return None
    parts = (
        given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else (given,)
    )
    try:
        size = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        size = ()
    if not 1 <= len(size) <= 3 or min(size) < 1:
        raise pytest.UsageError(
            f"{nodeid}: the local size {given!r} is not valid: give one to three positive numbers, such as 16 or 8,8"
        )
    return size


# failures ---------------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)  # which pytest 7 supports as well
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Put the script of a random call that failed into a section of the report."""
    report = (yield).get_result()
    if call.when == "call" and "vdev.harness.calls" in sys.modules:
        from vdev.harness.calls import ran

        if report.failed and call.excinfo is not None and ran:
            script = next(_scripts(call.excinfo.value), "") or ran[-1].script()
            report.sections.append(("a script that shows it again", script))
        ran.clear()


def _scripts(error: BaseException) -> Iterator[str]:
    """The scripts of a failure, or of several that hypothesis found together."""
    if script := getattr(error, "script", ""):
        yield script
    for one in getattr(error, "exceptions", ()):
        yield from _scripts(one)


# accepted findings ------------------------------------------------------------------------------


def _accepted_path(config: pytest.Config) -> Path | None:
    if config.option.opencl_accepted:
        return Path(config.invocation_params.dir, config.option.opencl_accepted)
    named = config.getini("opencl_accepted")
    return Path((config.inipath or config.rootpath / "ini").parent, named) if named else None


def _accepted(config: pytest.Config) -> Accepted | None:
    from vdev.harness.accepted import load

    path = _accepted_path(config)
    if path is None:
        return None
    accepted = load(path)
    accepted.takes = config.option.opencl_write_accepted
    return accepted


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells its controller which entries have matched, and which are new."""
    path = _accepted_path(session.config)
    if (
        path is not None
        and hasattr(session.config, "workeroutput")
        and "vdev.harness.accepted" in sys.modules
    ):
        accepted = _accepted(session.config)
        assert accepted is not None
        session.config.workeroutput["vdev_accepted"] = accepted.told()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker of xdist reports."""
    told = getattr(node, "workeroutput", {}).get("vdev_accepted")
    if told is not None and (accepted := _accepted(node.config)) is not None:
        accepted.hear(told)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Which accepted findings no longer occur, which have no reason, and which are new."""
    path = _accepted_path(config)
    if path is None or "vdev.harness.accepted" not in sys.modules or hasattr(config, "workerinput"):
        return  # a worker of xdist tells its controller
    accepted = _accepted(config)
    assert accepted is not None
    lines = accepted.summary()
    if accepted.takes and (count := accepted.write()):
        lines.append(f"{path}: {count} written: give each a reason")
    if lines:
        terminalreporter.section("accepted findings (vdev)")
        for line in lines:
            terminalreporter.line(line)

"""The pytest plugin: fixtures that give a program's kernels, and the ways in which each test runs.

Decides which ways there are for a test: its marker says, else the command line, else one. pytest loads this module in every
project, so it imports nothing but pytest until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vdev.harness.program import Program

_MARKER = (
    "opencl(source, options=(), workers=None, orders=None, local_sizes=None, report=(), check=None): the OpenCL C that the "
    "fixture `kernels` is made of (text, or a .cl file beside the test), and the ways in which the test runs"
)
_WAY = "_opencl_way"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for every test that uses the fixtures; markers win."""
    group = parser.getgroup("opencl", "OpenCL kernels (vdev)")
    group.addoption(
        "--opencl-workers",
        default="cpu:1",
        metavar="LIST",
        help="run each test on these workers, as VDEV_WORKERS names them, or 'native'; separated by ';'",
    )
    group.addoption(
        "--opencl-orders",
        default="",
        metavar="LIST",
        help="run the work-groups of kernels one by one: forward;backward;shuffled:SEED",
    )
    group.addoption(
        "--opencl-local-sizes",
        default="",
        metavar="LIST",
        help="work-group sizes for launches that name none, such as 16;64 or 8,8",
    )
    group.addoption(
        "--no-opencl-check",
        action="store_true",
        help="do not check the kernels' accesses, only their results",
    )

    _add_coverage(parser)


def _add_coverage(parser: pytest.Parser) -> None:
    """Options for the coverage of kernels, and the same in the configuration file."""
    group = parser.getgroup("opencl")
    group.addoption("--opencl-cov", action="store_true", help="say which lines and branches of kernels ran")
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
        help="fail the run where fewer per cent are covered",
    )
    group.addoption("--opencl-cov-append", action="store_true", help="add to what earlier runs have covered")
    parser.addini("opencl_cov", "as --opencl-cov", type="bool", default=False)
    parser.addini(
        "opencl_cov_report", "as --opencl-cov-report, one on each line", type="linelist", default=[]
    )
    parser.addini("opencl_cov_fail_under", "as --opencl-cov-fail-under", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The marker, for --strict-markers; whoever counts, where coverage is wanted."""
    config.addinivalue_line("markers", _MARKER)
    option = config.option
    wanted = option.opencl_cov or option.opencl_cov_report or option.opencl_cov_fail_under
    if wanted or config.getini("opencl_cov"):
        from vdev.harness.coverage.session import CoverageSession  # loads vdev

        config.pluginmanager.register(CoverageSession(config), "opencl-coverage")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each way, where there are several."""
    if _WAY not in metafunc.fixturenames:
        return
    marker, options = metafunc.definition.get_closest_marker("opencl"), metafunc.config.option
    said = {} if marker is None else marker.kwargs
    ways = list(
        product(
            _listed(said.get("workers"), options.opencl_workers),
            _listed(said.get("orders"), options.opencl_orders),
            _listed(said.get("local_sizes"), options.opencl_local_sizes),
        )
    )
    names = ["-".join(str(part) for part in way if part is not None) for way in ways]
    if len(ways) > 1:
        metafunc.parametrize(_WAY, ways, ids=names, indirect=True)
    else:
        metafunc.parametrize(_WAY, ways, ids=[pytest.HIDDEN_PARAM], indirect=True)


def _listed(said: object, option: str) -> list[object]:
    if said is None:
        return list(option.split(";")) if option else [None]
    return list(said) if isinstance(said, list | tuple) else [said]


@pytest.fixture
def _opencl_way(request: pytest.FixtureRequest) -> tuple[object, object, object]:
    """(workers, order, local size)"""
    way: tuple[object, object, object] = request.param
    return way


@pytest.fixture
def opencl_program(
    request: pytest.FixtureRequest, _opencl_way: tuple[object, object, object]
) -> Callable[..., Program]:
    """Makes programs: `opencl_program(source, options="")` gives a `vdev.harness.Program` that runs in the test's way."""
    from vdev.harness.program import Program  # loads vdev, for tests that use it

    workers, order, local_size = _opencl_way
    marker = request.node.get_closest_marker("opencl")
    said = {} if marker is None else marker.kwargs
    check = said.get("check")

    def make(source: str | Path, options: str | tuple[str, ...] = ()) -> Program:
        return Program(
            _found(source, request.path.parent),
            options,
            workers=str(workers),
            order=None if order is None else str(order),
            local_size=_size(local_size),
            check=not request.config.option.no_opencl_check if check is None else bool(check),
            report=said.get("report", ()),
        )

    return make


@pytest.fixture
def kernels(request: pytest.FixtureRequest, opencl_program: Callable[..., Program]) -> Program:
    """The program that the marker `opencl` names: its kernels are its attributes."""
    marker = request.node.get_closest_marker("opencl")
    if marker is None or not marker.args:
        raise pytest.UsageError(
            f"{request.node.nodeid} uses the fixture `kernels`: mark it with @pytest.mark.opencl(source or file)"
        )
    return opencl_program(marker.args[0], marker.kwargs.get("options", ()))


def _found(source: str | Path, folder: Path) -> str | Path:
    """A file is looked for beside the test."""
    is_file = isinstance(source, Path) or (source.endswith(".cl") and "\n" not in source)
    return folder / source if is_file else source


def _size(text: object) -> tuple[int, ...] | None:
    if text is None:
        return None
    if isinstance(text, int):
        return (text,)
    parts = text.split(",") if isinstance(text, str) else text
    return tuple(int(part) for part in parts)  # type: ignore[attr-defined]

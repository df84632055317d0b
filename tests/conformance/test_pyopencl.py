"""PyOpenCL's own tests on the virtual device, as far as CI has time for them; `python -m tests.conformance`
runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.outcomes import (
    Outcome,
    compare,
    functions_behind,
    read_report,
    run_examples,
    run_tests,
)
from tests.conformance.source import fetch

WORKERS = 3  #: an odd number of workers divides nothing evenly
EXAMPLES = ("demo.py", "demo-struct-reduce.py", "demo_array.py", "demo_array_svm.py", "n-body.py", "svm.py")


@pytest.fixture(scope="module")
def pyopencl_source() -> Path:
    return fetch()


def test_tests_that_pass_natively_pass_on_the_virtual_device(pyopencl_source):
    virtual = run_tests(pyopencl_source / "test", WORKERS, select=True)
    assert sum(outcome.passed for outcome in virtual.values()) > 200
    behind = functions_behind(virtual)
    assert behind, "what needs features that the device does not have is skipped"
    native = run_tests(pyopencl_source / "test", None, select=True, only=behind)
    assert {name: virtual.get(name) for name in compare(native, virtual).missing} == {}


def test_examples(pyopencl_source):
    """Exit statuses: what the examples check of their results they check by themselves."""
    virtual = run_examples(pyopencl_source / "examples", WORKERS, EXAMPLES)
    assert {name: outcome for name, outcome in virtual.items() if not outcome.passed} == {}


def test_the_comparison_misses_nothing():
    names = ("a", "b", "c", "test_svm_2d", "test_image_2d", "d", "e")
    native = {name: Outcome("passed") for name in names}
    native["f"] = Outcome("failed", "natively too")
    virtual = {
        "a": Outcome("passed"),
        "b": Outcome("failed", "boom"),
        "c": Outcome("skipped", "device does not support fine-grain SVM"),
        "test_svm_2d": Outcome("skipped", "device does not support coarse-grain SVM"),
        "test_image_2d": Outcome("skipped", "images not supported"),
        "d": Outcome("skipped", "too new"),
    }
    comparison = compare(native, virtual)
    assert comparison.passing == ("a",)
    assert comparison.missing == ("b", "c", "test_svm_2d", "test_image_2d", "d", "e")


def test_natively_run_is_what_did_not_pass():
    virtual = {
        "test_a::test_b[device-1]": Outcome("failed"),
        "test_a::test_b[device-2]": Outcome("passed"),
        "test_a::test_c": Outcome("skipped"),
        "test_a::test_d": Outcome("passed"),
        "::test_e": Outcome("failed", "collection failure"),
    }
    assert functions_behind(virtual) == {"test_b", "test_c", "test_e"}


def test_reading_a_report(tmp_path):
    case = '<testcase classname="t" name="n[{}]">{}</testcase>'
    device = "&lt;context factory for &lt;pyopencl.Device 'x' on 'y'&gt;&gt;-{}"
    cases = [
        case.format(device.format(1), ""),
        case.format(device.format(2), "<failure message='boom'/>"),
        case.format(device.format(3), "<skipped type='pytest.skip' message='no'/>"),
        case.format(device.format(4), "<skipped type='pytest.xfail' message='known'/>"),
        case.format(device.format(5), "<error message='setup'/>"),
    ]
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert read_report(report) == {
        "t::n[device-1]": Outcome("passed"),
        "t::n[device-2]": Outcome("failed", "boom"),
        "t::n[device-3]": Outcome("skipped", "no"),
        "t::n[device-4]": Outcome("skipped", "expected failure: known"),
        "t::n[device-5]": Outcome("failed", "setup"),
    }

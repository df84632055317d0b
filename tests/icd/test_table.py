"""The table of functions: complete, in the loader's order, and crossing as the Khronos headers say."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.icd.driver import HEADERS, need_headers
from vdev.icd import buffers, images, objects, programs, queries, shared
from vdev.icd.functions import EXTENSION_FUNCTIONS, FUNCTIONS, KINDS
from vdev.packaging.library import compilers, stubs

MODULES = (objects, buffers, images, programs, shared, queries)
#: cl_… types that cross as a word of the table; handles cross as their kind
WORDS = {
    "cl_platform_id": "platform", "cl_device_id": "device", "cl_context": "context", "cl_command_queue": "queue",
    "cl_mem": "mem", "cl_sampler": "sampler", "cl_program": "program", "cl_kernel": "kernel", "cl_event": "event",
    "size_t": "size", "cl_int": "int", "cl_device_type": "bits", "cl_mem_flags": "bits",
    "cl_command_queue_properties": "bits", "cl_map_flags": "bits", "cl_mem_migration_flags": "bits",
    "cl_svm_mem_flags": "bits",
}  # fmt: skip


def test_every_function_has_its_python():
    for function in (*FUNCTIONS, *EXTENSION_FUNCTIONS):
        if function.refused or function.result in ("count", "by_hand"):
            continue
        found = [module for module in MODULES if hasattr(module, function.name)]
        assert len(found) == 1, function.name


def test_every_entry_is_filled():
    text = stubs()
    entries = text[text.index("dispatch_table[]") :]
    assert re.findall(r"\(void \*\)c_(\w+),", entries) == [function.name for function in FUNCTIONS]
    assert "NULL" not in entries
    named = re.findall(r'\{"(\w+)", \(void \*\)c_(\w+)\},', text)
    assert named == [(function.name, function.name) for function in EXTENSION_FUNCTIONS]
    assert len({function.name for function in FUNCTIONS}) == len(FUNCTIONS) == 149
    assert list(KINDS)[:3] == ["platform", "device", "context"]  # vdev.icd.host has their numbers


def test_the_order_is_the_loaders():
    need_headers("CL/cl_icd.h")
    text = (HEADERS / "cl_icd.h").read_text()
    body = text[text.index("typedef struct _cl_icd_dispatch {") : text.index("} cl_icd_dispatch")]
    assert re.findall(r"\b(cl[A-Z]\w+);", body) == [function.name for function in FUNCTIONS]


def _declarations() -> dict[str, list[str]]:
    """The parameters of every function that cl.h and cl_ext.h declare."""
    versions = "".join(
        f"#define CL_USE_DEPRECATED_OPENCL_{v}_APIS\n" for v in ("1_0", "1_1", "1_2", "2_0", "2_1", "2_2")
    )
    command = next(compilers(), None)
    if command is None:
        pytest.skip("there is no compiler")
    words = [*command, "-E", "-P", "-x", "c", "-DCL_TARGET_OPENCL_VERSION=300", "-"]
    done = subprocess.run(
        words,
        input=versions + "#include <CL/cl.h>\n#include <CL/cl_ext.h>\n",
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for match in re.finditer(r"(?<!\w)(cl[A-Z]\w+)\s*\(", done.stdout):
        stop, depth = match.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(done.stdout[stop], 0)
            stop += 1
        found.setdefault(match[1], _split(re.sub(r"\s+", " ", done.stdout[match.end() : stop - 1])))
    return found


def _split(parameters: str) -> list[str]:
    depth, pieces = 0, [""]
    for letter in parameters:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip() not in ("", "void")]


def _word(parameter: str) -> str:
    if re.search(r"[*(\[]", parameter):
        return "pointer"
    return WORDS.get(parameter.replace("const ", "").split()[0], "uint")


def test_parameters_cross_as_the_headers_say():
    need_headers("CL/cl.h")
    declared, seen = _declarations(), 0
    for function in (*FUNCTIONS, *EXTENSION_FUNCTIONS):
        if function.name not in declared:
            continue
        ours: list[str] = []
        for word in function.takes:
            ours += ["uint", "pointer"] if word == "waits" else [word.removesuffix("?")]
        more = {
            "command": ["pointer"],
            "outcome": ["pointer"],
            "map": ["pointer", "pointer"],
            "info": ["size", "pointer", "pointer"],
        }
        if function.result != "count" and function.name != "clGetPlatformInfo":
            ours += more.get(function.result, ["pointer"] if function.result in KINDS else [])
        if function.name == "clGetPlatformInfo":
            ours += more["info"]
        if function.name == "clEnqueueNDRangeKernel":
            ours += more["command"]
        assert ours == [_word(parameter) for parameter in declared[function.name]], function.name
        seen += 1
    assert seen > 100

"""The libraries in C find Python's functions by name when they are loaded: each has to be there in the oldest version of Python that
vdev runs with, where no test of this machine's version would miss it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: a row of a table of Python's functions: what it gives, its name, what it takes
ROW = re.compile(r"^    X\([\w *]+, (_?Py\w+), \(", re.MULTILINE)
SOURCES = sorted(
    path
    for folder in ("vdev", "translators")
    for path in (ROOT / folder).rglob("*.[ch]")
    if ROW.search(path.read_text())
)
#: of those of the tables, what `nm -D libpython3.10.so` lists, and 3.11's and later libraries as well
IN_3_10 = """
PyBool_FromLong PyBytes_AsString PyBytes_FromStringAndSize PyBytes_Size PyCFunction_NewEx PyCapsule_GetPointer
PyCapsule_IsValid PyCapsule_New PyDescr_NewMethod PyDict_Copy PyDict_DelItem PyDict_GetItem PyDict_New
PyDict_Next PyDict_SetItem PyDict_Size PyErr_Clear PyErr_Fetch PyErr_NormalizeException PyErr_Occurred
PyErr_Print PyErr_SetString PyEval_RestoreThread PyEval_SaveThread PyFloat_AsDouble PyFrozenSet_New
PyGILState_Check PyGILState_Ensure PyGILState_GetThisThreadState PyGILState_Release PyImport_ImportModule
PyIter_Next PyList_Append PyList_AsTuple PyList_GetItem PyList_GetSlice PyList_New PyList_SetItem
PyList_SetSlice PyList_Size PyLong_AsLong PyLong_AsLongLongAndOverflow PyLong_AsUnsignedLongLong
PyLong_FromLongLong PyLong_FromUnsignedLongLong PyLong_FromVoidPtr PyNumber_Lshift PyNumber_Multiply
PyNumber_Or PyNumber_Subtract PyObject_CallFunctionObjArgs PyObject_CallMethodObjArgs PyObject_CallObject
PyObject_GetAttr PyObject_GetAttrString PyObject_GetIter PyObject_IsTrue PyObject_RichCompareBool
PyObject_SetAttr PyObject_Type PySequence_List PySet_Add PySet_Contains PySet_Discard PySet_New
PyThreadState_Clear PyThreadState_DeleteCurrent PyTuple_GetItem PyTuple_New PyTuple_SetItem PyTuple_Size
PyType_GenericAlloc PyUnicode_InternFromString Py_DecRef Py_DecodeLocale Py_IncRef Py_InitializeEx
Py_IsInitialized Py_SetProgramName
"""
#: with what the library does where they are missing
ELSEWHERE = {
    "PyObject_Vectorcall": "before 3.11 there is PyObject_VectorcallDict",
}


def test_tables_are_found() -> None:
    assert {path.name for path in SOURCES} >= {"calls.c", "library.c"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_what_is_looked_up_is_there_in_the_oldest_version(source: Path) -> None:
    names = set(ROW.findall(source.read_text()))
    assert sorted(names - {*IN_3_10.split(), *ELSEWHERE}) == [], (
        "add it once Python 3.10's library is seen to have it"
    )

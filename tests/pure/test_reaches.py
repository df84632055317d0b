"""No module reaches into another object's names with an underscore: what is needed outside is public and documented."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.pure.house import MODULES

#: what its owner documents, or there is no other way to
DOCUMENTED = {
    "os._exit": "Python's documentation",
    "sys._current_frames": "Python's documentation",
    "sys._getframe": "Python's documentation",
    "sys._vdev_last_of_all": "our own, kept by the interpreter until its end",
    "lock._at_fork_reinit": "what the standard library's own locks do in a forked child",
    "cursor._tu": "what keeps a translation unit of libclang's alive as long as its cursors",
    "child._tu": "the same",
    "init._tu": "the same",
    "found._tu": "the same",
    "item._replace": "Python's documentation of named tuples",
    "cursor._kind_id": "a field of libclang's structure of a cursor: the number of its kind",
    "cindex._CXString": "the structure of libclang's strings, which functions that the wrapper lacks return",
}
#: names of PyOpenCL's native module that its Python layer calls, and so do we; a test compares them with the module
CONTRACT = {
    "_ErrorRecord", "_Program", "_build", "_create_program_with_il", "_custom_init", "_enqueue_barrier",
    "_enqueue_barrier_with_wait_list", "_enqueue_copy_buffer", "_enqueue_copy_buffer_rect",
    "_enqueue_copy_buffer_to_image", "_enqueue_copy_image", "_enqueue_copy_image_to_buffer", "_enqueue_fill_buffer",
    "_enqueue_marker", "_enqueue_marker_with_wait_list", "_enqueue_read_buffer", "_enqueue_read_buffer_rect",
    "_enqueue_read_image", "_enqueue_svm_map", "_enqueue_svm_memcpy", "_enqueue_svm_memfill",
    "_enqueue_svm_migrate_mem", "_enqueue_svm_unmap", "_enqueue_wait_for_events", "_enqueue_write_buffer",
    "_enqueue_write_buffer_rect", "_enqueue_write_image", "_set_arg_buf", "_set_arg_null", "_set_arg_svm",
}  # fmt: skip
#: and one of its Python layer's, which the native module itself calls
CALLED_BACK = {"_get_prg"}
#: what begins names of our own in PyOpenCL's classes, which have no public names besides PyOpenCL's (test_contract)
OUR_OWN = "_vdev_"
KNOW_PYOPENCL = ("vdev.facade", "vdev.icd", "vdev.backends.opencl")


def reaches(source: str, module: str = "") -> Iterator[str]:
    """Every access to a name with one underscore of something else than the class that the code stands in."""
    tree = ast.parse(source)
    here = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    pending: list[tuple[ast.AST, tuple[ast.ClassDef, ...]]] = [(tree, ())]
    while pending:
        node, classes = pending.pop()
        if isinstance(node, ast.ClassDef):
            classes = (*classes, node)
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node, classes, here):
            text = ast.unparse(node)
            known = module.startswith(KNOW_PYOPENCL) and (
                node.attr in CONTRACT | CALLED_BACK or node.attr.startswith(OUR_OWN)
            )
            if text not in DOCUMENTED and not known:
                yield f"line {node.lineno}: {text}"
        pending += ((child, classes) for child in ast.iter_child_nodes(node))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_own(node: ast.Attribute, classes: tuple[ast.ClassDef, ...], here: Mapping[str, ast.ClassDef]) -> bool:
    """Whether it is the object's or the class's own, or the same attribute of another of its class; inherited ones from a class
    that stands `here`, in the same module, are as well.
    """
    owner = node.value
    if isinstance(owner, ast.Name) and owner.id in {"self", "cls", *(each.name for each in classes)}:
        return True
    if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super":
        return True
    return bool(classes) and any(node.attr in own_names(each) for each in lineage(classes[-1], here))


def lineage(definition: ast.ClassDef, here: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """A class and those that stand in the same module from which it inherits."""
    yield definition
    for base in definition.bases:
        if isinstance(base, ast.Name) and base.id in here and base.id != definition.name:
            yield from lineage(here[base.id], here)


def own_names(definition: ast.ClassDef) -> set[str]:
    """What a class defines, or its methods set."""
    found = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
            found.add(node.attr)
    return found


@pytest.mark.parametrize("name", sorted(MODULES))
def test_no_module_reaches_into_anothers_objects(name: str) -> None:
    assert not list(reaches(MODULES[name].read_text(), name))


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("other._name", 1),
        ("other.method()._name = 1", 1),
        ("self._name", 0),
        ("other.__name__", 0),
        ("class A:\n    def f(self, other): return other._name", 1),
        ("class A:\n    def f(self, other): return self._name == other._name", 0),
        ("class A:\n    _name = 1\n    def f(self, other): return other._name", 0),
        ("class A:\n    def f(self): return A._name", 0),
        ("class B:\n    _name = 1\nclass A:\n    def f(self): return B._name", 1),
        ("class A:\n    def _f(self): return super()._f()", 0),
        ("class A:\n    def _f(self): pass\nA._f", 1),
        ("class B:\n    _name = 1\nclass A(B):\n    def f(self, other): return other._name", 0),
        ("class A(B):\n    def f(self, other): return other._name", 1),
        ("import sys\nsys._getframe()", 0),
    ],
)
def test_what_counts(source: str, count: int) -> None:
    assert len(list(reaches(source))) == count


def test_the_contract_is_the_native_modules() -> None:
    from vdev.backends.opencl.native import load_native

    native = load_native()
    there = {*dir(native), *dir(native.Kernel), *dir(native._Program), *dir(native.Image)}
    assert there >= CONTRACT
    assert "_enqueue_read_buffer" not in list(reaches("cl._enqueue_read_buffer", "vdev.facade.x"))
    assert len(list(reaches("cl._enqueue_read_buffer", "vdev.planner.x"))) == 1

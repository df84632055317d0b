"""The stand-in has what the installed PyOpenCL's native module has: names, classes, methods, parameters.

The contract is read from the installed module and stub, so that another version of PyOpenCL shows here first.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pyopencl
import pytest

from vdev.backends.opencl.native import load_native
from vdev.facade import stand_in
from vdev.facade.errors import make_error

NATIVE = load_native()
STAND_IN = ModuleType("pyopencl._cl")
stand_in.populate(STAND_IN)

NAMES = [name for name in dir(NATIVE) if not name.startswith("__")]
CONSTANTS = [name for name in NAMES if inspect.isclass(getattr(NATIVE, name)) and name[0].islower()]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(NATIVE, name)) and name not in CONSTANTS]
FUNCTIONS = [name for name in NAMES if name not in CONSTANTS and name not in CLASSES]
OBJECTS = [name for name in CLASSES if not issubclass(getattr(NATIVE, name), Exception)]


def is_native_callable(value: Any) -> bool:
    return type(value).__name__ in ("nb_func", "nb_method")


def native_methods() -> list[tuple[str, str]]:
    """(class, method) for all that C++ defines, at the class that defines it; not PyOpenCL's own patches."""
    return [
        (name, method)
        for name in OBJECTS
        for method, value in vars(getattr(NATIVE, name)).items()
        if is_native_callable(value)
    ]


def native_parameters(value: Any) -> list[list[tuple[str, bool, Any]]]:
    """Per overload the parameters as (name, positional only, default or the `inspect` marker for none)."""
    overloads = []
    for text, _doc, defaults in value.__nb_signature__:
        definition = ast.parse(re.sub(r"\\(\d+)", r"default_\1", text) + ": ...").body[0]
        assert isinstance(definition, ast.FunctionDef)
        arguments = definition.args
        every = [*arguments.posonlyargs, *arguments.args]
        values = iter(defaults or ())
        without = len(every) - len(arguments.defaults)
        given = [next(values) for _ in arguments.defaults]
        overloads.append(
            [
                (
                    parameter.arg,
                    parameter in arguments.posonlyargs,
                    given[number - without] if number >= without else inspect.Parameter.empty,
                )
                for number, parameter in enumerate(every)
            ]
        )
    return overloads


def stand_in_parameters(value: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(value).parameters.values())


def check_signature(native: Any, ours: Any) -> None:
    """Same number, names and defaults; where C++ has overloads, ours takes the longest."""
    wanted = max(native_parameters(native), key=len)
    found = stand_in_parameters(ours)
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in found):
        return  # takes everything and sorts the overloads out itself; the next test calls it
    assert len(found) == len(wanted)
    for (name, positional_only, default), parameter in zip(wanted, found, strict=True):
        if not positional_only and name != "self":
            assert parameter.name == name
        # natively the default of a bytes parameter is the string "", which a call cannot even use
        if type(default) in (int, bool, type(None)) or isinstance(parameter.default, str):
            assert parameter.default == default


def test_the_installed_module_is_the_one_this_was_written_for() -> None:
    assert (len(NAMES), len(CONSTANTS), len(FUNCTIONS)) == (127, 52, 37)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists_and_is_of_the_same_kind(name: str) -> None:
    assert hasattr(STAND_IN, name)
    assert inspect.isclass(getattr(STAND_IN, name)) == inspect.isclass(getattr(NATIVE, name))


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_the_native_ones(name: str) -> None:
    assert getattr(STAND_IN, name) is getattr(NATIVE, name)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_native_bases(name: str) -> None:
    def bases(module: Any) -> list[str]:
        known = {getattr(module, other): other for other in CLASSES}
        return [known[base] for base in getattr(module, name).__mro__ if base in known]

    assert bases(STAND_IN) == bases(NATIVE)


@pytest.mark.parametrize(("name", "method"), native_methods())
def test_methods_take_the_native_parameters(name: str, method: str) -> None:
    native, ours = getattr(NATIVE, name), getattr(STAND_IN, name)
    if ours is native:
        return
    if method in ("__eq__", "__hash__"):
        assert getattr(ours, method) is not None
        return
    value = inspect.getattr_static(ours, method)
    if isinstance(value, staticmethod | classmethod):
        check_signature(vars(native)[method], getattr(ours, method))
    else:
        check_signature(vars(native)[method], value)


@pytest.mark.parametrize("name", OBJECTS)
def test_properties_exist(name: str) -> None:
    native, ours = getattr(NATIVE, name), getattr(STAND_IN, name)
    wanted = [key for key, value in vars(native).items() if isinstance(value, property) and is_of_c(value)]
    missing = [key for key in wanted if not hasattr(ours, key) and key not in STATEFUL.get(name, ())]
    assert not missing


#: plain attributes that only instances have
STATEFUL = {"ImageDescriptor": ("image_type", "array_size", "num_mip_levels", "num_samples")}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_have_no_public_names_besides(name: str) -> None:
    """What programs see and could clash with is what the native module has, and what older versions of it had."""
    public = {key for key in dir(getattr(STAND_IN, name)) if not key.startswith("_")}
    assert public - set(dir(getattr(NATIVE, name))) <= OLDER.get(name, set())


OLDER = {"Image": {"image"}}


def is_of_c(value: property) -> bool:
    return is_native_callable(value.fget)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if is_native_callable(getattr(NATIVE, name))])
def test_functions_take_the_native_parameters(name: str) -> None:
    native, ours = getattr(NATIVE, name), getattr(STAND_IN, name)
    if ours is not native:
        check_signature(native, ours)


def test_stub_and_stand_in_agree_on_classes() -> None:
    """What the stub declares beyond the native module is PyOpenCL's own patching or OpenGL's."""
    stub = Path(pyopencl.__file__).with_name("_cl.pyi")
    declared = {node.name for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)}
    missing = {name for name in declared if not hasattr(STAND_IN, name)}
    assert all(name.startswith(("GL", "gl_")) for name in missing)


def test_objects_are_ordinary_classes_that_take_patches() -> None:
    for name in OBJECTS:
        if getattr(STAND_IN, name) is not getattr(NATIVE, name):
            assert type(getattr(STAND_IN, name)) is type


def test_objects_say_that_they_live_in_the_native_module() -> None:
    """pytools and pickle find classes by module and name."""
    for name in OBJECTS:
        assert getattr(STAND_IN, name).__module__ == "pyopencl._cl"


@pytest.mark.parametrize(
    "name",
    [
        "Event",
        "NannyEvent",
        "MemoryObjectHolder",
        "MemoryObject",
        "MemoryMap",
        "AllocatorBase",
        "PooledBuffer",
    ],
)
def test_what_cannot_be_constructed_natively_cannot_here(name: str) -> None:
    for module in (NATIVE, STAND_IN):
        with pytest.raises(TypeError):
            getattr(module, name)()


def test_error_classes_follow_the_status_code() -> None:
    status = NATIVE.status_code
    assert type(make_error("f", status.MEM_OBJECT_ALLOCATION_FAILURE)) is NATIVE.MemoryError
    assert type(make_error("f", status.INVALID_VALUE)) is NATIVE.LogicError
    assert type(make_error("f", status.OUT_OF_RESOURCES)) is NATIVE.RuntimeError
    record = make_error("routine", status.INVALID_VALUE, "text").args[0]
    assert (record.routine(), record.code(), record.what()) == ("routine", status.INVALID_VALUE, "text")

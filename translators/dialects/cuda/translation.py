"""OpenCL C to CUDA C++ for a sub-grid: what a CUDA back end compiles with NVRTC and launches.

The program is first translated for a sub-grid (OpenCL C to OpenCL C: hidden argument, pointers, work-item
functions of the whole NDRange), then CUDA C++ is printed from its syntax tree, on top of our headers. A kernel
becomes a device function; a generated `extern "C"` entry function brings CUDA's arguments to it.

Translated: all scalar, vector and pointer types with literals, swizzles, conversions and reinterpretations;
structures, unions, enumerations and arithmetic on them, type definitions, typeof; initialisers as C has them; static
and dynamic local memory (what is beyond 48 KB of a kernel's own variables stands in dynamic shared memory: see
`CudaKernel.local_nbytes`); constant arguments, constants and variables at program scope; the built-in functions that
`include/cuda` defines (mathematics, integers, common, geometric, relational, vload/vstore, half, select, shuffle,
barriers and fences, atomics of 1.x and C11, work-group functions, sub-groups as warps of 32, asynchronous copies,
printf); overloaded functions, names that C++ and CUDA reserve; the build options in `tables.OPTIONS`.

Refused, by name (Untranslatable): images and samplers (which `image_lowering` has turned into plain memory before),
pipes, queues and events of device-side enqueue, blocks, function pointers, built-in functions that our headers lack,
initialisers whose names go back to an element that has a value, array literals that are kept, unknown build options.
A launch with a partial work-group is not possible (`pack` says so): a CUDA block has one size, and a barrier that
some of its threads skip would have to be counted in every program.

A program with variables at program scope is right only as long as one worker runs its NDRanges whole.

Registers: without a required work-group size a kernel is compiled for work-groups of up to `USUAL_GROUP` work-items, which
is what NVIDIA's own OpenCL says of such kernels (`CL_KERNEL_WORK_GROUP_SIZE`); larger ones need a second compilation
(`CudaKernel.bounded`). By a compiler that knows of no bound some kernels come out much slower, few registers though they
take. With a required size, how many work-groups are to be resident is left to the compiler unless
`CudaKernel.resident_groups` says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from clang.cindex import Cursor

from ...collecting import seldom_collected
from ...frontend import clang
from ...frontend.depth import deep_translation
from ...frontend.edits import Edits, Function, Functions
from ...frontend.kernels import SampledImage, Untranslatable
from ...frontend.options import joined_values, parse_options
from ...frontend.preprocessor import MAIN_FILE
from ...frontend.source import BUFFERS, ArgKind, KernelInfo, ParsedProgram, parse_program
from ...frontend.unused_functions import without_unused
from ..image_arguments import SAMPLER_BITS
from ..subgrid import SHIFT, translate_subgrid
from ..subgrid_kernel import SubgridKernel
from . import tables as cuda_dialect
from .apart import arguments_apart, reads_behind_stores, stores_by_arguments_alone
from .headers import needed_headers
from .printing import Printer
from .program import (
    LOCAL_ALIGNMENT,
    USUAL_GROUP,
    VERSION,
    Apart,
    CudaKernel,
    CudaProgram,
    Textured,
    UnknownOption,
    bounds,
    bounds_macro,
    resident_macro,
)
from .types import spell

__all__ = ["VERSION", "CudaKernel", "CudaProgram", "UnknownOption", "Untranslatable", "translate_cuda"]

#: 6.12.1: no product may be fused with a sum. If one part of a program asks for it, all of it gets it.
_UNFUSED = re.compile(
    r"^[ \t]*#[ \t]*pragma[ \t]+(?:(?:OPENCL|STDC)[ \t]+FP_CONTRACT[ \t]+OFF\b|clang[ \t]+fp[ \t]+contract[ \t]*\([ \t]*off\b)",
    re.MULTILINE,
)


_TRANSLATED = (*BUFFERS, ArgKind.LOCAL, ArgKind.VALUE)


@seldom_collected
def translate_cuda(program: ParsedProgram, *, renumbers: bool = False) -> CudaProgram:
    """Translate all kernels. Raises Untranslatable with what cannot be translated, and the user's line. `renumbers`:
    for chunks with cycles.
    """
    with deep_translation():
        return _translated(program, renumbers)


def _translated(program: ParsedProgram, renumbers: bool) -> CudaProgram:
    options = nvrtc_options(program.engine_options)
    if _UNFUSED.search(program.preprocessed):
        options = tuple("--fmad=false" if option == "--fmad=true" else option for option in options)
    for info in program.kernels.values():
        for argument in info.args:
            if argument.kind not in _TRANSLATED:
                raise Untranslatable(f"{argument.type_name} arguments are not translated to CUDA", info.line)
    program = replace(without_unused(program), sampled=program.sampled)
    subgrid = translate_subgrid(program, shared_variables=True, offsets=False, renumbers=renumbers)
    again = parse_program(subgrid.source, program.engine_options, target=program.target)
    if not again.exact:
        raise Untranslatable("macros could not be expanded: " + "; ".join(again.doubts))
    return _Translation(program, again, subgrid.kernels, options).run()


def nvrtc_options(options: Sequence[str]) -> tuple[str, ...]:
    """NVRTC's options for a program's (without -D, -U and -I). Raises Untranslatable for unknown ones."""
    found = list(cuda_dialect.BASE_OPTIONS)
    for option in joined_values(parse_options(options).for_engine):
        if option in cuda_dialect.OPTIONS:
            found += cuda_dialect.OPTIONS[option]
        elif match := re.fullmatch(r"-cl-nv-maxrregcount=(\d+)", option):
            found.append(f"--maxrregcount={match.group(1)}")
        elif not cuda_dialect.WITHOUT_MEANING.fullmatch(option):
            raise UnknownOption(f"build option {option} is not known for CUDA")
    names = [option.partition("=")[0] for option in found]
    return tuple(option for index, option in enumerate(found) if names[index] not in names[index + 1 :])


class _Translation:
    """One program being rewritten."""

    def __init__(
        self,
        program: ParsedProgram,
        again: ParsedProgram,
        kernels: Mapping[str, SubgridKernel],
        options: tuple[str, ...],
    ) -> None:
        self.program = program
        self.again = again
        self.options = options
        self.functions = Functions(again)
        self.edits = Edits(self.functions.text)
        self.prefix = _free_prefix(self.functions)
        single = "-cl-single-precision-constant" in program.engine_options
        self.printer = Printer(
            again, self.functions, self.edits, self.prefix, single=single, fuses="--fmad=true" in options
        )
        self.kernels = {
            name: CudaKernel(
                name, f"{self.prefix}kernel{index}", kernel.hidden_index, kernel.pointer_args,
                tuple(i for i, argument in enumerate(program.kernels[name].args) if argument.kind is ArgKind.LOCAL),
                _work_group_size(program.kernels[name]), kernel,
            )
            for index, (name, kernel) in enumerate(kernels.items())
        }  # fmt: skip

    def run(self) -> CudaProgram:
        self._shifts()
        for cursor in self.again.declarations:
            self.printer.declaration(cursor)
        self._hidden_by_reference()
        names = self.printer.overloads()
        self.printer.words(parse_options(self.again.engine_options).c_version or self.again.target.c_version)
        body = self.edits.apply()
        apart = self._apart()
        self.kernels = {
            name: replace(
                kernel,
                local_nbytes=self.printer.large.get(name, 0),
                apart=apart.get(name),
                textured=self._textured(kernel),
            )
            for name, kernel in self.kernels.items()
        }
        entries = "".join(
            self._entries(function, names) for function in self.functions.defined if function.kernel
        )
        text = f"{self._shared()}{body}\n{entries}}}}}\n"
        fuses = "#define VDEV_FUSES\n" if "--fmad=true" in self.options else ""
        headers = needed_headers(text, cuda_dialect.constants())
        return CudaProgram(f"{fuses}{headers}{text}", self.options, self.kernels)

    def _apart(self) -> dict[str, Apart]:
        """Of kernels that have one, the second version."""
        bodies, found = self.printer.bodies, {}
        for name, kernel in self.kernels.items():
            apart = arguments_apart(self.program.kernels[name], kernel.entry)
            if apart is not None and reads_behind_stores(name, bodies):
                found[name] = apart
        if not found:
            return {}
        shifts = {match.start() for match in SHIFT.finditer(self.functions.text)}
        return found if stores_by_arguments_alone(self.again.declarations, bodies, shifts) else {}

    def _textured(self, kernel: CudaKernel) -> Textured | None:
        images = tuple(image for image in self.program.sampled.get(kernel.name, ()) if image.is_known)
        return Textured(f"{kernel.entry}_textured", images) if images else None

    def _shared(self) -> str:
        """What comes before the program's own text, behind our headers."""
        shared = f"extern __shared__ __align__({LOCAL_ALIGNMENT}) unsigned char {self.prefix}shared[];\n"
        if self.printer.uses_work_dim:
            # The same for all work-items, and used where no hidden argument is available.
            shared += f"__shared__ unsigned int {self.prefix}work_dim;\n"
            shared += (
                f"namespace vdev_cl {{ inline uint get_work_dim() {{ return {self.prefix}work_dim; }} }}\n"
            )
        return f'{shared}namespace vdev_cl {{ namespace user {{\n#line 1 "{MAIN_FILE}"\n'

    def _shifts(self) -> None:
        """Pointers arrive as they are used, under names that C++ does not reserve."""
        for match in SHIFT.finditer(self.functions.text):
            own, name = (group.decode() for group in match.groups()[:2])
            self.printer.blank(
                *match.span(),
                f"decltype({own}) {self.printer.word(name)} = {own};",
            )

    def _hidden_by_reference(self) -> None:
        """The structure stays where CUDA puts arguments; it is not copied."""
        kernels = {function.name for function in self.functions.defined if function.kernel}
        for declaration in self.again.functions():
            if declaration.spelling in kernels:
                hidden = list(declaration.get_arguments())[-1]
                self.edits.insert(clang.extent_of(hidden)[0], "const ")
                self.edits.insert(hidden.location.offset, "&")

    def _entries(self, function: Function, names: Mapping[int, str]) -> str:
        """What CUDA calls to run a kernel."""
        kernel = self.kernels[function.name]
        hidden_type = re.sub(
            r"\b__private\b", " ", list(function.cursor.get_arguments())[-1].type.spelling
        ).strip()
        if kernel.max_work_group_size:
            groups = _default(resident_macro(kernel.entry), "0")  # the compiler's choice
        else:
            groups = _default(bounds_macro(kernel.entry), bounds(USUAL_GROUP))
        structure = f"struct {kernel.entry}_hidden {{ {hidden_type} arguments; unsigned long work_dim; }};\n"
        entries = self._entry(function, names, kernel.entry, ())
        if kernel.apart is not None:
            entries += self._entry(function, names, kernel.apart.entry, kernel.apart.read)
        if kernel.textured is not None:
            entries += self._entry(
                function,
                names,
                kernel.textured.entry,
                () if kernel.apart is None else kernel.apart.read,
                textured=True,
            )
        return groups + structure + entries

    def _entry(
        self,
        function: Function,
        names: Mapping[int, str],
        entry: str,
        apart: tuple[int, ...],
        *,
        textured: bool = False,
    ) -> str:
        """One function. `apart`: arguments whose memory is no other's that is stored to. `textured`: it takes textures."""
        kernel = self.kernels[function.name]
        info = self.program.kernels[function.name]
        parameters, arguments = [], []
        own = list(function.cursor.get_arguments())[:-1]
        for index, (parameter, argument) in enumerate(zip(own, info.args, strict=True)):
            name = f"{self.prefix}a{index}"
            if argument.kind is ArgKind.VALUE:
                parameters.append(f"{self._type_text(parameter)} {name}")
                arguments.append(name)
            elif argument.kind is ArgKind.LOCAL:
                parameters.append(f"unsigned int {name}")
                arguments.append(f"::vdev_cl::pointer({self.prefix}shared + {name})")
            else:
                # A kernel does not write to its constant arguments (6.7.3): they may come through the read-only
                # cache.
                alone = argument.kind is ArgKind.CONSTANT or "restrict" in argument.type_qualifiers
                alone = alone or index in apart
                parameters.append(f"void *{'__restrict__ ' if alone else ''}{name}")
                arguments.append(f"::vdev_cl::pointer({name})")
        structure = f"{kernel.entry}_hidden"
        parameters.append(f"const __grid_constant__ {structure} {self.prefix}hidden_")
        arguments.append(f"{self.prefix}hidden_.arguments")
        bound = bounds_macro(kernel.entry)
        if kernel.max_work_group_size:
            bound = f"__launch_bounds__({kernel.max_work_group_size}, {resident_macro(kernel.entry)})"
        # What the compiler may rely on makes local sizes constants (6.7.2 reqd_work_group_size).
        sizes = zip("xyz", info.reqd_work_group_size or (), strict=False)
        first = "".join(f" __builtin_assume(::blockDim.{d} == {size});" for d, size in sizes)
        first += "".join(self._depths(self.program.sampled.get(function.name, ()), textured))
        if self.printer.uses_work_dim:
            first += f" {self.prefix}work_dim = (unsigned int){self.prefix}hidden_.work_dim; __syncthreads();"
        callee = names.get(function.key, self.printer.word(function.name))
        return (
            f'extern "C" __global__ void {bound} {entry}({", ".join(parameters)}) '
            f"{{{first} {callee}({', '.join(arguments)}); }}\n"
        )

    def _depths(self, images: Sequence[SampledImage], textured: bool) -> Iterator[str]:
        """Statements that tell the compiler with which sampler each image is read by a texture, or that it is not."""
        for image in images:
            depth = f"{self.prefix}a{image.descriptor}.depth"
            if not textured or not image.is_known:
                yield f" {depth} = 1;"
            elif image.sampler is None:
                yield f" {depth} = ~{image.bits};"
            else:  # of a sampler that is known to be one, the complement is negative
                sampler = f"{self.prefix}a{image.sampler}"
                yield f" {sampler} &= {SAMPLER_BITS}; {depth} = (int)~{sampler};"

    def _type_text(self, parameter: Cursor) -> str:
        known = spell(parameter.type)
        if known is not None:
            return known
        text = re.sub(r"\b(?:__private|const|volatile)\b", " ", parameter.type.spelling).strip()
        return re.sub(r"\w+", lambda match: self.printer.word(match.group()), text)


def _default(macro: str, text: str) -> str:
    """A macro that NVRTC's options may define otherwise."""
    return f"#ifndef {macro}\n#define {macro} {text}\n#endif\n"


def _work_group_size(info: KernelInfo) -> int | None:
    sizes = info.reqd_work_group_size
    return None if sizes is None else sizes[0] * sizes[1] * sizes[2]


def _free_prefix(functions: Functions) -> str:
    """A prefix that no identifier of the text starts with."""
    number = 0
    while any(name.startswith(f"vdev_cuda{number or ''}_") for name in functions.identifiers()):
        number += 1
    return f"vdev_cuda{number or ''}_"

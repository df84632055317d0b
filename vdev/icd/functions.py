"""How every function of OpenCL crosses from C to Python, in the order of the loader's dispatch table (cl_khr_icd).

A row says what a function gives back and what it takes, so that the C code that takes a call apart is generated
(`vdev/packaging/library.py`) and nothing is written twice. `tests/icd/test_table.py` compares the table with the Khronos
headers. It imports nothing: the library is built where vdev's own requirements are not installed.

| what it gives back | |
|---|---|
| `status` | a status code |
| `command` | a status code, and the command's event behind a last parameter |
| `info` | a status code, and bytes behind three last parameters: size, value, size of the value |
| a kind of object | an object, and a status code behind a last parameter |
| `outcome` | a program, also one whose link has failed, and a status code behind a last parameter |
| `map` | an address, and behind two last parameters an event and a status code |
| `address`, `nothing` | an address; nothing |
| `count` | a status code: it retains or releases; written by hand in C, as is `by_hand` |
| `refused …` | what the word after it says, always CL_INVALID_OPERATION |

| what it takes | in Python |
|---|---|
| a kind of object | what stands for it in the façade; with `?` behind it None for NULL |
| `uint`, `int`, `size`, `bits` | an int: cl_uint and cl_bool, cl_int, size_t, cl_bitfield |
| `pointer` | an int, 0 for NULL |
| `waits` | number and address of events: a tuple of them, None where there are none |
"""

from __future__ import annotations

from typing import NamedTuple

#: by kind of object: the status code for an invalid one, and the query for its number of references
KINDS = {
    "platform": (-32, 0),
    "device": (-33, 0x1047),
    "context": (-34, 0x1080),
    "queue": (-36, 0x1092),
    "mem": (-38, 0x1105),
    "sampler": (-41, 0x1150),
    "program": (-44, 0x1160),
    "kernel": (-48, 0x1192),
    "event": (-58, 0x11D2),
}


class Function(NamedTuple):
    """A row of the table."""

    name: str
    result: str
    refused: bool
    takes: tuple[str, ...]


def _parse(line: str) -> Function:
    name, _, rest = line.partition(": ")
    result, _, takes = rest.partition(" <- ")
    *refused, result = result.split()
    return Function(name, result, bool(refused), tuple(takes.split()))


_TABLE = """\
clGetPlatformIDs: by_hand <- uint pointer pointer
clGetPlatformInfo: by_hand <- platform uint
clGetDeviceIDs: status <- platform? bits uint pointer pointer
clGetDeviceInfo: info <- device uint
clCreateContext: context <- pointer uint pointer pointer pointer
clCreateContextFromType: context <- pointer bits pointer pointer
clRetainContext: count <- context
clReleaseContext: count <- context
clGetContextInfo: info <- context uint
clCreateCommandQueue: queue <- context device bits
clRetainCommandQueue: count <- queue
clReleaseCommandQueue: count <- queue
clGetCommandQueueInfo: info <- queue uint
clSetCommandQueueProperty: status <- queue bits uint pointer
clCreateBuffer: mem <- context bits size pointer
clCreateImage2D: mem <- context bits pointer size size size pointer
clCreateImage3D: mem <- context bits pointer size size size size size pointer
clRetainMemObject: count <- mem
clReleaseMemObject: count <- mem
clGetSupportedImageFormats: status <- context bits uint uint pointer pointer
clGetMemObjectInfo: info <- mem uint
clGetImageInfo: info <- mem uint
clCreateSampler: sampler <- context uint uint uint
clRetainSampler: count <- sampler
clReleaseSampler: count <- sampler
clGetSamplerInfo: info <- sampler uint
clCreateProgramWithSource: program <- context uint pointer pointer
clCreateProgramWithBinary: program <- context uint pointer pointer pointer pointer
clRetainProgram: count <- program
clReleaseProgram: count <- program
clBuildProgram: status <- program uint pointer pointer pointer pointer
clUnloadCompiler: by_hand
clGetProgramInfo: status <- program uint size pointer pointer
clGetProgramBuildInfo: info <- program device uint
clCreateKernel: kernel <- program pointer
clCreateKernelsInProgram: status <- program uint pointer pointer
clRetainKernel: count <- kernel
clReleaseKernel: count <- kernel
clSetKernelArg: by_hand <- kernel uint size pointer
clGetKernelInfo: info <- kernel uint
clGetKernelWorkGroupInfo: info <- kernel device? uint
clWaitForEvents: status <- uint pointer
clGetEventInfo: info <- event uint
clRetainEvent: count <- event
clReleaseEvent: count <- event
clGetEventProfilingInfo: info <- event uint
clFlush: status <- queue
clFinish: status <- queue
clEnqueueReadBuffer: command <- queue mem uint size size pointer waits
clEnqueueWriteBuffer: command <- queue mem uint size size pointer waits
clEnqueueCopyBuffer: command <- queue mem mem size size size waits
clEnqueueReadImage: command <- queue mem uint pointer pointer size size pointer waits
clEnqueueWriteImage: command <- queue mem uint pointer pointer size size pointer waits
clEnqueueCopyImage: command <- queue mem mem pointer pointer pointer waits
clEnqueueCopyImageToBuffer: command <- queue mem mem pointer pointer size waits
clEnqueueCopyBufferToImage: command <- queue mem mem size pointer pointer waits
clEnqueueMapBuffer: map <- queue mem uint bits size size waits
clEnqueueMapImage: map <- queue mem uint bits pointer pointer pointer pointer waits
clEnqueueUnmapMemObject: command <- queue mem pointer waits
clEnqueueNDRangeKernel: by_hand <- queue kernel uint pointer pointer pointer waits
clEnqueueTask: command <- queue kernel waits
clEnqueueNativeKernel: command <- queue pointer pointer size uint pointer pointer waits
clEnqueueMarker: command <- queue
clEnqueueWaitForEvents: status <- queue uint pointer
clEnqueueBarrier: status <- queue
clGetExtensionFunctionAddress: by_hand <- pointer
clCreateFromGLBuffer: refused mem <- context bits uint
clCreateFromGLTexture2D: refused mem <- context bits uint int uint
clCreateFromGLTexture3D: refused mem <- context bits uint int uint
clCreateFromGLRenderbuffer: refused mem <- context bits uint
clGetGLObjectInfo: refused status <- mem pointer pointer
clGetGLTextureInfo: refused info <- mem uint
clEnqueueAcquireGLObjects: refused command <- queue uint pointer waits
clEnqueueReleaseGLObjects: refused command <- queue uint pointer waits
clGetGLContextInfoKHR: refused info <- pointer uint
clGetDeviceIDsFromD3D10KHR: refused status
clCreateFromD3D10BufferKHR: refused status
clCreateFromD3D10Texture2DKHR: refused status
clCreateFromD3D10Texture3DKHR: refused status
clEnqueueAcquireD3D10ObjectsKHR: refused status
clEnqueueReleaseD3D10ObjectsKHR: refused status
clSetEventCallback: status <- event int pointer pointer
clCreateSubBuffer: mem <- mem bits uint pointer
clSetMemObjectDestructorCallback: status <- mem pointer pointer
clCreateUserEvent: event <- context
clSetUserEventStatus: status <- event int
clEnqueueReadBufferRect: command <- queue mem uint pointer pointer pointer size size size size pointer waits
clEnqueueWriteBufferRect: command <- queue mem uint pointer pointer pointer size size size size pointer waits
clEnqueueCopyBufferRect: command <- queue mem mem pointer pointer pointer size size size size waits
clCreateSubDevicesEXT: refused status <- device pointer uint pointer pointer
clRetainDeviceEXT: by_hand <- device
clReleaseDeviceEXT: by_hand <- device
clCreateEventFromGLsyncKHR: refused event <- context pointer
clCreateSubDevices: status <- device pointer uint pointer pointer
clRetainDevice: count <- device
clReleaseDevice: count <- device
clCreateImage: mem <- context bits pointer pointer pointer
clCreateProgramWithBuiltInKernels: program <- context uint pointer pointer
clCompileProgram: status <- program uint pointer pointer uint pointer pointer pointer pointer
clLinkProgram: outcome <- context uint pointer pointer uint pointer pointer pointer
clUnloadPlatformCompiler: by_hand <- platform
clGetKernelArgInfo: info <- kernel uint uint
clEnqueueFillBuffer: command <- queue mem pointer size size size waits
clEnqueueFillImage: command <- queue mem pointer pointer pointer waits
clEnqueueMigrateMemObjects: command <- queue uint pointer bits waits
clEnqueueMarkerWithWaitList: command <- queue waits
clEnqueueBarrierWithWaitList: command <- queue waits
clGetExtensionFunctionAddressForPlatform: by_hand <- platform pointer
clCreateFromGLTexture: refused mem <- context bits uint int uint
clGetDeviceIDsFromD3D11KHR: refused status
clCreateFromD3D11BufferKHR: refused status
clCreateFromD3D11Texture2DKHR: refused status
clCreateFromD3D11Texture3DKHR: refused status
clCreateFromDX9MediaSurfaceKHR: refused status
clEnqueueAcquireD3D11ObjectsKHR: refused status
clEnqueueReleaseD3D11ObjectsKHR: refused status
clGetDeviceIDsFromDX9MediaAdapterKHR: refused status
clEnqueueAcquireDX9MediaSurfacesKHR: refused status
clEnqueueReleaseDX9MediaSurfacesKHR: refused status
clCreateFromEGLImageKHR: refused mem <- context pointer pointer bits pointer
clEnqueueAcquireEGLObjectsKHR: refused command <- queue uint pointer waits
clEnqueueReleaseEGLObjectsKHR: refused command <- queue uint pointer waits
clCreateEventFromEGLSyncKHR: refused event <- context pointer pointer
clCreateCommandQueueWithProperties: queue <- context device pointer
clCreatePipe: mem <- context bits uint uint pointer
clGetPipeInfo: info <- mem uint
clSVMAlloc: address <- context bits size uint
clSVMFree: nothing <- context pointer
clEnqueueSVMFree: command <- queue uint pointer pointer pointer waits
clEnqueueSVMMemcpy: command <- queue uint pointer pointer size waits
clEnqueueSVMMemFill: command <- queue pointer pointer size size waits
clEnqueueSVMMap: command <- queue uint bits pointer size waits
clEnqueueSVMUnmap: command <- queue pointer waits
clCreateSamplerWithProperties: sampler <- context pointer
clSetKernelArgSVMPointer: status <- kernel uint pointer
clSetKernelExecInfo: status <- kernel uint size pointer
clGetKernelSubGroupInfoKHR: refused info <- kernel device uint size pointer
clCloneKernel: kernel <- kernel
clCreateProgramWithIL: program <- context pointer size
clEnqueueSVMMigrateMem: command <- queue uint pointer pointer bits waits
clGetDeviceAndHostTimer: status <- device pointer pointer
clGetHostTimer: status <- device pointer
clGetKernelSubGroupInfo: info <- kernel device? uint size pointer
clSetDefaultDeviceCommandQueue: status <- context device queue?
clSetProgramReleaseCallback: status <- program pointer pointer
clSetProgramSpecializationConstant: status <- program uint size pointer
clCreateBufferWithProperties: mem <- context pointer bits size pointer
clCreateImageWithProperties: mem <- context pointer bits pointer pointer pointer
clSetContextDestructorCallback: status <- context pointer pointer
"""

#: reached by their names alone (clGetExtensionFunctionAddressForPlatform): they have no place in the dispatch table
_EXTENSIONS = """\
clGetKernelSuggestedLocalWorkSizeKHR: status <- queue kernel uint pointer pointer pointer
"""

FUNCTIONS = tuple(_parse(line) for line in _TABLE.splitlines())
EXTENSION_FUNCTIONS = tuple(_parse(line) for line in _EXTENSIONS.splitlines())

/* The few declarations of OpenCL that programs here need, for machines without the Khronos headers. */
#include <stddef.h>
#include <stdint.h>
typedef void *handle;
int32_t clGetPlatformIDs(uint32_t, handle *, uint32_t *);
int32_t clGetPlatformInfo(handle, uint32_t, size_t, void *, size_t *);
int32_t clGetDeviceIDs(handle, uint64_t, uint32_t, handle *, uint32_t *);
int32_t clGetDeviceInfo(handle, uint32_t, size_t, void *, size_t *);
handle clCreateContext(const void *, uint32_t, const handle *, void *, void *, int32_t *);
handle clCreateCommandQueue(handle, handle, uint64_t, int32_t *);
handle clCreateProgramWithSource(handle, uint32_t, const char **, const size_t *, int32_t *);
int32_t clBuildProgram(handle, uint32_t, const handle *, const char *, void *, void *);
handle clCreateKernel(handle, const char *, int32_t *);
handle clCreateBuffer(handle, uint64_t, size_t, void *, int32_t *);
handle clCreateUserEvent(handle, int32_t *);
int32_t clSetUserEventStatus(handle, int32_t);
int32_t clGetEventInfo(handle, uint32_t, size_t, void *, size_t *);
int32_t clSetKernelArg(handle, uint32_t, size_t, const void *);
int32_t clEnqueueNDRangeKernel(handle, handle, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t,
                               const handle *, handle *);
int32_t clEnqueueWriteBuffer(handle, handle, uint32_t, size_t, size_t, const void *, uint32_t, const handle *, handle *);
int32_t clEnqueueReadBuffer(handle, handle, uint32_t, size_t, size_t, void *, uint32_t, const handle *, handle *);
int32_t clEnqueueFillBuffer(handle, handle, const void *, size_t, size_t, size_t, uint32_t, const handle *, handle *);
handle clCreateSubBuffer(handle, uint64_t, uint32_t, const void *, int32_t *);
handle clCloneKernel(handle, int32_t *);
int32_t clFlush(handle);
int32_t clWaitForEvents(uint32_t, const handle *);
int32_t clFinish(handle);
int32_t clRetainEvent(handle);
int32_t clReleaseEvent(handle);
int32_t clReleaseMemObject(handle);
int32_t clReleaseKernel(handle);
int32_t clReleaseProgram(handle);
int32_t clReleaseCommandQueue(handle);
int32_t clReleaseContext(handle);

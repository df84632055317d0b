/* Calls that are wrong in one thing, and have no effect but the error. */

static void settle_between(void) {
    if (run->gate == NULL)
        settle();
}

static int refuse_transfer(cl_command_queue queue, const struct memory *memory, char *bytes) {
    size_t beyond = memory->nbytes - 1, zero[3] = {0, 0, 0}, box[3] = {4, 2, 1}, flat[3] = {4, 0, 1};
    cl_mem mem = memory->mem;
    switch (below(12)) {
    case 0: return clEnqueueReadBuffer(queue, mem, CL_TRUE, beyond, 2, bytes, 0, NULL, NULL);
    case 1: return clEnqueueWriteBuffer(queue, mem, CL_TRUE, memory->nbytes + 1, 1, bytes, 0, NULL, NULL);
    case 2: return clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, 4, NULL, 0, NULL, NULL);
    case 3: return clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, 4, bytes, 1, NULL, NULL);
    case 4: return clEnqueueFillBuffer(queue, mem, bytes, 3, 0, 3, 0, NULL, NULL);
    case 5: return clEnqueueFillBuffer(queue, mem, bytes, 4, 2, 4, 0, NULL, NULL);
    case 6: return clEnqueueFillBuffer(queue, mem, bytes, 4, 0, 6, 0, NULL, NULL);
    case 7: return clEnqueueCopyBuffer(queue, mem, mem, beyond, 0, 2, 0, NULL, NULL);
    case 8: return clEnqueueReadBufferRect(queue, mem, CL_TRUE, zero, zero, flat, 0, 0, 0, 0, bytes, 0, NULL, NULL);
    case 9: return clEnqueueReadBufferRect(queue, mem, CL_TRUE, zero, zero, box, 3, 0, 0, 0, bytes, 0, NULL, NULL);
    case 10: return clEnqueueWriteBufferRect(queue, mem, CL_TRUE, zero, zero, box, 4, 5, 0, 0, bytes, 0, NULL, NULL);
    default: return clEnqueueMigrateMemObjects(queue, 1, &mem, 16, 0, NULL, NULL);
    }
}

static int refuse_creation(const struct memory *memory) {
    cl_int code = 99;
    cl_buffer_region beyond = {0, memory->nbytes + 1}, odd = {1, 4}, empty = {0, 0};
    cl_mem mem = memory->mem;
    switch (below(8)) {
    case 0: clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_READ_WRITE, 8, NULL, &code); break;
    case 1: clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 8, NULL, &code); break;
    case 2: clCreateBuffer(context, 0, 0, NULL, &code); break;
    case 3: clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &beyond, &code); break;
    case 4: clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, memory->has_parent ? &beyond : &odd, &code); break;
    case 5: clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &empty, &code); break;
    case 6: clCreateKernel(program_of(0), "nobody", &code); break;
    default: clCreateCommandQueueWithProperties(context, device, (cl_queue_properties[]){7, 7, 0}, &code);
    }
    return code;
}

static int refuse_launch(cl_command_queue queue, const struct memory *memory) {
    cl_kernel kernel = clCreateKernel(program_of(0), "scale", NULL);
    size_t sizes[3] = {8, 1, 1}, odd[3] = {3, 1, 1}, large[3] = {(size_t)1 << 20, 1, 1};
    int n = 1, wrong = (int)below(9), code = 0;
    const cl_mem mem = memory->mem;
    for (cl_uint i = 0; i < 2; i++)
        code |= wrong == 0 && i == 1 ? 0 : clSetKernelArg(kernel, i, sizeof mem, &mem);
    code |= clSetKernelArg(kernel, 2, sizeof n, &n) | clSetKernelArg(kernel, 3, sizeof n, &n);
    switch (wrong) {
    case 0: code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, sizes, NULL, 0, NULL, NULL); break;
    case 1: code = clEnqueueNDRangeKernel(queue, kernel, 4, NULL, sizes, NULL, 0, NULL, NULL); break;
    case 2: code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, sizes, odd, 0, NULL, NULL); break;
    case 3: code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, large, large, 0, NULL, NULL); break;
    case 4: code = clSetKernelArg(kernel, 4, sizeof n, &n); break;
    case 5: code = clSetKernelArg(kernel, 2, 8, &mem); break;
    case 6: code = clSetKernelArg(kernel, 0, 4, &n); break;
    case 7: code = clSetKernelArg(kernel, 3, sizeof n, NULL); break;
    default: code = clSetKernelArg(kernel, 0, sizeof mem, &run->queues[0]);
    }
    clReleaseKernel(kernel);
    return 100 * wrong - code;
}

static void refused(void) {
    struct memory *memory = pick(is_buffer, 1);
    if (memory == NULL || memory->nbytes < 16 || run->gate != NULL)
        return;
    settle(); /* a call that is not refused would be a race */
    char bytes[64] = {0};
    cl_command_queue queue = run->queues[below(QUEUES)];
    size_t kind = below(3);
    uint64_t which = run->random;
    int code = kind == 0 ? refuse_transfer(queue, memory, bytes) : kind == 1 ? refuse_creation(memory) : refuse_launch(queue, memory);
    LOG("refused %zu, %lx: %d\n", kind, which & 0xffff, code);
}

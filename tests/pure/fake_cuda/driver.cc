// CUDA's driver as vdev calls it, for machines without a GPU: memory is the host's, kernels are functions of libraries that the host's
// compiler has made, and a stream is a queue of what it still has to do.
//
// FAKE_CUDA_LATE, a device's number: its streams do nothing until somebody waits for them, while all others do at once what they can.
// So whatever is not ordered by an event runs in the other order. FAKE_CUDA_LATE unset: all do at once what they can.
// FAKE_CUDA_CALLS: a file that gets the number of calls of each function at the end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

typedef int CUresult;
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_IMAGE = 200, NO_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600 };
static std::recursive_mutex lock;
static std::map<std::string, long> calls;
static const int late = getenv("FAKE_CUDA_LATE") ? atoi(getenv("FAKE_CUDA_LATE")) : -1;
static const bool idle = getenv("FAKE_CUDA_IDLE") != nullptr;  // kernels do nothing
static struct AtEnd {
  ~AtEnd() {
    const char *name = getenv("FAKE_CUDA_CALLS");
    FILE *file = name ? fopen(name, "w") : nullptr;
    if (!file) return;
    for (auto &[function, count] : calls) fprintf(file, "%s %ld\n", function.c_str(), count);
    fclose(file);
  }
} at_end;
#define CALLED std::lock_guard<std::recursive_mutex> held(lock); calls[__func__]++

struct Context { int device; };
static Context contexts[16];
static thread_local Context *current;
static int device_count() { const char *n = getenv("FAKE_CUDA_DEVICES"); return n ? atoi(n) : 2; }

// An event may be recorded anew while others wait for where it was before: `open` are the places that are still to come.
struct Event {
  long asked = 0;
  std::set<long> open;
  bool has(long turn) const { return !open.count(turn); }
};
struct Op { std::function<void()> run; Event *waits = nullptr; long turn = 0; Event *reaches = nullptr; Context *own = nullptr; };
struct Stream { Context *context; std::deque<Op> ops; bool busy = false; };
static std::vector<Stream *> streams;

static bool step(Stream *s) {  // the first of what it has to do, if that waits for nothing
  if (s->busy || s->ops.empty()) return false;
  Op &op = s->ops.front();
  if (op.waits && !op.waits->has(op.turn)) return false;
  s->busy = true;
  if (op.run) op.run();
  if (op.reaches) op.reaches->open.erase(op.turn);
  s->ops.pop_front();
  s->busy = false;
  return true;
}
static void go_on() {  // those that are not late do what they can
  for (bool some = true; some;) {
    some = false;
    for (auto *s : streams) if (s->context->device != late) while (step(s)) some = true;
  }
}
static void force(Stream *s, Event *until, long turn);
static void reach(Event *e, long turn) {  // whoever still has to reach it does
  for (auto *s : streams)
    for (auto &op : s->ops) if (op.reaches == e && op.turn == turn) { force(s, e, turn); return; }
}
static void force(Stream *s, Event *until, long turn) {
  while (!s->ops.empty() && !(until && until->has(turn))) {
    if (step(s)) continue;
    Op &op = s->ops.front();
    if (!op.waits) return;
    Event *e = op.waits;
    long before = op.turn;
    reach(e, before);
    if (!e->has(before)) { fprintf(stderr, "a stream waits for what never comes\n"); abort(); }
  }
}
static CUresult give(Stream *s, Op op) {
  s->ops.push_back(std::move(op));
  go_on();
  return SUCCESS;
}

// Memory: what is the device's, and what is pinned; anything else is the program's own.
struct Part { size_t nbytes; int device; };  // -1: pinned
static std::map<uintptr_t, Part> memory;
static const Part *part_of(uintptr_t at) {
  auto found = memory.upper_bound(at);
  if (found == memory.begin()) return nullptr;
  --found;
  return at < found->first + found->second.nbytes ? &found->second : nullptr;
}
static uintptr_t take(size_t nbytes, int device) {
  void *found = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
  memset(found, 0xCD, nbytes);
  memory[(uintptr_t)found] = {nbytes, device};
  return (uintptr_t)found;
}

struct Function { void (*run)(char *, const unsigned *, const unsigned *); int (*layout)(int, size_t *, size_t *); size_t nbytes; };

extern "C" {
CUresult cuInit(unsigned) { return SUCCESS; }
CUresult cuDeviceGetCount(int *count) { *count = device_count(); return SUCCESS; }
CUresult cuDeviceGet(int *device, int number) { *device = number; return number < device_count() ? SUCCESS : 101; }
CUresult cuDevicePrimaryCtxRetain(void **context, int device) { contexts[device].device = device; *context = &contexts[device]; return SUCCESS; }
CUresult cuCtxSetCurrent(void *context) { CALLED; current = (Context *)context; return SUCCESS; }
CUresult cuCtxGetCurrent(void **context) { CALLED; *context = current; return SUCCESS; }
CUresult cuGetErrorName(int result, const char **name) {
  *name = result == INVALID_HANDLE ? "CUDA_ERROR_INVALID_HANDLE" : "CUDA_ERROR";
  return SUCCESS;
}
CUresult cuMemAlloc_v2(uint64_t *address, size_t nbytes) { CALLED; *address = take(nbytes, current->device); return SUCCESS; }
CUresult cuMemAllocManaged(uint64_t *address, size_t nbytes, unsigned) { CALLED; *address = take(nbytes, current->device); return SUCCESS; }
CUresult cuMemFree_v2(uint64_t address) { CALLED; memory.erase(address); free((void *)address); return SUCCESS; }

CUresult cuEventCreate(void **event, unsigned) { CALLED; *event = new Event; return SUCCESS; }
CUresult cuEventRecord(Event *event, Stream *stream) {
  CALLED;
  if (stream->context != current) return INVALID_HANDLE;
  Op op;
  op.reaches = event, op.turn = ++event->asked;
  event->open.insert(op.turn);
  return give(stream, op);
}
CUresult cuEventQuery(Event *event) { CALLED; return event->has(event->asked) ? SUCCESS : NOT_READY; }
CUresult cuEventSynchronize(Event *event) { CALLED; reach(event, event->asked); go_on(); return SUCCESS; }
CUresult cuEventElapsedTime(float *ms, Event *, Event *) { CALLED; *ms = 0.001f; return SUCCESS; }
CUresult cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
  CALLED;
  Op op;
  op.waits = event, op.turn = event->asked;
  return give(stream, op);
}
CUresult cuStreamQuery(Stream *stream) { CALLED; return stream->ops.empty() ? SUCCESS : NOT_READY; }
CUresult cuStreamSynchronize(Stream *stream) { CALLED; force(stream, nullptr, 0); go_on(); return SUCCESS; }

CUresult cuMemcpyAsync(uint64_t target, uint64_t source, size_t nbytes, Stream *stream) {
  CALLED;
  Op op;
  if (!part_of(source)) {  // the program's memory is read at once
    std::string content((const char *)source, nbytes);
    op.run = [=] { memcpy((void *)target, content.data(), nbytes); };
  } else
    op.run = [=] { memmove((void *)target, (const void *)source, nbytes); };
  give(stream, op);
  if (!part_of(target)) force(stream, nullptr, 0), go_on();
  return SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t nbytes, Stream *stream) {
  CALLED;
  Op op;
  op.run = [=] { memcpy(target, (const void *)source, nbytes); };
  give(stream, op);
  if (!part_of((uintptr_t)target)) force(stream, nullptr, 0), go_on();
  return SUCCESS;
}
#define FILL(NAME, T) \
CUresult NAME(uint64_t target, T value, size_t count, Stream *stream) { \
  CALLED; \
  Op op; \
  op.run = [=] { for (size_t i = 0; i < count; ++i) ((T *)target)[i] = value; }; \
  return give(stream, op); \
}
FILL(cuMemsetD8Async, uint8_t) FILL(cuMemsetD16Async, uint16_t) FILL(cuMemsetD32Async, uint32_t)

CUresult cuFuncGetParamInfo(Function *function, size_t number, size_t *offset, size_t *nbytes) {
  return function->layout((int)number, offset, nbytes);
}
CUresult cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned,
                        Stream *stream, void **, void **extra) {
  CALLED;
  if (stream->context != current) return INVALID_HANDLE;
  if ((uintptr_t)extra[0] != 1 || (uintptr_t)extra[2] != 2 || extra[4]) return INVALID_VALUE;
  std::vector<char> params((char *)extra[1], (char *)extra[1] + *(size_t *)extra[3]);
  Op op;
  op.run = [=]() mutable {
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    if (!idle) function->run(params.data(), grid, block);
  };
  return give(stream, op);
}

// What CuPy does otherwise.
Stream *fake_stream() { CALLED; streams.push_back(new Stream{current, {}}); return streams.back(); }
uintptr_t fake_pinned(size_t nbytes) { CALLED; return take(nbytes, -1); }

// Modules need a context, as a GPU's do. An image is the path of a library.
CUresult cuModuleLoadData(void **module, const char *path) {
  CALLED;
  if (!current) return NO_CONTEXT;
  *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return *module ? SUCCESS : INVALID_IMAGE;
}
CUresult cuModuleUnload(void *) { CALLED; return current ? SUCCESS : NO_CONTEXT; }  // functions of it may be under way late
CUresult cuModuleGetFunction(Function **function, void *module, const char *name) {
  CALLED;
  auto run = dlsym(module, (std::string("run_") + name).c_str()), layout = dlsym(module, (std::string("layout_") + name).c_str());
  if (!run || !layout) return NOT_FOUND;
  *function = new Function{(void (*)(char *, const unsigned *, const unsigned *))run, (int (*)(int, size_t *, size_t *))layout, 0};
  return SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, int attribute, Function *) {
  static const int values[] = {1024, 0, 0, 0, 32};
  *value = attribute < 5 ? values[attribute] : 0;
  return SUCCESS;
}
CUresult cuFuncSetAttribute(Function *, int, int) { return SUCCESS; }
}

// CUDA's driver as vdev calls it, for machines without a GPU: memory is the host's, kernels are functions of libraries that the host's
// compiler has made, and a stream is a queue of what it still has to do.
//
// What a GPU may do in another order than it was told can be made to happen:
// FAKE_CUDA_LATE, a device's number: its streams do nothing until somebody waits for them, while all others do at once what they can.
// So whatever is not ordered by an event runs in the other order.
// FAKE_CUDA_SEED, a number: at each call, some streams do a few steps, at random.
// Neither set: all do at once what they can.
//
// What a GPU's driver must not be asked ends the process with a message (`fault`), also where a GPU would return an error: handles
// that are none or are gone, other contexts than the calls need, memory and modules given back while work may use them, peers' memory
// without access to it, launches beyond the limits, parameters that are not the kernel's.
//
// FAKE_CUDA_DEVICES: how many there are. FAKE_CUDA_MEMORY: bytes that each gives. FAKE_CUDA_PEERS=0: none can address another.
// FAKE_CUDA_REFUSED: a function that refuses to do what it is asked, always or, with FAKE_CUDA_SEED, every second time.
// `fake_refuse`: the same of a single call.
// FAKE_CUDA_STRICT: streams get work in the calling thread's context only, which older drivers may ask for.
// FAKE_CUDA_CALLS: a file that gets the number of calls of each function at the end. FAKE_CUDA_IDLE: kernels do nothing.
// FAKE_CUDA_TIMES: nanoseconds that a work-group of each kernel takes of a whole GPU, as "name=0.25 other=3/5000", and after a slash those
// that a launch takes at least, however few its groups are; kernels do nothing but those with a "!" after these, and work takes the time
// that a GPU would (`Timed`): programs find it not ready, wait for it, and measure it. The clock is not the host's, on which
// others work as well: it goes on with the processor time of the process, without this driver's, and jumps where a program waits.
// `clock.py` gives it to Python.
// FAKE_CUDA_BYTES: so many bytes each one that is copied or filled stands for, where a program's sizes are smaller than they are meant.
// FAKE_CUDA_CALL: nanoseconds that each call then takes which gives a stream work; events take a quarter. FAKE_CUDA_HOST: so many times
// the processor time.
// FAKE_CUDA_LOG: a file that gets a line for each call which gives a stream work, and what that is (`tests/pure/timeline.py`).
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "textures.h"

typedef int CUresult;
enum {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NO_CONTEXT = 201,
  NO_PEER_ACCESS = 217, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ALREADY_ENABLED = 704, UNKNOWN = 999
};
static long number_in(const char *name, long otherwise) { const char *text = getenv(name); return text ? atol(text) : otherwise; }
static std::recursive_mutex lock;
static std::map<std::string, long> calls;
static const long late = number_in("FAKE_CUDA_LATE", -1), devices = number_in("FAKE_CUDA_DEVICES", 2);
static const size_t most = (size_t)number_in("FAKE_CUDA_MEMORY", 16L << 30);
static const bool is_timed = getenv("FAKE_CUDA_TIMES") != nullptr, idle = is_timed || getenv("FAKE_CUDA_IDLE") != nullptr, peers = number_in("FAKE_CUDA_PEERS", 1) != 0;
static const bool strict = getenv("FAKE_CUDA_STRICT") != nullptr;
static const bool by_chance = getenv("FAKE_CUDA_SEED") != nullptr;
static std::minstd_rand chance((unsigned)number_in("FAKE_CUDA_SEED", 0));
static struct AtEnd {
  ~AtEnd() {
    const char *name = getenv("FAKE_CUDA_CALLS");
    FILE *file = name ? fopen(name, "w") : nullptr;
    if (!file) return;
    for (auto &[function, count] : calls) fprintf(file, "%s %ld\n", function.c_str(), count);
    fclose(file);
  }
} at_end;
static FILE *const log_file = getenv("FAKE_CUDA_LOG") ? fopen(getenv("FAKE_CUDA_LOG"), "w") : nullptr;
#define LOG(...) if (log_file) fprintf(log_file, __VA_ARGS__)

// What takes time: a clock in nanoseconds, and how many of them some work takes. Streams of one GPU do not slow each other down.
struct Timed {
  enum { LEAST = 3000, OTHER_STREAM = 3000, COPY = 7900 };  // a launch; until a stream sees another's event; a copy's latency
  static constexpr double LINK = 383, HOST = 55, OWN = 2000;  // bytes a nanosecond: between GPUs, to the host, in a GPU's memory
  enum { MOVED = 64 << 10 };  // larger copies move nothing: they would take the host its time
  static inline std::atomic<long> skipped = 0;  // nanoseconds that nobody had to do anything
  // Never less than before: an event that was found ready stays so.
  static double now() {
    long found = (long)(slow() * (double)(spent(CLOCK_PROCESS_CPUTIME_ID) - inside - so_far()) + (double)skipped), before = latest;
    while (found > before && !latest.compare_exchange_weak(before, found)) {}
    return (double)std::max(found, before);
  }
  // What the calling thread has taken by this clock: it stands still while that waits.
  static double busy() { return slow() * (double)(spent(CLOCK_THREAD_CPUTIME_ID) - own_inside - so_far()) + (double)own_calls; }
  static double slow() {
    static const char *times = getenv("FAKE_CUDA_HOST");
    static const double found = times ? atof(times) : 1;
    return found;
  }
  static inline std::atomic<long> latest = 0;
  static long spent(clockid_t clock) {
    timespec taken;
    clock_gettime(clock, &taken);
    return taken.tv_sec * 1000000000 + taken.tv_nsec;
  }
  // What threads do in here, which is not what a GPU's driver does: in calls that have returned, and in the calling thread's own.
  static inline std::atomic<long> inside = 0;
  static inline thread_local long entered = 0, own_inside = 0, own_calls = 0;  // of the calling thread: `inside`, and what its calls take
  static long so_far() { return entered ? spent(CLOCK_THREAD_CPUTIME_ID) - entered : 0; }
  struct Inside {
    long before = entered;  // a call within a call counts once
    Inside() { if (is_timed && !before) entered = spent(CLOCK_THREAD_CPUTIME_ID); }
    ~Inside() {
      if (!is_timed || before) return;
      const long taken = so_far();  // read once: to read it takes as long as many calls
      inside += taken, own_inside += taken, entered = 0;
    }
  };
  static void call(const char *function) {  // what a call takes the host
    static const long taken = number_in("FAKE_CUDA_CALL", 0);
    if (!is_timed) return;
    long each = strstr(function, "Event") ? taken / 4 : taken;
    skipped += each;
    own_calls += each;
  }
  static double meant(double nbytes) {  // how many bytes so many stand for
    static const char *times = getenv("FAKE_CUDA_BYTES");
    static const double each = times ? atof(times) : 1;
    return each * nbytes;
  }
  struct Takes { double group = 0, least = LEAST; bool runs = false; double launch(double groups) const { return std::max(least, groups * group); } };
  static Takes of(const std::string &kernel) {
    static const auto known = [] {
      std::map<std::string, Takes> found;
      std::string text = getenv("FAKE_CUDA_TIMES");
      for (size_t at = 0, end; at < text.size(); at = end + 1) {
        end = std::min(text.find(' ', at), text.size());
        size_t is = text.find('=', at);
        if (is >= end) continue;
        char *rest;
        Takes &takes = found[text.substr(at, is - at)];
        takes.group = strtod(text.c_str() + is + 1, &rest);
        if (*rest == '/') takes.least = std::max((double)LEAST, strtod(rest + 1, &rest));
        takes.runs = *rest == '!';
      }
      return found;
    }();
    auto found = known.find(kernel);
    return found == known.end() ? Takes{} : found->second;
  }
  static void wait(double until) {
    if (!is_timed) return;
    // One after the other: two that wait for the same do not make it twice as late.
    static std::mutex waiting;
    std::lock_guard<std::mutex> alone(waiting);
    // Once may not be enough: what was told before can be later than what the clocks say now, as what others have taken in here comes off.
    for (double left = until - now(); left > 0; left = until - now()) skipped += (long)left + 1;
  }
};

static thread_local const char *calling = "";
[[noreturn]] static void fault(const std::string &text) {
  fprintf(stderr, "fault: %s: %s\n", calling, text.c_str());
  fflush(stderr);
  _exit(99);
}
static void require(bool truth, const char *text) { if (!truth) fault(text); }
static std::string refused_soon;
static long refused_after;
static bool refuses(const char *function) {
  if (refused_after && refused_soon == function && !--refused_after) return true;
  static const char *name = getenv("FAKE_CUDA_REFUSED");
  return name && !strcmp(name, function) && !(by_chance && chance() % 2);
}
#define CALLED Timed::Inside counted; std::lock_guard<std::recursive_mutex> held(lock); calling = __func__; calls[__func__]++
#define ASKED Timed::call(__func__); CALLED; if (refuses(__func__)) return UNKNOWN

struct Context { long device; std::set<long> reached; };
static Context contexts[16];
static thread_local Context *current;

// How far work has come, or how far it is known to have come: of each stream, by its number, how many steps.
struct Clock {
  std::vector<long> steps;
  void reach(size_t stream, long step) {
    if (steps.size() <= stream) steps.resize(stream + 1);
    if (steps[stream] < step) steps[stream] = step;
  }
  void join(const Clock &other) { for (size_t s = 0; s < other.steps.size(); ++s) reach(s, other.steps[s]); }
  bool covers(const Clock &other) const {
    for (size_t s = 0; s < other.steps.size(); ++s) if (other.steps[s] > (s < steps.size() ? steps[s] : 0)) return false;
    return true;
  }
};
static Clock known;  // to the program, as it has asked or waited

// Memory: what is the device's, and what is pinned; anything else is the program's own. What is given back is not used again
// soon, and whoever touches it ends the process.
struct Part { uintptr_t start; size_t nbytes; long device; bool gone = false; Clock used; bool borrowed = false; };  // device -1: pinned; borrowed: the program's own memory
static std::map<uintptr_t, Part *> memory;
static std::deque<Part *> given_back;
static size_t taken[16];
enum { PAGE = 4096, MOST_GIVEN_BACK = 1000 };
static size_t pages(size_t nbytes) { return (nbytes + PAGE - 1) / PAGE * PAGE; }
static Part *part_of(uintptr_t at) {
  auto found = memory.upper_bound(at);
  if (found == memory.begin()) return nullptr;
  --found;
  return at < found->first + found->second->nbytes ? found->second : nullptr;
}
static uintptr_t take(size_t nbytes, long device) {  // between two pages that nobody may touch
  require(nbytes > 0, "no bytes");
  if (device >= 0 && taken[device] + nbytes > most) return 0;
  char *found = (char *)mmap(nullptr, pages(nbytes) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(found != MAP_FAILED, "the host has no memory");
  mprotect(found += PAGE, pages(nbytes), PROT_READ | PROT_WRITE);
  if (!idle) madvise(found, pages(nbytes), MADV_HUGEPAGE);  // it is closed and opened for every launch (`close_others`), page by page
  if (!idle) memset(found, 0xCD, nbytes);  // where kernels do nothing, what is measured is the time of calls
  if (device >= 0) taken[device] += nbytes;
  memory[(uintptr_t)found] = new Part{(uintptr_t)found, nbytes, device};
  return (uintptr_t)found;
}
static void give_back(uintptr_t at, bool pinned) {
  auto found = memory.find(at);
  require(found != memory.end(), "no memory begins there");
  Part *part = found->second;
  require(!part->gone, "memory is given back twice");
  require((part->device < 0) == pinned, "another kind of memory");
  require(known.covers(part->used), "memory that is given back may still be in use");
  if (part->borrowed) {
    memory.erase(found);
    delete part;
    return;
  }
  part->gone = true;
  if (!pinned) taken[part->device] -= part->nbytes;
  mprotect((void *)at, pages(part->nbytes), PROT_NONE);
  madvise((void *)at, pages(part->nbytes), MADV_DONTNEED);
  given_back.push_back(part);
  if (given_back.size() <= MOST_GIVEN_BACK) return;
  Part *oldest = given_back.front();
  given_back.pop_front();
  memory.erase(oldest->start);
  munmap((char *)oldest->start - PAGE, pages(oldest->nbytes) + 2 * PAGE);
  delete oldest;
}

// An event may be recorded anew while others wait for where it was before: `open` are the places that are still to come.
struct Event {
  Context *context;
  long asked = 0;
  std::set<long> open;
  Clock clock;  // of what is before its last place
  double at = 0;  // when that place is reached, where work takes time
  bool has(long turn) const { return !open.count(turn); }
};
struct Op { std::function<void()> run; Event *waits = nullptr; long turn = 0; Event *reaches = nullptr; std::vector<Part *> uses; const char *what = ""; double takes = 0; };
struct Stream { Context *context; size_t number; long issued = 0; Clock clock; std::deque<Op> ops; bool busy = false; double ends = 0; };
struct Module { Context *context; void *library; Clock used; };
struct Function {
  std::string name;
  Module *module;
  void (*run)(char *, const unsigned *, const unsigned *);
  int (*layout)(int, size_t *, size_t *);
  const char *(*misaligned)();
  const char *own;  // its name in OpenCL
  unsigned nbytes = 0, shared = 48 << 10;
};
static std::vector<Stream *> streams;  // those that exist, and of the others nothing
static size_t streams_made;
static std::set<void *> events, modules, functions;
static std::set<Texture *> textures;
static std::map<std::string, long> launches;  // by the kernel's name
static void require_stream(Stream *stream) {
  for (auto *s : streams) if (s == stream) return;
  fault(stream ? "no stream, or one that is gone" : "no stream");
}
#define REFUSED_ELSEWHERE(stream) if (strict && (stream)->context != current) return current ? INVALID_HANDLE : NO_CONTEXT
static void require_event(Event *event) { require(events.count(event), "no event"); }

// A kernel must not touch memory that its GPU does not address: it is closed meanwhile.
static const Context *at_work;
static void touched(int signal, siginfo_t *info, void *) {
  Part *part = part_of((uintptr_t)info->si_addr);
  if (!part && !at_work) {  // the program's own mistake
    ::signal(signal, SIG_DFL);
    return;
  }
  char text[160];
  int n = snprintf(text, sizeof text, "fault: %s touches memory %s\n", at_work ? "a kernel" : "the program",
                   !part ? "that is nobody's" : part->gone ? "that was given back" : "of a GPU without access to it");
  (void)!write(2, text, (size_t)n);
  _exit(99);
}
static struct Watching {
  Watching() {
    struct sigaction action = {};
    action.sa_sigaction = touched;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
} watching;
static void close_others(const Context *context, int protection) {
  for (auto &[at, part] : memory)
    if (!part->gone && part->device >= 0 && part->device != context->device && !context->reached.count(part->device))
      mprotect((void *)at, pages(part->nbytes), protection);
}

static bool step(Stream *s) {  // the first of what it has to do, if that waits for nothing
  if (s->busy || s->ops.empty()) return false;
  Op &op = s->ops.front();
  if (op.waits && !op.waits->has(op.turn)) return false;
  s->busy = true;
  for (Part *part : op.uses) if (part->gone) fault(std::string(op.what) + " uses memory that was given back");
  if (op.run) op.run();
  if (op.reaches) op.reaches->open.erase(op.turn);
  s->ops.pop_front();
  s->busy = false;
  return true;
}
static void go_on() {  // those that are not late do what they can
  if (by_chance) {
    for (unsigned count = chance() % 4; count && !streams.empty(); --count) step(streams[chance() % streams.size()]);
    return;
  }
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
    if (!e->has(before)) fault("a stream waits for what never comes");
  }
}
static void finish(Stream *s) { force(s, nullptr, 0), go_on(); known.join(s->clock); }
static CUresult give(Stream *s, Op op) {
  s->clock.reach(s->number, ++s->issued);
  for (Part *part : op.uses) part->used.join(s->clock);
  if (is_timed) s->ends = std::max(s->ends, op.waits ? op.waits->at + Timed::OTHER_STREAM : Timed::now()) + op.takes;
  if (op.reaches) op.reaches->at = s->ends;
  s->ops.push_back(std::move(op));
  go_on();
  return SUCCESS;
}
// The memory in which the bytes lie, all of them; null for the program's own.
static Part *used(uintptr_t at, size_t nbytes) {
  Part *part = part_of(at);
  require(at != 0, "no address");
  if (!part) { require(!nbytes || !part_of(at + nbytes - 1), "bytes before memory and in it"); return nullptr; }
  require(!part->gone, "memory that was given back");
  require(at + nbytes <= part->start + part->nbytes, "bytes beyond the end of memory");
  return part;
}
static void require_reached(Stream *stream, const Part *part) {
  if (part && part->device >= 0 && part->device != stream->context->device)
    require(stream->context->reached.count(part->device), "memory of a GPU without access to it");
}
static CUresult copy(Stream *stream, uintptr_t target, uintptr_t source, size_t nbytes) {
  Op op;
  Part *from = used(source, nbytes), *to = used(target, nbytes);
  require(from || to, "neither is memory of a GPU, or pinned");
  for (Part *part : {from, to}) if (part) op.uses.push_back(part);
  op.what = "a copy";
  LOG("copy %zu %zu\n", stream->number, nbytes);
  if (is_timed) {
    bool hosts = !from || !to || from->device < 0 || to->device < 0;
    op.takes = Timed::COPY + Timed::meant((double)nbytes) / (hosts ? Timed::HOST : from->device == to->device ? Timed::OWN : Timed::LINK);
    if (nbytes > Timed::MOVED) {
      give(stream, op);
      if (!from || !to) Timed::wait(stream->ends);
      return SUCCESS;
    }
  }
  if (!from) {  // the program's memory is read at once
    std::string content((const char *)source, nbytes);
    op.run = [=] { memcpy((void *)target, content.data(), nbytes); };
  } else
    op.run = [=] { memmove((void *)target, (const void *)source, nbytes); };
  give(stream, op);
  if (!to) finish(stream), Timed::wait(stream->ends);
  return SUCCESS;
}

extern "C" {
CUresult cuInit(unsigned flags) { require(!flags, "flags"); return SUCCESS; }
CUresult cuDeviceGetCount(int *count) { *count = (int)devices; return SUCCESS; }
CUresult cuDeviceGet(int *device, int number) { *device = number; return number >= 0 && number < devices ? SUCCESS : INVALID_DEVICE; }
CUresult cuDeviceGetName(char *name, int room, int device) {
  if (device < 0 || device >= devices) return INVALID_DEVICE;
  snprintf(name, room, "a GPU that is none");
  return SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
  CALLED;
  require(device >= 0 && device < devices, "no device");
  contexts[device].device = device;
  *context = &contexts[device];
  return SUCCESS;
}
CUresult cuCtxSetCurrent(void *context) {
  CALLED;
  bool is_one = !context;
  for (long n = 0; n < devices; ++n) is_one |= context == &contexts[n];
  require(is_one, "no context");
  LOG("context\n");
  current = (Context *)context;
  return SUCCESS;
}
CUresult cuCtxGetCurrent(void **context) { CALLED; *context = current; return SUCCESS; }
CUresult cuGetErrorName(int result, const char **name) {
  static const std::map<int, const char *> names = {
      {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
      {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}};
  auto found = names.find(result);
  *name = found == names.end() ? "CUDA_ERROR" : found->second;
  return SUCCESS;
}
static CUresult allocate(uint64_t *address, size_t nbytes) {
  require(current, "no context");
  *address = take(nbytes, current->device);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}
CUresult cuMemAlloc_v2(uint64_t *address, size_t nbytes) { ASKED; return allocate(address, nbytes); }
CUresult cuMemAllocManaged(uint64_t *address, size_t nbytes, unsigned flags) {
  CALLED;
  require(flags == 1, "not CU_MEM_ATTACH_GLOBAL");
  return allocate(address, nbytes);
}
CUresult cuMemFree_v2(uint64_t address) { CALLED; require(current, "no context"); give_back(address, false); return SUCCESS; }

CUresult cuEventCreate(void **event, unsigned flags) {
  CALLED;
  require(current, "no context");
  require(!flags, "an event without times");
  events.insert(*event = new Event{current});
  return SUCCESS;
}
CUresult cuEventRecord(void *which, void *where) {
  ASKED;
  auto *event = (Event *)which;
  auto *stream = (Stream *)where;
  require_event(event), require_stream(stream);
  require(event->context == stream->context, "an event of another context than the stream's");
  REFUSED_ELSEWHERE(stream);
  Op op;
  op.reaches = event, op.turn = ++event->asked;
  event->open.insert(op.turn);
  event->clock = stream->clock;
  event->clock.reach(stream->number, stream->issued + 1);
  LOG("record %zu %p %ld\n", stream->number, which, op.turn);
  return give(stream, op);
}
CUresult cuEventQuery(void *which) {
  CALLED;
  auto *event = (Event *)which;
  require_event(event);
  go_on();
  if (!event->has(event->asked) || (is_timed && event->at > Timed::now())) return NOT_READY;
  known.join(event->clock);
  return SUCCESS;
}
CUresult cuEventSynchronize(void *which) {
  double until;
  {
    CALLED;
    auto *event = (Event *)which;
    require_event(event);
    reach(event, event->asked);
    go_on();
    require(event->has(event->asked), "a wait for what never comes");
    known.join(event->clock);
    until = event->at;
  }
  Timed::wait(until);
  return SUCCESS;
}
CUresult cuEventElapsedTime(float *ms, void *first, void *second) {
  CALLED;
  auto *one = (Event *)first, *two = (Event *)second;
  require_event(one), require_event(two);
  require(one->context == two->context, "events of two contexts");
  require(one->asked && two->asked, "an event that was never recorded");
  if (!one->has(one->asked) || !two->has(two->asked)) return NOT_READY;
  if (is_timed && std::max(one->at, two->at) > Timed::now()) return NOT_READY;
  *ms = is_timed ? (float)((two->at - one->at) / 1e6) : 0.001f;
  return SUCCESS;
}
CUresult cuStreamWaitEvent(void *where, void *which, unsigned flags) {
  ASKED;
  auto *event = (Event *)which;
  auto *stream = (Stream *)where;
  require_event(event), require_stream(stream);
  require(!flags, "flags");
  require(event->asked, "an event that was never recorded");
  REFUSED_ELSEWHERE(stream);
  Op op;
  op.waits = event, op.turn = event->asked;
  stream->clock.join(event->clock);
  LOG("wait %zu %p %ld\n", stream->number, which, op.turn);
  return give(stream, op);
}
CUresult cuStreamQuery(void *where) {
  CALLED;
  auto *stream = (Stream *)where;
  require_stream(stream);
  go_on();
  if (!stream->ops.empty() || (is_timed && stream->ends > Timed::now())) return NOT_READY;
  known.join(stream->clock);
  return SUCCESS;
}
CUresult cuStreamSynchronize(void *where) {
  double until;
  {
    CALLED;
    require_stream((Stream *)where);
    finish((Stream *)where);
    until = ((Stream *)where)->ends;
  }
  Timed::wait(until);
  return SUCCESS;
}

CUresult cuMemcpyAsync(uint64_t target, uint64_t source, size_t nbytes, void *where) {
  ASKED;
  auto *stream = (Stream *)where;
  require_stream(stream);
  REFUSED_ELSEWHERE(stream);
  for (uint64_t at : {target, source}) require_reached(stream, used(at, nbytes));
  return copy(stream, target, source, nbytes);
}
CUresult cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t nbytes, void *where) {
  ASKED;
  auto *stream = (Stream *)where;
  require_stream(stream);
  REFUSED_ELSEWHERE(stream);
  Part *from = used(source, nbytes), *to = used((uintptr_t)target, nbytes);
  require(from && from->device == stream->context->device, "not from the stream's GPU");
  require(!to || to->device < 0, "not to the host");
  return copy(stream, (uintptr_t)target, source, nbytes);
}
#define FILL(NAME, T) \
CUresult NAME(uint64_t target, T value, size_t count, void *where) { \
  ASKED; \
  auto *stream = (Stream *)where; \
  require_stream(stream); \
  REFUSED_ELSEWHERE(stream); \
  require(target % sizeof(T) == 0, "not aligned"); \
  Part *to = used(target, count * sizeof(T)); \
  require(to && to->device == stream->context->device, "not memory of the stream's GPU"); \
  Op op; \
  op.uses = {to}, op.what = "a fill"; \
  op.takes = is_timed ? Timed::LEAST + Timed::meant((double)(count * sizeof(T))) / Timed::OWN : 0; \
  LOG("fill %zu %zu\n", stream->number, count * sizeof(T)); \
  if (!is_timed || count * sizeof(T) <= Timed::MOVED) op.run = [=] { for (size_t i = 0; i < count; ++i) ((T *)target)[i] = value; }; \
  return give(stream, op); \
}
FILL(cuMemsetD8Async, uint8_t) FILL(cuMemsetD16Async, uint16_t) FILL(cuMemsetD32Async, uint32_t)

// Textures: of memory that is as aligned, and no larger, than the H200 asks for. Nobody may read one while it goes.
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  CALLED;
  static const std::map<int, int> known = {{14, 512}, {51, 32}, {70, 131072}, {71, 65000}, {72, 2097120}};
  auto found = known.find(attribute);
  require(found != known.end() && device >= 0 && device < devices, "no such attribute");
  *value = found->second;
  return SUCCESS;
}
struct CUresourceDesc { int kind; uint64_t address; int form; unsigned channels; size_t width, height, pitch; int other[22]; unsigned flags; };
struct CUtextureDesc { int addressing[3], filter; unsigned flags, other[21]; };
static_assert(sizeof(CUresourceDesc) == 144 && sizeof(CUtextureDesc) == 104);
CUresult cuTexObjectCreate(uint64_t *handle, const void *resource, const void *sampling, const void *view) {
  ASKED;
  require(current, "no context");
  const auto &image = *(const CUresourceDesc *)resource;
  const auto &how = *(const CUtextureDesc *)sampling;
  require(image.kind == 3 && !image.flags && !view, "not memory in rows");
  require(image.width && image.height && image.width <= 131072 && image.height <= 65000 && image.pitch <= 2097120, "the size of an image");
  require(!(image.address % 512) && !(image.pitch % 32), "an image that is less aligned than a texture is");
  size_t row = image.width * image.channels * Texture::nbytes_of(image.form);
  require(row <= image.pitch && (image.channels == 1 || image.channels == 2 || image.channels == 4), "rows shorter than their pixels");
  require(how.addressing[0] == how.addressing[1] && !(how.flags & ~2u) && (how.filter == 0 || how.filter == 1), "how it is read");
  require((how.flags & 2) || how.addressing[0] == Texture::CLAMP || how.addressing[0] == Texture::BORDER, "coordinates of pixels that repeat");
  Part *part = used(image.address, (image.height - 1) * image.pitch + row);
  require(part && part->device == current->device, "not memory of this GPU");
  auto *made = new Texture{Texture::EXISTS, image.form, (int)image.channels, how.addressing[0], how.filter == 1, (how.flags & 2) != 0,
                           (long)image.width, (long)image.height, image.pitch, (const char *)image.address};
  textures.insert(made);
  *handle = (uint64_t)made;
  return SUCCESS;
}
CUresult cuTexObjectDestroy(uint64_t handle) {
  CALLED;
  auto *texture = (Texture *)handle;
  require(current, "no context");
  require(textures.count(texture), "no texture");
  Part *part = part_of((uintptr_t)texture->pixels);
  require(part && !part->gone, "the memory that a texture shows went before it");
  require(known.covers(part->used), "a texture that goes may still be in use");
  textures.erase(texture);
  texture->exists = 0;  // and stays, so that whoever reads it is found out
  return SUCCESS;
}
long fake_textures() { return (long)textures.size(); }

static Function *function_of(void *handle) {
  require(functions.count(handle), "no function");
  auto *function = (Function *)handle;
  require(modules.count(function->module), "a function of a module that was unloaded");
  return function;
}
CUresult cuFuncGetParamInfo(void *handle, size_t number, size_t *offset, size_t *nbytes) {
  CALLED;
  return function_of(handle)->layout((int)number, offset, nbytes);
}
static void require_limits(const Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared) {
  require(gx && gy && gz && bx && by && bz, "a launch without groups or work-items");
  require(gx <= 0x7fffffffu && gy <= 65535 && gz <= 65535, "too many groups");
  require(bx <= 1024 && by <= 1024 && bz <= 64 && (size_t)bx * by * bz <= 1024, "too many work-items in a group");
  require(shared <= function->shared, "more shared memory than was permitted");
}
struct CUlaunchConfig { unsigned gx, gy, gz, bx, by, bz, shared; void *stream, *attributes; unsigned attribute_count; };
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, void *handle, void **params, void **extra) {
  ASKED;
  auto [gx, gy, gz, bx, by, bz, shared, where, attributes, attribute_count] = *config;
  auto *stream = (Stream *)where;
  auto *function = function_of(handle);
  require_stream(stream);
  require(!attributes && !attribute_count, "attributes of a launch");
  require(function->module->context == stream->context, "a function of another context than the stream's");
  REFUSED_ELSEWHERE(stream);
  require_limits(function, gx, gy, gz, bx, by, bz, shared);
  require(!params && extra && (uintptr_t)extra[0] == 1 && (uintptr_t)extra[2] == 2 && !extra[4], "not a buffer of parameters and its size");
  require(*(size_t *)extra[3] == function->nbytes, "the parameters are not as many bytes as the kernel's");
  struct alignas(128) Piece { char bytes[128]; };  // parameters are as aligned as their types
  std::vector<Piece> content(function->nbytes / sizeof(Piece) + 1);
  memcpy(content.data(), extra[1], function->nbytes);
  Op op;
  const Timed::Takes takes = is_timed ? Timed::of(function->own) : Timed::Takes{};
  op.run = [=, context = stream->context]() mutable {
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    require(modules.count(function->module), "a kernel of a module that was unloaded");
    if (idle && !takes.runs) return;
    close_others(context, PROT_NONE);
    at_work = context;
    function->run((char *)content.data(), grid, block);
    at_work = nullptr;
    close_others(context, PROT_READ | PROT_WRITE);
    if (const char *said = function->misaligned(); *said) fault(std::string("a kernel touches memory that is not aligned: ") + said);
  };
  uint64_t words[5] = {};  // the first of the parameters, which say how much a copy copies
  memcpy(words, content.data(), std::min(sizeof words, (size_t)function->nbytes));
  LOG("launch %zu %s %zu %lu %lu\n", stream->number, function->name.c_str(), (size_t)gx * gy * gz, words[0], words[4]);
  if (is_timed) op.takes = takes.launch((double)gx * gy * gz);
  size_t unit = function->name.find("_u");
  if (is_timed && !function->name.compare(0, 5, "copy_") && unit != std::string::npos) {  // vdev's own: how many units it copies
    bool several = !function->name.compare(0, 11, "copy_boxes_");
    op.takes = Timed::COPY + Timed::meant((double)words[several ? 0 : 4] * atof(function->name.c_str() + unit + 2)) / Timed::LINK;
  }
  give(stream, op);
  function->module->used.join(stream->clock);
  ++launches[function->name];
  return SUCCESS;
}
// How often kernels of that name have been launched.
long fake_launches(const char *name) { return launches[name]; }

// From now on the call of that number of a function is refused, and no other; 0: none.
void fake_refuse(const char *function, long number) { CALLED; refused_soon = function, refused_after = number; }

// How many calls there have been, of all functions.
long fake_calls() { std::lock_guard<std::recursive_mutex> held(lock); long all = 0; for (auto &[_, count] : calls) all += count; return all; }

// Nanoseconds by the clock of work that takes time.
long fake_now() { return (long)Timed::now(); }

// What the calling thread has taken by it.
long fake_busy() { return (long)Timed::busy(); }

// A line of the program's in the log.
void fake_note(long number) { CALLED; LOG("note %ld\n", number); }

// What CUDA's runtime does otherwise.
void *fake_stream(int priority) {
  CALLED;
  require(current, "no context");
  streams.push_back(new Stream{current, streams_made++});
  LOG("stream %zu %ld %d\n", streams.back()->number, current->device, priority);
  return streams.back();
}
void fake_stream_gone(void *where) {  // what it still has to do is done
  CALLED;
  require_stream((Stream *)where);
  force((Stream *)where, nullptr, 0);
  std::erase(streams, (Stream *)where);
}
uintptr_t fake_pinned(size_t nbytes) { CALLED; require(current, "no context, and the runtime would take the first GPU's"); return take(nbytes, -1); }
void fake_registered(uintptr_t at, size_t nbytes) {
  CALLED;
  require(current, "no context, and the runtime would take the first GPU's");
  require(!part_of(at) && !part_of(at + nbytes - 1), "memory is pinned twice");
  memory[at] = new Part{at, nbytes, -1, false, {}, true};
}
void fake_pinned_gone(uintptr_t at) { CALLED; give_back(at, true); }
int fake_can_reach(int device, int peer) { return peers && device != peer; }
CUresult fake_reach(int peer) {
  CALLED;
  require(current && peer >= 0 && peer < devices && peer != current->device, "no peer");
  if (!peers) return NO_PEER_ACCESS;
  return current->reached.insert(peer).second ? SUCCESS : ALREADY_ENABLED;
}
CUresult fake_copy_from_peer(uint64_t target, int device, uint64_t source, int peer, size_t nbytes, void *where) {
  Timed::call(__func__);
  CALLED;
  auto *stream = (Stream *)where;
  require_stream(stream);
  REFUSED_ELSEWHERE(stream);
  Part *from = used(source, nbytes), *to = used(target, nbytes);
  require(from && from->device == peer && to && to->device == device, "not memory of these GPUs");
  return copy(stream, target, source, nbytes);
}

// Modules need a context, as a GPU's do. An image is the path of a library.
CUresult cuModuleLoadData(void **module, const void *path) {
  ASKED;
  require(current, "no context");
  void *library = dlopen((const char *)path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return INVALID_IMAGE;
  modules.insert(*module = new Module{current, library});
  return SUCCESS;
}
CUresult cuModuleUnload(void *handle) {
  CALLED;
  require(modules.count(handle), "no module, or one that was unloaded");
  auto *module = (Module *)handle;
  require(module->context == current, "a module of another context");
  require(known.covers(module->used), "a module is unloaded while a kernel of it may run");
  modules.erase(module);  // its library stays: other modules may be of the same
  return SUCCESS;
}
CUresult cuModuleGetFunction(void **function, void *handle, const char *name) {
  CALLED;
  if (refuses(__func__)) return UNKNOWN;
  require(modules.count(handle), "no module, or one that was unloaded");
  auto *module = (Module *)handle;
  require(module->context == current, "a module of another context");
  auto run = dlsym(module->library, (std::string("run_") + name).c_str());
  auto layout = dlsym(module->library, (std::string("layout_") + name).c_str());
  auto misaligned = dlsym(module->library, "first_misaligned");
  auto own = (const char *)dlsym(module->library, (std::string("own_") + name).c_str());
  if (!run || !layout || !misaligned) return NOT_FOUND;
  auto *found = new Function{name, module, (void (*)(char *, const unsigned *, const unsigned *))run, (int (*)(int, size_t *, size_t *))layout, (const char *(*)())misaligned, own ? own : ""};
  size_t offset = 0, nbytes = 0;
  for (int number = 0; !found->layout(number, &offset, &nbytes); ++number) found->nbytes = (unsigned)(offset + nbytes);
  functions.insert(*function = found);
  return SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, int attribute, void *handle) {
  CALLED;
  static const int values[] = {1024, 0, 0, 0, 32};
  auto *function = function_of(handle);
  require(attribute >= 0 && attribute < 9, "no attribute");
  *value = attribute == 8 ? (int)function->shared : attribute < 5 ? values[attribute] : 0;
  return SUCCESS;
}
CUresult cuFuncSetAttribute(void *handle, int attribute, int value) {
  ASKED;
  auto *function = function_of(handle);
  require(function->module->context == current, "a function of another context");
  require(attribute == 8, "no attribute that can be set");
  if (value < 0 || value > 232448) return INVALID_VALUE;
  function->shared = (unsigned)value;
  return SUCCESS;
}
}

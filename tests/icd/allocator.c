/* An allocator to be preloaded: memory of its own, none of which is used again. It ends the process that frees with it what
 * another allocator has given, or that gives its memory to another one. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEADER = 16 };
static const size_t SPACE = (size_t)1 << 36; /* of addresses: only what is written takes memory */
static char *_Atomic space;
static _Atomic size_t used;

static char *begin(void) {
    char *expected = NULL;
    if (space == NULL) {
        char *mapped = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED)
            abort();
        __atomic_compare_exchange_n(&space, &expected, mapped, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    return space;
}

static size_t *size_of(void *block) { return (size_t *)((char *)block - HEADER); }

void *memalign(size_t alignment, size_t nbytes) {
    alignment = alignment < HEADER ? HEADER : alignment;
    if (nbytes > SPACE / 16)
        return errno = ENOMEM, NULL;
    char *start = begin() + __atomic_fetch_add(&used, nbytes + alignment + 2 * HEADER, __ATOMIC_SEQ_CST) + HEADER;
    void *block = (void *)(((uintptr_t)start + alignment - 1) / alignment * alignment);
    *size_of(block) = nbytes;
    return block;
}

void *malloc(size_t nbytes) { return memalign(HEADER, nbytes); }
void *calloc(size_t count, size_t nbytes) { return malloc(count * nbytes); }
void *aligned_alloc(size_t alignment, size_t nbytes) { return memalign(alignment, nbytes); }
void *valloc(size_t nbytes) { return memalign(4096, nbytes); }

int posix_memalign(void **block, size_t alignment, size_t nbytes) {
    *block = memalign(alignment, nbytes);
    return *block == NULL ? ENOMEM : 0;
}

static void check(char *block) {
    static const char TEXT[] = "another allocator's memory was freed\n";
    if (block >= begin() && block < begin() + SPACE)
        return;
    (void)!write(2, TEXT, sizeof TEXT - 1);
    _exit(99);
}

void free(void *block) {
    if (block != NULL)
        check(block);
}

void *realloc(void *block, size_t nbytes) {
    void *moved = malloc(nbytes);
    if (block != NULL && moved != NULL) {
        check(block);
        memcpy(moved, block, *size_of(block) < nbytes ? *size_of(block) : nbytes);
    }
    return moved;
}

size_t malloc_usable_size(void *block) { return block == NULL ? 0 : *size_of(block); }

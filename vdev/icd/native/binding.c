/* The calls of a module go to the OpenCL loader that it was linked with.
 *
 * PyOpenCL's native module brings a loader of its own. In a program that is linked with another one, the dynamic linker binds
 * the module's calls to that one, which comes first and knows vdev only. RTLD_DEEPBIND would mend that, but it binds malloc
 * and free as well: a program with an allocator of its own (LD_PRELOAD) would free what another one has allocated. So the module's
 * relocations that name functions of OpenCL are done again here, and no others.
 */
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

/* relocations that hold nothing but the address of a function */
#if defined(__x86_64__)
enum { RELOCATION_CALL = R_X86_64_JUMP_SLOT, RELOCATION_POINTER = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { RELOCATION_CALL = R_AARCH64_JUMP_SLOT, RELOCATION_POINTER = R_AARCH64_GLOB_DAT };
#else
#error "binding.c knows the relocations of x86-64 and AArch64 only"
#endif

struct relocations {
    const ElfW(Rela) * first;
    size_t nbytes;
};

struct module {
    void *handle;
    ElfW(Addr) base;
    const ElfW(Sym) * symbols;
    const char *names;
    struct relocations calls, others;
};

static int read_module(struct module *module, void *handle) {
    struct link_map *map;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return 0;
    *module = (struct module){.handle = handle, .base = map->l_addr};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        ElfW(Addr) address = entry->d_un.d_ptr; /* glibc has added the base, others have not */
        address += address < map->l_addr ? map->l_addr : 0;
        switch (entry->d_tag) {
        case DT_SYMTAB: module->symbols = (const void *)address; break;
        case DT_STRTAB: module->names = (const void *)address; break;
        case DT_JMPREL: module->calls.first = (const void *)address; break;
        case DT_PLTRELSZ: module->calls.nbytes = entry->d_un.d_val; break;
        case DT_RELA: module->others.first = (const void *)address; break;
        case DT_RELASZ: module->others.nbytes = entry->d_un.d_val; break;
        }
    }
    return module->symbols != NULL && module->names != NULL;
}

static int is_call_of_opencl(const char *name) { return name[0] == 'c' && name[1] == 'l' && name[2] >= 'A' && name[2] <= 'Z'; }

/* Write an address into a place that may be read-only since the module was loaded (RELRO). */
static int store(void **place, void *address) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)place / page * page;
    if (*place == address)
        return 1;
    if (mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return 0;
    *place = address; /* the page stays writable: whether it was is not known */
    return 1;
}

static int bind_relocations(const struct module *module, struct relocations all) {
    for (size_t i = 0; i < all.nbytes / sizeof *all.first; i++) {
        const ElfW(Rela) *entry = &all.first[i];
        uint32_t type = ELF64_R_TYPE(entry->r_info);
        if (type != RELOCATION_CALL && type != RELOCATION_POINTER)
            continue;
        const char *name = module->names + module->symbols[ELF64_R_SYM(entry->r_info)].st_name;
        void *function = is_call_of_opencl(name) ? dlsym(module->handle, name) : NULL;
        if (function != NULL && !store((void **)(module->base + entry->r_offset), function))
            return 0;
    }
    return 1;
}

static int bind_module(void *handle) {
    struct module module;
    return read_module(&module, handle) && bind_relocations(&module, module.calls) &&
           bind_relocations(&module, module.others);
}

/* Bind the calls of the module at `path`, and those of the loader that it is linked with, which `found` is given. 0 where that is
 * not possible. The module stays loaded.
 */
static int bind_calls(const char *path, void (*found)(void *)) {
    Dl_info about;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *function = module == NULL ? NULL : dlsym(module, "clGetPlatformIDs"); /* the module's own, before others */
    if (function == NULL || dladdr(function, &about) == 0)
        return 0;
    void *loader = dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (loader == NULL || !bind_module(module) || !bind_module(loader))
        return 0;
    found(loader);
    return 1;
}

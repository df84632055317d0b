/* `fork_while_starting`: forks while another thread is starting Python. The child is refused, and does not wait for that thread.
 *
 * The library asks for the locale just before it makes an interpreter: here it gets this program's `setlocale`, which waits for the fork.
 */
#define _GNU_SOURCE
#include "few.h"
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 100 };
static sem_t is_inside, has_forked;
static handle platform, device;
static __thread int waits;

char *setlocale(int category, const char *locale) {
    if (waits) {
        waits = 0;
        sem_post(&is_inside);
        sem_wait(&has_forked);
    }
    char *(*next)(int, const char *) = (char *(*)(int, const char *))dlsym(RTLD_NEXT, "setlocale");
    return next(category, locale);
}
static void *start(void *unused) {
    waits = 1;
    printf("in the parent: %d\n", clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, NULL));
    waits = 0;
    return NULL;
}

int main(void) {
    pthread_t thread;
    int status;
    sem_init(&is_inside, 0, 0), sem_init(&has_forked, 0, 0);
    clGetPlatformIDs(1, &platform, NULL);
    pthread_create(&thread, NULL, start, NULL);
    sem_wait(&is_inside);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_S);
        int32_t code = clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, NULL);
        printf("in the child: %d\n", code);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("the child's status: %d\n", status);
    sem_post(&has_forked);
    pthread_join(thread, NULL);
    return 0;
}

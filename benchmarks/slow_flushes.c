/* Counts disk flushes, and makes each of them take longer. Loaded with LD_PRELOAD by benchmarks/slow_flushes.py. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct shared {
    volatile int64_t delay_us; /* written by the benchmark */
    volatile int64_t flushes;  /* written here */
};

static struct shared *shared;

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("SLOW_FLUSHES_FILE");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);

    if (file < 0)
        return;
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED)
        shared = memory;
    close(file);
}

static int slowly(int result)
{
    int error = errno;

    if (shared != NULL) {
        __sync_fetch_and_add(&shared->flushes, 1);
        struct timespec left = {shared->delay_us / 1000000, shared->delay_us % 1000000 * 1000};
        while ((left.tv_sec > 0 || left.tv_nsec > 0) && nanosleep(&left, &left) != 0 && errno == EINTR)
            ;
    }
    errno = error;
    return result;
}

int fdatasync(int file) { return slowly((int)syscall(SYS_fdatasync, file)); }

int fsync(int file) { return slowly((int)syscall(SYS_fsync, file)); }

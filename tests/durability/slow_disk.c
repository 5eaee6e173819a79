/* Makes a disk slow: while the file named by SLOW_DISK exists, each flush takes 50 to 300 ms more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void take_time(void)
{
    const char *file = getenv("SLOW_DISK");
    struct timespec now, pause = {0, 0};
    if (file == NULL || access(file, F_OK) != 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pause.tv_nsec = (50 + (now.tv_nsec / 1000) % 251) * 1000000L;
    nanosleep(&pause, NULL);
}

int fdatasync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    take_time();
    return real(descriptor);
}

int fsync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    take_time();
    return real(descriptor);
}

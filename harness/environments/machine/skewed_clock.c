/* Skews the wall clock of the process it is preloaded into, by a steering file that the harness maps and writes.
 *
 * The results of clock_gettime for wall clocks, gettimeofday and time are off by
 *     offset + ppm / 1e6 * (monotonic now - base).
 * The monotonic clock is unchanged, so that timers keep their pace. Programs that make system calls without the C
 * library, and statically linked ones, are not affected.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct steering {
    volatile uint64_t sequence; /* odd while the harness is writing */
    volatile int64_t offset_ns, base_ns, ppm;
    volatile uint64_t answers; /* how many times the process read the time */
};

static const int64_t NS_PER_S = 1000000000;
static struct steering *steering;
static int (*true_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    true_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("HARROW_CLOCK");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *map = mmap(0, sizeof *steering, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED)
        steering = map;
}

static int64_t error_ns(void)
{
    if (!steering)
        return 0;
    uint64_t sequence;
    int64_t offset, base, ppm;
    do {
        sequence = steering->sequence;
        __sync_synchronize();
        offset = steering->offset_ns;
        base = steering->base_ns;
        ppm = steering->ppm;
        __sync_synchronize();
    } while ((sequence & 1) || sequence != steering->sequence);
    __sync_fetch_and_add(&steering->answers, 1);
    if (!ppm)
        return offset;
    struct timespec now;
    true_gettime(CLOCK_MONOTONIC, &now);
    return offset + (int64_t)((__int128)(now.tv_sec * NS_PER_S + now.tv_nsec - base) * ppm / 1000000);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!true_gettime)
        true_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = true_gettime(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) {
        int64_t skewed_ns = time->tv_sec * NS_PER_S + time->tv_nsec + error_ns();
        time->tv_sec = skewed_ns / NS_PER_S;
        time->tv_nsec = skewed_ns % NS_PER_S;
        if (time->tv_nsec < 0) {
            time->tv_nsec += NS_PER_S;
            time->tv_sec--;
        }
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    (void)zone;
    struct timespec skewed;
    clock_gettime(CLOCK_REALTIME, &skewed);
    time->tv_sec = skewed.tv_sec;
    time->tv_usec = skewed.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds)
{
    struct timespec skewed;
    clock_gettime(CLOCK_REALTIME, &skewed);
    if (seconds)
        *seconds = skewed.tv_sec;
    return skewed.tv_sec;
}

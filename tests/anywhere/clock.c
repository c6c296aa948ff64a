/* Moves the wall clock of a program by CLOCK_AHEAD_S seconds; the monotonic clocks and the times of files stay as they are.
   libfaketime cannot do that for Python 3.11 and newer: time.sleep() fails with its --exclude-monotonic (0.9.10), and without it a
   lock that waits with a limit waits until the moved time.
   cc -shared -fPIC -o clock.so clock.c && LD_PRELOAD=$PWD/clock.so CLOCK_AHEAD_S=3600 date */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long ahead(void) {
    const char *text = getenv("CLOCK_AHEAD_S");
    return text ? atoll(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int code = syscall(SYS_clock_gettime, clock, now);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec read;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &read)) return -1;
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec read;
    if (clock_gettime(CLOCK_REALTIME, &read)) return -1;
    if (now) *now = read.tv_sec;
    return read.tv_sec;
}

/*
 * clockstep: preloaded into a redis-server, sets its wall clock off by the number of seconds in the
 * file CLOCKSTEP_FILE (8 bytes, a native int64_t, mapped: a change counts at once).
 *
 * libfaketime cannot do it here: Debian's redis-server has jemalloc, which asks for the time while
 * it starts, and libfaketime allocates when it is first asked, so each waits for the other. This one
 * allocates nothing. Clocks other than the wall clock stay as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("CLOCKSTEP_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        offset = at;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (failed == 0 && offset != NULL &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *offset;
    return (int)failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec fine;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &fine) != 0)
        return -1;
    *now = (struct timeval){fine.tv_sec, fine.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (time_t)-1;
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

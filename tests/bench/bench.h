/*
 * What the bench's programs share: a clock, order statistics, running a command, and dying with one
 * line. All of it is static, so that each program is one file and this header.
 */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_US INT64_C(1000)

__attribute__((format(printf, 2, 3))) static _Noreturn void die(const char *program,
                                                                const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", program);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * NS_PER_S + time.tv_nsec;
}

static inline void sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* A decimal number from `least` to `most`, or the end of the program. */
static inline long parse_number(const char *program, const char *word, long least, long most)
{
    char *end;
    errno = 0;
    long number = strtol(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0' || number < least || number > most)
        die(program, "'%s' is no number from %ld to %ld", word, least, most);
    return number;
}

static inline int compare_doubles(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static inline void sort_doubles(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
}

/* The value below which `percent` of the sorted values lie (nearest rank); 0 of nothing. */
static inline double percentile(const double *sorted, size_t count, unsigned percent)
{
    if (count == 0)
        return 0;
    size_t rank = (count * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static inline double median(const double *sorted, size_t count)
{
    if (count == 0)
        return 0;
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static inline int open_null(const char *program)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        die(program, "/dev/null: %s", strerror(errno));
    return fd;
}

#endif

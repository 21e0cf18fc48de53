/*
 * Descriptors that were there before us: those that the caller has closed, and those that nobody reads;
 * and the end of our own.
 */
#ifndef REDISLOCK_BASE_DESCRIPTOR_H
#define REDISLOCK_BASE_DESCRIPTOR_H

#include <stddef.h>

/*
 * 0, 1 and 2 are the caller's, also where it has closed them: what we open must not get one of these
 * numbers, or a table and a message would go into the connection to the server. Fills those that are
 * closed. They go on behaving as closed ones: reading and writing fail with EBADF, and a program that
 * we start finds them closed. To be called before anything else is opened to stay; costs two system
 * calls. Where it fails (no descriptor is left), so does what is opened after it.
 */
void descriptor_fill_standard(void);

/*
 * Writes a line of at most 4096 bytes in one write(2). Where nobody takes it for a tenth of a second
 * (a full pipe, a terminal that is stopped) it is dropped: the lock has to be extended, and signals
 * heard, all the same. Errors are dropped too.
 */
void descriptor_write_line(int fd, const char *line, size_t length);

/* Closes one of ours; -1: there is none. Leaves errno alone, which says what failed before. */
void descriptor_close(int fd);

#endif

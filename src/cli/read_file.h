/*
 * Small files, read whole.
 */
#ifndef REDISLOCK_CLI_READ_FILE_H
#define REDISLOCK_CLI_READ_FILE_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Reads up to `size` bytes of the file at `path`, which may also be a pipe (a shell's <(…)), into
 * `buffer`. Returns how many; -1 with errno for a file that cannot be opened or read, EISDIR for a
 * directory. The descriptor is close-on-exec and closed again.
 */
ssize_t read_file(const char *path, char *buffer, size_t size);

#endif

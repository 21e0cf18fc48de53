/*
 * Owns what stands in for a closed stdin, stdout or stderr, and the patience with who reads our lines.
 * Promises to leave descriptors that the caller has open, and their flags, which others share, alone.
 */
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define PATIENCE_MS 100

void descriptor_fill_standard(void)
{
    /* each open takes the lowest number that is free; with O_PATH nothing can be read or written,
       and no /dev is needed */
    int fd;
    do
        fd = open("/", O_PATH | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

void descriptor_write_line(int fd, const char *line, size_t length)
{
    struct pollfd room = {fd, POLLOUT, 0};
    int ready;
    do
        ready = poll(&room, 1, PATIENCE_MS); /* a pipe with room has it for 4096 bytes */
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return;
    ssize_t written;
    do
        written = write(fd, line, length);
    while (written < 0 && errno == EINTR);
}

void descriptor_close(int fd)
{
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
}

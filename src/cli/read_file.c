/*
 * Owns how a file that the user named is read: bounded, and without hanging on one that nobody will
 * ever write to.
 */
#include "cli/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.h"

/* Until `size` bytes are there, or the end. */
static ssize_t read_all(int fd, char *buffer, size_t size)
{
    size_t length = 0;

    while (length < size) {
        ssize_t got = read(fd, buffer + length, size - length);

        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        if (got > 0)
            length += (size_t)got;
    }
    return (ssize_t)length;
}

ssize_t read_file(const char *path, char *buffer, size_t size)
{
    /* O_NONBLOCK: a fifo that has no writer opens, and reads as empty, instead of hanging. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return -1;

    /* With a writer it is waited for: a shell's <(…) takes its time. */
    int flags = fcntl(fd, F_GETFL);
    ssize_t length = -1;

    if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0)
        length = read_all(fd, buffer, size);

    descriptor_close(fd);
    return length;
}

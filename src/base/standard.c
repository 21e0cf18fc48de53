/*
 * Owns what stands in for a closed stdin, stdout or stderr. Promises to leave open ones alone.
 */
#include "base/standard.h"

#include <fcntl.h>
#include <unistd.h>

void standard_fill(void)
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

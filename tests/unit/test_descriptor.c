/*
 * src/base/descriptor.c: closing with errno as it was.
 */
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "check.h"

int main(void)
{
    int fd = open("/", O_PATH | O_CLOEXEC);
    CHECK(fd >= 0, "a descriptor is open");
    errno = EMFILE;
    descriptor_close(fd);
    CHECK_INT(errno, EMFILE, "errno stays what it was");
    CHECK(fcntl(fd, F_GETFD) == -1, "and the descriptor is closed");
    errno = EMFILE;
    descriptor_close(fd); /* which close(2) would answer with EBADF */
    CHECK_INT(errno, EMFILE, "also where close has something to say");
    descriptor_close(-1);
    CHECK_INT(errno, EMFILE, "-1 is none");
    return check_done();
}

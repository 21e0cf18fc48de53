/*
 * Owns the reading of password files. Promises that no copy but the caller's secret survives.
 */
#include "cli/password.h"

#include <errno.h>
#include <string.h>

#include "cli/read_file.h"

static bool fail(const char **why, const char *text, int error)
{
    *why = text;
    errno = error;
    return false;
}

/* Takes the first line out of `length` bytes; `whole` says whether they are all of the file. */
static bool take_line(const char *bytes, size_t length, bool whole, struct secret *password,
                      const char **why)
{
    const char *newline = memchr(bytes, '\n', length);
    size_t line = newline != NULL ? (size_t)(newline - bytes) : length;

    if (line > 0 && bytes[line - 1] == '\r')
        line--;
    if (line > PASSWORD_FILE_MAX || (newline == NULL && !whole))
        return fail(why, "its first line is longer than 4096 bytes", EFBIG);
    if (line == 0)
        return fail(why, "its first line is empty", EINVAL);
    if (!secret_set(password, bytes, line))
        return fail(why, "out of memory", ENOMEM);
    return true;
}

bool password_read(const char *path, struct secret *password, const char **why)
{
    char buffer[PASSWORD_FILE_MAX + 3]; /* CR, LF, and one that shows that there is more */
    ssize_t length = read_file(path, buffer, sizeof buffer);

    int error = errno;
    bool taken = false;

    if (length < 0) {
        *why = strerror(error);
    } else {
        taken = take_line(buffer, (size_t)length, (size_t)length < sizeof buffer, password, why);
        error = errno;
    }
    secret_wipe_bytes(buffer, sizeof buffer);
    errno = error;
    return taken;
}

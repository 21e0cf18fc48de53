/*
 * libFuzzer target: a password file. `make fuzz` builds and runs it.
 *
 * The password is the first line, whole or not at all; what is refused leaves the secret unset.
 */
#include <errno.h>

#include "base/text.h"
#include "cli/password.h"
#include "fuzz.h"

static int file = -1;

/* The bytes as a file; its path is good until the next call. */
static const char *as_file(const uint8_t *data, size_t size)
{
    static char storage[32];
    struct text path = TEXT_OVER(storage);
    if (file < 0)
        file = memfd_create("password", MFD_CLOEXEC);
    REQUIRE(file >= 0 && ftruncate(file, 0) == 0);
    REQUIRE(pwrite(file, data, size, 0) == (ssize_t)size);
    text_addf(&path, "/proc/self/fd/%d", file);
    return storage;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct secret password = {0};
    const char *why = NULL;
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t line = end != NULL ? (size_t)(end - data) : size;
    if (line > 0 && data[line - 1] == '\r')
        line--;
    bool good = line >= 1 && line <= PASSWORD_FILE_MAX;
    bool taken = password_read(as_file(data, size), &password, &why);
    REQUIRE(taken == good);
    if (taken) {
        REQUIRE(password.length == line && memcmp(password.bytes, data, line) == 0);
        secret_wipe(&password);
    } else {
        REQUIRE(password.bytes == NULL && why != NULL && (errno == EINVAL || errno == EFBIG));
    }
    return 0;
}

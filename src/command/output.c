/*
 * Owns stdout. A full disk or a closed pipe behind it is an error like any other.
 */
#include "command/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum exit_status output_finish(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return STATUS_OK;
    log_error("cannot write to stdout: %s", strerror(errno));
    return STATUS_OS;
}

enum exit_status output_line(const char *line)
{
    (void)fputs(line, stdout);
    (void)fputc('\n', stdout);
    return output_finish();
}

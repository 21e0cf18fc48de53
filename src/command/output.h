/*
 * Writing to stdout what was asked for: collected, then written, with its failure reported.
 */
#ifndef REDISLOCK_COMMAND_OUTPUT_H
#define REDISLOCK_COMMAND_OUTPUT_H

#include "base/status.h"

/* Writes one line. STATUS_OK, or STATUS_OS after a message. */
enum exit_status output_line(const char *line);

/* Flushes what was written with stdio. STATUS_OK, or STATUS_OS after a message. */
enum exit_status output_finish(void);

#endif

/*
 * Passwords from files.
 */
#ifndef REDISLOCK_CLI_PASSWORD_H
#define REDISLOCK_CLI_PASSWORD_H

#include <stdbool.h>

#include "base/secret.h"

#define PASSWORD_FILE_MAX 4096 /* bytes in a password from a file */

/*
 * Sets `*password` to the first line of the file at `path`: without its newline, nor a carriage
 * return before that; 1..PASSWORD_FILE_MAX bytes. What follows is not looked at.
 *
 * false: `*password` is unchanged, `*why` is a text such as "Permission denied" in static or in
 * strerror's storage, and errno says why.
 */
bool password_read(const char *path, struct secret *password, const char **why);

#endif

/*
 * The descriptors 0, 1 and 2 are the caller's, also where it has closed them: what we open must not get
 * one of these numbers, or a table and a message would go into the connection to the server.
 */
#ifndef REDISLOCK_BASE_STANDARD_H
#define REDISLOCK_BASE_STANDARD_H

/*
 * Fills those of 0, 1 and 2 that are closed. They go on behaving as closed ones: reading and writing
 * fail with EBADF, and a program that we start finds them closed. To be called before anything else
 * is opened to stay; costs two system calls. Where it fails (no descriptor is left), so does what is
 * opened after it.
 */
void standard_fill(void);

#endif

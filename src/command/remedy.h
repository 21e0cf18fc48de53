/*
 * What to do about a failure, for --doctor.
 */
#ifndef REDISLOCK_COMMAND_REMEDY_H
#define REDISLOCK_COMMAND_REMEDY_H

/*
 * From the reason that client_why or lock_why gave: what to do, as the end of a line, without a stop.
 * NULL: the reason says it itself. Which words a server finds decides which advice is shown, and no
 * more.
 */
const char *remedy_for(const char *why);

#endif

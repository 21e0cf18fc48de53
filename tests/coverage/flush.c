/*
 * Linked into the program that `make coverage` builds, and nowhere else: writes the counters before
 * _exit, which skips what exit does. The child of a vfork shares its parent's counters, and leaves
 * them to the parent.
 */
#include <pthread.h>
#include <unistd.h>

void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

static pid_t owner; /* of the counters in this memory */

static void note_owner(void)
{
    owner = getpid();
}

__attribute__((constructor)) static void begin(void)
{
    note_owner();
    pthread_atfork(NULL, NULL, note_owner);
}

_Noreturn void __wrap__exit(int status)
{
    if (getpid() == owner)
        __gcov_dump();
    __real__exit(status);
}

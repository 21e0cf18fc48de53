/*
 * Owns what the static program leaves out of its start, which is most of what it costs. Linked into
 * that one alone, by the linker's --wrap; a C library or OpenSSL without these functions never calls.
 */
#include <stdbool.h>

const char *__wrap__dl_get_origin(void);
void __wrap_OPENSSL_cpuid_setup(void);
void __real_OPENSSL_cpuid_setup(void);

/*
 * The folder of the program, for $ORIGIN in the paths of libraries: a readlink of /proc/self/exe at
 * every start. The static program has no such path; all ones is glibc's word for "unknown".
 */
const char *__wrap__dl_get_origin(void)
{
    return (const char *)-1;
}

static bool initialized; /* what runs before main has run */

__attribute__((constructor)) static void note_initialization(void)
{
    initialized = true;
}

/*
 * What this processor can do: a dozen CPUID, each a trap in a virtual machine. OpenSSL asks from
 * .init, ahead of every constructor, and asks again when it is first used; the second time will do.
 */
void __wrap_OPENSSL_cpuid_setup(void)
{
    if (initialized)
        __real_OPENSSL_cpuid_setup();
}

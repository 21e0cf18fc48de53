/*
 * Owns finding the module. Looks beside the program first, so that a build can be used where it
 * lies, then in the folder it was installed to; never in a folder that an environment names.
 */
#include "redis/tls.h"

#include <string.h>

#include "base/text.h"

#ifdef REDISLOCK_TLS_BUILTIN

extern const struct tls_module redislock_tls_module;

const struct tls_module *tls_load(char why[TLS_WHY_MAX])
{
    why[0] = '\0';
    return &redislock_tls_module;
}

#else

#include <dlfcn.h>
#include <unistd.h>

#define MODULE_FILE "redislock-tls.so"
#ifndef REDISLOCK_LIBDIR
#define REDISLOCK_LIBDIR "/usr/local/lib/redislock"
#endif

static void *open_in(const char *folder, size_t length)
{
    char storage[4096];
    struct text path = TEXT_OVER(storage);
    text_add_bytes(&path, folder, length);
    text_add(&path, "/" MODULE_FILE);
    return path.cut ? NULL : dlopen(path.at, RTLD_NOW | RTLD_LOCAL);
}

static void *open_beside_program(void)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return NULL;
    program[length] = '\0';
    const char *slash = strrchr(program, '/');
    return slash != NULL ? open_in(program, (size_t)(slash - program)) : NULL;
}

const struct tls_module *tls_load(char why[TLS_WHY_MAX])
{
    struct text text = text_over(why, TLS_WHY_MAX);
    void *object = open_beside_program();
    if (object == NULL)
        object = open_in(REDISLOCK_LIBDIR, strlen(REDISLOCK_LIBDIR));
    if (object == NULL) {
        const char *reason = dlerror();
        text_add(&text, "the TLS module cannot be loaded, which rediss:// needs: ");
        text_add(&text, reason != NULL ? reason : MODULE_FILE);
        return NULL;
    }
    const struct tls_module *module = dlsym(object, TLS_MODULE_SYMBOL);
    if (module != NULL && module->version == TLS_MODULE_VERSION)
        return module;
    text_add(&text, "the TLS module belongs to another version of redislock");
    dlclose(object);
    return NULL;
}

#endif

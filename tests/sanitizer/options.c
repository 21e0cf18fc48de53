/*
 * Linked into all that is built with a sanitizer: whatever it finds ends the process with a status of its
 * own, and is written to a file in FINDINGS, so that it is seen even where the environment was emptied
 * and nobody looks at stderr or at the status. The environment may say otherwise.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS "exitcode=99:halt_on_error=1:print_stacktrace=1:log_path=" FINDINGS "/at"

const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return OPTIONS ":detect_stack_use_after_return=1";
}

const char *__tsan_default_options(void)
{
    return OPTIONS;
}

const char *__ubsan_default_options(void)
{
    return OPTIONS;
}

#if defined(__SANITIZE_ADDRESS__)
/* Beside ASan gcc's libubsan takes its options and yet writes to stderr: it is told where to once more. */
__attribute__((constructor)) static void tell_ubsan(void)
{
    char path[PATH_MAX] = FINDINGS "/at";
    const char *rest = getenv("UBSAN_OPTIONS");
    while (rest != NULL && (rest = strstr(rest, "log_path=")) != NULL) { /* the last one counts */
        rest += strlen("log_path=");
        snprintf(path, sizeof(path), "%.*s", (int)strcspn(rest, ":"), rest);
    }
    void *runtime = dlopen("libubsan.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (runtime == NULL)
        return;
    void (*set_path)(const char *);
    *(void **)&set_path = dlsym(runtime, "__sanitizer_set_report_path");
    if (set_path != NULL)
        set_path(path);
    dlclose(runtime);
}
#endif

/*
 * The thread sanitizer makes vfork a fork, in whose memory a failed exec would leave its error for nobody.
 * This is the vfork of libc, which the sanitizer's then does not take the place of: the return address is
 * kept in a register, as the child returns first and the stack is the parent's too.
 */
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)
__asm__(".pushsection .text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    endbr64\n"
        "    pop %rdi\n"
        "    mov $58, %eax\n" /* SYS_vfork */
        "    syscall\n"
        "    push %rdi\n"
        "    cmp $-4095, %rax\n"
        "    jae 1f\n"
        "    ret\n"
        "1:  neg %eax\n"
        "    push %rax\n"
        "    call __errno_location@PLT\n"
        "    pop %rdx\n"
        "    mov %edx, (%rax)\n"
        "    mov $-1, %rax\n"
        "    ret\n"
        ".size vfork, .-vfork\n"
        ".popsection\n");
#endif

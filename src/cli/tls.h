/*
 * How a server's certificate is verified, and what is shown to it: redis-cli's words.
 */
#ifndef REDISLOCK_CLI_TLS_H
#define REDISLOCK_CLI_TLS_H

#include <stdbool.h>

struct tls_settings {
    const char *cacert; /* file of trusted certificates; NULL with capath NULL: the system's */
    const char *capath; /* folder of them, hashed */
    const char *cert;   /* client certificate (chain); NULL: none */
    const char *key;    /* its key; NULL: in the file of cert */
    const char *sni;    /* the name to ask for and to verify, in place of the URL's host */
    bool insecure;      /* no verification */
};

#endif

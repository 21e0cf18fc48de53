/*
 * Owns the only use of OpenSSL. Promises: chain and name are verified unless the user said
 * otherwise, TLS 1.2 or newer, no SIGPIPE, and one clear reason for every failure.
 */
#include "redis/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"

struct tls_session {
    SSL_CTX *context;
    BIO_METHOD *method;
    SSL *ssl;
};

/* --- A BIO that writes without SIGPIPE ------------------------------------------------------- */

static int fd_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_result(BIO *bio, ssize_t result, int retry)
{
    BIO_clear_retry_flags(bio);
    if (result < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return (int)result;
}

static int bio_write(BIO *bio, const char *bytes, int length)
{
    return bio_result(bio, send(fd_of(bio), bytes, (size_t)length, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    return bio_result(bio, recv(fd_of(bio), bytes, (size_t)size, 0), BIO_FLAGS_READ);
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO *make_bio(struct tls_session *session, int fd)
{
    session->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "redislock");
    if (session->method == NULL)
        return NULL;
    BIO_meth_set_write(session->method, bio_write);
    BIO_meth_set_read(session->method, bio_read);
    BIO_meth_set_ctrl(session->method, bio_control);
    BIO *bio = BIO_new(session->method);
    if (bio != NULL) {
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* --- Reasons --------------------------------------------------------------------------------- */

static void add_openssl_reason(struct text *why, const char *otherwise)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    if (error != 0 && ERR_GET_REASON(error) == ERR_R_PEM_LIB)
        reason = "the file has none"; /* in OpenSSL's words: PEM lib */
    text_add(why, reason != NULL ? reason : otherwise);
    ERR_clear_error();
}

/* An alert by which the peer says that it did not like our certificate, or that there was none. */
static bool is_refusal_alert(unsigned long error)
{
    switch (ERR_GET_REASON(error)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_TLSV1_UNRECOGNIZED_NAME:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_TLSV13_ALERT_MISSING_EXTENSION:
        return true;
    default:
        return false;
    }
}

static bool is_plain_text_peer(unsigned long error)
{
    switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_HTTP_REQUEST:
        return true;
    default:
        return false;
    }
}

static enum tls_result failed(const struct tls_session *session, char why[TLS_WHY_MAX])
{
    struct text text = text_over(why, TLS_WHY_MAX);
    unsigned long error = ERR_peek_error();
    long verdict = SSL_get_verify_result(session->ssl);
    if (error != 0 && ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        text_add(&text, "the server's certificate is not trusted: ");
        text_add(&text, X509_verify_cert_error_string(verdict));
        ERR_clear_error();
        return TLS_REFUSED;
    }
    if (error != 0 && is_plain_text_peer(error)) {
        text_add(&text, "the server does not speak TLS");
        ERR_clear_error();
        return TLS_FAILED;
    }
    enum tls_result result = error != 0 && is_refusal_alert(error) ? TLS_REFUSED : TLS_FAILED;
    text_add(&text, "TLS: ");
    add_openssl_reason(&text, errno != 0 ? strerror(errno) : "the server closed the connection");
    return result;
}

static enum tls_result result_of(const struct tls_session *session, int returned,
                                 char why[TLS_WHY_MAX])
{
    switch (SSL_get_error(session->ssl, returned)) {
    case SSL_ERROR_NONE:
        return TLS_DONE;
    case SSL_ERROR_WANT_READ:
        return TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_CLOSED;
    default:
        return failed(session, why);
    }
}

/* --- Sessions -------------------------------------------------------------------------------- */

static void session_close(struct tls_session *session)
{
    if (session == NULL)
        return;
    SSL_free(session->ssl); /* frees the BIO too */
    SSL_CTX_free(session->context);
    BIO_meth_free(session->method);
    free(session);
}

static struct tls_session *give_up(struct tls_session *session, char why[TLS_WHY_MAX],
                                   const char *what, const char *path)
{
    struct text text = text_over(why, TLS_WHY_MAX);
    text_add(&text, what);
    if (path != NULL) {
        text_add_char(&text, ' ');
        text_add(&text, path);
    }
    text_add(&text, ": ");
    add_openssl_reason(&text, "refused");
    session_close(session);
    return NULL;
}

static bool is_address(const char *host)
{
    struct in6_addr binary;
    return inet_pton(AF_INET, host, &binary) == 1 || strchr(host, ':') != NULL;
}

/* A zone (%eth0) is no part of a name in a certificate. */
static bool expect_address(SSL *ssl, const char *host)
{
    char address[INET6_ADDRSTRLEN] = "";
    struct text text = TEXT_OVER(address);
    text_add_bytes(&text, host, strcspn(host, "%"));
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address) == 1;
}

/* The name that the certificate must have; and, for a name, the name that is asked for. */
static bool expect_name(SSL *ssl, const struct tls_settings *settings, const char *host)
{
    const char *name = settings->sni != NULL ? settings->sni : host;
    if (settings->sni == NULL && is_address(host))
        return expect_address(ssl, host);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* OpenSSL's macro casts const away; it only copies */
    return SSL_set_tlsext_host_name(ssl, (uintptr_t)name) == 1 && SSL_set1_host(ssl, name) == 1;
}

static bool trust(SSL_CTX *context, const struct tls_settings *settings)
{
    if (settings->cacert == NULL && settings->capath == NULL)
        return SSL_CTX_set_default_verify_paths(context) == 1;
    return SSL_CTX_load_verify_locations(context, settings->cacert, settings->capath) == 1;
}

static struct tls_session *session_open(const struct tls_settings *settings, const char *host,
                                        int fd, char why[TLS_WHY_MAX])
{
    struct tls_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return NULL;
    ERR_clear_error();
    session->context = SSL_CTX_new(TLS_client_method());
    if (session->context == NULL)
        return give_up(session, why, "cannot start TLS", NULL);
    SSL_CTX_set_min_proto_version(session->context, TLS1_2_VERSION);
    SSL_CTX_set_mode(session->context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(session->context, settings->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
                       NULL);
    if (!settings->insecure && !trust(session->context, settings))
        return give_up(session, why, "cannot read the trusted certificates in",
                       settings->cacert != NULL ? settings->cacert : settings->capath);
    if (settings->cert != NULL &&
        SSL_CTX_use_certificate_chain_file(session->context, settings->cert) != 1)
        return give_up(session, why, "cannot use the certificate", settings->cert);
    const char *key = settings->key != NULL ? settings->key : settings->cert;
    if (key != NULL && SSL_CTX_use_PrivateKey_file(session->context, key, SSL_FILETYPE_PEM) != 1)
        return give_up(session, why, "cannot use the key", key);
    session->ssl = SSL_new(session->context);
    BIO *bio = session->ssl != NULL ? make_bio(session, fd) : NULL;
    if (bio == NULL)
        return give_up(session, why, "cannot start TLS", NULL);
    SSL_set_bio(session->ssl, bio, bio);
    if (!expect_name(session->ssl, settings, host))
        return give_up(session, why, "cannot verify the name", host);
    SSL_set_connect_state(session->ssl);
    return session;
}

static enum tls_result session_handshake(struct tls_session *session, char why[TLS_WHY_MAX])
{
    ERR_clear_error();
    errno = 0;
    return result_of(session, SSL_do_handshake(session->ssl), why);
}

static enum tls_result session_read(struct tls_session *session, char *bytes, size_t size,
                                    size_t *got, char why[TLS_WHY_MAX])
{
    ERR_clear_error();
    errno = 0;
    return result_of(session, SSL_read_ex(session->ssl, bytes, size, got), why);
}

static enum tls_result session_write(struct tls_session *session, const char *bytes, size_t length,
                                     size_t *written, char why[TLS_WHY_MAX])
{
    ERR_clear_error();
    errno = 0;
    return result_of(session, SSL_write_ex(session->ssl, bytes, length, written), why);
}

extern const struct tls_module redislock_tls_module;

__attribute__((visibility("default"))) const struct tls_module redislock_tls_module = {
    .version = TLS_MODULE_VERSION,
    .open = session_open,
    .handshake = session_handshake,
    .read = session_read,
    .write = session_write,
    .close = session_close,
};

#include "base/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

#include "base/alloc.h"

struct sr_digest {
        EVP_MD_CTX *context;
        bool failed;
};

static void start(struct sr_digest *digest)
{
        digest->failed =
                digest->context == NULL || EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) != 1;
}

struct sr_digest *sr_digest_new(void)
{
        // Reading the system's openssl.cnf takes time and files that a confined process may not open.
        (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);

        struct sr_digest *digest = sr_new(struct sr_digest);

        digest->context = EVP_MD_CTX_new();
        start(digest);
        return digest;
}

void sr_digest_update(struct sr_digest *digest, const void *bytes, size_t length)
{
        if (!digest->failed && EVP_DigestUpdate(digest->context, bytes, length) != 1)
                digest->failed = true;
}

int sr_digest_finish(struct sr_digest *digest, char ret_hex[SR_DIGEST_HEX_LENGTH + 1])
{
        static const char digits[] = "0123456789abcdef";
        unsigned char raw[EVP_MAX_MD_SIZE];
        unsigned length = 0;

        if (!digest->failed && EVP_DigestFinal_ex(digest->context, raw, &length) != 1)
                digest->failed = true;
        if (digest->failed || length * 2 != SR_DIGEST_HEX_LENGTH)
                return -ENOTSUP;
        for (unsigned i = 0; i < length; i++) {
                ret_hex[2 * i] = digits[raw[i] >> 4];
                ret_hex[2 * i + 1] = digits[raw[i] & 15];
        }
        ret_hex[SR_DIGEST_HEX_LENGTH] = '\0';
        start(digest);
        return 0;
}

struct sr_digest *sr_digest_free(struct sr_digest *digest)
{
        if (digest != NULL) {
                EVP_MD_CTX_free(digest->context);
                free(digest);
        }
        return NULL;
}

void sr_digest_freep(struct sr_digest **digest)
{
        *digest = sr_digest_free(*digest);
}

int sr_digest_of(const void *bytes, size_t length, char ret_hex[SR_DIGEST_HEX_LENGTH + 1])
{
        _cleanup_digest_ struct sr_digest *digest = sr_digest_new();

        sr_digest_update(digest, bytes, length);
        return sr_digest_finish(digest, ret_hex);
}

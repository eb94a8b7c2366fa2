// SHA-256 over a stream, and the textual form of digests ("sha256:" and 64 lower-case hex digits, OCI image
// specification, descriptor.md, "Digests").
//
// The grammar checks are inline so that code which only reads digests does not load libcrypto.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define SR_DIGEST_PREFIX      "sha256:"
#define SR_DIGEST_HEX_LENGTH  64
#define SR_DIGEST_TEXT_LENGTH (sizeof(SR_DIGEST_PREFIX) - 1 + SR_DIGEST_HEX_LENGTH)

// Whether text (length bytes) is 64 lower-case hex digits, and so safe as a file name.
static inline bool sr_digest_hex_valid(const char *text, size_t length)
{
        if (length != SR_DIGEST_HEX_LENGTH)
                return false;
        for (size_t i = 0; i < length; i++)
                if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
                        return false;
        return true;
}

// Whether text is "sha256:" and 64 lower-case hex digits. false for NULL.
static inline bool sr_digest_valid(const char *text)
{
        const size_t prefix = sizeof(SR_DIGEST_PREFIX) - 1;

        return text != NULL && strncmp(text, SR_DIGEST_PREFIX, prefix) == 0 &&
               sr_digest_hex_valid(text + prefix, strlen(text + prefix));
}

// The hex part of a valid digest.
static inline const char *sr_digest_hex(const char *digest)
{
        return digest + sizeof(SR_DIGEST_PREFIX) - 1;
}

struct sr_digest;

// A computation that has seen no byte yet.
struct sr_digest *sr_digest_new(void);
void sr_digest_update(struct sr_digest *digest, const void *bytes, size_t length);
// Writes the 64 hex digits and a NUL, and starts anew. 0, or -ENOTSUP when libcrypto cannot do SHA-256 (a
// faulty installation): trouble on the way is kept until here.
int sr_digest_finish(struct sr_digest *digest, char ret_hex[SR_DIGEST_HEX_LENGTH + 1]);
struct sr_digest *sr_digest_free(struct sr_digest *digest);
void sr_digest_freep(struct sr_digest **digest);
#define _cleanup_digest_ __attribute__((cleanup(sr_digest_freep)))

// The digest of bytes at once.
int sr_digest_of(const void *bytes, size_t length, char ret_hex[SR_DIGEST_HEX_LENGTH + 1]);

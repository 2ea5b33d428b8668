/* Proving to know a token without sending it (worker/fleet/drivers/dial_proof.py is the other side). */
#ifndef TILEFLEET_PROOF_H
#define TILEFLEET_PROOF_H

#include <stddef.h>

enum { PROOF_BYTES = 32, PROOF_TEXT = 2 * PROOF_BYTES + 1 };

/* HMAC-SHA256 of `text` with `key` as hexadecimal digits. */
void proof_make(const char *key, const char *text, char proof[PROOF_TEXT]);

/* Write bytes as hexadecimal digits; `text` has room for 2 * bytes + 1. */
void proof_hex(const unsigned char *data, size_t bytes, char *text);

#endif

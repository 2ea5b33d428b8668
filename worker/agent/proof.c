#include "proof.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* SHA-256 and HMAC as in FIPS 180-4 and FIPS 198-1, names included. */

enum { BLOCK = 64 };

typedef struct {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[BLOCK];
} Hash;

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void compress(Hash *hash) {
  uint32_t w[64], s[8];
  for (int t = 0; t < 16; t++)
    w[t] = (uint32_t)hash->block[4 * t] << 24 | (uint32_t)hash->block[4 * t + 1] << 16 |
           (uint32_t)hash->block[4 * t + 2] << 8 | hash->block[4 * t + 3];
  for (int t = 16; t < 64; t++) {
    uint32_t a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 7] +
           (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  memcpy(s, hash->state, sizeof s);
  for (int t = 0; t < 64; t++) {
    uint32_t a = s[0], e = s[4];
    uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + K[t] + w[t];
    uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[0] = t1 + t2;
    s[4] += t1;
  }
  for (int i = 0; i < 8; i++) hash->state[i] += s[i];
  explicit_bzero(w, sizeof w);
}

static void start(Hash *hash) {
  *hash = (Hash){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                           0x5be0cd19}};
}

static void add(Hash *hash, const void *data, size_t bytes) {
  for (const uint8_t *at = data; bytes--; at++) {
    hash->block[hash->bytes++ % BLOCK] = *at;
    if (hash->bytes % BLOCK == 0) compress(hash);
  }
}

static void finish(Hash *hash, uint8_t digest[PROOF_BYTES]) {
  uint64_t bits = hash->bytes * 8;
  add(hash, "\x80", 1);
  while (hash->bytes % BLOCK != BLOCK - 8) add(hash, "", 1);
  for (int shift = 56; shift >= 0; shift -= 8) add(hash, &(uint8_t){(uint8_t)(bits >> shift)}, 1);
  for (int i = 0; i < PROOF_BYTES; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void proof_hex(const unsigned char *data, size_t bytes, char *text) {
  for (size_t i = 0; i < bytes; i++) sprintf(text + 2 * i, "%02x", data[i]);
}

void proof_make(const char *key, const char *text, char proof[PROOF_TEXT]) {
  uint8_t inner[BLOCK] = {0}, outer[BLOCK], digest[PROOF_BYTES];
  Hash hash;
  start(&hash);
  if (strlen(key) > BLOCK) {
    add(&hash, key, strlen(key));
    finish(&hash, inner);
    start(&hash);
  } else {
    memcpy(inner, key, strlen(key));
  }
  for (int i = 0; i < BLOCK; i++) {
    outer[i] = inner[i] ^ 0x5c;
    inner[i] ^= 0x36;
  }
  add(&hash, inner, BLOCK);
  add(&hash, text, strlen(text));
  finish(&hash, digest);
  start(&hash);
  add(&hash, outer, BLOCK);
  add(&hash, digest, sizeof digest);
  finish(&hash, digest);
  proof_hex(digest, sizeof digest, proof);
  /* Candidates run where this stack was. */
  explicit_bzero(inner, sizeof inner);
  explicit_bzero(outer, sizeof outer);
  explicit_bzero(&hash, sizeof hash);
}

/* Prints what a proof leaves of its key on the stack, where a session's candidates run later: which of the two
 * bytes it is mixed with, and nothing where nothing is left. */
#include <stdio.h>
#include <string.h>

#include "proof.h"

enum { STACK = 32768, PIECE = 8 };

static char key[] = "correct-horse-battery-staple", proof[PROOF_TEXT];

int main(void) {
  proof_make(key, "tilefleet 1 agent board 00 11", proof);
  const char *top = __builtin_frame_address(0);
  for (int mixed = 0; mixed < 256; mixed++) {
    char wanted[PIECE];
    for (int i = 0; i < PIECE; i++) wanted[i] = (char)(key[i] ^ mixed);
    for (volatile const char *at = top - STACK; at < top - PIECE; at++) {
      int same = 0;
      while (same < PIECE && at[same] == wanted[same]) same++;
      /* `wanted` itself is below, too, at its own place. */
      if (same == PIECE && (const char *)at != wanted) printf("%d\n", mixed);
    }
  }
}

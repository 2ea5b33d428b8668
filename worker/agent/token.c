#include "token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static char *kept;

int token_read(const char *path, char *token) {
  FILE *file = fopen(path, "re");
  char line[TOKEN_MAX + 3] = "";
  if (file) setvbuf(file, NULL, _IONBF, 0); /* no copy of it stays in a buffer */
  if (!file || (!fgets(line, sizeof line, file) && ferror(file))) {
    fprintf(stderr, "tilefleet-agent: cannot read the token in %s: %s\n", path, strerror(errno));
    if (file) fclose(file);
    return -1;
  }
  fclose(file);
  line[strcspn(line, "\r\n")] = 0;
  size_t length = strlen(line), good = 0;
  while (line[good] > ' ' && line[good] <= '~') good++;
  if (length < TOKEN_MIN || length > TOKEN_MAX || good < length) {
    fprintf(stderr, "tilefleet-agent: the token in %s has to be %d to %d printable characters without spaces\n",
            path, TOKEN_MIN, TOKEN_MAX);
    return -1;
  }
  memcpy(token, line, length + 1);
  explicit_bzero(line, sizeof line);
  kept = token;
  return 0;
}

void token_forget(void) {
  if (kept) explicit_bzero(kept, TOKEN_MAX + 1);
}

int token_equal(const char *ours, const char *theirs) {
  size_t our_length = strlen(ours), their_length = strlen(theirs);
  volatile unsigned char differs = our_length != their_length;
  for (size_t i = 0; i < their_length; i++)
    differs |= (unsigned char)(theirs[i] ^ ours[our_length ? i % our_length : 0]);
  return !differs;
}

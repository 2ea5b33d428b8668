/* The secret that a board shares with the coordinator. */
#ifndef TILEFLEET_TOKEN_H
#define TILEFLEET_TOKEN_H

enum { TOKEN_MIN = 16, TOKEN_MAX = 256 };

/* Read the first line of a file into `token`, with room for TOKEN_MAX + 1; -1 after saying what is wrong. A
 * file, because everybody on the board sees command lines. */
int token_read(const char *path, char *token);

/* Wipe the token that was read: a session's process has it no more once its client has named it. */
void token_forget(void);

/* Whether two texts are the same, in a time that depends on the second one's length only. */
int token_equal(const char *ours, const char *theirs);

#endif

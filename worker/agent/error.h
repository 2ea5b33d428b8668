/* The one pending error message of a session. */
#ifndef TILEFLEET_ERROR_H
#define TILEFLEET_ERROR_H

/* Forget the pending message; done before every request. */
void error_clear(void);

/* Keep a printf-style message and return -1. The first message since error_clear wins, whichever thread
 * it comes from: what follows a failure is usually its consequence. */
int error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The pending message, or one that says that there is none. */
const char *error_text(void);

#endif

/* Landlock, the kernel's own sandbox for a process: what it closes stays closed without the filter of calls. */
#ifndef TILEFLEET_LANDLOCK_H
#define TILEFLEET_LANDLOCK_H

/* Close all files, TCP ports, abstract sockets and other processes' signals to the calling thread and to the
 * threads that it starts, as far as the kernel knows them; open files stay open, and /proc/self can be read.
 * 0, or -1 where there is no Landlock. */
int landlock_close(void);

#endif

/* What differs by instruction set. The build names ARCH_HEADER, arch_MACHINE.h, which says
 *   ARCH_MACHINE, ARCH_R_*: the ELF machine and the relocations that the loader knows;
 *   arch_pause(): tell the core that this is a spin loop;
 *   arch_flush_cache(data, bytes): write back and drop every cache line of them, from all levels;
 *   arch_sync_code(begin, end): make code that was just written there visible to instruction fetch;
 * and what below is not the usual. */
#ifndef TILEFLEET_ARCH_H
#define TILEFLEET_ARCH_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include ARCH_HEADER

/* Whether a relocation's addend stands where its result will, instead of beside it. */
#ifndef ARCH_ADDENDS_IN_PLACE
#define ARCH_ADDENDS_IN_PLACE 0
#endif

#ifndef ARCH_THREAD_LOCAL
#define ARCH_THREAD_LOCAL _Thread_local
#define ARCH_MAX_THREADS 256
#endif

/* Whether the simulated clock knows the instruction set that code at this address is of. */
#ifndef ARCH_IS_KNOWN_TO_CLOCK
#define ARCH_IS_KNOWN_TO_CLOCK(address) ((void)(address), 1)
#endif

#endif

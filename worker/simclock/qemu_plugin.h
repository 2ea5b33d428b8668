/* The part of QEMU's plugin interface, version 1 (QEMU 4.2 to 8.x), that the clock uses. Distributions do not
 * package QEMU's own qemu-plugin.h; names and types here are those of QEMU's documentation
 * (docs/devel/tcg-plugins). */
#ifndef TILEFLEET_QEMU_PLUGIN_H
#define TILEFLEET_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QEMU_PLUGIN_API = 1 };

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;   /* a translation block */
struct qemu_plugin_insn; /* one instruction of it */
typedef struct qemu_info qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*on_translation)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*on_execution_of)(unsigned cpu, void *data);
typedef void (*on_memory)(unsigned cpu, qemu_plugin_meminfo_t, uint64_t address, void *data);
typedef void (*on_syscall)(qemu_plugin_id_t, unsigned cpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t, uint64_t, uint64_t);
typedef void (*on_syscall_return)(qemu_plugin_id_t, unsigned cpu, int64_t number, int64_t result);
typedef void (*on_cpu)(qemu_plugin_id_t, unsigned cpu);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, on_cpu);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, on_translation);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *counter,
                                              uint64_t added);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, on_memory, enum qemu_plugin_cb_flags,
                                      enum qemu_plugin_mem_rw, void *data);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, on_syscall);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t, on_syscall_return);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, on_execution_of, enum qemu_plugin_cb_flags,
                                          void *data);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
void qemu_plugin_outs(const char *);

#endif

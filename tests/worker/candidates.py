"""Candidates for boards: some made by TVM, some written in C to misbehave."""

import functools
import platform
import subprocess
import sys

import numpy as np
import tvm
from tvm import rpc
from tvm.script import tirx as T

from worker.fleet.drivers.agent_build import agent_triple

MACHINE = platform.machine()
ROWS = 65536  # of 16 floats: 4 MiB


@T.prim_func
def weighted(
    x: T.Buffer((16,), "float32"), w: T.Buffer((1048576,), "float32"), y: T.Buffer((16,), "float32")
):
    for j in T.vectorized(16):
        y[j] = T.float32(0)
    for k in T.serial(65536):  # in an order that no prefetcher follows
        for j in T.vectorized(16):
            y[j] = y[j] + w[(k * 4099) % 65536 * 16 + j] * x[j]


@T.prim_func
def doubled(a: T.Buffer((4096,), "float32"), b: T.Buffer((4096,), "float32")):
    for i in T.parallel(64):
        for j in T.vectorized(64):
            b[i * 64 + j] = T.exp(a[i * 64 + j]) * T.float32(2)


TASKS_C = """
typedef struct { void *sync; int num_task; } Env;
extern int TVMBackendParallelLaunch(int (*)(int, Env *, void *), void *, int);
extern int TVMBackendParallelBarrier(int, Env *);
typedef struct { void *data; } Tensor;
typedef struct { int type, pad; Tensor *tensor; } Value;
static volatile long shared[64];
static int task(int id, Env *env, void *data) {
  long *out = data;
  out[0] = env->num_task;
  out[1 + id] = (long)__builtin_frame_address(0) >> 16; /* its stack: one a thread */
  for (long round = 1; round < 100; round++) {
    shared[id] = round;
    TVMBackendParallelBarrier(id, env);
    if (shared[(id + 1) % env->num_task] != round) return 1; /* the neighbour has not come, or has gone on */
    TVMBackendParallelBarrier(id, env);
  }
  return 0;
}
int __tvm_ffi_main(void *self, Value *args, int n, void *result) {
  return TVMBackendParallelLaunch(task, args[0].tensor->data, 0);
}
int __tvm_ffi_many(void *self, Value *args, int n, void *result) {
  return TVMBackendParallelLaunch(task, args[0].tensor->data, 60);
}
"""
CRASH_C = "int __tvm_ffi_main(void) { *(volatile int *)8 = 1; return 0; }"
SPIN_C = "int __tvm_ffi_main(void) { for (;;) *(volatile int *)&__tvm_ffi_main; }"
LATE_CRASH_C = """
int __tvm_ffi_main(void) {  /* after some seconds */
  unsigned long long start = __builtin_readcyclecounter();
  while (__builtin_readcyclecounter() - start < 8000000000) continue;
  *(volatile int *)8 = 1;
  return 0;
}
"""
UNDEFINED_C = "extern int no_such_thing(void); int __tvm_ffi_main(void) { return no_such_thing(); }"
GREEDY_C = """
extern void *TVMBackendAllocWorkspace(int, int, unsigned long, int, int);
int __tvm_ffi_main(void) { return TVMBackendAllocWorkspace(1, 0, 1UL << 40, 2, 32) ? 0 : -1; }
"""


def link(objects, output):
    """Link object files to what a board loads."""
    options = ["-shared", "-z", "now", "--hash-style=both", "--allow-shlib-undefined"]
    subprocess.run([sys.executable, "-m", "ziglang", "ld.lld", *options, *objects, "-o", output], check=True)
    return output


@functools.cache
def tvm_candidate(folder):
    """A module with the functions `weighted` and `doubled`."""
    functions = {f.attrs["global_symbol"]: f for f in (weighted, doubled)}
    target = tvm.target.Target({"kind": "llvm", "mtriple": f"{MACHINE}-linux-gnu", "num-cores": 1})
    tvm.tirx.build(tvm.IRModule(functions), target=target).write_to_file(str(folder / "kernels.o"))
    return link([folder / "kernels.o"], folder / "kernels.so")


SYSTEM_CALL_C = """
#if defined(__x86_64__)
enum { WRITE = 1 };
static long call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
#else
enum { WRITE = 64 };
static long call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
#endif
"""
CHATTY_C = (
    SYSTEM_CALL_C
    + """
int __tvm_ffi_main(void) { /* two gigabytes on each of standard output and standard error */
  static char text[1 << 20];
  for (int i = 0; i < sizeof text; i++) text[i] = 'x';
  for (int i = 0; i < 4096; i++)
    if (call(WRITE, 1 + i % 2, (long)text, sizeof text) != sizeof text) return -1;
  return 0;
}
"""
)
BEYOND_C = """
typedef struct { char *data; } Tensor;
typedef struct { int type, pad; Tensor *tensor; } Value;
int __tvm_ffi_main(void *self, Value *args, int n, void *result) { /* far beyond its tensor's end */
  for (long i = 0; i < 1L << 32; i++) ((volatile char *)args[0].tensor->data)[i] = 1;
  return 0;
}
"""


def c_candidate(folder, code, machine=MACHINE):
    """A module with what the C source defines."""
    (folder / "candidate.c").write_text(code)
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        agent_triple(f"{machine}-linux-musl"),
        "-O1",
        "-w",
        "-fPIC",
    ]
    subprocess.run([*command, "-c", folder / "candidate.c", "-o", folder / "candidate.o"], check=True)
    return link([folder / "candidate.o"], folder / "candidate.so")


def connect(board, timeout=20):
    return rpc.connect(board.host, board.port, board.key, session_timeout=timeout)


def load(session, path):
    session.upload(str(path))
    return session.load_module(path.name)


def on_board(session, *arrays):
    return [tvm.runtime.tensor(np.ascontiguousarray(array), session.cpu(0)) for array in arrays]

"""A kernel whose only knob is what is wrong with it; children preload this module to know the kernel."""

import ctypes
import os
import platform
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import psutil
import tvm
from tvm import tirx

from kernels import registry
from kernels.emit import tir
from kernels.float.gemm.kernel import PackedGemm
from kernels.float.plan import FloatPlan
from kernels.kernel import Kernel
from kernels.layout import PLAIN
from kernels.space import Config
from kernels.workload.base import Gemm
from worker.batch import Batch
from worker.candidate import Candidate
from worker.demand import Demand

BUILD_FAULTS = (
    "raises",
    "compiler_crash",
    "compiler_hang",
    "compiler_chatter",
    "compiler_killed",
    "compiler_hungry",
    "compiler_starves",
)
RUN_FAULTS = ("wrong", "unwritten", "segfault", "hang", "beyond", "chatter", "kills_worker")
FINE = ("none", "compiler_chatter", "chatter", "compiler_hungry")
CHATTER_LLVM = """
@text = internal global [1048576 x i8] zeroinitializer
define i32 @chatter() {{
  br label %again
again:
  %i = phi i64 [0, %0], [%next, %again]
  %said = call i64 asm sideeffect {call}(i64 {write}, i64 1, ptr @text, i64 1048576)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 2048
  br i1 %more, label %again, label %done
done:
  ret i32 0
}}
"""
"""Two gigabytes on standard output."""
SYSTEM_CALLS = {
    "x86_64": (1, '"syscall", "={rax},{rax},{rdi},{rsi},{rdx},~{rcx},~{r11},~{memory}"'),
    "aarch64": (64, '"svc 0", "={x0},{x8},{x0},{x1},{x2},~{memory}"'),
}
WORKLOAD = Gemm(m=8, n=32, k=16)


def candidate(fault, target):
    return Candidate(WORKLOAD, Config.of("faulty", fault=fault), target)


def batch(target, *faults, **more):
    configs = [Config.of("faulty", fault=fault) for fault in faults]
    return Batch(WORKLOAD, configs, Demand(target), **more)


@dataclass(frozen=True)
class FaultyPlan(FloatPlan):
    knobs: str

    packed_length: ClassVar[int] = 16

    def cycles(self):
        return 1.0

    def pack(self, weights):
        if self.knobs in FINE:
            return fine(self).pack(weights)
        if self.knobs == "kills_worker":  # this child's nursery's parent
            time.sleep(4)  # what it measured before has been told by then
            psutil.Process().parent().parent().kill()
            time.sleep(60)
        return np.zeros(16, np.float32)

    def emit(self, name):
        fault = self.knobs
        if fault == "compiler_chatter":
            for _ in range(1024):
                os.write(1, bytes(1 << 20))
        if fault in ("compiler_hungry", "compiler_starves"):
            np.empty((6 if fault == "compiler_hungry" else 10) << 30, np.uint8)  # asked for, not used
        if fault == "compiler_killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault in FINE:
            function = fine(self).emit(name)
            return chattering(function) if fault == "chatter" else function
        if fault == "raises":
            raise ValueError("no such block\nand a second line")
        if fault == "compiler_crash":
            ctypes.string_at(0)
        if fault == "compiler_hang":
            time.sleep(60)
        return super().emit(name)

    def body(self, args):
        fault, size = self.knobs, self.workload.m * self.workload.n
        if fault in ("wrong", "hang"):
            with tir.loop(size) as at:
                tir.store(args.out, tir.number(1.0), at)
        if fault == "segfault":
            tir.store(args.out, tir.number(1.0), tir.index(1 << 30))
        if fault == "beyond":
            with tir.loop(1 << 30) as at:
                tir.store(args.out, tir.number(1.0), at)
        if fault == "hang":
            with tir.loop(1 << 30), tir.loop(1 << 30):
                tir.store(args.out, args.out[0] * args.data[0] + args.data[1], 0)


class Faulty(Kernel):
    name = "faulty"
    workload_type = Gemm

    def why_unfit(self, workload, target):
        return None if workload == WORKLOAD else "is for tests alone"

    def knobs(self, workload, target, layouts, threads):
        return {"fault": ("none", *BUILD_FAULTS, *RUN_FAULTS)}

    def recommend(self, workload, target, layouts=PLAIN, threads=1):
        return Config.of(self.name, fault="none")

    def plan(self, workload, config, target, threads=1):
        return FaultyPlan(workload, target, threads, config["fault"])


def fine(plan):
    config = GEMM.recommend(plan.workload, plan.target)
    return GEMM.plan(plan.workload, config, plan.target, plan.threads)


def chattering(function):
    write, call = SYSTEM_CALLS[platform.machine()]
    llvm = tvm.ir.StringImm(CHATTER_LLVM.format(write=write, call=call))
    body = tirx.SeqStmt([tirx.Evaluate(tirx.call_extern("int32", "chatter")), function.body])
    return function.with_body(tirx.AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", llvm, body))


GEMM = PackedGemm()
registry.register(Faulty())

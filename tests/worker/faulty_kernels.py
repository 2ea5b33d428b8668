"""A kernel whose only knob is what is wrong with it; children preload this module to know the kernel."""

import ctypes
import time

import numpy as np

from kernels import registry, tir
from kernels.gemm import PackedGemm
from kernels.kernel import Kernel
from kernels.space import Config, Space
from kernels.workload import Gemm
from worker.candidate import Candidate

BUILD_FAULTS = ("raises", "compiler_crash", "compiler_hang")
RUN_FAULTS = ("wrong", "unwritten", "segfault", "hang")
WORKLOAD = Gemm(m=8, n=32, k=16)


def candidate(fault, target):
    return Candidate(WORKLOAD, Config.of("faulty", fault=fault), target)


class Faulty(Kernel):
    name = "faulty"

    def why_not(self, workload, target):
        return None if isinstance(workload, Gemm) else "computes matrix products only"

    def space(self, workload, target):
        return Space(self.name, {"fault": ("none", *BUILD_FAULTS, *RUN_FAULTS)})

    def recommend(self, workload, target):
        return Config.of(self.name, fault="none")

    def predict(self, workload, config, target):
        return 1.0

    def pack(self, workload, config, target, weights):
        if config["fault"] == "none":
            return GEMM.pack(workload, GEMM.recommend(workload, target), target, weights)
        return np.zeros(16, np.float32)

    def build(self, workload, config, target, threads, name):
        fault = config["fault"]
        if fault == "none":
            return GEMM.build(workload, GEMM.recommend(workload, target), target, threads, name)
        if fault == "raises":
            raise ValueError("no such block\nand a second line")
        if fault == "compiler_crash":
            ctypes.string_at(0)
        if fault == "compiler_hang":
            time.sleep(60)
        function = tir.Function(workload, name, 16)
        with function as args:
            size = workload.m * workload.n
            if fault in ("wrong", "hang"):
                with tir.loop(size) as at:
                    tir.store(args.out, tir.number(1.0), at)
            if fault == "segfault":
                tir.store(args.out, tir.number(1.0), tir.index(1 << 30))
            if fault == "hang":
                with tir.loop(1 << 30), tir.loop(1 << 30):
                    tir.store(args.out, args.out[0] * args.data[0] + args.data[1], 0)
        return function.result()


GEMM = PackedGemm()
registry.all_kernels()["faulty"] = Faulty()

"""C libraries whose kernels and C are compiled with AddressSanitizer, and run on extreme inputs."""

import os
import re
import subprocess

import numpy as np
from one_operator import TARGET

from kernels.numerics import Numerics
from tuner.clibrary import extras
from tuner.clibrary.build import Model, make, write
from worker.build.toolchain import ZIG

LARGE = {4: (2**31, 1e9), 8: (2**63, 1e18), 2: (6e4,)}
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1", "-std=c11"]
DRIVER = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

/* Each array by itself, so that a byte beside it is nobody's. */
int main(int argc, char **argv) {
  size_t bytes = (net_arena_bytes() + 63) / 64 * 64, in_bytes[64], out_bytes[64];
  const void *in[64];
  void *out[64], *arena = aligned_alloc(64, bytes);
  FILE *file = fopen(argv[1], "rb");
  int rounds = atoi(argv[2]);
  (void)argc;
  for (int i = 0; i < net_outputs(); i++) out[i] = malloc(out_bytes[i] = net_output_bytes(i));
  for (int round = 0; round < rounds; round++) {
    int code;
    for (int i = 0; i < net_inputs(); i++) {
      void *data = malloc(in_bytes[i] = net_input_bytes(i));
      if (in_bytes[i] && fread(data, 1, in_bytes[i], file) != in_bytes[i]) return 2;
      in[i] = data;
    }
    fprintf(stderr, "round %d\\n", round);
    code = net_run_checked(arena, bytes, in, in_bytes, out, out_bytes);
    if (code && code < NET_REFUSED) return 3;
    if (code) printf("%s, and is given %lld\\n", net_error(code), (long long)*net_refused(arena, code));
    for (int i = 0; i < net_inputs(); i++) free((void *)(size_t)in[i]);
  }
  for (int i = 0; i < net_outputs(); i++) free(out[i]);
  free(arena);
  fclose(file);
  return 0;
}
"""


def extremes(dtype):
    """What nobody expects of a type."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return [False, True]
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return [info.min, info.max, 0, 1, info.max // 2 + 1, info.max if info.min == 0 else -1]
    info = np.finfo(kind)
    found = [np.nan, np.inf, -np.inf, info.max, -info.max, -0.0, info.smallest_subnormal]
    return [*found, *LARGE[kind.itemsize], *(-each for each in LARGE[kind.itemsize])]


def rounds_of(row):
    """Inputs of each run: those of the row, one extreme in all places, and some among the row's own."""
    arrays, rng = row.arrays, np.random.default_rng(5)
    yield arrays
    for turn in range(12):
        made = {}
        for at, (name, array) in enumerate(arrays.items()):
            found = extremes(array.dtype)
            if turn < 6:
                made[name] = np.full_like(array, found[(turn + at) % len(found)])
            else:
                chosen = rng.choice(np.array(found, array.dtype), array.shape)
                made[name] = np.where(rng.random(array.shape) < 0.2, chosen, array).astype(array.dtype)
        yield made


def instrumented(text):
    """LLVM's text with what AddressSanitizer wants of functions, and as zig's LLVM, an older one, has it."""
    text = re.sub(r" nocreateundeforpoison|, target_mem\d: \w+", "", text)
    text = re.sub(r"^(attributes #\d+ = \{)", r"\1 sanitize_address", text, flags=re.M)
    text = re.sub(r"^.*@llvm\.masked\.(?:load|store)\..*$", _with_alignment, text, flags=re.M)
    return re.sub(r"^(define [^#{]*\)[^#{]*)\{", r"\1 sanitize_address {", text, flags=re.M)


def _with_alignment(line):
    """A load or store of some lanes with its alignment as an operand, as it was before."""
    if line[0].startswith("declare"):
        return re.sub(r"ptr[^,]*,", "ptr, i32 immarg,", line[0])
    return re.sub(r"ptr (?:\w+ )*align (\d+) ([^,]+),", r"ptr \2, i32 \1,", line[0])


def run_sanitized(row, folder):
    """What a run of ``row`` as a C library says; AssertionError where it touches what is not its own."""
    path = folder / "model.onnx"
    path.write_bytes(row.model().SerializeToString())
    made = make(
        Model(path, None, [], [], Numerics.EXACT_INTEGERS, 1), (TARGET,), "net", "model.onnx", "", True
    )
    write(made, folder)
    kernels = folder / extras.kernels(made.library, 0)
    (folder / "kernels.ll").write_text(instrumented(made.codes[0].inspect_source("ll")))
    cpu = ["-target", "x86_64-linux-gnu", "-mcpu=haswell", "-O1", "-fPIC", "-fsanitize=address"]
    compile_ = [ZIG, "cc", *cpu, "-Wno-override-module", "-c", folder / "kernels.ll", "-o", kernels]
    done = subprocess.run(compile_, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-2000:]
    (folder / "driver.c").write_text(DRIVER)
    objects = [kernels, folder / extras.weights(made.library)]
    link = ["gcc", *SANITIZERS, folder / "driver.c", folder / "net.c", *objects, "-o", folder / "run"]
    done = subprocess.run([*map(str, link)], capture_output=True, text=True)
    assert not done.returncode, done.stderr[-2000:]
    order = [port.name for port in made.library.inputs]
    rounds = [*rounds_of(row)]
    data = b"".join(each[name].tobytes() for each in rounds for name in order)
    (folder / "inputs.bin").write_bytes(data)
    done = subprocess.run(
        [folder / "run", folder / "inputs.bin", str(len(rounds))],
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not done.returncode, f"{done.returncode}: {done.stderr[-3000:]}"
    return done.stdout

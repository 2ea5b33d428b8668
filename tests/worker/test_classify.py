"""What the simulated clock takes instructions for, where their code is irregular."""

import ctypes
import subprocess
import sys
from dataclasses import dataclass

import pytest

from worker.fleet.drivers.agent_build import CLOCK_SOURCES

PIPES = ("integer", "branch", "load", "store", "vector", "matrix", "divide")

# By pipe: one slot unless told.
# A vector and a store pipe are 64 bits wide, a load pipe 128.
ARM = {
    "integer": """
        add r0, r1, r2, lsl #3; mul r0, r1, r2; umull r0, r1, r2, r3; movw r0, #4660; movt r0, #1; clz r0, r1
        cmp r1, #3; sxtb r0, r1; ubfx r0, r1, #3, #4; smlad r0, r1, r2, r3; addeq r0, r0, #1; nop; dmb ish
        mrc p15, #0, r0, c13, c0, #3""",
    "branch": "b .; bne .; bl .; bx lr; blx r3; mov pc, lr; svc #0",
    "load": """
        ldr r0, [r1, #4]; ldrb r0, [r1, r2]; ldrsh r0, [r1]; ldrh r0, [r1], #2; ldrex r0, [r1]; pld [r0, #64]
        vldr s0, [r1]; vldr d16, [r1, #8]; vld1.32 {d16, d17}, [r1]!; vld1.8 {d3}, [r1]""",
    "load 2": """
        ldrd r2, r3, [r1]; ldm r0, {r1, r2}; pop {r4, pc}; vldmia r0, {d16, d17}; vpop {s16, s17, s18}
        vld1.32 {d16, d17, d18, d19}, [r1:128]; vld2.32 {d16, d17, d18, d19}, [r1]""",
    "load, vector": "vld1.32 {d16[1]}, [r1]; vld1.32 {d16[], d17[]}, [r1]",
    "store": """
        str r0, [r1]; strb r0, [r1, r2]; strh r0, [r1]; strd r2, r3, [r1]; vstr d16, [r1]
        vst1.8 {d3}, [r1]""",
    "store 2": "vst1.32 {d16, d17}, [r1:128]!; push {r4, lr}; vstmdb sp!, {d8, d9}",
    "store 4": "vst1.32 {d16, d17, d18, d19}, [r1]",
    "vector": """
        vmull.s8 q0, d2, d3; vmlal.s8 q0, d2, d3; vmlal.s16 q0, d2, d3[1]; vmull.u16 q0, d2, d3[1]
        vaddl.s16 q0, d2, d3; vaddw.s16 q0, q1, d3; vmovl.s8 q0, d2; vshll.s16 q0, d2, #16; vmovn.i32 d0, q1
        vqmovn.s32 d0, q1; vqmovun.s16 d0, q1; vshrn.i32 d0, q1, #4; vqrshrun.s16 d0, q1, #4
        vpadd.i32 d0, d1, d2; vadd.i32 d0, d1, d2; vmul.f32 d0, d1, d2[1]
        vext.8 d0, d1, d2, #3; vtbl.8 d0, {d1, d2}, d3; vadd.f32 s0, s1, s2
        vmla.f64 d0, d1, d2; vcvt.f32.s32 s0, s1; vmov s0, r1; vmov r0, r1, d0
        vmov.32 d0[1], r1; vdup.32 d0, r1; vmrs APSR_nzcv, fpscr; vmaxnm.f32 s0, s1, s2; vmov.i32 d0, #0""",
    "vector 2": """
        vmla.f32 q0, q1, q2; vfma.f32 q0, q1, q2; vmul.f32 q0, q1, d4[0]; vpadal.s16 q0, q1; vpaddl.u8 q0, q1
        vqdmulh.s32 q0, q1, q2; vqrdmulh.s32 q0, q1, d4[0]; vrshl.s32 q0, q1, q2; vqshl.s32 q0, q1, #3
        vshr.s32 q0, q1, #4; vmax.f32 q0, q1, q2; vorr q0, q1, q1; vmov.i32 q0, #0; vext.8 q0, q1, q2, #4
        vdup.32 q0, r1; vdup.32 q0, d1[0]; vcvt.f32.s32 q0, q1; vrev64.32 q0, q1; vceq.i32 q0, q1, #0
        vtrn.32 d0, d1""",
    "vector 4": "vuzp.32 q0, q1; vzip.16 q0, q1; vtrn.32 q0, q1; vswp q0, q1",
    "divide": """
        sdiv r0, r1, r2; udivne r0, r1, r2; vdiv.f32 s0, s1, s2; vdiveq.f64 d0, d1, d2; vsqrt.f64 d0, d1""",
}


@dataclass(frozen=True)
class Isa:
    """How one is assembled, and what is expected by pipe and slots."""

    name: str
    triple: str
    prologue: str
    expected: dict


ISAS = [
    Isa("arm", "arm-linux-musleabihf", ".arm\n.arch armv8-a\n.fpu crypto-neon-fp-armv8", ARM),
]


class Usage(ctypes.Structure):
    _fields_ = (
        ("slots", ctypes.c_uint32 * len(PIPES)),
        ("loads", ctypes.c_uint32),
        ("stores", ctypes.c_uint32),
        ("beyond_l1", ctypes.c_bool),
    )


def zig(*words):
    subprocess.run([sys.executable, "-m", "ziglang", *map(str, words)], check=True, timeout=300)


def classifier(isa, folder):
    """The function that ``isa_NAME`` names first."""
    source, path = CLOCK_SOURCES / f"classify_{isa.name}.c", folder / "classify.so"
    zig("cc", "-shared", "-fPIC", "-O1", "-nostdlib", source, "-o", path)
    address = ctypes.c_void_p.in_dll(ctypes.CDLL(str(path)), f"isa_{isa.name}").value
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(Usage))(address)


def assembled(isa, lines, folder):
    """The lines' instructions."""
    (folder / "a.s").write_text("\n".join([isa.prologue, *lines]) + "\n")
    zig("cc", "-target", isa.triple, "-c", folder / "a.s", "-o", folder / "a.o")
    zig("ld.lld", "--oformat=binary", "-Ttext=0x10000", "-e0", folder / "a.o", "-o", folder / "a.bin")
    code = (folder / "a.bin").read_bytes()
    return [code[at : at + 4] for at in range(0, len(code), 4)]


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_instructions_take_their_pipes(isa, tmp_path):
    expected = {}
    for what, text in isa.expected.items():
        for line in filter(None, (part.strip() for row in text.splitlines() for part in row.split(";"))):
            expected[line] = (dict.fromkeys(PIPES, 0), "load" in what, "store" in what)
            for part in what.split(","):
                pipe, _, slots = part.strip().partition(" ")
                expected[line][0][pipe] = int(slots or 1)
    found, classify = {}, classifier(isa, tmp_path)
    for line, code in zip(expected, assembled(isa, list(expected), tmp_path), strict=True):
        usage = Usage()
        classify(code, len(code), usage)
        found[line] = dict(zip(PIPES, usage.slots, strict=True)), usage.loads > 0, usage.stores > 0
    assert found == expected

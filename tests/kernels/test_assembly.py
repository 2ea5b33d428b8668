"""Hot loops of all instruction sets, counted by hand."""

from __future__ import annotations

import pytest

from kernels.explain.assembly import HotLoop, hot_loop

X86 = """
.LBB0_1:                                # the outer loop
	vxorps	%xmm0, %xmm0, %xmm0
	.p2align	4
.LBB0_2:                                #   Parent Loop BB0_1 Depth=1
	vbroadcastss	(%rsi,%rcx), %ymm2
	vfmadd231ps	(%rdi), %ymm2, %ymm0    # ymm0 = (ymm2 * mem) + ymm0
	vfmadd231ps	%ymm3, %ymm2, %ymm1
	vmovups	%ymm1, 32(%rsp)                 # 32-byte Spill
	movq	8(%rsp), %rdx
	leaq	4(%rdi), %rdi
	jne	.LBB0_2
	vmovups	%ymm0, (%rdx)
	vfmadd231ps	%ymm3, %ymm2, %ymm1
	jne	.LBB0_1
.LBB0_3:
	vmulps	%ymm1, %ymm1, %ymm1
	vfmadd231ps	%ymm3, %ymm2, %ymm1
	vfmadd231ps	%ymm3, %ymm2, %ymm1
	vmovups	%ymm1, (%rdx)
	vmovups	%ymm1, 32(%rdx)
	jne	.LBB0_3
"""
ARM = """
.LBB3_3:
	ldp	q11, q10, [x20, #-16]
	ldr	s12, [sp, #8]
	fmla	v1.4s, v11.4s, v12.s[0]
	fmla	v2.4s, v10.4s, v12.s[0]
	str	q2, [sp, #32]                   // 16-byte Folded Spill
	ldr	x9, [sp, #16]
	b.ne	.LBB3_3
"""
ARM32 = """
.LBB3_3:                                @ =>This Inner Loop Header: Depth=1
	vld1.32	{d16[], d17[]}, [r2:32]!
	add	r3, sp, #376
	vfma.f32	q9, q8, q10
	vstmia	r3, {d18, d19}
	mov	r3, r4
	vfma.f32	q11, q8, q12
	vstmia	r3, {d22, d23}
	add	lr, sp, #16
	ldr	r5, [sp, #8]
	vld1.64	{d18, d19}, [lr:128]
	bne	.LBB3_3
"""
POWER = """
.LBB3_3:
	lxvwsx 63, 16, 10
	lxv 62, -32(17)
	xvmaddasp 0, 63, 62
	xvmaddasp 1, 63, 62
	stxv 1, 64(1)
	bdnz .LBB3_3
"""
HEXAGON = """
	{
		loop0(.LBB3_3,#16)
	}
.LBB3_3:
	{
		r24 = add(r1,r2)
		r26 = memw(r1+r2<<#0)
		memw(r29+#4) = r2
	}
	{
		r16 += sfmpy(r25,r2)
		r5:4 = memd(r24+#8)
	} :endloop0
"""
RISCV = """
.LBB3_3:                                # =>This Inner Loop Header: Depth=1
	addi	a5, a2, 32
	vle32.v	v6, (a2)
	flw	fa5, -12(a0)
	ld	a3, 8(sp)                       # 8-byte Folded Reload
	vfmacc.vf	v9, fa5, v6
	vfmadd.vv	v10, v9, v6
	addi	a6, sp, 96
	vs1r.v	v9, (a6)                        # vscale x 8-byte Folded Spill
	vl1r.v	v9, (a6)                        # vscale x 8-byte Folded Reload
	vse32.v	v10, (a5)
	vfadd.vv	v10, v9, v6
	bne	a2, t3, .LBB3_3
"""


@pytest.mark.parametrize(
    ("triple", "text", "products", "expected"),
    [
        # Instructions, multiply-adds, bits, loads, stores, spills, reloads, those of vectors.
        ("x86_64-linux-gnu", X86, 16, (7, 2, 256, 3, 1, 1, 1, 1, 0)),
        ("aarch64-linux-gnu", ARM, 8, (7, 2, 128, 3, 1, 1, 2, 1, 1)),
        ("armv7-linux-gnueabihf", ARM32, 8, (11, 2, 128, 3, 2, 1, 2, 1, 1)),
        ("powerpc64le-linux-gnu", POWER, 8, (6, 2, 128, 2, 1, 1, 0, 1, 0)),
        ("hexagon-unknown-linux-musl", HEXAGON, 1, (5, 1, 32, 2, 1, 1, 0, 0, 0)),
        ("riscv64-linux-gnu", RISCV, 16, (12, 2, 256, 4, 2, 1, 2, 1, 1)),
    ],
)
def test_counts(triple: str, text: str, products: int, expected: tuple[int, ...]) -> None:
    loop = hot_loop(text, triple, products)
    assert isinstance(loop, HotLoop)
    found = (loop.instructions, loop.multiply_adds, loop.vector_bits, loop.loads, loop.stores)
    assert (*found, loop.spills, loop.reloads, loop.vector_spills, loop.vector_reloads) == expected


def test_no_loop_and_no_such_instruction_set() -> None:
    assert hot_loop("\tvfmadd231ps\t%ymm3, %ymm2, %ymm1\n\tretq\n", "x86_64-linux-gnu", 8) is None
    with pytest.raises(ValueError, match="cannot read the assembly of sparc64"):
        hot_loop("", "sparc64-linux-gnu", 8)


@pytest.mark.parametrize(
    ("triple", "multiply_adds"),
    [
        ("x86_64-linux-gnu", ["vpmaddubsw %ymm0, %ymm2, %ymm3", "vpmaddwd %ymm1, %ymm3, %ymm3"]),
        ("x86_64-linux-gnu", ["{vex} vpdpbusd (%rdi), %xmm2, %xmm0"]),
        ("aarch64-linux-gnu", ["umull2 v4.8h, v0.16b, v1.16b", "umlal v4.8h, v0.8b, v1.8b"]),
        ("aarch64-linux-gnu", ["smlal v4.4s, v0.4h, v1.h[2]"]),
        ("arm-linux-gnueabihf", ["vmull.s8 q8, d0, d1", "vmlal.s8 q8, d2, d3", "vmlal.s16 q9, d0, d2[1]"]),
        ("aarch64-linux-gnu", ["sdot v4.4s, v0.16b, v1.4b[0]", "ummla v4.4s, v0.16b, v1.16b"]),
    ],
)
def test_integers_multiply_and_add_too(triple: str, multiply_adds: list[str]) -> None:
    """Beside what only adds, widens or computes addresses."""
    others = {"x": ["vpaddd %ymm3, %ymm4, %ymm4", "vpmuldq %ymm3, %ymm4, %ymm4"], "a": ["add x0, x0, #8"]}
    lines = [
        ".LBB0_1:",
        *multiply_adds,
        *others[triple[0]],
        "jne .LBB0_1" if triple[0] == "x" else "b.ne .LBB0_1",
    ]
    loop = hot_loop("\n".join(lines), triple, 1)
    assert loop is not None
    assert loop.multiply_adds == len(multiply_adds)
    assert loop.vector_bits == (128 if "xmm" in multiply_adds[0] or triple[0] == "a" else 256)

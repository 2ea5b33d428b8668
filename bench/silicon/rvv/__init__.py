"""RISC-V's vector instructions: what a SpacemiT X60 measured, and the clock's prices of it."""

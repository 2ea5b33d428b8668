"""The workbench of all kernels: functions of TIR, vectors, shares of work, padding, the machine model."""

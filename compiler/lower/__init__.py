"""Operators become functions of TVM: it is imported from here down."""

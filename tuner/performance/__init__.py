"""What built models take on simulated boards, kept and compared: performance as a test."""

"""What real silicon measured, beside what the simulated clocks say."""

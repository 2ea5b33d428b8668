"""What a job of a model gains, and whether it says so: beside a stopwatch of the bench's own."""

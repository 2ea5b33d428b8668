"""Products of two activations: batches of matrices that lie anyhow."""

"""LSTM, GRU and RNN in one direction, step by step."""

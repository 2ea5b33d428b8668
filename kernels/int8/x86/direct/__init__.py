"""Direct quantized convolution by vpmaddwd, vpmaddubsw and VNNI."""

"""The bench of what leaving a size open costs."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.open_sizes import main


def test_it_prints_a_ratio_for_each_length(tmp_path, capsys):
    weights = numpy_helper.from_array(np.ones((8, 24), np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "test", [x], [y], [weights])
    file = tmp_path / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file.write_bytes(made.SerializeToString())
    main([str(file), "--shape", "x=1..20,8", "--lengths", "3,20", "--seconds", "0.05"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["length", "open", "ms", "fixed", "ms", "ratio"]
    assert [int(row.split()[0]) for row in rows] == [3, 20]
    assert all(float(row.split()[3]) > 0 for row in rows)

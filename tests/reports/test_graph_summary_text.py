"""The summary of a program graph as people read it."""

from __future__ import annotations

from codesign_opt.graphs import GraphBuilder, graph_summary
from codesign_opt.reports.graph_summary import graph_summary_text


def test_a_loop_with_a_collective() -> None:
    builder = GraphBuilder("step\n")
    loop = builder.instruction(builder.subroutine("main"), "loop", "while")
    body = builder.subroutine("body", caller=loop, count=4)
    compute = builder.instruction(body, "compute", "delay", seconds=0.5, ops=2e12, bytes_in=1024.0)
    builder.instruction(body, "gather", "all-gather", operands=[compute], groups=[[0, 1], [2, 3]], bytes_out=2.0**30)
    condition = builder.subroutine("condition", caller=loop, count=4)
    builder.instruction(condition, "test", "delay")
    text = graph_summary_text(graph_summary(builder.build()))
    assert text == "\n".join(
        [
            "graph 'step\\n' of all processors",
            "instructions: 4, executed 13 times",
            "subroutines: 3, at most 2 one inside the other",
            "processors: 4 in 2 different communication groups",
            "longest chain of compute: 2 s",
            "",
            "opcode      class       instructions  executed  seconds      ops  transcendentals  memory  communicated",
            "----------  ----------  ------------  --------  -------  -------  ---------------  ------  ------------",
            "delay       general                2         8      2 s  8 Tflop                0   4 KiB           0 B",
            "while       control                1         1      0 s   0 flop                0     0 B           0 B",
            "all-gather  collective             1         4      0 s   0 flop                0     0 B         4 GiB",
            "",
            "class       instructions  executed  seconds      ops  transcendentals  memory  communicated",
            "----------  ------------  --------  -------  -------  ---------------  ------  ------------",
            "general                2         8      2 s  8 Tflop                0   4 KiB           0 B",
            "control                1         1      0 s   0 flop                0     0 B           0 B",
            "collective             1         4      0 s   0 flop                0     0 B         4 GiB",
            "",
            "loop  depth  body  condition  executed",
            "----  -----  ----  ---------  --------",
            "loop      1     4          4         1",
        ]
    )


def test_one_processor_without_loops() -> None:
    builder = GraphBuilder("g", 7)
    builder.instruction(builder.subroutine("main"), "x", "delay")
    text = graph_summary_text(graph_summary(builder.build()), width=60)
    assert text.startswith("graph 'g' of processor 7\n")
    assert "loop" not in text
    assert max(len(line) for line in text.splitlines()) <= 60

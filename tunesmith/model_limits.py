"""How large an imported model may be: limits that stop a small file from occupying a worker."""

from __future__ import annotations

MAX_NODES = 50_000
"""Operators of a model after its functions are written out, those of branches and loops included."""
MAX_OPERANDS = 4_096
"""Inputs, or outputs, of one operator."""
MAX_EDGES = 1_000_000
"""Inputs and outputs of all operators together, after functions are written out."""
MAX_FUNCTIONS = 10_000
"""Functions that a model defines."""
MAX_CALL_DEPTH = 64
"""Functions that call functions, one inside the other."""
MAX_RANK = 64
"""Dimensions of one tensor."""
MAX_ELEMENTS = 2**31 - 1
"""Elements of one tensor: beyond it 32-bit indices overflow."""
MAX_TENSOR_BYTES = 4 << 30
"""Bytes of one tensor that a model stores, takes or computes."""
MAX_UNFOLDED_BYTES = 512 << 20
"""Bytes of one constant that the model computes from less, such as by ``Expand``."""
MAX_UNFOLDED_TOTAL = 4 << 30
"""Bytes of all such constants together."""
WIDENING = 8
"""A constant up to this many times the bytes it is made of is no unfolded one: 4-bit weights become float32."""
MAX_ENTRIES = 100_000
"""Entries of an archive."""
MAX_PROGRAM_BYTES = 256 << 20
"""Bytes of the text that describes a PyTorch program, without weights."""
MAX_JSON_NODES = 2_000_000
"""Nodes of a program in TVM's JSON."""

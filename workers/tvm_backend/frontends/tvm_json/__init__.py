"""Modules and functions of TVM, as the JSON that ``tvm.ir.save_json`` writes."""

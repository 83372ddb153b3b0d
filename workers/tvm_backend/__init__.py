"""Everything that imports TVM."""

"""Loop nests of sketches, with extents as functions of the decisions."""

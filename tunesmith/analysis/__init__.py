"""A static model of candidates: what a schedule costs, from its decisions alone, for a whole batch at once."""

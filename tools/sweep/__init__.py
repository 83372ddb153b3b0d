"""Published cases of operators through import, compilation and comparison."""

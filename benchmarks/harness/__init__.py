"""What every benchmark uses: the measurer, the comparison, progress, and reports."""

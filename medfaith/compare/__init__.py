"""Models on the same rows: `answers` has a figure a row, `pairs` what may be compared, `tables` the differences."""

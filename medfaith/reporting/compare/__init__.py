"""Models on the same rows: `pairs` selects what may be compared, `tables` has the differences."""

"""The report as one HTML file, which needs no network: `write.page` makes it."""

"""The report as one HTML file that needs no network; `write.render_page` builds it."""

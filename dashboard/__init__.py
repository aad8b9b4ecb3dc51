"""The tab in the dashboard of the host: what it shows, and the page itself."""

"""Call a live URL: the requests, the comparison with a plan, and the findings."""

"""Results for people and programs: one file per format, and the pages in HTML."""

"""The candidates, each written as in the documentation of its framework."""

"""The cost of the library, compared with the cost of the same work in other ways: `make
bench`.
"""

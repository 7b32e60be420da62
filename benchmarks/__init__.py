"""What the library costs, next to what others pay for the same work: `make bench`."""

"""The runtime and the libraries."""

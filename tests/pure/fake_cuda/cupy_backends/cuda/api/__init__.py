"""CUDA's runtime."""

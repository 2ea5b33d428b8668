"""Builds and measurements over Dask."""

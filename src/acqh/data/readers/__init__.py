"""Readers of files: .npz, folders of .npy, Matlab, Parquet and Arrow, CSV, vectors."""

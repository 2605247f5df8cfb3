"""Tables of predictions in files: CSV, parquet, feather and NumPy, read and written in chunks."""

"""What a file of predictions says: its metrics, chunk by chunk, and the calibration report as one HTML page."""

"""Files in and out: prediction sets, tables of predictions, calibrators as JSON.

Shared by the benchmark and the command line, so that a format is read in one place.
"""

"""Work on files of predictions: fit, apply, evaluate, watch, and the rows of a report.

The command line parses, calls a function of this room and prints what it returns; reports are made from its rows.
"""

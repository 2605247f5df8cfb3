"""Files in and out: tables of predictions, prediction sets, stored calibrators."""

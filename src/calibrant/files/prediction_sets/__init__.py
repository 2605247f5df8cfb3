"""Prediction sets: experiments with a calibration and a test part, whatever file they come from."""

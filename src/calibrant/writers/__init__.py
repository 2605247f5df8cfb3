"""Writers of fitted maps, one per target; each knows the steps and no calibrator."""

"""The methods of the softmax engine beside probmetrics, by name."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import get_calibrator
from tests.needs import needs
from tests.samples import binary_sample, columns, mean_log_loss, quiet, sharpened

PEERS = {
    "ts-unsmoothed": ("temperature_scaling", "TemperatureScalingCalibrator", {}, 4),
    "svs": ("logistic", "SVSCalibrator", {}, 4),
    "sms": ("logistic", "SMSCalibrator", {}, 4),
    "linear": ("logistic", "BinaryLogisticCalibrator", {"type": "linear"}, 2),
    "affine": ("logistic", "BinaryLogisticCalibrator", {"type": "affine"}, 2),
    "quadratic": ("logistic", "BinaryLogisticCalibrator", {"type": "quadratic"}, 2),
}


@pytest.mark.peer
@pytest.mark.parametrize("name", PEERS)
def test_beside_probmetrics(name):
    module, attribute, parameters, k = PEERS[name]
    with quiet():
        peers = needs(f"probmetrics.calibrators.{module}")
        if k == 2:
            p, y = binary_sample(1500)
            p = columns(p)
        else:
            p, y = sharpened(1500, k)
        expected = getattr(peers, attribute)(**parameters).fit(p, y).predict_proba(p)
    ours = get_calibrator(name).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(ours, expected, atol=2e-3)
    assert mean_log_loss(ours, y) <= mean_log_loss(expected, y) + 1e-5

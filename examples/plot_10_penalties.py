"""
Ridge, lasso and MCP
====================

Structured matrix scaling pays for every departure from temperature scaling. A ridge makes all of them small;
lasso and MCP set most of them to zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import SMSCalibrator
from calibrant.bench import load_embedded
from calibrant.metrics import correction_matrix
from calibrant.plots import CorrectionMatrixDisplay

data = load_embedded("storms", "LR")
p, y = data.probas_cal, data.labels_cal

corrections = {
    name: correction_matrix(SMSCalibrator(penalty=name).fit(p[:1000], y[:1000])) for name in ("ridge", "lasso", "mcp")
}
largest = max(np.abs(correction.matrix).max() for correction in corrections.values())
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for ax, (name, correction) in zip(axes, corrections.items()):
    display = CorrectionMatrixDisplay(correction).plot(ax, values=False, colorbar=False)
    display.im_.set_clim(-largest, largest)
    ax.set(title=f"{name}: {np.mean(np.abs(correction.matrix) < 1e-8):.0%} zeros")
_ = figure.colorbar(display.im_, ax=axes, label="matrix minus identity")

# %%
# **What to see.** With 1000 rows and nine classes most corrections are noise. Lasso and MCP keep about one in
# ten, on the diagonal and where two neighbouring kinds are confused; MCP does not shrink those that it keeps. The
# ridge keeps all, small.

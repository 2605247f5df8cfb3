"""
A first look
============

Naive Bayes treats pixels as independent and is therefore far too sure of the digits it reads. One calibrator
repairs that.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import AutoCalibrator
from calibrant.plots import BeforeAfterDisplay

X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)
model = GaussianNB().fit(X_train, y_train)

calibrator = AutoCalibrator().fit(model.predict_proba(X_cal), y_cal)
_ = BeforeAfterDisplay.from_estimator(calibrator, model.predict_proba(X_test), y_test)

# %%
# **What to see.** Before, the filter of evidence says nearly 100 % for almost every digit and is right in far
# fewer cases: the curve lies far below the diagonal. After, predicted and observed agree within the grey band of
# chance, and the histogram below shows that the model now also says when it is not sure.

"""
Probabilities for a support vector machine
==========================================

A linear support vector machine has no probabilities at all. `CalibratedClassifier` makes them from its
decision values.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from calibrant import CalibratedClassifier
from calibrant.plots import ReliabilityDisplay

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
model = CalibratedClassifier(make_pipeline(StandardScaler(), LinearSVC(random_state=0)), method="logistic")
_ = ReliabilityDisplay.from_estimator(model.fit(X_train, y_train), X_test, y_test, name="calibrated SVM")

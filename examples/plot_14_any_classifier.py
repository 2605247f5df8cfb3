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

data = load_breast_cancer()
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
model = CalibratedClassifier(make_pipeline(StandardScaler(), LinearSVC(random_state=0)), method="logistic")
_ = ReliabilityDisplay.from_estimator(model.fit(X_train, y_train), X_test, y_test, name="calibrated SVM")

# %%
# **What to see.** With 284 rows to learn from, and as many to test, the curve stays within the band: the decision
# values of the support vector machine have become probabilities of *malignant*. The long flat steps are where hardly
# a row lies, as the histogram shows.

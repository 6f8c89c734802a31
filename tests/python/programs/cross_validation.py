"""scikit-learn's cross-validation on joblib's multiprocessing backend."""

import joblib
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score


def main():
    features, labels = make_classification(2_000, 30, random_state=1)
    with joblib.parallel_backend("multiprocessing", n_jobs=2):
        print(cross_val_score(LogisticRegression(max_iter=500), features, labels, cv=4))
        forest = RandomForestClassifier(10, random_state=1)
        search = GridSearchCV(forest, {"max_depth": [2, 4]}, cv=3).fit(features, labels)
    print(search.best_params_, np.round(search.cv_results_["mean_test_score"], 6))


if __name__ == "__main__":
    main()

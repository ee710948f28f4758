"""Published configurations, as parameters of the estimators; `from_preset` gives them."""

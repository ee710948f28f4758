"""Tests of skop.estimators."""

"""Tests of skop.training."""

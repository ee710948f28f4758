"""Tests of skop.data."""

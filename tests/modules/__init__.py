"""Tests of skop.modules."""

"""Tests of skop.networks."""

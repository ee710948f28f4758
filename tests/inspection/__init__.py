"""Tests of skop.inspection."""

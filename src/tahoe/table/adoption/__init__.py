"""Versions made of files that exist: RESTORE, CLONE, CONVERT."""

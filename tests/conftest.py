"""What all suites share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Machines are shared: how long an example takes says nothing. The slow proofs run with more examples by `--hypothesis-profile=thorough`.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=60, **_patient)
settings.register_profile("thorough", max_examples=2000, **_patient)
settings.load_profile("quick")

"""The policy of the retirement, as configuration that an operator changes without touching code."""

NOTIFICATIONS_DEPRECATED_AT = "2026-01-01T00:00:00Z"
NOTIFICATIONS_SUNSET_AT = "2027-07-01T00:00:00Z"
NOTIFICATIONS_DOCUMENTATION = "/docs/retirement"

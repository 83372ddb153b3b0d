"""Libraries on devices: sessions, timing, and whether outputs are right."""

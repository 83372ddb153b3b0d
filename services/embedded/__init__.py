"""Every process of the service on one machine, supervised: ``tunesmith up``."""

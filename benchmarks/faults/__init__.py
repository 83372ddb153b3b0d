"""What faults cost: real servers and workers, invented devices."""

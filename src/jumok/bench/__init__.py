"""Throughput and memory under one fixed protocol; `measure` also times the peers of bench/peers/."""

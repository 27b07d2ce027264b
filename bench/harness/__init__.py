"""What bench/speed.py is made of: jobs, running them, keeping results, reports, plots."""

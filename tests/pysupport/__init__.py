"""What the Python tests share: where things are, running the program, making toy models."""

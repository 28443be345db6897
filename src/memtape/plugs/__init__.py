"""What the host supplies, each behind a narrow protocol with a plain default."""

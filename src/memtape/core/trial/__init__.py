"""Does memory change what a decision maker gets? Arms with and without memory on the same bars, compared week by week."""

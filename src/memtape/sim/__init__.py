"""Paper trading on recorded bars: the same engine calls as live, from values that a broker would have sent."""

"""Tools of the source checkout; none of them is part of the installed package."""

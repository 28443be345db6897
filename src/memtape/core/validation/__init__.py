"""Does memory help? Approaches to sizing, their accounts, and the statistics that judge them. Pure; chance is passed in."""

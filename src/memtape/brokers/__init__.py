"""Files and accounts of brokers, exchanges and bots -> observed values.

`formats` reads files, one module per format; `live` reads accounts.
"""

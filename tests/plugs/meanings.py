"""Notes, each with one that means the same in other words and one of another matter: what any embedder must tell apart."""

ALIKE = [
    ("stop loss too tight", "got stopped out by noise", "funding rates flipped negative"),
    ("moved the stop too early", "trailing stop was hit before the trend resumed", "opened a new account at the broker"),
    ("bought the breakout above resistance", "long after price cleared the prior high", "the conference call was postponed"),
    ("sized too large after losses", "revenge trading with a double position", "gold rallied on inflation data"),
    ("the Fed raised interest rates", "central bank hiked its policy rate", "the bot crashed with a timeout error"),
]

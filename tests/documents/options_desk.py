"""An invented workspace of a desk that trades index options, and questions with the lines that answer them.

Half of the questions ask why something was given up; for each of these, other notes use it or say the same of something else.
"""

from __future__ import annotations

NOTES = {
    "RULES.md": """\
# Rules of the desk

1. No naked short calls, ever.
2. Margin in use stays below 45 % of equity at the close.
3. A short strangle is closed at twice the credit received, without discussion.
4. No new short premium in the two days before an FOMC decision.
5. Delta of the whole book stays between -0.35 and +0.35 per 100k of equity.
6. Orders above 20 lots are worked with a limit at mid, never at market.
7. One strategy may not use more than a third of the margin.
8. Overnight gaps are measured each morning before the first order.
""",
    "decisions/2026-01-iron-condors.md": """\
# Weekly iron condors on SPX

Status: in use.

We sell the 16 delta condor on Monday, 9 days to expiry, width 50 points. Take half of the credit as profit. Using the wings keeps the
margin known. Review again in summer.
""",
    "decisions/2026-02-0dte.md": """\
# 0DTE put spreads

Retired on 12 February. Three stops in five sessions ran through their limit by more than the credit: the fill at the stop is not ours to
choose in the last hour. The average day made 0.4 R and the bad one cost 6 R.
""",
    "decisions/2026-03-calendar-spreads.md": """\
# Calendar spreads

Calendars on single names: dropped. Earnings moved the front month against us and the back month did not pay for it. On the index they
stay allowed, at half size.
""",
    "decisions/2026-03-vix-hedge.md": """\
# Tail hedge with VIX calls

Bought each month for 0.25 % of equity, 25 delta, 60 days. It stays although it loses in most months: it lets us carry the condors
through August. Roll when 30 days remain.
""",
    "decisions/2026-04-delta-hedging.md": """\
# Delta hedging with ES futures

From hourly to once a day at 15:30. The hourly hedge paid 11 ticks of spread per day and did not lower the variance of the book by more
than a twentieth.
""",
    "decisions/2026-04-broker.md": """\
# Change of broker

We leave Halden for Corvin. Halden raised the margin on short strangles overnight without notice on 3 April and closed two of our
positions at the low. Corvin takes 0.65 per contract, Halden took 0.50.
""",
    "decisions/2026-05-ratio-spreads.md": """\
# Ratio spreads

No longer traded. The extra short put made the book short a crash exactly when the hedge ran off. Margin rose fourfold on 7 May.
""",
    "decisions/2026-05-earnings-straddles.md": """\
# Earnings straddles

Decision of 20 May: we do not sell straddles over earnings any more. 31 trades, 58 % winners, mean -0.12 R; the four losers above 5 R
were all names with a guide cut. Data in research/earnings-straddles.md.
""",
    "decisions/2026-06-gamma-scalping.md": """\
# Gamma scalping

Abandoned: the desk has no one at the screen between 11 and 14 o'clock, and that is when half of the moves were missed. Theta was paid in
full.
""",
    "decisions/2026-06-position-limits.md": """\
# Limits per expiry

No expiry may hold more than 40 % of the vega. The June expiry had 71 % and we could not get out in one morning.
""",
    "decisions/2026-07-wheel.md": """\
# The wheel on small caps

Removed from the playbook in July. Assigned shares tied up the margin for weeks, and the calls sold against them were under the cost
price. Two names halved.
""",
    "decisions/2026-08-moving-average-filter.md": """\
# Trend filter

The 50 day average as an entry filter for put sales is disabled since 4 August. It kept us out of the whole rally after the June low and
lowered the drawdown by only 0.7 points.
""",
    "decisions/2026-09-auto-roll.md": """\
# Automatic rolling

The script that rolled tested strikes at 21 days was switched off. It rolled into the same expiry twice on 2 September because the first
fill was reported late.
""",
    "decisions/2026-09-dispersion.md": """\
# Dispersion trade

Not started. Needs 30 legs and the mid is a fiction in half of them. Ask again when equity is above two million.
""",
    "research/earnings-straddles.md": """\
# Straddles over earnings, 2023 to 2026

We use the close before the report for the entry and the open after it for the exit. The implied move was larger than the real one in
58 % of cases. Selling straddles over earnings looks good on the mean of the small names and bad on the tail.
Using a straddle with wings lowers the tail by two thirds and takes away 40 % of the credit.
""",
    "research/vol-of-vol.md": """\
# Does vol of vol warn?

VVIX above 120 came before 9 of 11 spikes, with a lead of one to four days; also before 23 days on which nothing happened. Usable as a
reason to halve, not as a reason to exit.
""",
    "research/skew.md": """\
# Skew as a signal

25 delta risk reversal, z-score over a year. Below -1.5 put spreads earned 0.31 R on average (n = 44), otherwise 0.09 R. The effect is
gone when the spread is charged in full on both sides.
""",
    "research/gap-study.md": """\
# Overnight gaps

61 % of the losses of the condor come from gaps of more than 1 %. Buying the wing at 3.40 p.m. and selling it at the open costs more than
it saves.
""",
    "research/hedge-frequency.md": """\
# How often to hedge

Hourly delta hedging against once a day, 14 months. The variance is 4.6 % lower with the hourly hedge. Using ES is cheaper than using SPY
shares. The hourly delta hedge was used on all days of the sample.
""",
    "research/iv-rank.md": """\
# IV rank as an entry

An IV rank over 50 raises the win rate of the strangle from 71 to 78 % but halves the number of trades. Net gain per year: none.
""",
    "research/roll-timing.md": """\
# When to roll

Rolling at 21 days against holding to expiry: lower variance, same mean. Using an automatic roll makes it the same on all accounts. We
keep using the 21 day roll in the tests.
""",
    "research/0dte-fills.md": """\
# Fills of 0DTE spreads

We use the 0DTE put spread as the sample because its fills are many: 412 orders. Mid minus 0.05 fills in 83 % of cases before noon and
in 41 % after 15:00. Using 0DTE data for other tenors needs care.
""",
    "log/2026-02.md": """\
# February 2026

## 3 February
Sold 12 condors 6900/6950/7250/7300 for 9.20. Used the 0DTE put spread for 8 lots in the morning, +0.4 R.

## 9 February
0DTE put spreads stopped out at 3.90, stop was 2.80. Kept using the condor. VIX 21.

## 17 February
Bought back the condor for 4.10, profit 5.10 per lot. No errors.
""",
    "log/2026-04.md": """\
# April 2026

## 3 April
Halden closed two short strangles at 14:52 because of its new margin. Loss 3.1 R. ERR_MARGIN_4417 in the log of the gateway.

## 8 April
First trade at Corvin: sold 6 strangles 6600/7200 for 31.00.

## 22 April
Used the hourly delta hedge one last time, 14 trades in ES. Stop at 6980 was not reached.
""",
    "log/2026-05.md": """\
# May 2026

## 7 May
Using ratio spreads 6700/6500 x 2. Margin went from 88k to 350k in an hour. Closed at -4.2 R.

## 19 May
Straddle on NVDA over earnings: +1.1 R. Straddle on TGT over earnings: -7.3 R, guide cut.

## 28 May
Quiet. Sold 9 calendars on SPX at 14.30.
""",
    "log/2026-06.md": """\
# June 2026

## 10 June
Gamma scalping long 20 straddles, flat at noon, used ES for the hedge. Missed the move at 12:40.

## 18 June
June expiry: 71 % of the vega in one date. Could only sell half before 10:30.

## 24 June
The wheel: assigned 600 shares of PLUG, wrote calls at 5. Using the wheel on SOFI as well.
""",
    "log/2026-08.md": """\
# August 2026

## 4 August
VIX 38 at the open. The tail hedge paid 2.9 R, the condors lost 3.3 R. Nothing was closed in panic.

## 13 August
We still use a moving average on the chart as a guide for the eye. Sold 10 put spreads.

## 27 August
Auto roll used on all four strangles, fine.
""",
    "log/2026-09.md": """\
# September 2026

## 2 September
The roll ran twice. 8 lots too many in the October expiry until 11:15, cost 0.6 R.

## 16 September
No new premium before the Fed. Watched.

## 25 September
Strangle 6900/7400 hit twice its credit, closed for 62.00. Rule 3 followed.
""",
    "reviews/2026-W07.md": """\
# Week 7

P&L -2.1 R. The worst day was Monday with the 0DTE stops. Three rules kept, rule 6 broken once: 24 lots at market, slippage 0.35.
Next week: smaller, and no spreads in the last hour.
""",
    "reviews/2026-W19.md": """\
# Week 19

P&L -5.0 R, the worst week of the year. Ratio spreads 4.2 R of it. Margin at the close was 58 %, rule 2 broken. Next week half size in
everything until the loss is half recovered.
""",
    "reviews/2026-W32.md": """\
# Week 32

P&L -0.4 R in a week with VIX at 38. The hedge did what it is for. The trend filter again kept us out on Thursday and Friday.
""",
    "reviews/2026-W39.md": """\
# Week 39

P&L +1.2 R. Strangle closed by rule 3. Two days without any trade, on purpose. Next: write the check that a roll has not been sent yet.
""",
    "playbook/condor.md": """\
# How to trade the condor

1. Monday 10:00, 9 days, 16 delta.
2. Use a limit at mid, lower by 0.05 every two minutes, at most four times.
3. Stop using the ladder when the spread of the quote is wider than 1.20: wait.
4. Profit order at half the credit from the start.
""",
    "playbook/strangle.md": """\
# How to trade the strangle

Sell 45 days, 12 delta on both sides. Use IV rank only for the size. Roll a tested side once, never twice. Stop: twice the credit.
""",
    "playbook/morning.md": """\
# Each morning

Measure the gap. Read margin, delta, vega by expiry. Look at the calendar for Fed, CPI and jobs. If VVIX is above 120, halve new trades.
""",
    "playbook/wheel-notes.md": """\
# Notes on the wheel

We use the wheel on names that we want to own. Why we use it: it pays while we wait. Sell the 30 delta put, use the shares for calls.
""",
    "playbook/ratio.md": """\
# How to use ratio spreads

Use a ratio spread when skew is steep. Use one long and two short puts, 30 days. We use it instead of a put spread because it costs nothing.
""",
    "people.md": """\
# Who does what

Mara trades the index, Ilan the single names, Petra watches risk and signs every change of a limit. The script rolls are Ilan's.
""",
}

# Each with a part of every line that answers it.
QUESTIONS = {
    "why did we stop using 0DTE put spreads?": ("Retired on 12 February",),
    "why did we drop calendar spreads on single names?": ("Calendars on single names: dropped",),
    "why did we stop the hourly delta hedge?": ("The hourly hedge paid 11 ticks",),
    "why did we leave Halden?": (
        "We leave Halden",
        "Halden raised",
    ),
    "why did we retire ratio spreads?": ("No longer traded",),
    "why did we stop using straddles over earnings?": ("we do not sell straddles over earnings any more",),
    "why was gamma scalping abandoned?": ("Abandoned: the desk",),
    "why did we stop using the wheel?": (
        "Removed from the playbook",
        "Assigned shares tied up",
    ),
    "why don't we use the moving average filter any longer?": ("is disabled since 4 August",),
    "why did we stop using the automatic roll?": ("was switched off",),
    "why did we never start dispersion?": ("Not started. Needs 30 legs",),
    "why did we drop the trend filter?": (
        "is disabled since 4 August",
        "kept us out of the whole rally",
    ),
    "when did we stop trading ratio spreads and what did it cost?": (
        "No longer traded",
        "Margin went from 88k",
    ),
    "what is our stop on a short strangle?": (
        "A short strangle is closed at twice",
        "Stop: twice the credit",
    ),
    "rule 5": ("Delta of the whole book stays",),
    "ERR_MARGIN_4417": ("ERR_MARGIN_4417",),
    "how much does the tail hedge cost us per month?": ("Bought each month for 0.25",),
    "does VVIX warn of a spike?": ("VVIX above 120 came before",),
    "how much of the condor's losses come from gaps?": ("61 % of the losses",),
    "what did the straddle on TGT do?": ("Straddle on TGT",),
    "how large may one expiry be in vega?": ("No expiry may hold more than",),
    "does a high IV rank pay?": ("An IV rank over 50",),
    "what did we lose when the roll ran twice?": (
        "8 lots too many",
        "The roll ran twice",
    ),
    "what are the fees at Corvin?": ("Corvin takes 0.65",),
    "why do we keep the VIX calls although they lose?": ("It stays although it loses",),
    "who signs a change of limits?": ("Mara trades the index",),
    "which rule did we break in week 7?": ("rule 6 broken once",),
    "how did the hedge do when VIX was 38?": (
        "The tail hedge paid 2.9 R",
        "The hedge did what it is for",
    ),
    "how well do 0DTE orders fill after three in the afternoon?": (
        "in 41 % after 15:00",
        "Mid minus 0.05 fills",
    ),
    "at which skew do put spreads pay?": (
        "Below -1.5 put spreads",
        "25 delta risk reversal",
    ),
}

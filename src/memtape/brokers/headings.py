"""The names of columns in files of MetaTrader, ccxt, Binance, Bybit, Hyperliquid, Alpaca, IBKR, freqtrade, Nautilus, own logs.

Names are compared in lower case, letters and digits only, without units in brackets and without a currency at the end. If a
file has several names of one field, the first in this list is used. Only whole names count: "profit" contains an `r` too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

FieldNames = Mapping[str, tuple[str, ...]]

_SHARED_FIELDS: FieldNames = {
    "symbol": ("symbol", "ticker", "pair", "market", "instrument", "instrumentid", "coin", "item", "contract", "product",
               "security", "asset", "underlying", "localsymbol"),
    "side": ("side", "buysell", "orderside", "tradeside", "direction", "dir", "action", "bs", "type", "transactiontype",
             "tradetype", "dealtype", "ordertype", "longshort", "ls", "positionside", "position",
             "entry", "transaction", "buyorsell"),
    "qty": ("qty", "quantity", "filledqty", "filledquantity", "executedqty", "execqty", "lastqty", "sz", "size", "shares",
            "volume", "lots", "contracts", "units", "filled", "executed", "closedsize", "positionsize", "entrysz", "entryqty",
            "entryquantity", "amount", "peakqty", "lotsize"),
    "fees": ("totalfees", "totalfee", "totalcommission", "totalcommissions", "fees", "fee", "commission", "commissions",
             "commfee", "execfee", "feecost", "tradingfee", "tradingfees", "feepaid", "ibcommission", "transactioncosts", "costs",
             "brokerage"),
    "fee_currency": ("feecurrency", "feecoin", "feeasset", "feetoken", "commissionasset", "commissioncurrency",
                     "ibcommissioncurrency", "feeccy"),
    "multiplier": ("multiplier", "contractsize", "contractmultiplier", "pointvalue"),
    "rate": ("fxratetobase", "fxrate", "exchangerate", "conversionrate"),
    "account": ("account", "accountid", "accountno", "accountnumber", "clientaccountid", "login", "wallet", "subaccount", "user",
                "userid", "model", "modelid", "agent", "agentid", "bot", "botname"),
    "strategy": ("strategy", "strategyname", "strategyid", "variant", "system", "algo", "algorithm", "magic", "magicnumber",
                 "playbook"),
    "tags": ("tags", "tag", "labels"),
    "status": ("status", "state", "orderstatus", "tradestatus"),
}  # fmt: skip

TRADE_FIELD_NAMES: FieldNames = {
    "id": ("tradeid", "id", "positionid", "ticket", "dealid", "tradenumber", "tradeno", "trade", "uuid", "position"),
    "entry_at": ("entryat", "entrytime", "entrydatetime", "entrytimestamp", "entrydate", "opentime", "opentimestamp", "openedat",
                 "openat", "opendatetime", "opendate", "timeopen", "dateopened", "tsopened", "openedtime", "entryhumantime",
                 "opened", "buytime", "buydate", "dateacquired", "boughtat", "starttime", "time", "datetime", "date"),
    "exit_at": ("exitat", "exittime", "exitdatetime", "exittimestamp", "exitdate", "closetime", "closetimestamp", "closedat",
                "closeat", "closedatetime", "closedate", "timeclose", "dateclosed", "tsclosed", "closedtime", "exithumantime",
                "closed", "selltime", "selldate", "datesold", "soldat", "endtime", "time2", "datetime2", "date2"),
    "entry_price": ("entryprice", "entrypx", "avgentryprice", "averageentryprice", "entryavgprice", "openprice", "openrate",
                    "priceopen", "avgpxopen", "avgopenprice", "openavgprice", "entry", "buyprice", "avgbuyprice", "costprice",
                    "price"),
    "exit_price": ("exitprice", "exitpx", "avgexitprice", "averageexitprice", "exitavgprice", "closeprice", "closerate",
                   "priceclose", "avgpxclose", "avgcloseprice", "closeavgprice", "exit", "sellprice", "avgsellprice", "price2"),
    **_SHARED_FIELDS,
    "is_short": ("isshort",),
    "is_open": ("isopen",),
    "pnl": ("realizedgrosspnl", "realisedgrosspnl", "grosspnl", "pnlgross", "grossprofit", "grosspl", "grossrealizedpnl",
            "pnl", "pl", "realizedpnl", "realisedpnl", "realizedprofit", "realizedpl", "realisedpl", "profit", "profitloss",
            "closedpnl", "closingpnl", "gainloss", "gain", "pnlamount", "pnlabs", "tradepnl"),
    "net_pnl": ("realizednetpnl", "realisednetpnl", "netpnl", "pnlnet", "netprofit", "netpl", "netrealizedpnl",
                "closeprofitabs", "profitabs", "fifopnlrealized", "netprofitloss"),
    "entry_fee": ("entryfee", "openfee", "feeopencost", "entrycommission", "entrycommissiondollars", "openingfee"),
    "exit_fee": ("exitfee", "closefee", "feeclosecost", "exitcommission", "exitcommissiondollars", "closingfee"),
    "funding": ("funding", "fundingfee", "fundingfees", "fundingpnl", "swap", "rollover", "financing", "interest",
                "totalfunding"),
    "leverage": ("leverage", "lev"),
    "stop": ("initialstop", "initialstoploss", "initialstoplossabs", "initialstopprice", "stop", "stoploss", "stoplossprice",
             "stopprice", "sl", "slprice", "stoplossabs"),
    "target": ("target", "takeprofit", "takeprofitprice", "tp", "tpprice", "profittarget", "targetprice"),
    "entry_reason": ("entryreason", "entertag", "entrytag", "buytag", "entrysignal", "setup", "thesis", "rationale",
                     "justification", "openreason", "buyreason", "opencomment"),
    "exit_reason": ("exitreason", "closereason", "sellreason", "exitsignal", "exittag", "reason", "closecomment", "comment",
                    "comments", "note", "notes", "remark"),
    "trigger": ("trigger", "exittrigger", "exittype", "closetype", "closedby", "exitkind"),
    "regime": ("regime", "marketregime", "entryregime"),
    "volatility": ("volatilityregime", "volregime", "entryvolatility"),
    "session": ("session", "marketsession", "entrysession"),
    "atr_d1": ("atrd1", "atrdaily", "dailyatr", "contextatrd1"),
    "atr_h1": ("atrh1", "atrhourly", "hourlyatr", "contextatrh1", "atr", "fatr", "entryatr"),
    "atr_m5": ("atrm5", "contextatrm5"),
}  # fmt: skip

FILL_FIELD_NAMES: FieldNames = {
    "id": ("execid", "executionid", "ibexecid", "fillid", "tid", "dealid", "deal", "ticket", "transactionid", "id", "tradeid",
           "matchid", "eventid", "uuid"),
    "time": ("timemsc", "timestamp", "transactiontime", "executiontime", "exectime", "executedat", "filledat", "filltime",
             "tsevent", "tradetime", "datetime", "dateandtime", "time", "date", "tradedate", "orderfilleddate", "createdat",
             "createdtime", "ts"),
    "price": ("price", "px", "fillprice", "filledprice", "execprice", "executionprice", "executedprice", "tradeprice", "tprice",
              "lastpx", "avgprice", "averageprice", "avgfillprice", "filledavgprice", "average", "impliedprice", "dealprice"),
    **_SHARED_FIELDS,
    "is_buyer": ("isbuyer", "buyer"),
    "buy_qty": ("sharesbought", "qtybought", "quantitybought", "buyqty", "buyquantity", "boughtqty", "buyshares", "buysize"),
    "buy_price": ("buyprice", "boughtprice", "pricebought"),
    "sell_qty": ("sharessold", "qtysold", "quantitysold", "sellqty", "sellquantity", "soldqty", "sellshares", "sellsize"),
    "sell_price": ("sellprice", "soldprice", "pricesold"),
    "order_id": ("orderid", "oid", "iborderid", "venueorderid", "order", "orderno", "ordernumber", "orderticket"),
    "leg": ("positionside", "leg", "hedgeside"),
    "position": ("positionid", "positionticket"),
    "liq": ("isliquidation", "liquidation", "liquidated"),
    "reason": ("reason", "entryreason", "rationale", "thesis", "justification", "note", "notes"),
    "trigger": ("trigger", "exittrigger", "stopordertype", "comment", "comments"),
    "stop": ("stop", "stoploss", "stoplossprice", "sl"),
    "target": ("target", "takeprofit", "takeprofitprice", "tp"),
    "confidence": ("confidence", "conviction"),
}  # fmt: skip

FIELDS_BY_KIND: Mapping[str, FieldNames] = {"trades": TRADE_FIELD_NAMES, "fills": FILL_FIELD_NAMES}
# What a mapping may state about a file besides its columns. `zone` is another setting, with any zone as its value.
MAPPING_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "kind": ("trades", "fills"),
    "decimal": ("point", "comma"),
    "dates": ("dmy", "mdy"),
    "costs": ("positive", "negative"),
    "sides": ("entry", "exit"),
}
# Separate costs of one row, as MetaTrader lists them.
ADDED_COST_NAMES = frozenset({"commission", "fee", "taxes", "tax"})
GROSS_PNL_NAMES = frozenset(
    {n for n in TRADE_FIELD_NAMES["pnl"] if "gross" in n}
)  # other names of `pnl` do not say whether costs are included

_BRACKETS = re.compile(r"\([^)]*\)|\[[^\]]*\]")
_UNIT = re.compile(r"(usdt|usdc|usd|eur|gbp|dollars|utc|gmt)$")
_OTHER = re.compile(r"[\W_]+")


def plain_name(name: str) -> str:
    """Returns a column's name in the form for comparison.

    >>> plain_name("Date(UTC)"), plain_name("S / L"), plain_name("entry_commission_dollars"), plain_name("Realized P&L")
    ('date', 'sl', 'entrycommission', 'realizedpl')
    """
    bare = _OTHER.sub("", _BRACKETS.sub("", name).lower()) or _OTHER.sub("", name.lower())
    return _UNIT.sub("", bare) or bare


_ALL_NAMES = frozenset(plain_name(name) for names in FIELDS_BY_KIND.values() for several in names.values() for name in several)


def count_known_names(cells: Sequence[str]) -> int:
    """Returns how many of these cells are known column names."""
    return len({plain_name(cell) for cell in cells if len(cell) <= 100} & _ALL_NAMES)


def states_utc(name: str) -> bool:
    """Returns True if a column's name states that its times are UTC.

    >>> states_utc("Date(UTC)"), states_utc("open_time")
    (True, False)
    """
    return re.search(r"(?<![a-z])(utc|gmt)(?![a-z])", name.lower()) is not None

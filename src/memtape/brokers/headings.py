"""The names of columns in files of MetaTrader, ccxt, Binance, Bybit, Hyperliquid, Alpaca, IBKR, freqtrade, Nautilus, own logs, in
English, German and French.

A file holds one kind of rows: closed trades, fills, decisions, equity marks or positions. Each kind has its own fields.

Names are compared in lower case, letters without accents and digits only, without units in brackets and without a currency at
the end. If a file has several names of one field, the first in this list is used. Only whole names count: "profit" contains an
`r` too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from unicodedata import combining, normalize

from memtape.brokers.formats import FILE_KINDS

FieldNames = Mapping[str, tuple[str, ...]]

_SHARED_FIELDS: FieldNames = {
    "symbol": ("symbol", "ticker", "pair", "market", "instrument", "instrumentid", "coin", "item", "contract", "product",
               "security", "asset", "underlying", "localsymbol", "wertpapier", "produkt", "basiswert", "markt",
               "titre", "produit", "symbole", "paire", "wahrungspaar", "symbols", "sym", "futures", "tradingpair",
               "futurestradingpair", "contracts"),
    "side": ("side", "buysell", "orderside", "tradeside", "direction", "dir", "action", "bs", "type", "transactiontype",
             "tradetype", "dealtype", "ordertype", "longshort", "ls", "positionside", "position",
             "entry", "transaction", "buyorsell", "openingdirection", "transcode", "closingdirection", "closingside", "richtung",
             "kaufverkauf", "sens", "achatvente", "typ", "marketpos", "marketposition"),
    # What was filled comes before what was ordered.
    "qty": ("filledqty", "filledquantity", "executedqty", "execqty", "lastqty", "filled", "executed", "qty", "quantity", "sz",
            "size", "shares", "noofshares", "numberofshares", "volume", "lots", "contracts", "units", "unitslots", "closedsize",
            "positionsize", "entrysz", "entryqty", "entryquantity", "quantitytransacted", "closingquantity", "closingvolume",
            "closedvolume", "amount", "peakqty", "lotsize", "vol", "stuck", "stuckzahl", "menge", "anzahl", "positionsgrosse",
            "volumen", "quantite", "nombre", "taille"),
    # An amount of money. So is any name of `qty` with a currency, like size_usd.
    "value": ("notional", "notionalvalue", "entrynotional", "positionnotional", "value", "positionvalue", "tradevalue",
              "entryvalue", "openvalue", "ordervalue", "sizevalue", "sizeindollars", "dollarsize", "usdsize", "dollaramount",
              "usdamount", "amountindollars", "quoteqty", "quotequantity", "quoteamount", "quotesize", "quotevolume"),
    "fees": ("totalfees", "totalfee", "totalcommission", "totalcommissions", "fees", "fee", "commission", "commissions",
             "commfee", "execfee", "feecost", "tradingfee", "tradingfees", "feepaid", "ibcommission", "transactioncosts", "costs",
             "brokerage", "feescomm", "feescommissions", "feesandcommissions", "commissionsfees", "commissionsandfees",
             "feesandorspread", "feesspread", "feesandspread", "gebuhren", "gebuhr", "kommission", "provision",
             "transaktionsgebuhren", "frais"),
    "fee_currency": ("feecurrency", "feecoin", "feeasset", "feetoken", "commissionasset", "commissioncurrency",
                     "ibcommissioncurrency", "feeccy"),
    "multiplier": ("multiplier", "contractsize", "contractmultiplier", "pointvalue"),
    # An "exchange rate" is not among them: nothing says which of the two currencies it counts in the other.
    "rate": ("fxratetobase", "fxrate", "conversionrate"),
    "account": ("account", "accountid", "accountno", "accountnumber", "clientaccountid", "login", "wallet", "subaccount", "user",
                "userid", "model", "modelid", "agent", "agentid", "bot", "botname", "expname", "experiment"),
    "strategy": ("strategy", "strategyname", "strategyid", "variant", "system", "algo", "algorithm", "magic", "magicnumber",
                 "playbook"),
    "tags": ("tags", "tag", "labels"),
    "status": ("status", "state", "orderstatus", "tradestatus"),
    "confidence": ("confidence", "conviction", "confidencescore", "convictionscore", "certainty"),
    "currency": ("currency", "ccy", "accountcurrency", "currencyprimary", "pnlcurrency", "profitcurrency", "settlecurrency",
                 "settlementcurrency", "stakecurrency", "curr", "devise", "wahrung", "waehrung", "monnaie"),
}  # fmt: skip

TRADE_FIELD_NAMES: FieldNames = {
    "id": ("tradeid", "id", "positionid", "ticket", "dealid", "tradenumber", "tradeno", "trade", "uuid", "position"),
    "entry_at": ("entryat", "entrytime", "entrydatetime", "entrytimestamp", "entrydate", "opentime", "opentimestamp",
                 "openedat", "openat", "opendatetime", "opendate", "timeopen", "dateopened", "tsopened", "openedtime",
                 "entryhumantime", "opened", "openingtime", "openingdate", "buytime", "buydate", "dateacquired", "boughtat",
                 "boughttimestamp", "starttime", "time", "datetime", "date", "timestamp", "ts", "createdat", "createdtime",
                 "tradetime", "tradedate", "dateandtime", "eroffnung", "eroffnet", "eroffnungszeit", "eroffnungsdatum",
                 "datumeroffnung", "createtime", "datum", "einstiegszeit", "einstiegsdatum", "datumeinstieg", "kaufdatum",
                 "dateopen", "dateentry", "timeentry", "dateentered", "datedouverture", "heuredouverture", "ouverture",
                 "datedentree", "datedachat", "eroffnetam", "geoffnetam"),
    "exit_at": ("exitat", "exittime", "exitdatetime", "exittimestamp", "exitdate", "closetime", "closetimestamp", "closedat",
                "closeat", "closedatetime", "closedate", "timeclose", "dateclosed", "tsclosed", "closedtime", "exithumantime",
                "closed", "closingtime", "closingdate", "selltime", "selldate", "datesold", "soldat", "soldtimestamp",
                "endtime", "updatedtime", "updatedat", "filledsettlementtime", "settlementtime", "time2", "datetime2", "date2",
                "schliessung", "geschlossen", "schliessungszeit", "schlusszeit", "schliesszeit", "datumschliessung",
                "ausstiegszeit", "ausstiegsdatum", "datumausstieg", "verkaufsdatum", "dateclose", "dateexit", "timeexit",
                "dateexited", "datedecloture", "heuredecloture",
                "cloture", "datedesortie", "datedevente", "geschlossenam"),
    "entry_price": ("entryprice", "entrypx", "avgentryprice", "averageentryprice", "entryavgprice", "openprice", "openrate",
                    "priceopen", "avgpxopen", "avgopenprice", "openavgprice", "openingprice", "entry", "open", "buyprice",
                    "avgbuyprice", "costprice", "price", "avgentry", "averageentry", "entryavg", "entryrate", "opening",
                    "openinglevel", "openlevel", "einstiegskurs",
                    "einstiegspreis", "eroffnungskurs", "eroffnungspreis", "kaufkurs", "kaufpreis", "einstandskurs",
                    "prixdentree", "prixdouverture", "prixdachat"),
    "exit_price": ("exitprice", "exitpx", "avgexitprice", "averageexitprice", "exitavgprice", "closeprice", "closerate",
                   "priceclose", "avgpxclose", "avgcloseprice", "closeavgprice", "closingprice", "exit", "close", "sellprice",
                   "avgsellprice", "price2", "avgexit", "averageexit", "exitavg", "exitrate", "closing", "closinglevel",
                   "closelevel", "ausstiegskurs", "ausstiegspreis",
                   "schlusskurs", "schliesskurs", "verkaufskurs", "verkaufspreis", "prixdesortie", "prixdecloture",
                   "prixdevente"),
    **_SHARED_FIELDS,
    "is_short": ("isshort",),
    "is_open": ("isopen",),
    "pnl": ("realizedgrosspnl", "realisedgrosspnl", "grosspnl", "pnlgross", "plgross", "grossprofit", "grosspl",
            "grossrealizedpnl", "gross", "pnl", "pl", "realizedpnl", "realisedpnl", "realizedprofit", "realizedpl",
            "realisedpl", "profit", "profitloss", "closedpnl", "closedpl", "closingpnl", "gainloss", "gain", "pnlamount",
            "pnlabs", "tradepnl", "gewinn", "gewinnverlust", "guv", "ergebnis", "resultat", "gainperte"),
    "net_pnl": ("realizednetpnl", "realisednetpnl", "netpnl", "pnlnet", "plnet", "netprofit", "netpl", "net", "netrealizedpnl",
                "closeprofitabs", "profitabs", "fifopnlrealized", "netprofitloss", "nettogewinn", "nettoergebnis",
                "gewinnnetto", "ergebnisnetto", "resultatnet", "profitnet", "gainnet"),
    "pnl_r": ("r", "pnlr", "rmultiple", "resultr", "outcomer", "realizedr", "realisedr", "netr", "profitr", "gainr", "rresult"),
    "entry_fee": ("entryfee", "openfee", "feeopencost", "entrycommission", "entrycommissiondollars", "openingfee"),
    "exit_fee": ("exitfee", "closefee", "feeclosecost", "exitcommission", "exitcommissiondollars", "closingfee"),
    "funding": ("funding", "fundingfee", "fundingfees", "fundingpnl", "swap", "rollover", "financing", "interest",
                "totalfunding"),
    "leverage": ("leverage", "lev"),
    "stop": ("initialstop", "initialstoploss", "initialstoplossabs", "initialstopprice", "stop", "stoploss", "stoplossprice",
             "stopprice", "sl", "slprice", "stoplossabs"),
    "target": ("target", "takeprofit", "takeprofitprice", "tp", "tpprice", "profittarget", "targetprice"),
    "entry_reason": ("entryreason", "entertag", "entrytag", "buytag", "entrysignal", "thesis", "rationale",
                     "justification", "openreason", "buyreason", "opencomment"),
    # A journal names its setups in a few words: they are the reason of the entry, and a label to group trades by.
    "setup": ("setup", "setups", "setupname", "setuptype", "tradesetup", "entrysetup", "pattern", "patterns", "chartpattern"),
    "exit_reason": ("exitreason", "closereason", "sellreason", "exitsignal", "exittag", "reason", "closecomment"),
    "note": ("note", "notes", "comment", "comments", "remark", "remarks", "memo", "reflection", "kommentar", "bemerkung",
             "notiz", "commentaire", "remarque"),
    "trigger": ("trigger", "exittrigger", "exittype", "closetype", "closedby", "exitkind"),
    "regime": ("regime", "marketregime", "entryregime"),
    "volatility": ("volatilityregime", "volregime", "entryvolatility", "volatility"),
    "session": ("session", "marketsession", "entrysession", "tradingsession"),
    "atr_d1": ("atrd1", "atrdaily", "dailyatr", "contextatrd1"),
    "atr_h1": ("atrh1", "atrhourly", "hourlyatr", "contextatrh1", "atr", "fatr", "entryatr"),
    "atr_m5": ("atrm5", "contextatrm5"),
    "balance": ("balance", "accountbalance", "balanceafter", "accountequity", "equity"),
}  # fmt: skip

FILL_FIELD_NAMES: FieldNames = {
    "id": ("execid", "executionid", "ibexecid", "fillid", "tid", "dealid", "deal", "ticket", "transactionid", "id", "tradeid",
           "matchid", "eventid", "uuid"),
    "time": ("timemsc", "timestamp", "transactiontime", "executiontime", "exectime", "executedat", "filledat", "filltime",
             "tsevent", "tradetime", "datetime", "dateandtime", "time", "date", "tradedate", "tradingdate", "tradingday",
             "orderfilleddate", "filledtime", "createdat",
             "createdtime", "ts", "activitydate", "rundate", "transactiondate",
             "ausfuhrungszeit", "zeitpunkt", "uhrzeit", "zeit", "datum", "heure"),
    "price": ("price", "px", "priceshare", "pricepershare", "fillprice", "filledprice", "execprice", "executionprice",
              "executedprice", "tradeprice", "tprice", "lastpx", "avgprice", "averageprice", "avgfillprice", "filledavgprice",
              "average", "impliedprice", "dealprice", "priceattransaction", "spotpriceattransaction", "kurs", "preis",
              "ausfuhrungskurs", "prix", "cours"),
    **_SHARED_FIELDS,
    "is_buyer": ("isbuyer", "buyer"),
    # Whether a fill opens or closes; where the side is that of the position, it says what was bought and what was sold.
    "effect": ("effect", "positioneffect", "openclose", "opencloseindicator", "entryexit", "event", "eventtype", "action", "type",
               "leg", "tradetype"),
    "buy_qty": ("sharesbought", "qtybought", "quantitybought", "buyqty", "buyquantity", "boughtqty", "buyshares", "buysize"),
    "buy_price": ("buyprice", "boughtprice", "pricebought"),
    "sell_qty": ("sharessold", "qtysold", "quantitysold", "sellqty", "sellquantity", "soldqty", "sellshares", "sellsize"),
    "sell_price": ("sellprice", "soldprice", "pricesold"),
    "order_id": ("orderid", "oid", "iborderid", "venueorderid", "order", "orderno", "ordernumber", "orderticket"),
    "leg": ("positionside", "leg", "hedgeside"),
    "position": ("positionid", "positionticket"),
    # What the broker says that a fill realised; compared with what the fills of the file give.
    "pnl": ("realizedpnl", "realisedpnl", "realizedprofit", "realizedpl", "realisedpl", "closedpnl", "fifopnlrealized", "profit",
            "pnl", "netpl", "netpnl"),
    "liq": ("isliquidation", "liquidation", "liquidated"),
    "reason": ("reason", "entryreason", "rationale", "thesis", "justification", "note", "notes"),
    "note": ("comment", "comments", "remark", "remarks", "memo"),
    "trigger": ("trigger", "exittrigger", "stopordertype"),
    "stop": ("stop", "stoploss", "stoplossprice", "sl"),
    "target": ("target", "takeprofit", "takeprofitprice", "tp"),
}  # fmt: skip

_MOMENT_NAMES = ("timestamp", "datetime", "dateandtime", "time", "date", "day", "createdat", "createdtime", "ts", "asof",
                 "asofdate", "tradingdate", "tradingday", "tick", "insertedat", "recordedat")  # fmt: skip
_SITUATION_FIELDS: FieldNames = {
    name: TRADE_FIELD_NAMES[name] for name in ("regime", "volatility", "session", "atr_d1", "atr_h1", "atr_m5")
}
_CASH_FLOW_FIELDS: FieldNames = {
    "flow": ("flow", "flows", "cashflow", "cashflows", "netflow", "netflows", "externalflow", "netdeposit", "netdeposits",
             "depositwithdrawal", "depositswithdrawals", "transfer", "transfers"),
    "deposit": ("deposit", "deposits", "deposited", "contribution", "contributions"),
    "withdrawal": ("withdrawal", "withdrawals", "withdrawn", "withdraw", "distributions"),
}  # fmt: skip
_EQUITY_NAMES = ("totalequity", "accountequity", "equity", "accountvalue", "totalaccountvalue", "nav", "netassetvalue",
                 "netliquidation", "netliquidationvalue", "netliq", "portfoliovalue", "totalportfoliovalue", "networth",
                 "equityafter")  # fmt: skip

DECISION_FIELD_NAMES: FieldNames = {
    "id": ("decisionid", "predictionid", "signalid", "forecastid", "recommendationid", "callid", "id", "uuid", "eventid"),
    "time": ("decidedat", "decisiontime", "decisionat", "decisiondate", "predictedat", "predictiontime", "predictiondate",
             "forecastat", "forecasttime", "forecastdate", "signaltime", "signaldate", "madeat", *_MOMENT_NAMES),
    "symbol": _SHARED_FIELDS["symbol"],
    "action": ("action", "decision", "signal", "recommendation", "verdict", "call", "advice", "tradeaction", "decisiontype"),
    "side": ("side", "direction", "dir", "predicteddirection", "prediction", "forecast", "bias", "expecteddirection",
             "predictedside", "longshort", "view", "stance"),
    "qty": _SHARED_FIELDS["qty"],
    "value": _SHARED_FIELDS["value"],
    "entry_price": ("plannedentry", "entryprice", "entry", "limitprice", "limit", "entrypx", "entrylevel", "suggestedentry"),
    "stop": (*TRADE_FIELD_NAMES["stop"], "stoplevel"),
    "target": (*TRADE_FIELD_NAMES["target"], "pricetarget", "predictedprice", "forecastprice", "targetlevel"),
    "price": ("priceatdecision", "priceatprediction", "referenceprice", "refprice", "currentprice", "marketprice", "lastprice",
              "spotprice", "spot", "price", "mark", "markprice"),
    "reason": ("reason", "rationale", "justification", "thesis", "reasoning", "explanation", "entryreason", "why", "setup",
               "analysis", "summary"),
    "note": ("note", "notes", "comment", "comments", "remark", "remarks", "memo"),
    "confidence": _SHARED_FIELDS["confidence"],
    "probability": ("probability", "prob", "predictedprobability", "winprobability", "probabilityup", "probup", "pup", "pwin",
                    "likelihood"),
    "horizon": ("horizon", "timehorizon", "forecasthorizon", "holdingperiod", "horizonhours", "horizondays", "horizonminutes",
                "horizonbars", "horizonweeks", "horizonh", "horizond", "validfor", "expirybars"),
    "expires_at": ("expiresat", "expires", "expiry", "expirydate", "validuntil", "targetdate", "resolvesat", "duedate"),
    "frame": ("frame", "timeframe", "tf", "barsize"),
    "invalidation": ("invalidation", "invalidationcondition", "invalidatedif"),
    "outcome": ("outcome", "result", "resolution", "correct", "wascorrect", "iscorrect", "hit"),
    "outcome_r": ("r", "pnlr", "rmultiple", "resultr", "outcomer", "realizedr", "realisedr"),
    "outcome_price": ("exitprice", "outcomeprice", "resolvedprice", "actualprice", "finalprice", "closeprice"),
    "outcome_at": ("exitat", "exittime", "exitdate", "resolvedat", "resolvedtime", "resolutiondate", "outcomeat", "outcometime",
                   "settledat", "closedat", "closetime", "closedate"),
    "order_id": ("orderid", "orderids", "oid", "clientorderid", "cloid", "venueorderid"),
    "trade_id": ("tradeid", "tradeids", "positionid", "dealid", "ticket"),
    "account": _SHARED_FIELDS["account"],
    "strategy": _SHARED_FIELDS["strategy"],
    "tags": _SHARED_FIELDS["tags"],
    "currency": _SHARED_FIELDS["currency"],
    **_SITUATION_FIELDS,
}  # fmt: skip

EQUITY_FIELD_NAMES: FieldNames = {
    "time": _MOMENT_NAMES,
    "equity": (*_EQUITY_NAMES, "balance", "accountbalance", "totalbalance", "totalvalue", "value"),
    **_CASH_FLOW_FIELDS,
    "account": _SHARED_FIELDS["account"],
    "currency": _SHARED_FIELDS["currency"],
}  # fmt: skip

POSITION_FIELD_NAMES: FieldNames = {
    "time": ("snapshottime", "snapshotat", "snapshotdate", *_MOMENT_NAMES),
    "symbol": _SHARED_FIELDS["symbol"],
    "qty": ("positionqty", "netqty", "netposition", "netquantity", "positionamt", "szi", "positionsize", "held", "holding",
            "holdings", *_SHARED_FIELDS["qty"], "position"),
    "side": ("side", "direction", "positionside", "longshort"),
    "action": ("action", "event"),
    "entry_price": ("avgentryprice", "averageentryprice", "entryprice", "entrypx", "avgprice", "averageprice", "avgcost",
                    "averagecost", "costprice", "unitcost", "buyprice", "avgbuyprice", "priceopen", "openprice", "avgopenprice",
                    "purchaseprice"),
    "mark": ("markprice", "mark", "currentprice", "pricecurrent", "lastprice", "marketprice", "closeprice", "last", "close",
             "price"),
    "cost": ("costbasis", "totalcost"),
    "value": ("marketvalue", "totalvalue", "currentvalue", *_SHARED_FIELDS["value"]),
    "unrealized": ("unrealizedpnl", "unrealisedpnl", "unrealizedpl", "unrealisedpl", "upnl", "openpnl", "floatingpnl",
                   "unrealizedprofit", "pnl"),
    "leverage": TRADE_FIELD_NAMES["leverage"],
    "rate": _SHARED_FIELDS["rate"],
    "equity": _EQUITY_NAMES,
    "cash": ("cash", "cashbalance", "cashafter", "availablecash", "freecash", "buyingpower"),
    **_CASH_FLOW_FIELDS,
    "account": _SHARED_FIELDS["account"],
    "currency": _SHARED_FIELDS["currency"],
}  # fmt: skip

FIELDS_BY_KIND: Mapping[str, FieldNames] = {
    "trades": TRADE_FIELD_NAMES, "fills": FILL_FIELD_NAMES, "decisions": DECISION_FIELD_NAMES, "equity": EQUITY_FIELD_NAMES,
    "positions": POSITION_FIELD_NAMES,
}  # fmt: skip
assert tuple(FIELDS_BY_KIND) == FILE_KINDS
# What a mapping may state about a file besides its columns. `zone` is another setting, with any zone as its value.
MAPPING_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "kind": FILE_KINDS,
    "decimal": ("point", "comma"),
    "dates": ("dmy", "mdy"),
    "costs": ("positive", "negative"),
    "sides": ("entry", "exit"),
    "confidence_scale": ("1", "5", "10", "100"),
    "repeats": ("keep", "drop"),
}
LOT_NAMES = frozenset({"lots", "lot", "lotsize", "unitslots"})  # quantities that are not in units
# Separate costs of one row, as MetaTrader lists them.
ADDED_COST_NAMES = frozenset({
    "commission", "commissions", "fee", "fees", "taxes", "tax", "clearingfee", "clearingfees", "exchangefee", "exchangefees",
    "nfafee", "nfafees", "ipfee", "regulatoryfee", "regulatoryfees", "secfee", "secfees", "miscfee", "miscfees", "platformfee",
    "routingfee", "routingfees",
})  # fmt: skip
# Columns that say what kind of row it is: Bybit's execType, IBKR's LevelOfDetail, DataDiscriminator and the second column of its
# activity statements.
ROW_KIND_NAMES = frozenset({"exectype", "levelofdetail", "datadiscriminator", "header", "rowtype", "recordtype", "activitytype"})
# Columns of closed trades that hold the side of the closing order.
CLOSING_SIDE_NAMES = frozenset({"closingdirection", "closingside"})
GROSS_PNL_NAMES = frozenset(
    {n for n in TRADE_FIELD_NAMES["pnl"] if "gross" in n}
)  # other names of `pnl` do not say whether costs are included

_BRACKETS = re.compile(r"\([^)]*\)|\[[^\]]*\]")
_CURRENCIES = "usdt|usdc|busd|usd|eur|gbp|chf|jpy|aud|cad|nzd|sek|nok|inr|sgd|hkd|cny"
_COINS = frozenset({"btc", "xbt", "eth", "sol", "bnb", "xrp", "ltc", "trx", "doge", "ada"})
_CELL_CURRENCY = re.compile(rf"(?<=[\d\s])({_CURRENCIES})$|^({_CURRENCIES})(?=[\s\d-])")
_UNIT = re.compile(rf"({_CURRENCIES}|dollars|euros|utc|gmt)$")
_CURRENCY_UNIT = re.compile(rf"({_CURRENCIES})$")
_CURRENCY_WORDS = {"$": "USD", "dollars": "USD", "€": "EUR", "euros": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_OTHER = re.compile(r"[\W_]+")
_MILLISECONDS = re.compile(r"(?<=[a-z])[_ -](?:ms|msec|millis|epoch|unix)$")


def plain_name(name: str) -> str:
    """Returns a column's name in the form for comparison.

    >>> plain_name("Date(UTC)"), plain_name("S / L"), plain_name("entry_commission_dollars"), plain_name("Realized P&L")
    ('date', 'sl', 'entrycommission', 'realizedpl')
    >>> plain_name("Stückzahl"), plain_name("Datum Schließung"), plain_name("opened_ms")
    ('stuckzahl', 'datumschliessung', 'opened')
    """
    lower = _MILLISECONDS.sub("", name.casefold())
    if not lower.isascii():
        lower = "".join(c for c in normalize("NFKD", lower) if not combining(c))
    bare = _OTHER.sub("", _BRACKETS.sub("", lower)) or _OTHER.sub("", lower)
    return _UNIT.sub("", bare) or bare


def heading_currency(name: str) -> str | None:
    """Returns the currency that a column's name states.

    >>> heading_currency("size_usd"), heading_currency("Profit (EUR)"), heading_currency("pnl $"), heading_currency("pnl")
    ('USD', 'EUR', 'USD', None)
    """
    words = [word for word in re.split(r"[\s_()\[\]/.-]+", name.lower()) if word]
    for word in words[1:] or []:
        if word in _CURRENCY_WORDS or _CURRENCY_UNIT.fullmatch(word):
            return _CURRENCY_WORDS.get(word, word.upper())
    # Also where nothing separates it: sizeUsd, pnlUSDT.
    glued = re.search(rf"(?<=[a-z])({_CURRENCIES})$", name.lower())
    return glued[1].upper() if glued and words and words[-1] != glued[1] else None


def heading_coin(name: str) -> str | None:
    """Returns the coin that the name of an amount of money states: some accounts are kept in one.

    >>> heading_coin("pnl (BTC)"), heading_coin("realised_pnl_eth"), heading_coin("BTC"), heading_coin("pnl")
    ('BTC', 'ETH', None, None)
    """
    words = [word for word in re.split(r"[\s_()\[\]/.-]+", name.lower()) if word]
    coin = next((word for word in words[1:] if word in _COINS), None)
    return None if coin is None else "BTC" if coin == "xbt" else coin.upper()


def cell_currency(cell: str) -> str | None:
    """Returns the currency that a cell states beside its number.

    >>> cell_currency("6,520 USDT"), cell_currency("$100"), cell_currency("0.01BTC"), cell_currency("5")
    ('USDT', 'USD', None, None)
    """
    if sign := next((sign for sign in _CURRENCY_WORDS if sign in cell), None):
        return _CURRENCY_WORDS[sign]
    found = _CELL_CURRENCY.search(cell.strip().lower())
    return (found[1] or found[2]).upper() if found else None


def is_money(name: str) -> bool:
    """Returns True if a column of this name holds an amount of money, although a name like it could be a quantity.

    >>> is_money("size_usd"), is_money("Position size (value)"), is_money("size"), is_money("Amount (USDT)")
    (True, True, False, True)
    """
    in_brackets = " ".join(_BRACKETS.findall(name.lower()))
    return heading_currency(name) is not None or "value" in in_brackets or "$" in name


_ALL_NAMES = frozenset(plain_name(name) for names in FIELDS_BY_KIND.values() for several in names.values() for name in several)


def count_known_names(cells: Sequence[str]) -> int:
    """Returns how many of these cells are known column names."""
    return len({plain_name(cell) for cell in cells if len(cell) <= 100} & _ALL_NAMES)


def stated_offset(name: str) -> timedelta | None:
    """Returns how far the clock of a column of times is ahead of UTC, if the column's name states it.

    >>> stated_offset("Date(UTC)"), stated_offset("Opening Time (UTC+2)"), stated_offset("open_time")
    (datetime.timedelta(0), datetime.timedelta(seconds=7200), None)
    """
    found = re.search(r"(?<![a-z])(?:utc|gmt)(?:\s*([+-])(\d{1,2})(?::?([0-5]\d))?)?(?![a-z\d])", name.lower())
    if found is None:
        return None
    ahead = timedelta(hours=int(found[2] or 0), minutes=int(found[3] or 0))
    return -ahead if found[1] == "-" else ahead

"""Addresses of stores: which form an address has, and how it is shown without its password."""

from __future__ import annotations

import re
from urllib.parse import unquote

SECRET_PARAMETERS = ("password", "sslpassword", "passfile")


def _spelt(name: str) -> str:
    """A pattern of a name in which any letter may be percent-encoded, as a server's driver reads it."""
    return "".join(f"(?:{letter}|%{ord(letter):02x}|%{ord(letter.upper()):02x})" for letter in name)


_SECRET_NAME = rf"(?<!\w)({'|'.join(map(_spelt, SECRET_PARAMETERS))})(\s*=\s*)"
# In a URL a value ends at the next &, in a libpq string at a space or a quotation mark.
_SECRET_IN_URL = re.compile(rf"{_SECRET_NAME}([^&]*)", re.IGNORECASE)
_SECRET_IN_LIBPQ = re.compile(rf"{_SECRET_NAME}('(?:[^'\\]|\\.)*'|[^&\s]*)", re.IGNORECASE)
_LIBPQ_PARAMETER = re.compile(
    r"(?:^|\s)(?:host|hostaddr|port|dbname|user|password|passfile|service|sslmode|options|application_name)\s*=", re.IGNORECASE
)
_NO_SCHEME = re.compile(r"(?://)?(?:\w+/+)?[^/:@]*:(?![/\\])[^@]*@[^/]+(?:/|$)")


def without_password(url: str) -> str:
    """Returns an address without its password, wherever it stands: before the host, as a parameter, or in a libpq string.

    >>> without_password("postgresql://ann:secret@host/db"), without_password("postgresql://:p@ss@host/db")
    ('postgresql://ann:***@host/db', 'postgresql://:***@host/db')
    >>> without_password("postgresql://host/db?user=ann&password=secret&sslmode=require")
    'postgresql://host/db?user=ann&password=***&sslmode=require'
    >>> without_password("host=h password='my secret' dbname=d")
    'host=h password=*** dbname=d'
    >>> without_password("postgresql://host/db?%70assw%4frd=my secret&user=ann"), without_password("ann:secret@host/db")
    ('postgresql://host/db?%70assw%4frd=***&user=ann', 'ann:***@host/db')
    """
    shown = _secret_parameter(url).sub(r"\1\2***", url)
    if shown.lower().startswith(("postgresql:", "postgres:")) and "://" not in shown:
        # Not a URL, so that nobody knows where a password would stand in it.
        return f"{shown.partition(':')[0]}:***"
    if is_without_scheme(shown):
        return f"{shown.partition(':')[0]}:***@{shown.rpartition('@')[2]}"
    scheme, separator, rest = shown.partition("://")
    # A password may contain @ and / as they are: everything up to the last @ belongs to name and password.
    named, at, host = rest.rpartition("@")
    if not separator or not at or ":" not in named:
        return shown
    return f"{scheme}://{named.partition(':')[0]}:***@{host}"


def _secret_parameter(url: str) -> re.Pattern[str]:
    return _SECRET_IN_URL if "://" in url else _SECRET_IN_LIBPQ


def is_without_scheme(address: str) -> bool:
    """True if an address has a name, a password and a host, and nothing that says of which kind of store.

    >>> is_without_scheme("ann:secret@host/db"), is_without_scheme("postgresql://ann:secret@host/db")
    (True, False)
    >>> is_without_scheme("postgresql//ann:secret@host/db")
    True
    >>> is_without_scheme("/data/a:b@c.db"), is_without_scheme("C:/data/a@b.db")
    (False, False)
    """
    return "://" not in address and _NO_SCHEME.match(address) is not None


def is_postgres(address: str) -> bool:
    """True if an address names a PostgreSQL server.

    >>> is_postgres("PostgreSQL://host/db"), is_postgres("/tmp/postgresql.db")
    (True, False)
    """
    return address.lower().startswith(("postgresql://", "postgres://"))


def is_libpq_string(address: str) -> bool:
    """True if an address is a connection string of libpq, which memtape does not take.

    >>> is_libpq_string("host=h dbname=d password=p"), is_libpq_string("dbname=d"), is_libpq_string("/data/a=b.db")
    (True, True, False)
    """
    return _LIBPQ_PARAMETER.search(address) is not None


def secrets_of(url: str) -> list[str]:
    """Returns the passwords of an address, as they stand in it and decoded, the longest first.

    >>> secrets_of("postgresql://ann:a%40b@host/db?password=more")
    ['a%40b', 'more', 'a@b']
    """
    found = [match[3].strip("'") for match in _secret_parameter(url).finditer(url)]
    named, at, _ = url.partition("://")[2].rpartition("@")
    if at and ":" in named:
        found.append(named.partition(":")[2])
    return sorted({each for text in found for each in (text, unquote(text)) if each}, key=lambda text: (-len(text), text))

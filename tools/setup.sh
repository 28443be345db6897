#!/bin/sh
# Makes .venv and installs memtape in it, editable, with the packages of a lock, every one checked by its hash:
#   setup.sh run    what running needs (requirements-run.lock)
#   setup.sh test   in addition what the tests need (requirements.lock), and the embedder minilm
# Says from its first second what it does and how far it is.
# Nothing outside this folder is changed, except that root on Debian or Ubuntu gets python3-venv where nothing else helps.
set -eu
cd "$(dirname "$0")/.."

wanted=${PYTHON:-python3}
bin=.venv/bin
stage=${1:-test}
lock=requirements.lock
[ "$stage" = run ] && lock=requirements-run.lock

exec 3>&2
say_aside() { printf '%s\n' "$*" >&3; }

say() { printf '%s\n' "$*" >&2; }

began=$(date +%s)
step() { say "[$(($(date +%s) - began)) s] $*"; }

describe() { "$1" -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null; }

usable() { [ -x "$bin/python" ] && "$bin/python" -m pip --version >/dev/null 2>&1; }

# Debian leaves out of Python what `python3 -m venv` needs, and what fails half-way leaves a broken .venv.
# pip's --target is allowed where a plain install is not (PEP 668), and virtualenv brings its own pip.
make_with_venv() { "$wanted" -m venv .venv; }

make_with_virtualenv() {
    spare=$(mktemp -d)
    "$wanted" -m pip install -qq --disable-pip-version-check --target "$spare" virtualenv &&
        PYTHONPATH=$spare "$wanted" -m virtualenv --quiet .venv
    made=$?
    rm -rf "$spare"
    return $made
}

make_with_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    version=$("$wanted" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    # The output of this function goes to a log, so this goes to the terminal that the script was started from.
    say_aside "installing the system package python$version-venv with apt-get: $wanted cannot make an environment without it"
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "python$version-venv" >/dev/null &&
        make_with_venv
}

make_venv() {
    "$wanted" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        say "memtape needs Python 3.11 or newer, and $wanted is not: try make setup PYTHON=python3.12"
        exit 1
    }
    log=$(mktemp)
    for way in venv virtualenv apt; do
        rm -rf .venv
        if "make_with_$way" >"$log" 2>&1 && usable; then
            rm -f "$log"
            return
        fi
    done
    cat "$log" >&2
    rm -rf .venv "$log"
    say "$wanted cannot make a virtual environment: apt-get install python3-venv, as root, then make setup"
    exit 1
}

if usable && [ -n "${PYTHON:-}" ] && [ "$(describe "$wanted")" != "$(describe "$bin/python")" ]; then
    rm -rf .venv
fi
usable || {
    step "1/3 making .venv with $("$wanted" --version 2>&1)"
    make_venv
}

pip() { "$bin/python" -m pip --disable-pip-version-check "$@"; }

packages=$(grep -c '^[a-z0-9].*==' $lock)
if [ "$stage" = run ]; then
    step "2/3 installing what running needs: about $packages packages, 210 MB"
else
    step "2/3 installing what the tests need too: about $packages packages, 1.5 GB"
fi

# uv first, by pip, as the lock says: its lines go from "uv==" to the first that does not end in a backslash.
if ! "$bin/uv" --version 2>/dev/null | grep -qF "$(sed -n 's/^uv==\([^ ]*\).*/uv \1/p' $lock)"; then
    sed -n '/^uv==/,/[^\\]$/p' $lock >.venv/uv.txt
    pip install -qq --no-deps --require-hashes -r .venv/uv.txt
fi

# uv does not read pip's settings. A certificate is handed on; where they name another registry or way to it, pip itself
# installs, from the same lock: slower, and with the same check of hashes.
settings=$(pip config list)
setting() { printf '%s\n' "$settings" | sed -n "s/^[^=]*\.$1='\(.*\)'$/\1/p" | head -n 1; }

if [ -z "${SSL_CERT_FILE:-}" ] && [ -n "$(setting cert)" ]; then
    SSL_CERT_FILE=$(setting cert)
    export SSL_CERT_FILE
fi

told_uv=${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}${UV_CONFIG_FILE:-}
told_pip=$(setting index-url)$(setting no-index)$(setting proxy)$(setting client-cert)$(setting trusted-host)
if [ -z "$told_uv" ] && [ -n "$told_pip" ]; then
    pip install -qq --no-deps --require-hashes -r $lock
else
    # What the tests need stays where it is installed already.
    how="sync"
    [ "$stage" = run ] && how="install --no-deps --requirements"
    # uv says how far it is; its list of packages, one to a line, is left out.
    {
        # shellcheck disable=SC2086  # several words
        "$bin/uv" pip $how $lock --python "$bin/python" --require-hashes && : >.venv/.synced
    } 2>&1 | grep -v '^ [-+~] ' >&2 || true
    rm .venv/.synced 2>/dev/null || { say "the packages could not be installed: see above"; exit 1; }
fi
step "3/3 installing memtape itself, from this folder"
"$bin/uv" pip install --quiet --offline --python "$bin/python" --no-deps --no-build-isolation --editable .

if [ "$stage" = run ]; then
    step "ready: $bin/memtape, with $("$bin/python" --version), $(du -sm .venv | cut -f1) MB"
    exit 0
fi

# The tests of `minilm` need the model. A complete model in .venv is not built again; everything else works without it.
log=$(mktemp)
"$bin/python" -m tools.build_minilm --to .venv/share/memtape/models >/dev/null 2>"$log" ||
    say "warning: the model minilm is not built, and its tests are skipped: $(tail -n 1 "$log")"
rm -f "$log"
step "ready: $bin/memtape, with $("$bin/python" --version), $(du -sm .venv | cut -f1) MB"

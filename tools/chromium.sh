#!/bin/sh
# Sees to what the web tests need beyond .venv: a browser, and libatomic, which playwright's driver links to and a small
# Debian lacks. Root gets them from Debian; others are told. Never fails: the tests say themselves what they had to skip.
cd "$(dirname "$0")/.." || exit 0

missing() {
    .venv/bin/python tests/chromium.py >/dev/null || echo "$1"
    .venv/bin/playwright --version >/dev/null 2>&1 || echo libatomic1
}

packages=$(missing chromium | xargs)
[ -z "$packages" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "The web tests need system packages that are not here: $packages. Installing them with apt-get."
    apt-get -qq update >/dev/null 2>&1
    # The shell without windows takes a quarter less time; older systems have only the whole browser.
    for browser in chromium-headless-shell chromium; do
        packages=$(missing $browser | xargs)
        [ -z "$packages" ] && exit 0
        echo "installing $packages"
        # shellcheck disable=SC2086  # one word for each package
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $packages >/dev/null 2>&1 </dev/null
    done
    packages=$(missing chromium | xargs)
fi
[ -z "$packages" ] || echo "for the web tests: apt-get install $packages (no chromium there? .venv/bin/playwright install --with-deps chromium)"
exit 0

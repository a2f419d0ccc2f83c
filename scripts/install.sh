# shellcheck shell=bash
# Functions that the setup scripts share. Sourced, never run.

# Says in one sentence what is wrong and what to do, and stops.
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Installs Debian packages. The package lists are only fetched when the ones at
# hand do not know a package or point at a version that is no longer served.
apt_install() {
    command -v apt-get >/dev/null ||
        fail "This is not a Debian system: install what your system calls '$*', then run this again."
    [[ $EUID -eq 0 ]] ||
        fail "Some Debian packages are missing. Run 'sudo apt-get install $*', then run this again."
    local log
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if ! apt-get install -y -q --no-install-recommends "$@" </dev/null >"$log" 2>&1; then
        if ! { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; } \
            </dev/null >"$log" 2>&1; then
            tail -n 15 "$log" >&2
            rm -f "$log"
            fail "apt-get could not install '$*' (its last words are above). Check that this machine reaches Debian's packages."
        fi
    fi
    rm -f "$log"
}

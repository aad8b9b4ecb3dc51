#!/usr/bin/env bash
# Update the checkout behind Hermes' plugins folder (git pull --ff-only). HERMES_HOME and HERMES_PROFILE as in install.sh.
set -euo pipefail

if (($#)); then
    printf 'usage (no arguments): scripts/update.sh, with HERMES_HOME and HERMES_PROFILE as for install.sh; updates the checkout\n' >&2
    exit 2
fi

fail() { printf 'update: %s\n' "$*" >&2; exit 1; }

main() { # a function, because bash reads a script line by line and the pull may replace this file
    local home=${HERMES_HOME:-$HOME/.hermes} profile=${HERMES_PROFILE:-} link checkout before after
    case $profile in
        "" | default) ;;
        . | .. | */*) fail "HERMES_PROFILE='$profile' is not the name of a profile" ;;
        *) [[ $home == */profiles/"$profile" ]] || home=$home/profiles/$profile ;;
    esac
    link=$home/plugins/hermes-lcm

    [[ -e $link || -L $link ]] || fail "$link does not exist; run scripts/install.sh first"
    checkout=$(cd "$link" 2>/dev/null && pwd -P) || fail "$link points to $(readlink "$link"), which is gone"
    [[ -e $checkout/.git ]] || fail "$checkout is not a git checkout; install a newer copy there instead"

    before=$(git -C "$checkout" rev-parse --short HEAD)
    git -C "$checkout" pull --ff-only ||
        fail "git could not fast-forward $checkout; its message above says why, and nothing was changed"
    after=$(git -C "$checkout" rev-parse --short HEAD)
    if [[ $before == "$after" ]]; then
        printf 'hermes-lcm in %s is up to date (%s)\n' "$checkout" "$after"
    else
        printf 'hermes-lcm in %s: %s -> %s. Restart Hermes.\n' "$checkout" "$before" "$after"
    fi
}

main "$@"
exit

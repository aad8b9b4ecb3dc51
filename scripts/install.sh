#!/usr/bin/env bash
# Link this checkout into Hermes' plugins folder. Safe to run again.
#
#   scripts/install.sh                            ~/.hermes/plugins/hermes-lcm
#   HERMES_PROFILE=work scripts/install.sh        ~/.hermes/profiles/work/plugins/hermes-lcm
#   HERMES_HOME=/srv/hermes scripts/install.sh    /srv/hermes/plugins/hermes-lcm
set -euo pipefail

if (($#)); then
    printf 'usage (no arguments):\n' >&2
    sed -n 's/^#  //p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi

fail() { printf 'install: %s\n' "$*" >&2; exit 1; }

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=${HERMES_HOME:-$HOME/.hermes}
profile=${HERMES_PROFILE:-}

[[ -f $checkout/plugin.yaml ]] || fail "$checkout is not a checkout of hermes-lcm (no plugin.yaml)"
case $profile in
    "" | default) ;;
    . | .. | */*) fail "HERMES_PROFILE='$profile' is not the name of a profile" ;;
    *) [[ $home == */profiles/"$profile" ]] || home=$home/profiles/$profile ;; # HERMES_HOME may be the profile already
esac
link=$home/plugins/hermes-lcm

mkdir -p "$home/plugins"
if [[ -L $link ]]; then
    was=$(readlink "$link")
    if [[ "$(cd "$link" 2>/dev/null && pwd -P)" == "$checkout" ]]; then
        printf 'Already installed: %s -> %s\n' "$link" "$checkout"
    else
        ln -sfn "$checkout" "$link"
        printf 'Installed: %s -> %s (before: %s)\n' "$link" "$checkout" "$was"
    fi
elif [[ -e $link ]]; then
    if [[ "$(cd "$link" 2>/dev/null && pwd -P)" == "$checkout" ]]; then
        printf 'Already installed: this checkout is %s\n' "$link"
    else
        fail "$link exists and is not a link; move it away, then run this again"
    fi
else
    ln -s "$checkout" "$link"
    printf 'Installed: %s -> %s\n' "$link" "$checkout"
fi

hermes=hermes # as it is typed for this home; HERMES_HOME is in the user's own environment
[[ -z $profile || $profile == default ]] || hermes="hermes -p $profile"
cat <<TEXT

These lines belong in $home/config.yaml:

plugins:
  enabled: [hermes-lcm]
context:
  engine: lcm

Or let Hermes write them: $hermes plugins enable hermes-lcm && $hermes config set context.engine lcm
Then restart Hermes; \`$hermes lcm status\` answers.
TEXT

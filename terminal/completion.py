"""
Completion of ``hermes lcm ...`` for bash, zsh and fish, made from the table of verbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..command import VERBS
from ..errors import BadRequest

_BASH: Final = r"""# hermes lcm: completion for bash. To use it:  source <(hermes lcm completion bash)
_hermes_lcm_before=$(complete -p hermes 2>/dev/null | sed -n 's/.*-F \([^ ]*\) .*/\1/p')
_hermes_lcm() {
    if [[ ${COMP_WORDS[1]} != lcm ]]; then
        [[ -n $_hermes_lcm_before && $_hermes_lcm_before != _hermes_lcm ]] && "$_hermes_lcm_before" "$@"
        return
    fi
    local word=${COMP_WORDS[COMP_CWORD]} words
    if [[ $word == -* ]]; then
        words='@OPTIONS@'
    elif ((COMP_CWORD == 2)); then
        words='@VERBS@'
    elif ((COMP_CWORD == 3)); then
        case ${COMP_WORDS[2]} in
@CASES@
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _hermes_lcm hermes
"""
_ZSH: Final = r"""# hermes lcm: completion for zsh. To use it, behind compinit:  source <(hermes lcm completion zsh)
_hermes_lcm_before=${_comps[hermes]:-}
_hermes_lcm() {
    if [[ ${words[2]} != lcm ]]; then
        [[ -n $_hermes_lcm_before && $_hermes_lcm_before != _hermes_lcm ]] && "$_hermes_lcm_before" "$@"
        return
    fi
    local -a found
    if [[ ${words[CURRENT]} == -* ]]; then
        found=(@OPTIONS@)
        compadd -- $found
    elif ((CURRENT == 3)); then
        found=(@DESCRIBED@)
        _describe verb found
    elif ((CURRENT == 4)); then
        case ${words[3]} in
@CASES@
            *) _files ;;
        esac
    else
        _files
    fi
}
compdef _hermes_lcm hermes
"""
_FISH: Final = r"""# hermes lcm: completion for fish. To use it:  hermes lcm completion fish | source
function __hermes_lcm_at
    set -l words (commandline -opc)
    test (count $words) -eq $argv[1]; and test "$words[2]" = lcm; and begin
        test (count $argv) -lt 2; or test "$words[3]" = $argv[2]
    end
end
@LINES@
"""


def script(shell: str, options: Sequence[str]) -> str:
    """A shell's script that completes our words. Raises BadRequest for another shell."""
    makers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    if shell not in makers:
        raise BadRequest(f"`/lcm completion` does not know the shell {shell!r}; it knows {', '.join(makers)}")
    return makers[shell](sorted(options))


def _families() -> dict[str, tuple[str, list[str]]]:
    """First words of verbs, each with its help and the words that may follow."""
    out: dict[str, tuple[str, list[str]]] = {}
    for verb in VERBS:
        first, _, second = verb.name.partition(" ")
        _, more = out.setdefault(first, (verb.help, []))
        more += [second] if second else []
    out["help"] = (out["help"][0], sorted(set(out) - {"help"}))
    out["completion"] = (out["completion"][0], ["bash", "fish", "zsh"])
    return {name: (help_, list(dict.fromkeys(more))) for name, (help_, more) in sorted(out.items())}


def _bash(options: Sequence[str]) -> str:
    found = _families()
    cases = "\n".join(f"            {name}) words='{' '.join(more)}' ;;" for name, (_, more) in found.items() if more)
    text = _BASH.replace("@OPTIONS@", " ".join(options)).replace("@VERBS@", " ".join(found))
    return text.replace("@CASES@", cases)


def _zsh(options: Sequence[str]) -> str:
    found = _families()
    described = " ".join(_quoted(f"{name}:{help_}") for name, (help_, _) in found.items())
    cases = "\n".join(
        f"            {name}) compadd -- {' '.join(more)} ;;" for name, (_, more) in found.items() if more
    )
    return _ZSH.replace("@OPTIONS@", " ".join(options)).replace("@DESCRIBED@", described).replace("@CASES@", cases)


def _fish(options: Sequence[str]) -> str:
    lines = []
    for name, (help_, more) in _families().items():
        lines.append(f"complete -c hermes -n '__hermes_lcm_at 2' -f -a {name} -d {_quoted(help_)}")
        if more:
            lines.append(f"complete -c hermes -n '__hermes_lcm_at 3 {name}' -f -a '{' '.join(more)}'")
    long = (option[2:] for option in options if option.startswith("--"))
    lines += [f"complete -c hermes -n '__fish_seen_subcommand_from lcm' -l {name}" for name in long]
    return _FISH.replace("@LINES@", "\n".join(lines))


def _quoted(text: str) -> str:
    """Between single quotes, for every shell alike: an apostrophe becomes a typographic one."""
    return f"'{text.replace(chr(39), '’')}'"

"""
Operator verbs over ``ops`` and the settings: prices, presets, installation, backups, summaries; parsed words in, an answer out.

Verbs that need more than this package stand in ``command``, with the table of all verbs.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from ..config import BLOCK, KNOBS, Secret, setting_text
from ..errors import BadRequest
from ..host import facts
from ..recall.access import Access
from ..session import LOCAL
from . import backup, costs, explain, install, listing, presets, render, replay, settings
from .answers import FOUND, OK, Answer, Words, at_most, one, terminal_only
from .orders import Orders
from .status import PLUGIN

_SETTINGS = "settings are changed at the terminal"
_INSTALLATION = "the installation is changed at the terminal"


def explain_address(deps: Access, words: Words) -> Answer:
    """Place of a message or summary, and what is known of it."""
    found, data = explain.explain(deps, listing.named(deps, words))
    said = {
        name: render.checks_said(text) if name.startswith("checks") else text
        for name, text in found.items()
        if text not in ("nothing", "none", "unknown") and (name, text) != ("dissolved", "no")
    }
    return Answer("\n".join(render.table(said.items(), indent="")), data)


def cost(deps: Access, words: Words) -> Answer:
    """Tokens and money of a time."""
    rest = list(words.rest)
    since = ""
    if "since" in rest[:-1]:
        at = rest.index("since")
        since = rest.pop(at + 1)
        rest.pop(at)
    if rest:
        raise BadRequest(f"`/lcm cost` does not take {rest[0]!r}; write `/lcm cost since 7` or `since 2026-11-01`")
    session = deps.for_session_facts().session
    named = words.session if deps.reads_all else session.session_id if session is not None else "-"
    window = deps.config.window(deps.engine.context_length or facts.configured_model()[2])
    data = costs.report(
        deps.db, _prices(deps), since=since, session_id=named, window=window, price_of=lambda model: _price(deps, model)
    )
    return Answer(costs.text(data), data)


def _prices(deps: Access) -> costs.Prices:
    """Prices of the model that runs here, else of the configured one, and of its summariser."""
    model, provider, _ = facts.configured_model()
    if deps.engine.live:
        model, provider = deps.engine.model, deps.engine.provider
    main = _price(deps, (model, provider, deps.engine.local)) if model else None
    named, name, url = facts.summariser(deps.config.summary_model)
    summariser = facts.token_prices(named, name, url) if named else main
    if summariser is None and facts.is_local(url):
        summariser = costs.FREE
    return costs.Prices.known(main, summariser, local=deps.engine.local)


def _price(deps: Access, model: costs.Model) -> costs.Known:
    """Prices of a model: as they were told to the worker, which knows its address, else as the host says now."""
    return deps.engine.priced.get(model[:2]) or facts.token_prices(model[0], model[1])


def _replayed(deps: Access, trials: dict[str, dict[str, object]]) -> tuple[list[str], dict[str, object]]:
    """Lines and data of a replay of the archive's newest day under each trial of some values."""
    configs = {name: replay.tried(deps.config, values) for name, values in trials.items()}
    data = replay.compared(deps, configs, _prices(deps)) if deps.db.exists else {}
    return ["", *replay.text(data)], {"replay": data}


def notices(deps: Access, words: Words) -> Answer:
    """The choice of a chat whether it hears of compactions."""
    wanted = one(words, "on or off") if words.rest else ""
    if wanted not in ("", "on", "off"):
        raise BadRequest(f"`/lcm notices` takes on or off, not {wanted!r}")
    orders, principal = Orders(deps.db), deps.principal or (deps.session.principal if deps.session else LOCAL)
    here = "at this terminal" if deps.trusted else "in this chat"
    if not deps.reads_all and (deps.session is None or deps.rights.shown):
        raise BadRequest("no session is bound here whose owner is known; send a message first")
    if wanted and words.dry:
        return Answer(
            f"Compactions would say {'one line each' if wanted == 'on' else 'nothing'} {here}.", {"dry": True}
        )
    if wanted:
        orders.say_notices(principal, wanted=wanted == "on")
    chosen = orders.notices(principal)
    now = deps.config.compaction_notices if chosen is None else chosen
    source = "LCM_COMPACTION_NOTICES" if chosen is None else f"chosen {here}"
    said = f"Compactions say {'one line each' if now else 'nothing'} {here} ({source.replace(here, 'here')})."
    return Answer(f"{said} `/lcm notices {'off' if now else 'on'}` changes that.", {"notices": now, "source": source})


def show_preset(deps: Access, words: Words) -> Answer:
    """The list of presets, or one of them with what it would have done to the newest day."""
    if not words.rest:
        data = [
            {"preset": each.name, "summary": each.summary, **presets.described(each, deps.config)}
            for each in (*presets.CHOICES, *presets.PRESETS)
        ]
        rows = [(each.name, each.summary) for each in (*presets.CHOICES, *presets.PRESETS)]
        foot = "`/lcm preset show NAME` says what one of them sets and where its values come from."
        return Answer("\n".join([*render.table(rows, indent=""), foot]), {"presets": data})
    preset = presets.preset_named(one(words, "the name of one preset"))
    said = {
        "preset": preset.name,
        "family": preset.family,
        "summary": preset.summary,
        "settings": presets.preview(preset.name),
        "windows": [preset.low, preset.high],
        **presets.described(preset, deps.config),
    }
    lines, day = _replayed(deps, {preset.name: presets.taking_over(preset, deps.config).changes})
    return Answer("\n".join([render.preset_text(said), *lines]), {**said, **day})


def show_choice(name: str, deps: Access, words: Words) -> Answer:
    """One of the presets that are verbs of their own."""
    return show_preset(deps, replace(words, rest=(name,)))


def suggest_preset(deps: Access, _words: Words) -> Answer:
    """The preset that suits this window, and the newest day under it and under each choice."""
    facts = deps.engine
    data = presets.suggestion(
        deps.config, context_length=facts.context_length, model=facts.model, provider=facts.provider
    )
    tried = [*([presets.preset_named(data["preset"])] if data["preset"] else []), *presets.CHOICES]
    lines, day = _replayed(deps, {each.name: presets.taking_over(each, deps.config).changes for each in tried})
    data = {**data, **day}
    head = render.preset_text(data) if data["preset"] else f"No preset is suggested: {data['reason']}."
    return Answer("\n".join([head, *lines]), data)


def apply_preset(deps: Access, words: Words) -> Answer:
    """The settings that a preset stands for, to be set by hand."""
    name = one(words, f"a preset: {', '.join(each.name for each in presets.NAMED)}")
    preset = presets.preset_named(name)
    if not words.dry:
        raise BadRequest(
            f"`preset apply` changes nothing; `/lcm preset apply {name} --dry-run` prints the settings to put into "
            "the environment or into the `lcm:` block of config.yaml"
        )
    said = presets.described(preset, deps.config)
    own = said["kept_because_you_set_them"]
    lines = [line for line in presets.preview(name) if line.partition("=")[0] not in own]
    todo = "set the variables below" if preset.settings else "take out those that you have set: it is the defaults"
    head = [f"Dry run of {name}: nothing is changed. To use it, {todo}."]
    kept = [
        f"  (left out: {key} is {value['value']} already)"
        if value["value"] == value["preset"]
        else f"  (left out: you have set {key} yourself, to {value['value']}; the preset has {value['preset']})"
        for key, value in own.items()
    ]
    bad = [f"  (invalid and therefore not in effect: {text})" for text in said["invalid_settings"].values()]
    return Answer("\n".join([*head, *lines, *kept, *bad]), {"preset": name, "settings": lines, **said})


def use_preset(deps: Access, words: Words) -> Answer:
    """Write a preset into config.yaml: what it sets, and what an earlier preset had set goes back to its default."""
    preset = presets.preset_named(one(words, f"a preset: {', '.join(each.name for each in presets.NAMED)}"))
    terminal_only(deps, words, _SETTINGS)
    plan = presets.taking_over(preset, deps.config)
    lines = []
    for name, value in plan.changes.items():
        new = f"{setting_text(KNOBS[name].default)} (the default)" if value is None else setting_text(value)
        now = setting_text(getattr(deps.config, name))
        source = " (the default)" if deps.config.provenance(name) == "default" else ""
        lines.append(f"{name}: {now}{source} -> {new}")
    lines += [f"{name} stays {setting_text(getattr(deps.config, name))}: {why}" for name, why in plan.kept.items()]
    data = {"preset": preset.name, "changes": plan.changes, "kept": plan.kept, "applied": words.apply}
    if not plan.changes:
        return Answer("\n".join([f"Nothing to do: {preset.name} is in effect.", *lines]), data, idle=True)
    if not words.apply:
        return Answer("\n".join([*lines, f"Dry run. `/lcm preset use {preset.name} apply` writes this."]), data)
    for name, value in plan.changes.items():
        why = (
            facts.unset_setting(f"lcm.{name}")
            if value is None
            else facts.write_setting(f"lcm.{name}", setting_text(value))
        )
        if why:
            raise BadRequest(f"Hermes did not write {name}: {why}")
    return Answer("\n".join([*lines, "Written to config.yaml. Agents take it up at their next start."]), data)


def explain_setting(deps: Access, words: Words) -> Answer:
    """One setting; with a value also what that would have made of the archive's newest day."""
    at_most(words, 2, "a setting, and a value to try")
    said = settings.explain(deps, replace(words, rest=words.rest[:1]))
    name, tried = str(said.data["name"]), words.rest[1:]
    if not tried:
        return said
    value = settings.parse_value(KNOBS[name], tried[0])
    if name not in replay.REACHED:
        note = f"A replay cannot show what another {name} changes: it shows when messages are folded, and how many."
        return Answer(f"{said.text}\n\n{note}", {**said.data, "replay": None})
    lines, day = _replayed(deps, {f"with {setting_text(value)}": {name: value}})
    return Answer("\n".join([said.text, *lines]), {**said.data, **day})


def set_setting(deps: Access, words: Words) -> Answer:
    """One setting, written into config.yaml."""
    terminal_only(deps, words, _SETTINGS)
    knob, value = settings.accepted(deps.config, words)
    before = getattr(deps.config, knob.name)
    change = f"{knob.name}: {setting_text(before)} -> {setting_text(knob.parse(value))}"
    data = {"name": knob.name, "before": before, "value": knob.parse(value)}
    if before == knob.parse(value) and deps.config.provenance(knob.name) == BLOCK and not isinstance(before, Secret):
        return Answer(f"Nothing to do: config.yaml says {knob.name}={setting_text(before)} already.", data, idle=True)
    if words.dry:
        return Answer(f"{change}. Dry run: nothing was written to config.yaml.", data)
    settings.write(knob, value)
    return Answer(f"{change}, in config.yaml under lcm. Agents take it up at their next start.", data)


def install_dashboard(deps: Access, words: Words) -> Answer:
    """The link by which Hermes finds the dashboard."""
    terminal_only(deps, words, _INSTALLATION)
    where, there = install.lay(deps.home, PLUGIN, apply=words.apply)
    data = {"dashboard": str(where), "there": there, "applied": words.apply}
    if there:
        return Answer(f"Nothing to do: Hermes finds the dashboard at {where}.", data, idle=True)
    if not words.apply:
        return Answer(f"It would link the dashboard to {where}. Dry run. `hermes lcm install apply` does it.", data)
    return Answer(f"The dashboard is linked to {where}. Restart `hermes dashboard` to see the tab LCM.", data)


def uninstall(deps: Access, words: Words) -> Answer:
    """The way back to Hermes as it was; the archive stays."""
    terminal_only(deps, words, _INSTALLATION)
    links = [str(path) for path in install.links(deps.home)]
    stays = (
        f"Your messages stay in {deps.db.path} and the folders {deps.db.path.stem}-... beside it until you delete them."
        if deps.db.exists or backup.traces_around(deps)
        else "No message is stored, so nothing stays behind."
    )
    data = {"archive": str(deps.db.path), "links": links, "applied": words.apply}
    if not words.apply:
        steps = ["set context.engine to compressor", "take the plugin off Hermes' list"]
        would = f"It would {', '.join([*steps, *(f'remove {each}' for each in links[:1])])}."
        return Answer(f"{would}\n{stays}\nDry run. `hermes lcm uninstall --apply` does it.", data)
    if why := facts.write_setting("context.engine", "compressor"):
        by_hand = "`hermes config set context.engine compressor` does the same once that is solved"
        raise BadRequest(f"Hermes did not change its configuration: {why}; {by_hand}")
    listed = facts.disable()
    left = install.remove(deps.home)
    did = ["context.engine is compressor again", "the plugin is off Hermes' list"]
    lines = [f"Done: {', '.join([*did, *(f'{each} is removed' for each in links[:1])])}. Restart Hermes.", stays]
    lines += [f"Hermes says of its list of plugins: {listed}"] if listed else []
    lines += [f"The plugin's files are in {left}: delete that folder yourself."] if left else []
    linked = bool(links) and links[0].endswith(install.NAME)  # the whole plugin, not only the dashboard of a package
    lines += [] if linked or left else ["`pip uninstall hermes-lcm` removes the package."]
    return Answer("\n".join(lines), {**data, "left": left and str(left)})


def make_backup(deps: Access, words: Words) -> Answer:
    """A backup, every message read back, and a second copy where a folder is named."""
    at_most(words, 1, "a folder for a second copy, or nothing")
    folder = Path(words.rest[0]).expanduser() if words.rest else None
    if folder is not None and not folder.is_absolute():
        raise BadRequest(
            f"{words.rest[0]!r} is not an absolute path; name a folder such as /mnt/disk/lcm, `/lcm help backup` says more"
        )
    if folder is not None:
        terminal_only(deps, words, "a second copy goes to any folder of the machine, so it is made at the terminal")
    made = backup.back_up(deps, words.progress, with_files=words.files, marked=True)
    kinds = ("messages", "message"), ("nodes", "summary"), ("sessions", "session")
    counts = ", ".join(render.counted(made.counts.get(name, 0), word) for name, word in kinds)
    checked = "every message was read back" if not made.problems else "NOT SOUND, and marked so"
    lines = [f"{made.path} ({render.size(made.bytes)}), checked, {checked}: {counts}"]
    lines += [f"not sound: {each}" for each in made.problems[:5]]
    if made.problems:
        lines.append("What to do: `/lcm doctor deep` says what can be done about the database.")
    if made.payloads:
        where = "in the archive" if made.with_files else "left in place; `/lcm backup --with-files` takes them along"
        lines.append(f"{render.counted(made.payloads, 'payload file')} {where}")
    if made.missing:
        named = ", ".join(f"file_{sha[:16]}" for sha in made.missing[:5])
        lines.append(
            f"{render.counted(len(made.missing), 'payload file')} missing, here as in the database; messages show them: {named}"
        )
    if made.dropped:
        lines.append(f"older ones removed: {', '.join(path.name for path in made.dropped)}")
    copied = None
    if folder is not None:
        copied, old = backup.copy_to(deps, made, folder)
        lines.append(f"copied, and compared byte for byte: {copied}")
        lines += [f"older ones removed there: {', '.join(path.name for path in old)}"] if old else []
    data = {"path": str(made.path), "bytes": made.bytes, "counts": dict(made.counts), "payloads": made.payloads}
    data["copy"] = str(copied) if copied else None
    data |= {"missing_payloads": list(made.missing), "sound": not made.problems, "problems": list(made.problems)}
    code = FOUND if made.problems else OK
    return Answer("\n".join(lines), {**data, "removed": [str(path) for path in made.dropped]}, code)


def restore(deps: Access, words: Words) -> Answer:
    """A backup in place of the database, or the list of backups."""
    if not words.rest:
        return _restorable(deps)
    at_most(words, 1, "one backup, or `latest`")
    name = backup.in_a_chat(deps, words.rest[0])
    plan = (
        backup.restore(deps, name, words.progress) if words.apply else backup.plan_restore(deps, name, words.progress)
    )
    newer = "unknown, it cannot be read" if plan.newer is None else f"{plan.newer:,}"
    count = render.counted(plan.counts.get("messages", 0), "message")
    lines = [f"{plan.source}: sound, {count}. Newer messages that it lacks: {newer}", *plan.notes]
    lines += [f"payload file missing or changed: {name}" for name in plan.missing_payloads[:20]]
    if words.apply:
        lines.append(f"It is the database now. What was there before: {plan.kept or 'nothing'}")
        if plan.kept:
            lines.append(f"`/lcm restore {shlex.quote(plan.kept.name)} apply` takes this back.")
    else:
        typed = shlex.quote(words.rest[0])
        lines.append(f"Dry run. `/lcm restore {typed} apply` puts it back and keeps the present file.")
    data = {
        "source": str(plan.source),
        "counts": dict(plan.counts),
        "newer_messages": plan.newer,
        "notes": list(plan.notes),
        "applied": words.apply,
    }
    return Answer("\n".join(lines), {**data, "kept": str(plan.kept) if plan.kept else None})


def _restorable(deps: Access) -> Answer:
    """The backups there are, newest first: of this database, then of others in the same folder."""
    mine = backup.backups(deps)[::-1]
    others = [each for each in backup.all_backups(deps.db.path)[::-1] if each not in mine]
    lines = ["Name the backup to put back, or `latest`:", *(f"  {each}" for each in mine)]
    lines = lines if mine else ["There is no backup of this database yet; `/lcm backup` makes one."]
    aside = backup.set_aside(deps.db.path)
    lines += (
        ["Set aside by a restore, a repair or a rotation; delete them when you need them no more:"] if aside else []
    )
    lines += [f"  {path.name}, {render.size(path.stat().st_size)}" for path in aside]
    lines += ["Of other databases:", *(f"  {each}" for each in others)] if others else []
    lines += ["`/lcm restore NAME` looks at one, `/lcm restore NAME apply` puts it back."] if mine or others else []
    data = [
        {"name": each.path.name, "made_at": each.made_at, "messages": each.messages, "sound": each.sound}
        for each in mine
    ]
    named = {"of_others": [each.path.name for each in others], "set_aside": [path.name for path in aside]}
    return Answer("\n".join(lines), {"backups": data, **named}, idle=True)


def dissolve(deps: Access, words: Words) -> Answer:
    """A summary that no prompt uses any more, or may use again."""
    address = one(words, "a summary such as sum_3", most=2)
    undo = words.rest[1:] == ("undo",)
    if words.rest[1:] and not undo:
        raise BadRequest(f"{words.rest[1]!r} is neither 'apply' nor 'undo'")
    before = explain.dissolve(deps, address, apply=False)
    if undo and words.dry:
        said = f"{address} may be used again." if before["dissolved"] else f"{address} was not dissolved."
        return Answer(f"{said} Dry run.", {**before, "said": said})
    if not words.apply or undo or before["dissolved"]:  # an order that is there already changes nothing
        data = explain.dissolve(deps, address, apply=undo, undo=undo)
        return Answer(str(data["said"]), data, idle=undo != before["dissolved"])
    made = backup.back_up(deps, words.progress)
    data = {**explain.dissolve(deps, address, apply=True), "backup": str(made.path)}
    return Answer(f"{data['said']} Backup: {made.path}", data)

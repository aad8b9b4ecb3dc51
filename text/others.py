"""
Quoted words of others in a message (code, quotations, documents, mails, letters, pasted chats), and the message without them.

Pure. A rule in a mail that a user pastes is not the user's rule, unless the user adopts it ("follow this:"). A letter is known by
its greeting and its end, words that are handed on by the line that announces them, a talk by names that come again. Text that may
be either is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from . import salience
from .salience import lazy

_CODE: Final = lazy(r"```.*?(?:```|\Z)", re.DOTALL)
#: Beginnings of what others wrote: quoted lines, quotation marks in front of a line, tags of documents.
_BEGINS: Final = lazy(
    r"^[ \t]*>[^\n]*$|^[ \t]*(?P<mark>[\"“„«])|"
    r"<(?P<tag>file|doc(?:ument)?|attachment|e?mail|message|page|article|content|context|log|output|result|tool_result|data|"
    r"source|code|pre|quote|blockquote|transcript|html|text)(?:\s[^<>\n]*)?>(?P<alone>[ \t]*\n)?",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSES: Final = {'"': '"', "“": "”", "„": "“", "«": "»"}
_NAME: Final = r"[^\W\d_][\w.'’-]{0,30}(?: [^\W\d_][\w.'’-]{0,30}){0,2}"
_CLOCK: Final = (
    r"(?:\d{4}-\d\d-\d\d[T, ]{0,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4},? ?)?"
    r"\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?: ?[AaPp]\.?[Mm]\.?)?"
)
_SUBJECT: Final = r"(?:Subject|Betreff|Asunto|Objet|Oggetto|Assunto|Тема|主题|件名|제목)"
_FROM: Final = r"(?:From|Von|De|Da|От|发件人|差出人|보낸 사람)"
_HEAD: Final = (
    rf"(?:{_SUBJECT}|{_FROM}|To|Cc|Bcc|Date|Sent|Reply-To|An|Datum|Gesendet|Para|Fecha|Enviado|À|Envoyé|A|Data|Inviato|Кому|Дата|"
    r"收件人|抄送|日期|发送时间|宛先|日時|받는 사람|날짜)"
)
#: Beginning of a mail by its head, by what forwards it, or by who wrote when. "Subject: maths" may head any list: a head has an
#: address, a second line beside the subject, or an empty line below it.
_MAILED: Final = lazy(
    r"^[ \t]*(?:(?:-+ ?|begin )?(?:forwarded|original) message\b|"
    rf"{_FROM}: ?[^\n]*@|{_SUBJECT}: ?\S[^\n]*\n[ \t]*(?:\n|{_HEAD}: )|"
    rf"{_HEAD}: ?[^\n]*\n[ \t]*(?:{_HEAD}: ?[^\n]*\n[ \t]*){{0,4}}{_SUBJECT}: |"
    rf"{_FROM}: ?[^\n]*\n[ \t]*(?:{_HEAD}: ?[^\n]*\n[ \t]*){{1,4}}\n|"
    r"(?:on|am|le|el|il|em) [^\n]{4,80} (?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu)[^\n]{0,60}:[ \t]*$)",
    re.MULTILINE | re.IGNORECASE,
)
#: A mail too if it has an end.
_SUBJECT_ALONE: Final = lazy(rf"^[ \t]*{_SUBJECT}: ?\S", re.MULTILINE | re.IGNORECASE)
_EVERYBODY: Final = (
    r"(?:all|team|everyone|everybody|folks|guys|colleagues?|customers?|users?|members?|friends|residents|neighbou?rs|partners?|sir|"
    r"madam|alle|zusammen|kolleg\w+|kund\w+|equipo|todos|todas|clientes?|compañeros|tous|toutes|équipe|clients?|tutti|colleghi|"
    r"коллеги|все|команда)"
)
_GREETS: Final = (
    r"(?:dear|hi|hello|hey|good (?:morning|afternoon|evening)|liebe[rs]?|hallo|hi|moin|sehr geehrte[rs]?|guten (?:tag|morgen)|"
    r"estimad[oa]s?|querid[oa]s?|hola|buenos días|ch[eè]re?s?|bonjour|gentil[ei]|car[oaie]|buongiorno|ciao|prezad[oa]s?|olá|"
    r"уважаем\w+|дорог\w+|здравствуйте|привет)"
)
#: Greeting of a letter; a greeting of the agent is none. A letter to everybody is known without an end.
_GREETED: Final = lazy(
    rf"(?:^|(?<=[:：] )|(?<=[\"“]))[ \t]*(?:(?P<all>(?:(?:dear|liebe|sehr geehrte|estimad[oa]s|querid[oa]s|ch[eè]re?s|gentili|"
    rf"cari|prezad[oa]s|уважаемые|дорогие) (?:\w+ )?{_EVERYBODY}|to whom it may concern)[^\n,:.!]{{0,30}}[,:.!]|"
    r"(?:各位|尊敬的)[^\n，,：:]{1,12}[，,：:])|"
    rf"{_GREETS}(?! (?:there|hermes|claude|assistant|chat ?gpt|gpt|gemini|agent|bot|ai|copilot|again)\b) [^\n,:.!]{{2,40}}[,:!])",
    re.MULTILINE | re.IGNORECASE,
)
#: Greeting of a talk: at the beginning of a message it is the agent that is greeted, by any name.
_TALKS: Final = lazy(
    rf"[ \t]*(?:hi|hello|hey|hallo|moin|hola|salut|ciao|olá|привет)\b(?! {_EVERYBODY}\b)", re.IGNORECASE
)
#: End of a letter: the words before a name, and the name.
_SIGNED: Final = lazy(
    r"(?<![^\s,.!?])(?:(?:with |many |all )?(?:my )?(?:best|kind|kindest|warm|warmest) (?:regards|wishes)|regards|"
    r"sincerely(?: yours)?|yours (?:sincerely|faithfully|truly)|all the best|best|cheers|(?:many )?thanks|thank you|"
    r"mit (?:freundlichen|besten|herzlichen|lieben) grüßen|(?:(?:viele|beste|liebe|herzliche|schöne) )?grüße|[lv]g|mfg|gruß|"
    r"(?:un )?saludos?(?: cordial(?:es)?)?|atentamente|cordialement|bien à vous|(?:cordiali |distinti )?saluti|atenciosamente|"
    r"abraços?|с уважением|此致|敬礼|敬具)[,.! ]{0,2}\s{1,3}[–-]{0,2} ?"
    r"(?-i:[^\W\d_a-zäöüéèàñç])[^\W\d_][\w.'’-]{0,30}(?: (?-i:[A-ZÄÖÜÁÉ])[\w.'’-]{1,30}){0,2}"
    r"(?=[.!]?(?:\s|\Z))[.!]?(?:\s*\n[ \t]*P\.?S\b[^\n]*)?",
    re.IGNORECASE,
)
#: A line that ends with a colon, and what in it says that somebody else wrote what follows.
_ANNOUNCED: Final = lazy(r"^(?P<line>[^\n:：]{2,160})[:：][ \t]*\n", re.MULTILINE)
_LETTER: Final = lazy(
    r"\b(?:(?:e-?)?mails?|letters?|messages?|memos?|announcements?|posts?|tweets?|reviews?|chats?|conversations?|threads?|"
    r"transcripts?|articles?|notices?|newsletter|nachricht|brief|rundmail|correo|mensaje|carta|courriel|lettre|messaggio|lettera|"
    r"письмо|сообщение)\b|邮件|短信|来信|消息|公告|聊天记录|メール|メッセージ|메일|메시지",
    re.IGNORECASE,
)
_PASSED_ON: Final = lazy(
    r"\b(?:this|that|these|following|here(?:['’]s| is| are)|below|got|received|from|sent|forwarded|pasted|by|"
    r"diese[rsn]?|folgende[rsn]?|von|bekommen|est[ea]|siguiente|de|ce|cette|suivant\w*|questo|questa|da|это|от)\b|[这此以来]|この|이",
    re.IGNORECASE,
)
_SAYS: Final = lazy(
    r"^(?!.*\b(?:i|ich|yo|je|я|it|compiler|linter|terminal|console|shell|log|output|tests?|ci|build|server|api|script|command|error|"
    r"browser|program|app)\b).*\b(?:wrote|writes|said|says|sent|posted|replied|answered|emailed|texted|schrieb|schreibt|sagt|"
    r"sagte|escribió|dijo|a écrit|a dit|ha scritto|написала?|сказала?)\b|(?<!我)(?:说|写道|回复)",
    re.IGNORECASE,
)
#: In such a line: words of one who gives rules himself.
_RULES: Final = lazy(
    r"\b(?:rules?|guidelines?|requirements?|instructions?|conventions?|preferences?|notes?|templates?|style|format|regeln|reglas|"
    r"règles|regole|правила)\b|规则|要求",
    re.IGNORECASE,
)
#: Beginning of such a line that says how to write something.
_ORDERS: Final = lazy(
    r"[ \t]*(?:(?:here is|here['’]s|this is) how|how to|for|from now on|when(?:ever)?|if|in|"
    r"(?:please )?(?:write|use|make|put))\b",
    re.IGNORECASE,
)
#: Lines of a program's log.
_TIMED: Final = lazy(
    r"^[ \t]*\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |"
    r"\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)[\]:])[^\n]*$",
    re.MULTILINE,
)
_QUOTE_MARKS: Final = lazy(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
#: Lines of a chat's log: a time and a name, a name in brackets or behind an @, a name and a time with all lines below.
_LOGGED: Final = lazy(
    rf"^[ \t]*(?:[-*•] )?(?:[\[(]?{_CLOCK}[\])]?[ \t]*(?:[-–—|,] ?)?(?:<@?{_NAME}>|\**@?{_NAME}\**[ \t]*[:：>])|"
    rf"<@?[\w.-]{{1,30}}>(?=[ \t]+\S)(?![^\n]*</)|@[\w.-]{{1,30}}:|{_NAME} ?[(\[|,–-]? ?{_CLOCK}[)\]]? ?[:：])[^\n]*$|"
    rf"^[ \t]*\**@?{_NAME}\**[ \t]*(?:[(\[|,–-][ \t]*)?{_CLOCK}[)\]]?:?[ \t]*\n(?:[ \t]*\S[^\n]*(?:\n|\Z))+",
    re.MULTILINE,
)
_LABEL: Final = re.compile(rf"[ \t]*(?:[-*•] )?\**(?P<name>{_NAME})\**[ \t]*[:：]\**[ \t]*(?=\S)")
_LEAST_TALK: Final = 2  # lines
_AGENTS: Final = frozenset("assistant ai bot agent hermes chatgpt gpt gemini copilot".split())
_SIDES: Final = _AGENTS | frozenset(
    "user human me you i customer client support ich du yo tú moi toi я ты 我 你".split()
)
#: Last words of labels that name a thing, which says nothing.
_THINGS: Final = frozenset(
    """frontend backend api ui ux database databases db storage cache queue server servers hosting deployment deployments deploy
    deploys ci cd build builds test tests testing doc docs docstrings documentation git commit commits branch branches code style
    styles format formats formatting indentation naming name names language languages tone output input response responses answer
    answers reply replies comment comments logging logs error errors security auth authentication mobile web ios android windows
    linux macos css html javascript typescript python java rust go sql yaml json markdown makefile makefiles tool tools framework
    frameworks library libraries dependency dependencies package packages infrastructure infra config configuration environment
    env prod production staging dev development data model models schema migration migrations file files folder folders path
    paths port ports date dates number numbers unit units currency time timezone email emails mail mails message messages report
    reports summary summaries budget goal goals task tasks scope context audience topic subject title project stack architecture
    design layout color colors colour colours font fonts accessibility performance monitoring metrics payments billing review
    reviews release releases qa
    sprache stil ausgabe antworten kommentare datenbank datenbanken dateien sicherheit dokumentation entwurf farben schrift
    idioma estilo formato respuestas comentarios pruebas código archivos diseño salida seguridad datos
    langue style réponses commentaires fichiers données sécurité sortie
    前端 后端 数据库 接口 测试 文档 代码 语言 风格 格式 部署 样式 注释 日志 配置""".split()
)
#: What somebody says who talks with others: a question, an answer, what he did or will do.
_TALKED: Final = lazy(
    r"[?？][\W_]*$|^\W*(?:ok(?:ay)?|k|yes|yep|yeah|no|nope|sure|fine|agreed|understood|thanks?|thank you|thx|got it|will do|done|"
    r"right|true|lol|hi|hello|hey|sorry|ja|nein|klar|danke|stimmt|sí|vale|gracias|oui|d['’]accord|merci|да|нет|хорошо)\b"
    r"(?=\W*$|[,.!])|^(?:好的?|是的|明白|谢谢|收到)|\b(?:i|we)(?:['’](?:m|ve|ll|d)|"
    r" (?:am|was|were|did|have|had|will|can|could|think|saw|deployed|"
    r"pushed|fixed|merged|just|already)) ",
    re.IGNORECASE,
)
_NO_NAMES: Final = frozenset(
    "note notes important rule rules remember reminder update correction fyi ps edit warning style convention policy please also "
    "wichtig hinweis regel importante nota regla règle важно 注意 规则 重要 要求 备注 提醒".split()
)
#: A user who makes somebody else's words a rule.
_ADOPTED: Final = lazy(
    r"\b(?:follow(?! up\b)|obey|stick to|stick with|adhere to|comply with|abide by|observe|respect|heed|keep to|go by|"
    r"according to|(?:do|work|act) (?:as|what) [^.]{1,60} (?:says?|tells?|asks?)|as [^.]{1,60} (?:says|demands|requires)|"
    r"(?:these|this|those|here|the following|that) (?:are|is) (?:our|my|the|your) (?:\w+ )?(?:rules?|guidelines?|conventions?|"
    r"instructions?|policy|policies)|(?:rules?|guidelines?|instructions?|conventions?) (?:to follow|for you|that (?:apply|hold))|"
    r"befolgen?|halte? dich (?:bitte )?(?:dar)?an|beachten?|"
    r"richte dich nach|sigue|sigan|respeta|cumple|cíñete a|suis|suivez|respectez?|"
    r"siga|segue|respeite|cumpra|segui|rispetta|attieniti|следуй(?:те)?|соблюдай(?:те)?|придерживайся)\b|"
    r"遵守|遵循|遵照|按照|照(?:着|此|这)|従って|守って|준수|따라\s?(?:줘|주세요|라)|지켜",
    re.IGNORECASE,
)
_NOT_ADOPTED: Final = lazy(
    r"(?:\b(?:not|never|no longer|nicht|nie|no|ne|nunca|não|non|не)|n['’]t)\W+(?:\w+\W+){0,2}?"
    r"(?:follow|obey|stick|adhere|comply|abide|observe|respect|heed|keep|go by|"
    r"befolg|halte|beacht|sigu?|segu|respe|cumpl|sui|rispett|следу|соблюд)|"
    r"(?:不要|别|无需|不用)\w{0,2}(?:遵守|遵循|按照)",
    re.IGNORECASE,
)
#: What an adoption points at.
_POINTS: Final = lazy(
    r"\b(?:this|that|these|those|it|them|following|above|below|(?:the|his|her|their|its) (?:rules?|guidelines?|instructions?|"
    r"e?-?mail|letter|message|policy|memo)|das|dies\w*|daran|folgende\w*|esto|est[ea]s?|siguiente\w*|cela|ça|ces?|cette|suivant\w*|"
    r"questo|queste|isto|isso|estas?|это\w*|these are|these)\b|[此这]|以[上下]|これ|この|이|다음|[:：]\W*$",
    re.IGNORECASE,
)


def own_words(text: str) -> str:
    """Text without others' words; where the user adopts these, without code and talk only."""
    plain = _CODE.sub("\n", text)
    own = _without_letters("\n".join(_outside_documents(plain)))
    if own != plain and any(adopts(each) and _POINTS.search(each) for each in salience.sentences(own)):
        own = _QUOTE_MARKS.sub("", plain)
    return "\n".join(_without_talk(_TIMED.sub("\n", _LOGGED.sub("\n", own)).split("\n")))


def _outside_documents(text: str) -> Iterator[str]:
    """Text outside of quoted lines, quotations over several lines and documents in tags. Linear.

    A tag that nothing closes goes to the end of the text, if it ends its line.
    """
    at = behind = 0
    unclosed = set[str]()
    while head := _BEGINS.search(text, behind):
        behind = head.end()
        stop = _document_end(text, head, unclosed)
        if stop:
            yield text[at : head.start()]
            at = behind = stop
    yield text[at:]


def _document_end(text: str, head: re.Match[str], unclosed: set[str]) -> int:
    """Place where a document ends; 0 where its beginning is none. ``unclosed``: what does not end in the rest of the text."""
    mark, tag = head["mark"], (head["tag"] or "").lower()
    if not mark and not tag:
        return head.end()
    closes = _CLOSES[mark] if mark else f"</{tag}>"
    tail = None if closes in unclosed else re.compile(re.escape(closes), re.IGNORECASE).search(text, head.end())
    if tail is None:
        unclosed.add(closes)
        return len(text) if head["alone"] else 0
    return tail.end() if tag or "\n" in text[head.end() : tail.start()] else 0


def _without_letters(text: str) -> str:
    """The text without mails and letters: each to its end, where a name tells it, else all that follows."""
    begins = sorted(
        [
            *((match.start(), True) for match in _MAILED.finditer(text)),
            *((match.start(), False) for match in _SUBJECT_ALONE.finditer(text)),
            *((match.end(), True) for match in _ANNOUNCED.finditer(text) if _is_handed_on(match["line"])),
            *(
                (match.start(), bool(match["all"]))
                for match in _GREETED.finditer(text)
                if not _greets_agent(text, match)
            ),
        ]
    )
    if not begins:
        return text
    ends = [match.end() for match in _SIGNED.finditer(text)]
    out, at = list[str](), 0
    for begin, whole in begins:
        n = bisect_left(ends, begin)
        if begin >= at and (whole or n < len(ends)):
            out.append(text[at:begin])
            at = ends[n] if n < len(ends) else len(text)
    return "\n".join([*out, text[at:]])


def _greets_agent(text: str, greeting: re.Match[str]) -> bool:
    return not greeting["all"] and not text[: greeting.start()].strip() and _TALKS.match(greeting[0]) is not None


def _is_handed_on(line: str) -> bool:
    """Does a line announce what somebody else wrote?"""
    if _RULES.search(line) or _ORDERS.match(line):
        return False
    return (_LETTER.search(line) and _PASSED_ON.search(line)) is not None or _SAYS.search(line) is not None


def label(sentence: str) -> str:
    """The name in front of a sentence, as of somebody who said it; "" where there is none."""
    found = _LABEL.match(sentence)
    name = found["name"].casefold() if found else ""
    return "" if name in _NO_NAMES else name


def _without_talk(lines: list[str]) -> Iterator[str]:
    """Lines but for those of a talk."""
    for named, some in groupby(lines, key=lambda line: bool(label(line))):
        said = list(some)
        if not named or not _is_talk(said):
            yield from said


def _is_talk(lines: list[str]) -> bool:
    """Are neighbours with names in front a talk: does a name come again, or is one a side of a dialogue?

    A list of things, or of what the agent is told, is none, unless one line answers another.
    """
    names = [label(line) for line in lines]
    if len(names) < _LEAST_TALK or (len(set(names)) == len(names) and _SIDES.isdisjoint(names)):
        return False
    people = {name for name in names if name not in _AGENTS and name.split()[-1] not in _THINGS}
    if not people:
        return any(_TALKED.search(_LABEL.sub("", line, count=1)) for line in lines)
    again = {name for name, times in Counter(names).items() if times > 1}
    return not (_SIDES.isdisjoint(names) and again.isdisjoint(people))


def adopts(sentence: str) -> bool:
    """Does a sentence tell the agent to follow what it points at?"""
    return (
        _ADOPTED.search(sentence) is not None
        and not _NOT_ADOPTED.search(sentence)
        and not salience.is_question(sentence)
    )

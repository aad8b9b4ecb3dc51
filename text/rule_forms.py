"""
Forms of a rule by their grammar, in ten languages: an order for every time that something comes again, what nobody may without
somebody's leave, whom to ask in doubt, what all things of a kind must be, and how somebody is to be called.

Pure. A form tells a rule where no word alone would ("always", "never"). What only tells how things are has none: the verb behind
the time is an order, the leave is the speaker's, the condition is not of one thing, and the thing is one of an agent's work.
"""

from __future__ import annotations

import re
from typing import Final

from . import salience
from .salience import lazy

#: Words in front of a rule that say nothing of it.
_LEAD: Final = lazy(
    r"(?:(?:oh|ok(?:ay)?|and|but|also|so|yes|yeah|yep|no(?=[,.!])|wait(?=[,.!])|hm+|well|right|hey|hi|hello|"
    r"please|pls|btw|bot(?=[,:])|by the way|fyi|"
    r"note|important|"
    r"again|actually|ah|great|thanks|thank you|perfect|(?:(?:one|just one) (?:more |last |other )?thing(?=[:,.]| [–—-]))|"
    r"another thing|"
    r"(?:just )?to be (?:very )?clear|for the record|quick (?:note|reminder)|(?:just )?(?:a )?(?:friendly )?reminder|"
    r"heads[- ]up|in (?:this|our) (?:project|repo(?:sitory)?|code ?base|team|company)|"
    r"ja|nein|und|aber|bitte|ach|noch (?:was|etwas|eins)|übrigens|außerdem|gut|danke|wichtig|hinweis|nur zur klarheit|"
    r"y|pero|sí|vale|por favor|además|por cierto|una cosa más|otra cosa|gracias|"
    r"et|mais|oui|s['’]il (?:te|vous) plaît|au fait|encore une chose|merci|"
    r"e|ma|sì|per favore|inoltre|un['’]altra cosa|grazie|mas|sim|além disso|mais uma coisa|"
    r"и|но|да|пожалуйста|кстати|также|ещё|еще|спасибо)(?![\w'’])[\s,.:;!–—-]*|(?:另外|还有|对了|请注意|あと|ちなみに|그리고|"
    r"참고로)[\s，、,:：]*)+",
    re.IGNORECASE,
)
#: What asks for consent to an order in front of it.
_TAG: Final = lazy(
    r",? (?:ok(?:ay)?|ja|please|alright|deal|klar|verstanden|vale|de acuerdo|d['’]accord|tá|va bene|хорошо|ладно) ?\?\W*$|"
    r"[，,]?(?:好吗|好不好|行吗|可以吗)[？?]?\W*$",
    re.IGNORECASE,
)
_AN_ORDER: Final = rf"(?:{'|'.join(sorted(salience.VERBS))})"
_LATER: Final = r"(?:tomorrow|next \w+|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
#: Beginnings of rules that ``salience`` does not know, since their words alone do not tell: in English and Chinese.
_MANNERS: Final = lazy(
    r"^(?:please )?(?:avoid (?!being\b)\w|stop (?:using|adding|writing|doing|making|putting|creating|calling|asking|"
    r"apologi[sz]ing)\b|"
    r"keep (?:all |your |every |the )?(?:\w+ ){1,3}(?:under|below|short|simple|minimal|brief|within|at most)\b|"
    r"(?:(?:ask|warn|check with|consult) me (?:first )?(?:before|whenever|if you|when you)|"
    r"tell me (?:first )?(?:before|whenever)|"
    r"(?:confirm(?: with me)?|(?:get|wait for) my (?:ok(?:ay)?|approval|confirmation|permission|consent|go-ahead)|"
    r"(?:ping|notify|alert|inform) me) (?:first )?before (?!(?:i|we)\b|(?:you )?\w+ (?:it|this|that)\b))|"
    r"write (?:all |your )?(?:commit messages?|comments|docstrings|code|docs|documentation|replies|answers|messages) "
    r"in (?!the|a|one)[a-z]+\b|(?:use|write|indent|format|spell|name|prefix|quote) [^.]{2,60} (?:everywhere|"
    r"throughout|at all times)\b|"
    r"only (?:touch|change|edit|modify|commit|push|cite|quote)\b|"
    rf"only (?:{_AN_ORDER}|unlock) (?!(?:it|this|that|them)\b)[^.?!]{{3,60}} (?:when|if|after) (?:i|we|my [\w-]+)(?: or i)? "
    r"(?:\w+ )?(?:ask|say|tell|approve|agree|confirm|request|order)s?\b|"
    r"leave (?!(?:me|us|it|him|her|them|you)\b)[^.,?!]{2,60} (?:alone|untouched)\W*$|"
    r"(?:treat|consider) [^.,?!]{2,60} as (?:read[- ]only|off[- ]limits|frozen|immutable|confidential)\b|"
    r"no (?:[\w-]+ ){0,2}[\w-]+s, ever\W*$|"
    rf"{_AN_ORDER} [^.?!]{{2,60}}(?:,| and) nowhere else\W*$|"
    r"(?:sign|prefix|start|begin|end) (?:every|each) (?:commit|answer|reply|message|branch) with\b|"
    rf"(?:from {_LATER} on(?:wards?)?|(?:as of|starting(?: from)?) {_LATER}),? "
    rf"(?:please |always |never |do not |don['’]?t )*{_AN_ORDER}\b|"
    r"(?:reply|respond|answer)\b[^.]{2,40}\bonly\b)|"
    r"^(?:please )?(?:answer|reply|respond|write|speak|talk)(?: to me| me)? (?:only )?in (?:english|german|french|spanish|"
    r"italian|portuguese|dutch|polish|russian|turkish|arabic|hindi|chinese|japanese|korean)\b|"
    r"^(?:bitte )?antworte (?:mir )?(?:bitte )?(?:nur )?auf \w+|^(?:por favor,? )?resp[oó]nde(?:me)? en \w+|"
    r"^отвечай(?:те)? (?:мне )?(?:только )?(?:по-\w+|на \w+ом\b)|^rispondi(?:mi)? in \w+|^responda(?:-me)? em \w+|"
    r"^réponds(?:-moi)? en \w+|^[^。]{0,12}请(?:都|只|一律)?用[^，。]{1,6}(?:回答|回复|交流)|"
    r"^no more (?:emoji|comment|apolog|question|test|mock|list|bullet|todo|placeholder|explanation|summar|change|commit|"
    r"abbreviation|file|dependenc|print|log|hack|workaround|shortcut|guess|semicolon|tab|warning|disclaimer|typo)[a-z]*\b|"
    r"^no (?!errors?|warnings?|changes?|failures?|bugs?|issues?|problems?|mention|sign|trace|luck|one|way)"
    r"[a-z]+s? (?:in (?:the |your |my )?(?:code|commits?|commit messages|comments?|docs?|answers?|replies|responses?|output)|"
    r"without (?:asking|my|a|an))\b|"
    r"^no (?:changes|deploy\w*|push\w*|merges?|restarts?|releases?|downtime|migrations?|calls|meetings|messages|e?-?mails) "
    r"(?:[^.]{0,40} )?(?:between|before|after|during|until|without|outside|on (?:mon|tues|wednes|thurs|fri|satur|sun)days?)\b|"
    r"^(?:(?:the|my|our|one|new|first|second|third|golden|ground|house) ){0,2}(?:rule|regel|regla|règle|regola|правило)"
    r"(?: ?(?:#|no\.? ?|nr\.? ?)?\d+)?: \w|^规则\d*[：:]|"
    r"^(?:whenever|every time|each time) (?!(?:i|we|he|she|they|it)\b)[^,?]{3,60}, (?:please |first |always |then |never |"
    rf"just )*(?:{'|'.join(sorted(salience.VERBS))}|ping|page|notify|tell|reply|answer|alert)\b|"
    r"^(?:whenever|every time|each time) you (?!need|want|like|feel|are|get|can|have|see|"
    r"know|look|find|wish|think|decide)[a-z]+\b(?!.*\b(?:let me know|i (?!want|need|expect|ask)))|"
    r"^(?:please )?use (?!(?:the|this|that|it|my|your|an?|these|those|them)\b)[\w.+/-]+,? (?:and )?not (?!(?:the|"
    r"this|that|it|my|your|an?)\b)"
    r"[\w.+/-]+\W*$|"
    rf"^(?:if|when(?:ever)?) [^,:?]{{3,60}}[,:] (?:please )?(?:always|never) (?:{'|'.join(sorted(salience.VERBS))}|"
    rf"answer|reply|respond|"
    r"speak|greet|offer|mention|confirm|warn|notify|inform|quote|cite|refer)\b|"
    r"(?:请)?别(?:动|用|改|删|碰|把|写|加|提交)",
    re.IGNORECASE,
)
#: What follows a Spanish "no", and no English one: a verb that is told not to be, or words that are Spanish alone.
_EN_ESPANOL: Final = (
    r"(?:(?:me |lo |la |le |se )?(?:uses|utilices|hagas|toques|borres|cambies|modifiques|crees|escribas|pongas|añadas|elimines|"
    r"instales|subas|agregues|incluyas|olvides|respondas|ejecutes|edites|copies|muevas|ignores|omitas|envíes|mandes|publiques|"
    r"repitas|preguntes|expliques|traduzcas|menciones|supongas|asumas|inventes|resumas|digas|des|abras|cierres)\b|"
    r"[^.]{0,60}\b(?:el|la|los|las|un|una|del?|con|por|que|al|mi|tu|su|nada|es[oae]|est[oae]|para|sin|en)\b(?! the))"
)
_EM_PORTUGUES: Final = (
    r"(?:use|utilize|responda|escreva|execute|rode|teste|verifique|pergunte|faça|crie|adicione|inclua|mantenha|confirme|"
    r"siga|coloque|"
    r"fale|apague|altere|mude|delete|remova|toque|mexa|envie|publique|instale|suba|copie|mova|edite|invente|resuma|traduza|"
    r"feche|commite|exclua|modifique|comente|mencione|peça|salve|atualize|formate|revise|avise|documente|evite|espere)"
)
_IN_ITALIANO: Final = (
    r"(?:usa|utilizza|controlla|verifica|testa|scrivi|rispondi|esegui|chiedi|fai|aggiungi|mantieni|includi|crea|lancia|"
    r"conferma|metti|segui|documenta|traduci|salva|chiedimi|aggiorna|avvisami|aspetta|evita)"
)
#: Beginnings of rules in languages whose verbs tell an order.
_ORDERS: Final = lazy(
    # German
    r"^(?:bitte )?(?:immer|stets|niemals|nie|keine?n?) (?!wieder|noch|mal)|"
    r"^(?:bitte )?(?!(?:ich|wir|es|er|sie|das|die|der|den|man|da|dann|so|aber|leider|warum|wieso|weshalb|wie|was|wer|wo|wann|"
    r"hab\w*|ist|sind|war\w*|kann|wird|dies\w*|mein\w*|unser\w*|eine?\w?|geht|läuft|klappt|funktioniert|stürzt|kommt|gibt)\b)"
    r"[a-zäöüß]{3,} (?:[\w./-]+,? ){0,5}?(?:immer|stets|niemals|nie|nur noch|nicht mehr)\b(?! noch| wieder)|"
    r"^(?:bitte )?(?:benutze?|verwende?|nutze?|schreibe?|mache?|setze?|füge?|erstelle?|lösche?|ändere?|lege?|committe?|pushe?) "
    r"(?:mir |bitte )?(?:keine?[nmrs]?|nichts)\b|^(?:bitte )?frage? mich (?:vorher|erst|immer|bevor)\b|"
    r"^(?:alle|jede[rs]?|sämtliche) [^.]{2,50}\b(?:müssen|muss|sollen|soll|dürfen|darf) |"
    r"^(?:bitte )?(?:führe?|starte?|prüfe?|teste?|mache?|schreibe?) [^.]{0,30}\b(?:vor|nach|bei) jede[mr]\b|"
    r"^(?:bitte )?(?:nimm|nutze?|be?nutze?|verwende?) [\w.+/-]+,? (?:und )?(?:nicht|statt) [\w.+/-]+\W*$|"
    r"^(?:wenn|falls) [^,:?]{3,60}[,:] (?:bitte )?[a-zäöüß]{3,}e? (?:bitte )?(?:immer|nie|niemals|stets)\b|"
    r"^(?:bitte )?lass(?:t|en sie)? (?!mich|uns|es\b|das\b|ihn|sie\b)[^.,?!]{3,50} (?:in ruhe|unangetastet)\W*$|"
    r"^(?:bitte )?[^.?!]{3,60}\b(?:gehör(?:t|en)|legst?|lege?|schreibe?|speichere?) [^.?!]{2,60}(?:,| und) nirgends sonst\W*$|"
    r"^ab (?:morgen|nächste[rmn] \w+|\w+tag|mittwoch)\b (?:bitte\b|keine? [^.?!]{3,40} mehr\W*$)|"
    # Spanish
    r"^deja en paz (?!a )\w|^(?:pon|guarda|escribe)\b[^.?!]{3,80}(?:,| y) en ning[uú]n otro (?:sitio|lugar|lado)\W*$|"
    r"^a partir del? (?:mañana|lunes|martes|miércoles|jueves|viernes|sábado|domingo|próxim\w+ \w+),? "
    rf"(?:no (?={_EN_ESPANOL})|nunca \w+(?:as|es)\b)|"
    r"^(?:por favor,? )?usa [\w.+/-]+,? (?:y )?no [\w.+/-]+\W*$|"
    rf"^(?:(?:por favor|por cierto|además),? )?(?:no(?= {_EN_ESPANOL})|nunca|jamás|siempre) (?:me |lo |la |le )?"
    r"(?!\w+ies\b|(?:matter|longer|other|further|better|wonder|"
    r"users?|servers?|numbers?|answers?|orders?|papers?|issues|changes|updates|files|differences|messages|responses|notes|"
    r"names|"
    r"values|tables|images|pages|sources|dates|rules|lines|examples|cases|times|surprises|promises|excuses|ideas|extras|air|"
    r"buenas|gracias|muchas|mucha|nada más|más|además|pues)\b)[a-záéíóúñ]{2,}(?:as|es|[aei]r)\b(?! (?:the|is|are|was|were|that|"
    r"we|i|you|in the|of|for|to|at|found|left|here)\b)|"
    r"^(?!(?:falla|pasa|ocurre|está|casi|para|como)\b)[a-záéíóúñ]{2,}[aed] siempre\b|"
    r"^siempre (?!falla|pasa|ocurre|es\b|está|era|hay|da\b|me\b|se\b|lo\b|la\b)[a-záéíóúñ]{3,}[ae] (?:las?|los|el|una?|en|"
    r"con)\b|^(?:todos?|todas?|cada) [^.]{2,50}\b(?:deben?|tienen? que) |^debes (?!estar\b|ser\b)\w|"
    # French
    r"^(?:utilise[rz]?|prends) [\w.+/-]+,? (?:et )?pas [\w.+/-]+\W*$|"
    r"^(?:s'il (?:te|vous) plaît,? )?(?:ne |n')[\w'-]+ (?:jamais|pas|plus)\b|^[a-zéèê]{3,}(?:s|ez) toujours\b|"
    r"^(?!(?:elle|celle|même|presque|comme)\b)[a-zéèê]{3,}e toujours (?:d(?:es|u|e la) |d['’]|les? |la |l['’]|une? |en |avec |"
    r"avant |après |à |mon |ma |mes |ton |ta |tes )|^(?:il faut|on doit|tu dois|vous devez) (?:toujours|impérativement)\b|"
    r"^toujours [a-zéè]+(?:er|ir|re) \w|^jamais (?:de |d['’])|^surtout,? ne \w+ (?:pas|jamais)\b|"
    r"^laisse[rz]? (?!-|moi|nous|ça|tomber)[^.,?!]{3,50} tranquilles?\W*$|^plus jamais (?:de |"
    r"d['’])[^.?!]{3,40}s['’]il (?:te|vous) pla[iî]t\W*$|"
    r"^(?:mets|mettez|range|écris)\b[^.?!]{3,80}(?:,| et) nulle part ailleurs\W*$|"
    r"^à partir de (?:demain|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche),? (?:merci de (?!votre\b)\w+(?:er|ir|"
    r"re)\b|ne [\w'-]+ (?:pas|"
    r"jamais|plus)\b)|"
    # Portuguese
    r"^use [\w.+/-]+,? (?:e )?não [\w.+/-]+\W*$|"
    rf"^(?:por favor,? )?(?:nunca|jamais|não|sempre) {_EM_PORTUGUES}\b|^{_EM_PORTUGUES} sempre\b|^(?:você )?deve sempre \w|"
    # Italian
    r"^usa [\w.+/-]+,? (?:e )?non [\w.+/-]+\W*$|"
    r"^(?:per favore,? )?(?:non|mai) (?!essere|avere)[a-z]+(?:are|ere|ire|arlo|arla|erlo|erla) |"
    rf"^(?:per favore,? )?(?:sempre {_IN_ITALIANO}|{_IN_ITALIANO} (?:sempre|solo|soltanto))\b|"
    r"^(?:non )?(?:devi|dovete) (?:sempre|mai)\b|"
    # Russian
    r"^используй(?:те)? [\w.+/-]+,? а не [\w.+/-]+\W*$|"
    r"^(?:пожалуйста,? )?(?:всегда|никогда не|не|обязательно) \w+(?:й|ь|йте|ьте)\b|^(?:теперь )?(?!теперь\b)\w+(?:й|ь|йте|"
    r"ьте) (?:всегда|только)\b|"
    r"^(?:больше не|с (?:завтра\w*|понедельника|вторника|среды|четверга|пятницы|субботы|воскресенья),? не) (?:\w+(?:й|"
    r"йте)|пиши|пишите)\b|"
    # Chinese, Japanese, Korean
    r"^请?用[\w.+/-]{2,20}[，,]?(?:不要?用?|别用|而不是)[\w.+/-]{2,20}[。！]?$|"
    r"^[\w.+/-]{2,20}ではなく、?[\w.+/-]{2,20}を?使(?:って|う)|^[\w.+/-]{2,20} 말고 [\w.+/-]{2,20}[를을]? ?(?:써|사용)|"
    r"^(?:请|你)?(?:永远|绝对?|千万|任何时候都?)(?:不要|别|不能|不许|不得|不准|不可)|"
    r"^(?:请|你)?(?:一定|每次)(?!是|会|没)[^，。]{0,8}要(?!是)",
    re.IGNORECASE,
)
#: Words that tell a rule wherever they stand.
_ANYWHERE: Final = lazy(
    r"\b(?:in|for|on|to|with) (?:every|each|any|all) (?:\w+ ){1,2}(?:that )?you (?:make|write|do|create|send|book|produce|edit|"
    r"touch|change|give|add)\b|\b(?:under no circumstances|on no account)\b|"
    r"\b(?:we|i) (?:only |always )?use [\w.+-]+(?: here| for this)?,? (?:and )?not [\w.+-]+\W*$|"
    r"(?:^|[,;:–-] ?|\b(?:please|and|so|but) )(?:keep|bear) (?:(?:this|that|it) in mind\b|in mind that\b)|"
    r"(?:^|, |\b(?:aber|und) )(?:bitte |noch )*nicht (?:pushen|committen|mergen|deployen|löschen|veröffentlichen|"
    r"senden|abschicken|"
    r"ausführen)\W*$|(?:^|, |\b(?:aber|und) )(?:bitte )?(?:pushe?|committe?|merge|deploye?|lösche?|"
    r"veröffentliche?|sende?|schicke?|"
    r"starte?|ändere?)(?: es| das| bitte| noch){0,2} nicht\W*$|"
    r"\b(?:ab (?:jetzt|sofort)|von nun an|künftig|in zukunft)\b|\bdu (?:darfst|sollst)\b(?:[^.?!]|"
    r"\.(?=\w)){0,120}\b(?:nie|niemals|nur|nicht|"
    r"nichts|keine?\w?|immer|stets|jede\w?)\b|\bdu musst\b[^.?!]{0,120}\b(?:immer|stets|jede\w?)\b|"
    r"\b(?:und|bitte|dann) (?:antworte|schreibe?|verwende|be?nutze|frage?|mache?|teste|prüfe|sage?|speichere) "
    r"(?:mir |mich |bitte )?(?:immer|stets|nie|niemals)\b|\bmich,? bevor du\b|"
    r"\b(?:auf keinen fall|unter keinen umständen)\b|\b(?:darf|dürfen)\b [^.]{0,40}\b(?:nie|niemals|keinesfalls)\b|"
    r"\b(?:a partir de (?:ahora|agora)|de ahora en adelante|désormais|dorénavant|à partir de maintenant|"
    r"daqui (?:em|para a) diante|d['’]ora in (?:poi|avanti)|da (?:adesso|ora) in (?:poi|avanti))\b|"
    r"(?:,? and|;) keep (?:\w+ ){1,3}(?:under|below|within) \d|"
    r"\b(?:отныне|впредь|с этого момента)\b|\bни в коем случае не \w+(?:й|ь|йте|ьте)\b",
    re.IGNORECASE,
)
_VERB: Final = (
    rf"(?:{'|'.join(sorted(salience.VERBS))}|answer|reply|respond|prefer|avoid|lint|back ?up|double-?check|confirm|notify|"
    r"inform|"
    r"warn|alert|ping|summari[sz]e|squash|rebase|bump|tag|commit|wrap|validate|assume|stick|touch|execute|cite|quote|speak|"
    r"indent)\b"
)
#: What comes again in an agent's work.
_EVENT: Final = (
    r"(?:commit|push|merge|release|deploy\w*|rollout|change|edit|step|task|answer|reply|response|session|pr|pull request|"
    r"review|"
    r"migration|restart|build|refactor\w*|iteration|feature|phase|sprint|ticket|upgrade|rebase|(?:bug ?)?fix|rename|prompt|"
    r"turn|tool call|delet(?:e|ion)|installation|run)s?\b"
)
_NEXT: Final = (
    r"(?: (?!(?:i|we|he|she|it|they)\b)[^,.?!]{1,40},|,)? (?:please |also |always |first |then |you (?:must|should) |"
    r"make sure (?:to |you )|do not |don['’]?t |never )*"
)
#: Things that an agent makes or works on.
_THING: Final = (
    r"(?:answers?|repl(?:y|ies)|responses?|messages?|commits?|comments?|code|functions?|methods?|class(?:es)?|modules?|"
    r"files?|folders?|"
    r"tests?|types?|variables?|identifiers?|names?|keys?|ids?|changes?|branch(?:es)?|pull requests?|prs?|docs?|docstrings?|"
    r"quer(?:y|ies)|endpoints?|routes?|components?|pages?|dates?|times?|timestamps?|amounts?|prices?|totals?|numbers?|units?|"
    r"paths?|imports?|strings?|texts?|labels?|errors?|exceptions?|logs?|log (?:lines|entries)|migrations?|scripts?|"
    r"summar(?:y|ies)|e-?mails?|reports?|invoices?|tables?|columns?|fields?|models?|schemas?|configs?|settings?|secrets?|"
    r"passwords?|urls?|links?|images?|icons?|buttons?|releases?|versions?|tags?|deploy(?:ment)?s?|dependenc(?:y|ies)|packages?|"
    r"fixtures?|helpers?|utils|constants?|assets?|styles?|todos?|backups?|builds?|services?|containers?|documents?|"
    r"headings?|titles?|translations?|diagrams?|charts?|figures?)\b"
)
_LEAVE: Final = (
    r"(?:ok(?:ay)?|approval|permission|consent|go-ahead|say-so|sign-?off|review|confirmation|knowledge|blessing|agreement|"
    r"authori[sz]ation)\b"
)
_PRESENT: Final = r"(?!.*\b(?:was|were|had|did|been|told|said)\b)"
#: In front of a condition: not of this one thing, and no courtesy.
_DOUBT: Final = (
    r"(?:you(?:['’]re| are) (?:ever )?(?:not (?:entirely |quite |completely )?(?:sure|certain)|unsure|uncertain|in doubt|"
    r"stuck|blocked)|(?:something|anything) (?:is|seems|looks) (?:unclear|ambiguous|odd|wrong|off)|in doubt|"
    r"you (?:do not|don['’]?t) (?:know|understand)\b[^,?]{0,40}|(?:ever )?unsure)"
)
_ENGLISH: Final = (
    """prior until unless before use write after upon on at for with in every run check update ask test lint format verify
    review rebase squash pull fetch commit push backup back tell warn notify confirm wait summarize summarise document
    bump tag nothing nobody no-one no only if when whenever as once all each any the our this you you're you’re by i'd
    i’d i stick""",
    lazy(
        rf"(?:before|after|prior to|upon|on|at the (?:start|beginning|end) of) (?:every|each|any)(?: single|"
        rf" new)? (?:[\w-]+ ){{0,2}}?"
        rf"{_EVENT}{_NEXT}(?:{_VERB}|(?<=, )(?!(?:all|half|both|most|some|only|even|then|what|with|in|on|at|for|of|by|from|as)\b)"
        r"[a-z]+(?<!ed)(?<!s) (?:the|all|an?|your|my|our|any|every)\b)|"
        r"(?:for|with|in) (?:every|each|any)(?: single| new)? (?:[\w-]+ )?(?:commit|push|merge|release|deploy\w*|"
        r"code change|change|task|"
        r"answer|reply|response|session|pr|pull request|feature|(?:bug ?)?fix|commit message)\b(?! (?:in|from|"
        rf"of)\b){_NEXT}{_VERB}|"
        r"every (?:other |single )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|morning|evening|night|day|week|month|hour|"
        r"weekday)"
        r"(?: (?:morning|evening|night|at [\w:.]{1,6}(?: ?[ap]m)?))?,? (?:please |always )*(?:send|give|post|remind|run|"
        r"check|update|write|"
        r"summari[sz]e|back ?up|report|show|tell|deploy|test|fetch|pull|clean|review|ask|generate|create|publish|e-?mail|"
        r"message)\b|"
        r"(?:run|check|update|ask|test|lint|format|verify|review|rebase|squash|pull|fetch|commit|push|back ?up|tell|warn|"
        r"notify|confirm|"
        r"wait|summari[sz]e|document|bump|tag)\b[^,.?!]{2,60} (?:before|after|with|on|at the end of) (?:every|each|"
        r"any) (?:single |new )?"
        r"(?:commit|push|merge|release|deploy\w*|change|edit|task|answer|reply|response|session|pr|pull request|migration|"
        r"restart|refactor\w*|feature)s?\b(?! (?:in|from|of)\b)|"
        rf"{_PRESENT}(?:nothing|nobody|no[- ]?one|no (?:[\w-]+ ){{0,2}}?[\w-]+)(?: else)? (?:is|are|gets?|goes|may|can|"
        rf"should|must|will|"
        r"shall|leaves|ships|lands|deploys?|merges?|push(?:es)?|touch(?:es)?|changes?|runs?|edits?|deletes?|commits?|"
        r"releases?|publishes|sends?|enters)\b[^.?!]{0,60}?"
        rf"(?:\bwithout (?:(?:my|our) (?:explicit |prior |written |express )*{_LEAVE}|asking\b|(?:checking with|telling|"
        r"consulting|informing|"
        r"notifying) (?:me|us)\b|me (?:knowing|approving|agreeing)\b|(?:a |an |code |peer |prior )*(?:review|approval|"
        r"sign-?off)\b|"
        r"(?:passing |green |new )?tests\b)|\b(?:unless|until|before) i(?:['’]ve| have)? (?:say so|explicitly|approved?|"
        r"agreed?|reviewed?|signed?|sign off|confirm(?:ed)?|seen|tested|allow|ok|tell you))|"
        r"(?:write|format) (?:all|every|each) (?:of )?(?:the |your |my |our )?(?:new )?(?:commit messages?|commits?|comments?|"
        r"docs|docstrings?|answers?|repl(?:y|ies)|responses?|messages?|code) (?:in|as|with|without)\b|"
        r"(?:nobody|no[- ]?one)(?: else)? (?:except|but|besides|other than) me (?:may |can |is allowed to )?"
        r"(?:merge|deploy|push|release|publishe?|delete|approve|touche?|edit|change)s?\b|"
        r"(?:until|unless|before) i (?:approve|agree|ok|okay|say so|confirm|sign off|tell you)\b[^,?]{0,40}, "
        r"(?:nothing|nobody|no[- ]?one|no |do not|don['’]?t|never)\b|"
        rf"(?:use|write) (?!the |this |that |it |these |those )[^.,?!]{{2,60}} in (?:all|every|each) (?:of )?(?:the |your |"
        rf"my |our )?"
        r"(?:\w+ )?(?:answers?|repl(?:y|ies)|documents?|messages?|commits?|comments?|code|docs|e-?mails?|reports?|summar(?:y|"
        r"ies))\b|only i (?:may |can |am allowed to )?(?:merge|deploy|push|release|publish|delete|approve)\b|"
        rf"(?:if|when(?:ever)?) {_DOUBT}[^,?]{{0,60}},? (?:please |always |first |then |just |immediately )*(?:stop|pause|"
        rf"ask|tell me|warn me|"
        r"ping me|check with me|do(?: not|n['’]?t) (?:guess|assume|invent|proceed|continue)|never guess|look it up)\b|"
        r"when(?:ever)? you (?:add|rename|change|create|delete|remove|write|edit|touch|move|introduce|update|install|cite) "
        rf"(?:anything|something|(?:an?|any|some)(?: new)? (?:[\w-]+ )?{_THING})[^,?!]{{0,40}}, "
        rf"(?:please |always |also |never )*{_AN_ORDER}\b|"
        r"(?:if|when(?:ever)?|as soon as|once) (?=[^,?]*\b(?:an?|any\w*|some\w*|twice|more than|ever)\b)(?!you (?:need|have|"
        r"want|like|find|could|can|get)\b)[^,?]{3,90}, (?:please |always |first |then |just |immediately )*(?:(?:stop|pause|"
        r"abort)(?: (?:it|there|working|at "
        r"once|immediately))?(?:\W*$|,? (?:and|then) (?:ask|tell|let|report|wait|warn|ping|check|notify|call)\b)|ask me\b|"
        r"tell me "
        r"(?:before|first)\b|check with me\b|wait for me\b|do(?: not|n['’]?t) (?:guess|retry|proceed|continue|invent)\b)|"
        rf"(?:all|every|each|any)(?: of)?(?: the| your| my| our)?(?: new)? (?:[\w-]+ ){{0,3}}?{_THING} (?:(?:must|"
        rf"shall)(?! have (?:\w+ed|been)\b)|needs? to|ha(?:s|ve) to|(?:needs?|requires?) my) |"
        r"(?:all|every|each|any)(?: new)? (?:[\w-]+ ){0,2}?(?:functions?|methods?|class(?:es)?|modules?|files?|tests?|"
        r"commits?|prs?|"
        r"pull requests?|endpoints?|components?|changes?|scripts?|migrations?|bug ?fix(?:es)?|features?) (?:needs?|"
        r"requires?|gets?) (?:an? |its own |tests\b)|"
        r"(?:the|our|this) (?:public )?(?:\w+ )?(?:api|interface|schema|format|build|code|tests?|ui|config(?:uration)?|"
        r"branch|database) (?:must|has to|have to|needs? to) (?:stay|remain|never|always|keep)\b|"
        r"you(?:['’]re| are)? (?:may (?:not|never|only)|(?:not|only) allowed to|aren['’]?t allowed to|must(?:n['’]?t| not|"
        rf" never| only)|shall (?:not|never)) (?!(?:get|go|find|look|name|turn) ){_VERB}(?! (?:it|this|that)\b)|"
        r"(?:as a (?:general |basic )?(?:rule|matter of principle)|by (?:default|convention)|in principle)[, :–-]+(?:please )?"
        r"(?:always |never |only |do not |don['’]?t )?(?:use|prefer|assume|answer|reply|respond|write|commit|run|ask|format|"
        r"log|avoid|keep|prefix|suffix|sort|test|document|wrap|name|store)\b|"
        r"i(?:['’]d| would) (?:much )?(?:rather|prefer(?: it)?(?: if)?) you (?:did(?:n['’]?t| not) \w+|never|always|only|"
        r"asked (?:me )?(?:before|first)|checked with me)\b(?! (?:that|this|it)\b)|"
        r"no (?!errors?\b|warnings?\b|failures?\b|bugs?\b|issues?\b|problems?\b|mention\b|sign\b|trace\b|luck\b|results?\b|"
        r"hits?\b|matches\b|differences?\b|tests? (?!data)|one\b|way\b|need\b|new (?:messages|mails?|errors?)|"
        r"other \w+ in\b)[\w.()/*-]+(?: [\w-]+){0,2}? "
        r"(?:in (?:the |your |my |our |any )?(?:\w+ )?(?:code|commits?|commit messages|comments?|docs|answers|replies|"
        r"responses)\b|"
        r"without (?:asking|my (?:explicit )?(?:ok|approval|permission|consent)|(?:telling|checking with) me|a review|"
        r"tests)\b)|stick (?:to|with) (?:the |our |my )?(?:[\w-]+ ){0,4}?(?:style|guide|guidelines?|conventions?|rules?|naming|"
        r"template|standards?)\b",
        re.IGNORECASE,
    ),
)
_IMP_DE: Final = (
    r"(?:benutze?|verwende?|nutze?|schreibe?|mache?|führe?|starte?|prüfe?|teste?|frage?|sage?|lösche?|committe?|pushe?|"
    r"merge|erstelle?|"
    r"aktualisiere?|formatiere?|sichere?|warte|informiere?|gib|lasse?|zeige?|halte?|lege?|speichere?|räume?|antworte|melde|"
    r"überprüfe?|kontrolliere?|ergänze?|dokumentiere?|bestätige?|fasse?|erkläre?)\b(?! (?:ich|wir)\b)"
)
#: Behind an infinitive that is an order; what somebody does has a pronoun or another verb.
_INF_DE: Final = (
    r"(?-i: (?!\w*ge[a-zäöüß]{2,}en\b|bekommen|erhalten|vorhanden|verstanden|verloren|begonnen|worden\b|offen\b)"
    r"[a-zäöüß]+(?:en|ern|eln))\W*$"
)
_NOBODY_DE: Final = (
    r"(?!.*\b(?:ich(?! es| das| dem| zu| frei| \w+e\W*$)|wir|man|wurden?|hat|haben|hatten?|waren?|sind|ist)\b)"
)
_LEAVE_DE: Final = (
    r"ohne (?:(?:vorherige |ausdrückliche |explizite )*(?:rückfrage|rücksprache|absprache|nachfrage|review|freigabe)\b|"
    r"(?:meine?[nr]?|unsere?[nr]?) (?:\w+ )?(?:ok(?:ay)?|zustimmung|freigabe|einverständnis|erlaubnis|genehmigung|"
    r"bestätigung|go|segen|"
    r"wissen|review)\b|(?:mich )?(?:vorher |vorab )?zu fragen\b|dass ich (?:es |das |dem )?(?:vorher )?(?:freigebe|zustimme|"
    r"bestätige))"
)
_GERMAN: Final = (
    """jede jeder jedes kommentare commits commit commit-messages commit-nachrichten tests variablen doku dokumentation
    fehlermeldungen docstrings schreib schreibe sag sage duze duz sieze siez vor nach bei mit die den das alle ohne es
    nichts niemand keiner kein im wenn falls sobald sollte nicht nenn nenne grundsätzlich""",
    lazy(
        rf"{_NOBODY_DE}(?:vor|nach) jede[mr] (?:[\w-]+ ){{0,2}}?[\w-]+,? (?:bitte |immer |stets |erst |zuerst |zunächst |"
        rf"kurz |auch )*(?:(?:(?:die|den|das|alle|alles|einen?|eine|ein|mich|mir|auch)\b[^.?!,]{{0,80}}|"
        rf"(?<=bitte )[^.?!,]{{0,60}}){_INF_DE}|{_IMP_DE})|"
        rf"{_NOBODY_DE}(?:bei|mit) jede[mr] (?:neuen |\w+ )?(?:commit|push|merge|release|deploy\w*|änderung|antwort|schritt|"
        r"aufgabe|modul|"
        r"feature|pr|funktion|endpunkt|migration|ticket|build|neustart|sitzung)\b,? (?:bitte |immer |stets |auch )*"
        rf"(?:(?:(?:die|den|das|alle|einen?|eine|ein|mich|mir|auch)\b[^.?!,]{{0,80}}){_INF_DE}|{_IMP_DE})|"
        rf"{_NOBODY_DE}(?:die|den|das|alle) [^.?!,]{{2,50}} (?:vor|nach) jede[mr] [\w-]+(?: [^.?!,]{{0,30}})?{_INF_DE}|"
        rf"{_NOBODY_DE}{_LEAVE_DE}[^.?!]{{0,40}}\b(?:nichts?|niemand|keine?[nrms]?)\b|"
        rf"{_NOBODY_DE}(?:es (?:wird|geht|kommt) )?(?:nichts|niemand|keiner?|kein \w+)\b[^.?!]{{0,50}}\b{_LEAVE_DE}|"
        r"(?:niemand|keiner) (?:außer|ausser) mir \w+t\b|"
        r"jede[rs]? (?:[\w-]+ )?(?:funktion|klasse|methode|datei|test|commit|endpunkt|modul|komponente|änderung|skript|pr) "
        r"(?:braucht|bekommt) |"
        r"(?:kommentare|commits?|commit-[\w-]+|tests|variablen|doku\w*|fehlermeldungen|docstrings) (?:schreiben|formatieren|"
        r"benennen) wir (?:immer |nur |nie )?(?:auf|in|mit|ohne|als)\b|"
        r"schreibe? (?:bitte |alle |die |deine )*(?:commit[\w-]*|kommentare|nachrichten|doku\w*|antworten|texte|tests|docstrings|"
        r"fehlermeldungen|mails)\b[^.?!]{0,20} auf (?-i:[A-Z])\w+isch\b|"
        r"sage? (?:bitte )?(?:du|sie) zu mir\b|(?:duze?|sieze?) mich\b|"
        r"im zweifel(?:sfall)?,? (?:immer |bitte |lieber |erst )*(?:frage?\b|nachfragen|fragen|rückfragen|mich fragen|stopp)|"
        r"(?:wenn|falls|sobald|sollte) (?=[^,?]*\b(?:eine?[rsmn]?|etwas|was|irgend\w*|jemand|mal|zweimal|unsicher|unklar|"
        r"nicht sicher|"
        r"nicht weiter|mehr als)\b)(?![^,]*(?:brauch|willst|möchtest|fertig|fragen hast|etwas ist\b))[^,?]{3,80}, (?:dann |"
        r"bitte |sofort |immer |"
        r"erst )*(?:stopp?e?\b|halte? (?:an|inne)\b|höre? auf\b|brich ab\b|frage? (?:mich|nach|bitte|erst|lieber|vorher)\b|"
        rf"melde dich\b|warte\b|rate nicht\b)|{_NOBODY_DE}nichts (?!zu\b)[^.?!,]{{2,60}}{_INF_DE}|"
        rf"{_NOBODY_DE}nichts [^.?!,–—]{{2,60}}(?-i: [a-zäöüß]+(?:ieren|öschen|ern|eln)) [–—-] |"
        rf"{_NOBODY_DE}nicht (?=(?:auf|in|an|ohne|direkt|einfach|mehr|eigenmächtig|selbst|global)\b)[^.?!,]{{2,60}}{_INF_DE}|"
        r"nenne? mich (?:bitte |nur |einfach )*(?-i:[A-ZÄÖÜ])[\w-]+|"
        rf"grundsätzlich (?:bitte )?(?:keine?n?\b(?! (?:ahnung|problem|idee|frage))|nie\b|niemals\b|{_IMP_DE})",
        re.IGNORECASE,
    ),
)
_IMP_ES: Final = (
    r"(?:ejecuta|corre|lanza|pasa|revisa|comprueba|verifica|haz|preg[uú]nta(?:me)?|av[ií]sa(?:me)?|actualiza|escribe|añade|"
    r"agrega|confirma|"
    r"consulta|guarda|crea|usa|muestra|espera|limpia|prueba|formatea|resume|responde|documenta|evita|prefiere)\b"
)
_LEAVE_ES: Final = (
    r"sin (?:(?:mi|nuestr[oa]) (?:\w+ )?(?:aprobación|permiso|visto bueno|consentimiento|confirmación|ok|autorización|"
    r"acuerdo|revisión|conocimiento)\b|(?:preguntar|consultar|avisar)(?:me)?\b|que yo )"
)
_SPANISH: Final = (
    """no escribe antes después al nada nadie ningún ninguna ningun sin ante en si todo todos toda todas cada llámame
    llamame por como queda está terminantemente prohibido""",
    lazy(
        rf"(?:antes|después|al (?:inicio|final)) de (?:cada|cualquier|todo) [\w -]{{2,40}}?,? (?:por favor,? |"
        rf"siempre )*(?:{_IMP_ES}|"
        r"[a-z]{3,}(?:ar|er|ir) (?:el|la|los|las|un|una|todo\w*)\b)|"
        rf"(?!.*\b(?:fue|fueron|ha|han|había|hizo|dijo)\b)(?:nada|nadie|ning[uú]n\w*(?: \w+)?)\b[^.?!]{{2,60}}\b{_LEAVE_ES}|"
        rf"(?!.*\b(?:fue|ha|han|había|dijo)\b){_LEAVE_ES},? (?:no|nada|nadie|nunca)\b|"
        rf"no se \w+ (?:nada|ning[uú]n\w*)[^.?!]{{0,50}}\b{_LEAVE_ES}|nadie (?:excepto|salvo|más que) yo \w|"
        r"escribe (?:siempre )?(?:todos )?(?:los|las) (?:commits|mensajes|comentarios|documentos|pruebas|tests|respuestas|"
        r"correos)\b[^.?!]{0,20} en (?:inglés|español|alemán|francés|portugués|italiano)\b|"
        r"(?:ante la duda|en caso de duda|si dudas),? (?:siempre |mejor )*(?:preg[uú]nta|cons[uú]lta|para\b)|"
        r"si (?:no est[áa]s? segur[oa]|algo|alg[uú]n\w*|un|una|cualquier|te atascas)\b(?! de (?:esto|"
        r"eso))[^,?]{0,80}, (?:por favor,? |entonces "
        r"|siempre )*(?:p[aá]ra(?:te)?\b|detente\b|preg[uú]nta(?:me)?\b|consúltame\b|no (?:adivines|supongas|inventes|sigas|"
        r"continúes)\b)|(?:todos?|todas?|cada) [^.?!]{2,50}\b(?:deben?|tienen? que) (?:ir|estar|ser|llevar|tener|usar)\b|"
        r"ll[aá]mame (?-i:[A-ZÁÉÍÓÚÑ])[\w-]+|"
        rf"(?:por (?:defecto|norma|regla)(?: general)?|como norma),? (?:{_IMP_ES}|no (?:uses|hagas|pongas|añadas)\b|nunca|"
        r"siempre)|(?:queda |está )?(?:terminantemente )?prohibido \w+(?:ar|er|ir)\b",
        re.IGNORECASE,
    ),
)
_IMP_FR: Final = (
    r"(?:(?:re)?lance[rz]?|pousse[rz]?|fusionne[rz]?|exécute[rz]?|vérifie[rz]?|demande[rz]?|fai(?:s|tes|re)|mets|mettez|"
    r"mettre|écri(?:s|vez|re)|utilise[rz]?|teste[rz]?|"
    r"relis(?:ez)?|sauvegarde[rz]?|préviens|prévenez|formate[rz]?|ajoute[rz]?|crée[rz]?|passe[rz]?|montre[rz]?|envoie|"
    r"envoyer|réponds|répondez|attends|confirme[rz]?|résume[rz]?|documente[rz]?|évite[rz]?)\b"
)
_LEAVE_FR: Final = (
    r"sans (?:(?:mon|ma|notre) (?:\w+ )?(?:accord|feu vert|approbation|autorisation|aval|ok|permission|validation|"
    r"consentement|relecture)\b|(?:me |m['’])(?:demander|prévenir|consulter|avertir)|que je )"
)
_FRENCH: Final = (
    """écris écrivez avant après à pour lors au rien personne aucun aucune sans en dans si tous toutes chaque appelle-moi
    merci ne il formellement interdit""",
    lazy(
        rf"(?:avant|après|à|pour|lors de|au début de|à la fin de) chaque [\w'’ -]{{2,40}}?,? (?:toujours |d['’]abord |"
        rf"il faut |pense à )*{_IMP_FR}|"
        rf"(?!.*\b(?:a été|ont|était|étaient|a dit)\b)(?:rien|personne|aucun\w*(?: \w+)?)\b[^.?!]{{2,60}}\b{_LEAVE_FR}|"
        rf"{_LEAVE_FR},? (?:rien|personne|on ne|ne |aucun)|personne (?:sauf|d['’]autre que) moi ne \w|"
        r"écri(?:s|vez) (?:toujours )?(?:tous )?(?:les|tes|vos) (?:commits|messages|commentaires|docs|tests|"
        r"réponses)\b[^.?!]{0,20} en (?:anglais|français|allemand|espagnol|italien)\b|"
        r"(?:en cas de doute|dans le doute),? (?:toujours )?(?:demande|arrête|préviens|pose|stoppe)|"
        r"si (?:tu n['’](?:es|as) pas|tu (?:hésites|doutes|as un doute|bloques)|une?\b|"
        r"quelque chose)[^,?]{0,80}, (?:arrête(?:-toi)?|stoppe|demande(?:-moi)?|ne (?:devine|suppose|continue) pas|pose-moi)\b|"
        r"(?:tous|toutes|chaque) [^.?!]{2,60}\b(?:doit|doivent|devra|devront) (?:être|avoir|rester|contenir|utiliser|suivre|"
        r"passer|commencer|porter)\b|appelle-moi (?-i:[A-ZÀ-Ü])[\w-]+|"
        r"(?:merci de )?ne (?:jamais|pas|plus) (?:\w+ )?\w+(?:er|ir|re)\b(?! (?:que|à temps)\b)|"
        r"(?:il est )?(?:formellement )?interdit (?:de |d['’])\w",
        re.IGNORECASE,
    ),
)
_LEAVE_PT: Final = (
    r"sem (?:(?:[ao] )?(?:minha|meu|nossa) (?:\w+ )?(?:aprovação|permissão|autorização|ok|aval|consentimento|confirmação|"
    r"revisão)\b|(?:me )?(?:perguntar|avisar|consultar)\b)"
)
_PORTUGUESE: Final = (
    "escreva antes depois ao nada ninguém nenhum nenhuma sem na em se todo todos toda todas cada me",
    lazy(
        rf"(?:antes|depois|ao (?:final|fim|início)) de (?:cada|qualquer|todo|toda) [\w -]{{2,40}}?,? (?:sempre |"
        rf"por favor,? )*{_EM_PORTUGUES}\b|"
        rf"(?!.*\b(?:foi|foram|tinha|disse)\b)(?:nada|ninguém|nenhum\w*(?: \w+)?)\b[^.?!]{{2,60}}\b{_LEAVE_PT}|"
        rf"{_LEAVE_PT},? (?:nada|ninguém|não)\b|ninguém (?:além de mim|exceto eu) \w|"
        r"escreva (?:sempre )?(?:tod[oa]s )?(?:os|as) (?:commits|mensagens|comentários|documentos|testes|"
        r"respostas)\b[^.?!]{0,20} em (?:inglês|português|espanhol|alemão|francês)\b|"
        r"(?:na dúvida|em caso de dúvida),? (?:sempre )?(?:pergunte|me pergunte|pare)\b|"
        r"se (?:não (?:tiver|tem) certeza|algo|algum\w*|uma?|houver (?:alguma )?dúvida)\b[^,?]{0,80}, (?:pare|pergunte|"
        r"me pergunte|não (?:adivinhe|invente|continue))\b|"
        r"(?:tod[oa]s?(?: [oa]s)?|cada) [^.?!]{2,50}\b(?:devem?|precisam?|têm que|tem que) (?:ser|estar|ter|usar|seguir|"
        r"ficar|conter)\b|me chame de (?-i:[A-ZÀ-Ü])[\w-]+",
        re.IGNORECASE,
    ),
)
_LEAVE_IT: Final = (
    r"senza (?:(?:il |la )?(?:mio|mia|nostr[oa]) (?:\w+ )?(?:ok|approvazione|permesso|consenso|benestare|conferma|"
    r"autorizzazione|via libera|revisione)\b|(?:chieder(?:e|mi)|avvisarmi|consultarmi|dirmelo)\b)"
)
_ITALIAN: Final = (
    """scrivi prima dopo alla all'inizio all’inizio niente nulla nessun nessuno nessuna senza nel in se tutti tutte ogni
    chiamami""",
    lazy(
        rf"(?:prima|dopo|alla fine|all['’]inizio) (?:di |d['’])?(?:ogni|qualsiasi|ciascun\w*) [\w -]{{2,40}}?,? (?:sempre |"
        rf"per favore,? )*(?:{_IN_ITALIANO}\b|\w+(?:are|ere|ire) (?:il|la|i|gli|le|lo|un|una)\b)|"
        rf"(?!.*\b(?:è stat\w|sono stat\w|aveva|ha detto)\b)(?:niente|nulla|nessun\w*(?: \w+)?)\b[^.?!]{{2,60}}\b{_LEAVE_IT}|"
        rf"{_LEAVE_IT},? (?:niente|nulla|nessuno|non)\b|nessuno (?:tranne|a parte) me \w|"
        r"scrivi (?:sempre )?(?:tutt[ie] )?(?:i|gli|le) (?:commit|messaggi|commenti|documenti|test|risposte)\b[^.?!]{0,20} "
        r"in (?:inglese|italiano|tedesco|francese|spagnolo)\b|"
        r"(?:nel dubbio|in caso di dubbi\w*),? (?:sempre )?(?:chiedi(?:mi)?|fermati)\b|"
        r"se (?:non sei sicur[oa]|qualcosa|un['’]?|una|c['’]è (?:un )?dubbi\w*)\b[^,?]{0,80}, (?:fermati|chiedi(?:mi)?|"
        r"non (?:indovinare|inventare|continuare))\b|"
        r"(?:tutt[ie](?: i| gli| le)?|ogni) [^.?!]{2,50}\bdev(?:e|ono) (?:essere|avere|restare|rimanere|usare|seguire|"
        r"contenere)\b|chiamami (?-i:[A-ZÀ-Ü])[\w-]+",
        re.IGNORECASE,
    ),
)
_IMP_RU: Final = (
    r"(?:запускай|прогоняй|проверяй|спрашивай|делай|пиши|создавай|обновляй|показывай|сообщай|предупреждай|сохраняй|коммить|"
    r"форматируй|жди|"
    r"подтверждай|отправляй|добавляй|тестируй|используй|запусти|проверь|спроси|сделай|обнови|покажи|сообщи)(?:те)?\b"
)
_LEAVE_RU: Final = (
    r"без (?:моего|моей|нашего) (?:\w+ )?(?:разрешения|одобрения|согласия|подтверждения|ведома|ок\w*|ревью)\b"
)
_RUSSIAN: Final = (
    "пиши пишите перед после при в без ничего никто ни если все каждый каждая каждое называй называйте зови зовите",
    lazy(
        rf"(?:перед|после|при|в конце) (?:кажд\w+|люб\w+) [\w -]{{2,40}}?,? (?:всегда |сначала |пожалуйста,? |"
        rf"обязательно )*{_IMP_RU}|{_LEAVE_RU}[^.?!]{{0,60}}\b(?:ничего|никто|никого|ни одн\w+|не|нельзя)\b|"
        rf"(?:ничего|никто|ни одн\w+)\b[^.?!]{{2,60}}\b{_LEAVE_RU}|никто,? кроме меня,? не \w|"
        r"пиши(?:те)? (?:все )?(?:коммиты|сообщения|комментарии|тесты|документацию|ответы)[^.?!]{0,20} (?:на|по)[ -]\w+к(?:ом|"
        r"и)\b|(?:в случае сомнений|если сомневаешься|при сомнениях),? (?:всегда |лучше )*(?:спр|остан)|"
        r"если (?=[^,?]*(?:что-то|как\w+-(?:то|нибудь)|не увер|непонятн|неясн|дважды|раза\b|любой|люба))[^,?]{3,80}, (?:то |"
        r"пожалуйста,? |сразу )*(?:остановись|останавливайся|спроси|спрашивай|не (?:угадывай|гадай|додумывай|продолжай))|"
        r"(?:все|кажд\w+) [^.?!]{2,50}\b(?:долж(?:ен|на|но|ны)|обязан\w*) (?:быть|иметь|содержать|начинаться|оставаться|"
        r"использовать)\b|(?:называй|зови)(?:те)? меня (?-i:[А-ЯЁ])\w+",
        re.IGNORECASE,
    ),
)
_WESTERN: Final = (_ENGLISH, _GERMAN, _SPANISH, _FRENCH, _PORTUGUESE, _ITALIAN, _RUSSIAN)
#: The forms of the languages in which one begins with a word.
_BY_FIRST: Final = {
    word: tuple(forms for words, forms in _WESTERN if word in words.split())
    for word in {word for words, _ in _WESTERN for word in words.split()}
}
#: Forms that begin with a thing.
_OF_A_THING: Final = lazy(
    r"(?:die |der )?(?!(?:das|es|er|sie|wir|ich|man|du) )(?-i:[A-ZÄÖÜ])[\w-]+ (?:dürfen|darf) (?:nie|niemals|nicht|keinesfalls) "
    r"[^.?!]{2,60} ?werden\W*$|[\w./ -]{3,40} (?:is|are|stays?|remains?) (?:strictly |completely |totally )?off[- ]limits\b|"
    rf"(?:the |all |new )?(?:[\w-]+ )?{_THING} (?:goe?s?|lives?|belongs?) (?:in|into|under|inside|next to|on|"
    rf"to) [^,;–—]{{1,50}}, (?:and )?(?:nowhere else|(?:not|never) (?:in|into|next to|under|to|on|at|inside))\b",
    re.IGNORECASE,
)
_CALLED: Final = lazy(
    r"\b(?:call|address) me (?:as )?(?:that\b|by (?!the|a|\d)\w|(?-i:(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Back|Later|If|"
    r"When|At|On|In|Maybe|Any|Now|Today|Tomorrow)[A-Z])[\w-]+(?=\W*$|, (?:and )?not\b|,? (?:please|instead|from now on)\b))",
    re.IGNORECASE,
)
#: Japanese ends of an order.
_ORDERED_JA: Final = (
    r"(?:て(?:ください|下さい|くれ|ね|ほしい)?|で(?:ください|下さい|ね)?|こと|しろ|せよ|な|禁止|ように(?:して(?:ください)?)?|"
    r"お願い(?:し?ます|いたします)?)[。！!]?$"
)
_JA_END: Final = (
    r"(?:[てで](?:ください|下さい)|(?:る|す|う|く)こと|ように(?:して(?:ください)?)?|お願い(?:し?ます)?)[。！!]?$"
)
_KO_END: Final = r"(?:세요|십시오|해라|해 ?줘|주세요|할 것|하도록)[.!]?$"
_EASTERN: Final = lazy(
    r"(?:日本語|英語|中国語|韓国語)で(?:答え|返信|回答|話)|(?:한국어|영어|일본어)로 (?:대답|답)|"
    r"从现在起|从今以后|一律|每次[^，。]{1,15}都(?:要|必须|应|得)|(?<=[^，。]{2})(?:不能有|不准|不许|严禁)|"
    rf"(?:常に|必ず(?!しも)|絶対に?|決して|毎回|いつも|今後は?|これからは?|以後)[^。！？]{{0,60}}{_ORDERED_JA}|"
    r"[\u3040-\u30ff\u4e00-\u9fff]ないで(?:ください|下さい|ね|くれ)?[。！!]?$|[うくすつぬむるぐぶ]こと[。！!]?$|"
    r"(?:항상|언제나|반드시|절대로?|앞으로는?|매번|꼭)[^.!?]{1,60}"
    r"(?:세요|십시오|(?<!지 )(?<!지)하라|해라|줘|주세요|말 것|할 것|하도록|해야 (?:해|합니다|돼))[.!]?$|"
    r"[가-힣]지\s?(?:마(?:세요|라|십시오)?|말(?:아\s?(?:줘|주세요)|고|것)?)[.!]?$|"
    r"^每次(?!我|他|她)[^，。]{1,15}(?:前|后|时|的时候)[，,]?(?:请|先|都先|必须|务必)|"
    r"(?:没有|未经|没经过|不经)过?我的?(?:明确|事先|书面)?的?(?:同意|批准|允许|许可|确认|授权)[^。？]{0,20}(?:不要|不得|"
    r"不能|不准|不许|不可|别|禁止|什么都不|谁都不|一律)|"
    r"(?:如果|要是|若|一旦|遇到)[^。？]{0,20}(?:不确定|不清楚|有疑问|拿不准|不明白|两次|连续)[^。？]{0,15}[，,](?:请|就|先|"
    r"立即|马上|要|必须)*"
    r"(?:停|问我|通知我|告诉我|向我确认|不要猜|别猜)|(?:不确定|不清楚|拿不准|有疑问)(?:的时候|时)[，,]?(?:请|就|先)*问我|"
    r"^(?:所有|每个|任何|全部)的?[^，。？]{0,6}(?:函数|提交|文件|接口|代码|注释|日期|时间戳?|金额|测试|变量|方法|日志|消息|"
    r"分支|价格|字段|组件|密钥)都?(?:必须|一定要|要|得|不得|不许|禁止)|"
    r"^(?:请|以后)?(?:就)?(?:叫我|称呼我为?)(?![的们起来去吃做怎回一])[\u4e00-\u9fff\w·]{1,6}(?:就好|就行|吧)?[。.!！]?$|"
    rf"(?:たびに|度に|ごとに)[^。？]{{1,60}}{_JA_END}|"
    r"(?:許可|承認|確認|同意|了承)(?:なし(?:に|で)は?|なく|を得ずに|を取らずに|がない(?:限り|"
    r"場合は))[^。？]{0,40}(?:ないで(?:ください|下さい|ね)?|ないこと|禁止|"
    r"ては(?:いけない|いけません|ならない|なりません))[。！!]?$|"
    rf"(?:不明|迷っ|分から|わから|自信が|不確か|疑問|曖昧)[^。？]{{0,20}}(?:場合は?|時は?|ときは?|たら|なら|"
    rf"れば)[、,]?[^。？]{{0,30}}(?:止め|停止|中断|確認し|聞い|質問し|相談し){_JA_END}|"
    r"(?:と|って)呼んで(?:ください|下さい|ね)?[。！!]?$|"
    rf"(?:때마다|매 ?[가-힣]{{1,6}} (?:전|후)에?)[^.!?]{{1,60}}{_KO_END}|"
    r"(?:허락|승인|동의|확인|허가) ?없이는?[^.!?]{0,40}(?:지\s?(?:마|말)|안 (?:됩니다|돼|된다)|금지)|"
    r"(?:확실하지 않|모르겠|애매하|불분명하|실패하|막히)[가-힣]*면[^.!?]{0,30}(?:물어|질문|멈추|멈춰|중단|"
    r"알려)[^.!?]{0,8}(?:세요|십시오|줘|주세요|라)[.!]?$|"
    r"모든 (?:[가-힣]+ )?(?:함수|커밋|파일|테스트|주석|코드|날짜|변수|메시지)(?:에는?|은|는|을|를)[^.?!]{2,40}야 (?:합니다|"
    r"해요?|한다|됩니다|돼요?)[.!]?$|이?라고 불러 ?(?:줘|주세요)[.!]?$"
)
#: Begins like a question, and is none.
_IN_DOUBT: Final = lazy(r"(?:if|when(?:ever)?) [^,:?]{3,90}[,:] ?\w|(?:if|when) in doubt\b", re.IGNORECASE)


def core(sentence: str) -> str:
    """A sentence without the words in front of it that say nothing of a rule."""
    lead = _LEAD.match(sentence)
    return sentence[lead.end() :] if lead else sentence


def without_tag(sentence: str) -> str:
    """A sentence without the "ok?" that asks for consent to it."""
    return _TAG.sub("", sentence) if sentence[-1:] in "?？" else sentence


def orders(said: str) -> bool:
    """Does a sentence order something by its verb, beside English, or by words that say so wherever they stand?"""
    if not said.isascii() and _EASTERN.search(said):
        return True
    return (_ANYWHERE.search(said) or _ORDERS.match(said)) is not None


def is_formed(said: str) -> bool:
    """Has what was said the form of a rule?"""
    if orders(said) or _begins(said) or ("me " in said and _CALLED.search(said)):
        return True
    bare = core(said)
    return bare != said and (_ORDERS.match(bare) is not None or _begins(bare))


def _begins(said: str) -> bool:
    """Does a sentence begin with the form of a rule?"""
    if _MANNERS.match(said):
        return True
    first = said.split(maxsplit=1)[0].rstrip(",:").lower() if said.strip() else ""
    if any(forms.match(said) for forms in _BY_FIRST.get(first, ())):
        return True
    return _OF_A_THING.match(said) is not None


def is_condition(sentence: str) -> bool:
    """Is it an order under a condition, and so no question?"""
    return _IN_DOUBT.match(sentence) is not None and is_formed(sentence)

"""
Facts in German, Spanish and Chinese: the patterns of their names, dates, values and decisions; in six more what "we use".

As strict as those for English: the subject is one's own or named as what it is, and the value follows the verb.
"""

from __future__ import annotations

import re
from typing import Final

from ..text.salience import GERMAN_MONTHS, lazy

_PROPER: Final = r"(?P<value>(?-i:[A-ZÄÖÜÁÉÍÓÚÑ][a-zà-ÿ-]+(?: [A-ZÄÖÜÁÉÍÓÚÑ][a-zà-ÿ-]+){0,2}))"
_MES: Final = "(?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre)"
_TAG: Final = (
    rf"(?P<value>\d{{1,2}}\. ?(?:{GERMAN_MONTHS}(?: \d{{4}})?|\d{{1,2}}\.(?:\d{{4}}|\d\d)?)|\d{{4}}-\d\d-\d\d)"
)
_DIA: Final = rf"(?P<value>\d{{1,2}} de {_MES}(?: del? \d{{4}})?|\d{{1,2}}/\d{{1,2}}/\d{{4}}|\d{{4}}-\d\d-\d\d)"
_UNITS: Final = (
    r"€|%|(?:Euro|EUR|Dollar|Sekunden?|Minuten?|Stunden?|Tage?n?|Wochen?|Monate?n?|Jahre?n?|Seiten|Wörter|euros?|dólares|"
    r"segundos?|"
    r"minutos?|horas?|días?|semanas?|meses|años?|páginas|ms|km|kg|[KMG]B)\b"
)
_AMOUNT: Final = rf"(?P<value>[$€£]\d(?:[\d.,]*\d)?|#[0-9a-fA-F]{{6}}\b|\d(?:[\d.,]*\d)? ?(?:{_UNITS}))"
_NUMBER: Final = rf"(?P<value>\d(?:[\d.,]*\d)?)(?![\w.,]*\w)(?! ?(?:{_UNITS}))"
_EIGEN: Final = r"(?:der|die|das|meine?|unsere?) (?:[\w-]+ ){0,2}"
_PROPIO: Final = r"(?:el|la|mi|nuestr[oa]) (?:[\w-]+ ){0,2}?"
_IST: Final = "(?:ist|sind|lautet|beträgt|kostet)(?: jetzt| nun| auf| bei| genau)*"
_ES: Final = "(?:ahora )?(?:es|son|será|cuesta|está en)(?: ahora| de| exactamente)*"
#: Whose something is: 我们的, 我叔叔的, 王磊是我的上司，其.
_WESSEN: Final = (
    r"(?:[\u4e00-\u9fff]{2,4}是我们?的[\u4e00-\u9fff]{1,6}，)?其|[他她它]们?的?|"
    r"我们?的?(?:(?!生日|婚礼|过|把|将)[\u4e00-\u9fff]){0,8}?的?"
)

#: A word with a digit in it, that names somebody's thing.
_KENNUNG: Final = r"(?P<value>(?=[\w-]*\d)[\w-]{3,40})(?![\w.,%/-]*\w)(?! [a-zäöü]+s?\b)"
_HAT_SICH: Final = r"hat sich geändert[,;:.]? (?:(?:sie|er|es|die neue|das neue) )?(?:ist|lautet)|hat sich (?:zu|auf)"
_HA_CAMBIADO: Final = r"(?:ha )?cambi(?:ado|ó)[,;:.]? (?:(?:y )?(?:ahora )?es|a)"
_EREIGNIS: Final = (
    r"(?:[\w-]*termin|deadline|abgabe|frist|besprechung|meeting|release|prüfung|hochzeit|trauung|geburtstag|umzug|demo|"
    r"feier)"
)
_EVENTO: Final = "(?:fecha (?:límite|de entrega)|reunión|cita|entrega|lanzamiento|examen|boda|cumpleaños|plazo|demo)"
#: Up to five words that name what somebody uses.
NAMED: Final = r"[\w.+#/-]+(?: [\w.+#/-]+){0,3}?"
_USED: Final = rf"(?-i:[A-Z]){NAMED}"
_ENDS: Final = r"(?=[.,;!]|$| (?:y|e|et|и|pero|mas|mais|ma|но) )"
NAMES: Final = (
    lazy(rf"\b(?P<subject>mein (?:voller |vor|nach)?name) (?:ist|lautet) {_PROPER}", re.IGNORECASE),
    lazy(rf"\b(?P<subject>ich heiße) {_PROPER}", re.IGNORECASE),
    lazy(
        r"\b(?P<subject>(?:meine?|unsere?) (?:frau|mann|tochter|sohn|schwester|bruder|mutter|vater|chefin|chef|freundin|freund|"
        rf"hund|katze|kollegin|kollege)) heißt {_PROPER}",
        re.IGNORECASE,
    ),
    lazy(rf"\b(?P<subject>me llamo) {_PROPER}", re.IGNORECASE),
    lazy(rf"\b(?P<subject>mi nombre) es {_PROPER}", re.IGNORECASE),
    lazy(
        r"\b(?P<subject>(?:mi|nuestr[oa]) (?:esposa|esposo|marido|mujer|hija|hijo|hermana|hermano|madre|padre|jefa|jefe|perro|"
        rf"gato|gata|novia|novio|amiga|amigo)) se llama {_PROPER}",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?:你好[,，]?|大家好[,，]?)?(?P<subject>我叫|我的名字)(?:是|"
        r"叫)?(?P<value>(?![你他她它您了])[\u4e00-\u9fff·]{2,4})(?=[，。,.!！]|$)"
    ),
)
DATES: Final = (
    lazy(
        rf"\b(?:ich habe|wir haben) (?P<subject>{_EIGEN}{_EREIGNIS}) (?:vom [^,;!?]{{3,30}} )?(?:auf|für) (?:den )?{_TAG} "
        r"(?:verschoben|verlegt|gelegt|angesetzt)",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?:he|hemos) (?:movido|cambiado|aplazado|pasado|"
        rf"adelantado) (?P<subject>{_PROPIO}{_EVENTO}) (?:del [^,;!?]{{3,30}} )?"
        rf"(?:al|para el) {_DIA}",
        re.IGNORECASE,
    ),
    lazy(
        r"(?P<subject>(?:結婚式|締め?切り?|会議|誕生日|納期|リリース|試験|面接|発表会?))は"
        r"(?P<value>(?:\d{4}年)?\d{1,2}月\d{1,2}日)(?=です|だ|に|。|$)"
    ),
    lazy(
        rf"\b(?P<subject>{_EIGEN}{_EREIGNIS}(?: (?:mein|unser)e?[rs] [\w-]+)?) (?:ist|war|wird|endet|beginnt|wurde)(?: jetzt|"
        rf" nun)?(?: am| auf den| bis zum)? {_TAG}",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?P<subject>{_PROPIO}{_EVENTO}) (?:ahora )?(?:es|será|fue|está|termina|empieza|"
        rf"vence)(?: ahora)?(?: para)?(?: el)? {_DIA}",
        re.IGNORECASE,
    ),
    lazy(
        rf"(?P<subject>(?:{_WESSEN}过?)?(?:截止日期|截止时间|会议|生日|婚礼|考试|发布日期?|"
        r"交付日期?|面试|演示))(?:现在)?"
        r"(?:是|在|定在|改到|改为|推迟到)(?P<value>(?:\d{4}年)?\d{1,2}月\d{1,2}[日号]|\d{4}-\d\d-\d\d)"
    ),
)
VALUES: Final = (
    lazy(
        rf"\b(?P<subject>{_EIGEN}[\w-]*(?:nummer|kennung|code|benutzername|konto)) (?:{_HAT_SICH}|ist|"
        rf"lautet)(?: jetzt| nun)? {_KENNUNG}",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?P<subject>(?:el|la|mi|nuestr[oa]) (?:número|código|usuario)(?: de \w+)?) (?:{_HA_CAMBIADO}|"
        rf"es)(?: ahora)? {_KENNUNG}",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?P<subject>(?:die|unsere|meine) (?:datenbank|programmiersprache|entwicklungsumgebung)) ist (?:jetzt |nun )?"
        r"(?P<value>(?-i:[A-Z])\w*(?-i:[A-Z\d])[\w.+#-]*\w(?: \d+)?)(?=[,.;!]|$)",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?P<subject>(?:la|nuestra|mi) base de datos) (?:ahora )?es (?:ahora )?"
        r"(?P<value>(?-i:[A-Z])[\w+#-]*\w(?: \d+)?)(?=[,.;!]|$)",
        re.IGNORECASE,
    ),
    lazy(
        r"(?P<subject>(?:我们的?|我的?)?(?:数据库|编程语言|框架|包管理器))(?:现在)?(?:是|换成了?|改成了?|改为) ?"
        r"(?P<value>[A-Za-z][\w.+#-]{1,30}(?: \d+)?)(?=[，。,.；;！!]|$)"
    ),
    lazy(rf"\b(?P<subject>{_EIGEN}[\w-]+) {_IST} {_AMOUNT}", re.IGNORECASE),
    lazy(
        rf"\b(?P<subject>{_EIGEN}[\w-]*(?:port|limit|timeout|budget|schwelle|anzahl|größe)) {_IST} {_NUMBER}",
        re.IGNORECASE,
    ),
    lazy(rf"\b(?P<subject>{_PROPIO}[\w-]+) {_ES} {_AMOUNT}", re.IGNORECASE),
    lazy(rf"\b(?P<subject>{_PROPIO}(?:puerto|límite|presupuesto|umbral|número|tamaño)) {_ES} {_NUMBER}", re.IGNORECASE),
    lazy(
        rf"(?P<subject>(?:{_WESSEN})?(?:预算|端口|超时时间|超时|上限|限制|价格|租金|工资|阈值))(?:现在)?(?:是|为|改为|改成)"
        r"(?P<value>[$¥€]?\d[\d,.]*\d?(?:美元|欧元|元|秒|分钟|小时|天|个月|%)?)"
    ),
    lazy(
        rf"(?P<subject>(?:{_WESSEN})(?:联系)?(?:电话(?:号码)?|手机号码?|号码|邮箱(?:地址)?))是"
        r"(?P<value>[\w.+-]+@[\w.-]+\w|\d[\d-]{5,}\d)"
    ),
)
DECISIONS: Final = (
    lazy(
        r"\b(?:ich habe mich|wir haben uns) (?:jetzt |nun )?für (?P<value>[^.;!?]{2,80}?) (?P<subject>entschieden)\b",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?:(?:ok|gut|also),? )?wir (?P<subject>nehmen|verwenden|benutzen)(?: jetzt| nun| doch|"
        r" lieber)* (?P<value>[^.;!?]{2,80})(?=[.;!]|$)",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?:hemos|he) (?P<subject>decidido|elegido|optado por) (?P<value>[^.;!?¿]{2,100})(?=[.;!]|$)", re.IGNORECASE
    ),
    lazy(r"^(?:我们|我)(?P<subject>决定|选择了|选定了)(?P<value>[^，。；！？,.;!?]{2,60})"),
    lazy(
        r"^(?!.*\b(?:pasad[oa]|ayer|antes|passad[oa]|ontem)\b)(?:nosotros |nós )?(?P<subject>usamos|utilizamos) "
        rf"(?P<value>{_USED} (?:como |para (?:el|las?|los|nuestr[oa]s?|os?|as?|noss[oa]s?) )[\w ]{{3,40}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        rf"^(?P<subject>nous utilisons|on utilise) (?P<value>{_USED} (?:comme |pour (?:l['’]|(?:les?|la|nos|notre) ))"
        rf"[\w ]{{3,40}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        rf"^(?:noi )?(?P<subject>usiamo|utilizziamo) (?P<value>{_USED} (?:come |per (?:l['’]|(?:il|la|lo|i|gli|le) ))"
        rf"[\w ]{{3,40}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        rf"^(?:мы )?(?P<subject>используем) (?P<value>{_USED} (?:для|как|в качестве) [\w ]{{3,40}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        r"^我们(?:现在|目前)?(?P<subject>使用|采用|用) ?"
        r"(?P<value>[A-Za-z][\w.+#/ -]{1,30}?(?:作为|做|当)[^，。；！？,.;!?]{2,15})"
    ),
    lazy(
        r"^(?P<value>[^、。]{2,20}?(?:には?|として)[A-Za-z][A-Za-z\d.+#/ -]{1,30})を"
        r"(?P<subject>使って|使用して)(?:います|いる)(?=。|$)"
    ),
    lazy(
        r"^(?:우리는 )?(?P<value>[^,.]{2,20}?(?:로|에는?) [A-Za-z][A-Za-z\d.+#/ -]{1,30})[을를] (?P<subject>사용)"
        r"(?:합니다|해요|한다|하고 있습니다)(?=[.!]|$)"
    ),
)

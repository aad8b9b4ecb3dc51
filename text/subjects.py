"""
Words for the same thing in ten languages, as far as users give rules about it: "Nachricht" and "mensaje" are a message.

Pure. Two rules in two languages are of one thing where both words stand here; of what is not here only the same word tells.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: Name of a thing, and beginnings of the words for it; ``=``: the whole word. Of Chinese and Japanese the first two signs.
_WORDS: Final = """
commit: commit коммит 提交 コミ 커밋
message: messag nachricht mensaj messagg mensage сообщен 消息 信息 メッ 메시
test: test тест prueba 测试 テス 테스
deploy: deploy deploi déplo desplieg despleg деплой 部署 デプ 배포
branch: branch zweig rama= ramas= ветк 分支 브랜
comment: comment kommentar comentari комментар 注释 コメ 주석
answer: answer reply repli respon antwort rispo répon répon respuesta ответ отвеч отвечай 回答 回复 返信 答え 대답 답변
write: write writing written schreib escrib écri ecri scriv escrev пиши напиш 书写 書い
english: english englisch inglés ingles= anglais inglese inglês английск 英文 英语 英語 영어
german: german= deutsch alemán aleman= alemão allemand tedesc немец 德文 德语 ドイ 독일
french: french französ francés français frances= francês франц 法语 法文 フラ 프랑
spanish: spanish spanisch español espagnol spagnol espanhol испанск 西班 스페
italian: italian italien италья 意大 イタ 이탈
portuguese: portug португ 葡萄 ポル 포르
russian: russian russisch ruso= russe= russo= русск 俄语 俄文 ロシ 러시
chinese: chines chinois chino= китай 中文 中国 汉语 중국
japanese: japan giappon япон 日语 日文 日本 일본
korean: korean coreano coréen корей 韩语 韩文 韓国 한국
emoji: emoji эмодзи 表情 絵文 이모
format: format формат 格式 形式 형식
file: file= files= datei archivo fichier arquivo файл 文件 ファ 파일
folder: folder director verzeichnis ordner carpeta dossier cartella папк 目录 フォ 폴더
database: database datenbank 数据 데이터베
document: document dokument документ 文档 ドキ 문서
tab: tab= tabs= tabul табул 制表 タブ 탭
space: space= spaces= leerzeichen espacio espace espaço spazi пробел 空格
push: push пуш 推送 プッ 푸시
merge: merge merging mergen gemergt fusion мерж 合并 マー 병합
function: function funktion funci fonction funzion funç функц 函数 関数 함수
variable: variab перемен 变量 変数 변수
name: name= names= naming nombre= nombres= nom= noms= nome= nomes= имен имя= 命名 名前 이름
version: version versión versão верси 版本 버전
email: e-mail email mail= mails= correo courriel почт 邮件 메일
log: log= logs= logging= лог= логи= логов= 日志 ログ 로그
dependency: dependenc abhängig dépendan dipendenz dependênc зависим 依赖 依存 의존
migration: migra миграц 迁移 マイ 마이그
review: review ревью 审查 レビ 리뷰
production: production produktion producción produção produzione продакш 生产 本番 프로덕
password: passw contraseñ senhas= парол senha= 密码 비밀
date: date= dates= datum= fecha дата= даты= 日期 日付 날짜
summary: summar zusammenfass resumen résum riassunt сводк 总结 摘要 要約 요약
price: price preis precio prix= preço prezz цена= цены= 价格 価格 가격
meeting: meeting besprechung reuni réunion riunion встреч 会议 会議 회의
in: in= auf= en= em= на= по=
run: run= runs= running lauf ejecut lance= lancer exécut rode= rodar esegu запуск 运行 実行 실행
use: use= using= usar= usa= verwend benutz nutze utilis utiliz использ 使用
"""
_LONGEST: Final = 12
_REMEMBERED: Final = 4000
#: Words that exclude each other: of what kind, and each by its name in the table or the beginnings of its words.
_ALTERNATIVES: Final = """
speech: english= | german= | french= | spanish= | italian= | portuguese= | russian= | chinese= | japanese= | korean=
alone: tab= | space=
alone: npm= | pnpm= | yarn= | bun=
alone: pytest= | unittest= | nose=
alone: jest= | vitest= | mocha=
alone: pip= | poetry= | uv= | pipenv= | conda=
alone: black= | ruff= | yapf= | autopep8=
alone: eslint= | biome= | tslint=
alone: postgre | mysql= | sqlite= | mariadb= | mongo | oracle=
alone: typescript= | javascript=
alone: docker= | podman=
alone: celsius= | fahrenheit=
alone: camelcase= camel= | snake_case= snake= | kebab= | pascalcase= pascal=
alone: rebase= rebasing= | merge= merging=
alone: duz | siez
of it: single= einfach simple= simples= singol одинарн 单引 シン 작은따
| double= doppel doble= dobles= doppi dupl двойн 双引 ダブ 큰따
of it: short= shorter= brief= kurz cort= corta= cortas= cortos= court brev коротк 简短 短い 짧은
| long= longer= detailed= lang= lange= langen= ausführlich larg lungh длинн подробн 详细 長い 긴=
of it: upper= uppercase= groß mayúscul majuscul maiuscol maiúscul заглавн 大写 大文 대문
| lower= lowercase= klein minúscul minuscul minuscol строчн 小写 小文 소문
of it: light= hell clar= claro= clara= clair chiar светл 浅色 ライ 라이
| dark= dunkel dunkl oscur sombre= scur escur тёмн темн 深色 ダー 다크
of it: relative= relativ относит 相对 相対 상대
| absolute= absolut assolut абсолют 绝对路 絶対パ 절대
of it: formal= förmlich formel официал 正式
| informal= informel informell неформ casual= locker
of it: metric= metrisch métri метрич | imperial= imperiel
of it: british= britisch británic britanni
| american= amerikanisch american americ
of it: named= benannt | default= standard
of it: ascending= aufsteigend ascendente croissant
| descending= absteigend descendente décroissant
"""
_NUMBERS: Final = frozenset(
    """one two three four five six eight ten ein eine zwei drei vier fünf sechs acht zehn uno dos tres cuatro cinco seis ocho deux
    trois quatre cinq huit due quattro otto dois quatro oito два три четыре восемь""".split()
)


#: Names of things by the beginnings of words.
_NAMES: Final = {
    word: name
    for name, _, words in (line.partition(": ") for line in _WORDS.split("\n") if line)
    for word in words.split()
}
#: Rows of the table: a kind, and its alternatives, each with the beginnings of its words.
_APART: Final = tuple(
    (kind, tuple(tuple(each.split()) for each in words.split(" | ")))
    for kind, _, words in (line.partition(": ") for line in _ALTERNATIVES.replace("\n|", " |").split("\n") if line)
)


def same(word: str) -> str:
    """The name of the thing that a word is for; "" where it is not known."""
    for length in range(min(len(word), _LONGEST), 0, -1):
        begin = word[:length]
        name = _NAMES.get(begin) or (_NAMES.get(f"{begin}=") if length == len(word) else None)
        if name:
            return name
    return ""


@lru_cache(maxsize=_REMEMBERED)
def apart(one: str, other: str) -> str:
    """Kind of two words that exclude each other: "speech" or "alone", or "of it" where a noun must be the same; else ""."""
    if one == other:
        return ""
    if _is_number(one) and _is_number(other):
        return "of it"
    for kind, alternatives in _APART:
        places = [_place(word, alternatives) for word in (one, other)]
        if None not in places and places[0] != places[1]:
            return kind
    return ""


def _is_number(word: str) -> bool:
    return word.isdigit() or word in _NUMBERS


def _place(word: str, alternatives: tuple[tuple[str, ...], ...]) -> int | None:
    """Place of a word, or of the name of its thing, among alternatives."""
    for n, begins in enumerate(alternatives):
        if any(word == begin.rstrip("=") or (begin[-1] != "=" and word.startswith(begin)) for begin in begins):
            return n
    return None

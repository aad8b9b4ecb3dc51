"""
Words for the same thing in ten languages, as far as users give rules about it: "Nachricht" and "mensaje" are a message.

Pure. Two rules in two languages are of one thing where both words stand here; of what is not here only the same word tells.
"""

from __future__ import annotations

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


def _read(table: str) -> dict[str, str]:
    """Names of things by the beginnings of words."""
    lines = (line.partition(": ") for line in table.split("\n") if line)
    return {word: name for name, _, words in lines for word in words.split()}


_NAMES: Final = _read(_WORDS)


def same(word: str) -> str:
    """The name of the thing that a word is for; "" where it is not known."""
    for length in range(min(len(word), _LONGEST), 0, -1):
        begin = word[:length]
        name = _NAMES.get(begin) or (_NAMES.get(f"{begin}=") if length == len(word) else None)
        if name:
            return name
    return ""

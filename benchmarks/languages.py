#!/usr/bin/env python3
"""
Words in other forms: 225 questions in nine languages, each of whose messages holds the asked word in another form.

    python benchmarks/languages.py [--quick] [--json FILE]

In Thai, which writes no blanks, the word stands in other surroundings.

All of it is made here: 25 pairs of words for each language in five sentences of our own. Five messages say the same of five
things, so only the word tells, and R@1 is the figure. All languages share one archive. R@k: the share of questions whose
message is among the first k; with forms, and with forms switched off.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import kit
from driving import Agent, hook
from kit import SPREAD, Chat, InstantModel, Report, home, spread

GOAL = 0.9
PLACES = (1, 5, 10)


class Language(NamedTuple):
    """``said`` and ``asked``: sentences with a place for a word; ``words``: pairs, as it was said and as it is asked."""

    said: tuple[str, ...]
    asked: tuple[str, ...]
    words: str


#: Each message ends with a number of its own, which no question names.
LANGUAGES: Final = {
    "German": Language(
        ("Wegen der {} rief heute Frau Kramer an", "Die Akte zu den {} liegt jetzt bei Herrn Vogt",
         "Bei den {} gab es gestern Verzug", "Über die {} sprachen wir mit dem Amt",
         "Für alle {} gilt ab sofort die neue Liste"),
        ("Wer rief wegen der {} an?", "Bei wem liegt die Akte zu der {}?", "Wann gab es Verzug mit der {}?",
         "Mit wem sprachen wir über die {}?", "Was gilt für die {}?"),
        "Rechnungen Rechnung|Häuser Haus|Verträgen Vertrag|Lieferungen Lieferung|Mieter Mieterin|Bücher Buch|Prüfungen Prüfung|"
        "Gärten Garten|Züge Zug|Maschinen Maschine|Kosten Kostenstelle|Schlüsseln Schlüssel|Bestellungen Bestellung|"
        "Fenstern Fenster|"
        "Bäume Baum|Pumpen Pumpe|Reisen Reise|Äpfel Apfel|Mitarbeitern Mitarbeiter|Wohnungen Wohnung|Konten Konto|Anträge "
        "Antrag|"
        "Leitungen Leitung|Brunnens Brunnen|Teppichen Teppich",
    ),
    "French": Language(
        ("Au sujet des {} madame Roche a téléphoné", "Le dossier des {} se trouve chez monsieur Blin",
        "Pour les {} il y a eu du retard hier",
         "On a parlé des {} avec la mairie", "Une liste nouvelle vaut pour les {}"),
        ("Qui a téléphoné au sujet du {} ?", "Chez qui se trouve le dossier de la {} ?",
        "Quand y a-t-il eu du retard pour le {} ?",
         "Avec qui a-t-on parlé de la {} ?", "Que vaut pour le {} ?"),
        "journaux journal|chevaux cheval|travaux travail|contrats contrat|livraisons livraison|factures facture|canaux "
        "canal|bateaux bateau|"
        "réparations réparation|voisines voisin|cadeaux cadeau|animaux animal|vendeuses vendeur|fenêtres fenêtre|signaux "
        "signal|"
        "tableaux tableau|métaux métal|directrices directeur|employées employer|châteaux château|hôpitaux hôpital|"
        "acheteuses acheteur|commandées commande|locaux local|tribunaux tribunal",
    ),
    "Spanish": Language(
        ("Por {} llamó hoy la señora Prieto", "El expediente tras {} quedó con don Lucas", "Ayer tras {} hubo un retraso",
         "Hablamos de {} con el ayuntamiento", "Una lista nueva vale tras {}"),
        ("¿Quién llamó por {}?", "¿Con quién quedó el expediente tras {}?", "¿Cuándo hubo un retraso tras {}?",
         "¿Con quién hablamos de {}?", "¿Qué vale tras {}?"),
        "contratar contratación|instalaron instalación|reparaciones reparar|compraron comprado|vendedoras vendedor|"
        "pagando pagaron|entregado entregas|"
        "facturaron facturación|alquilamos alquiler|limpiaban limpieza|pintando pintura|revisiones revisar|canceló "
        "cancelación|cosecharon cosecha|"
        "viajando viajeros|trabajadoras trabajador|firmado firmamos|construcciones construir|conductoras conductor|"
        "mudamos mudanza|"
        "jardineros jardines|cocinando cocineras|inversiones inversión|escribieron escribiendo|devoluciones devolución",
    ),
    "Portuguese": Language(
        ("Por causa de {} ligou hoje a dona Rosa", "O processo de {} ficou com o senhor Brito", "Ontem com {} houve um atraso",
         "Falamos de {} com a prefeitura", "Uma lista nova vale para {}"),
        ("Quem ligou por causa de {}?", "Com quem ficou o processo de {}?", "Quando houve um atraso com {}?",
         "Com quem falamos de {}?", "O que vale para {}?"),
        "instalações instalação|reparações reparar|corações coração|contratos contratar|vendedoras vendedor|pagando "
        "pagaram|entregamos entregue|"
        "faturaram faturação|alugamos alugar|limpando limparam|pintaram pintando|revisões revisão|leilões leilão|colheram "
        "colher|"
        "viajando viajantes|trabalhadoras trabalhador|assinamos assinado|construções construção|caminhões caminhão|"
        "mudaram mudando|"
        "jardineiros jardineira|cozinhando cozinharam|portões portão|escreveram escrevendo|devoluções devolução",
    ),
    "Italian": Language(
        ("Per i {} ha chiamato oggi la signora Neri", "La pratica dei {} resta dal signor Galli",
        "Ieri con i {} abbiamo avuto un ritardo",
         "Abbiamo parlato dei {} con il comune", "Una lista nuova vale per i {}"),
        ("Chi ha chiamato per il {}?", "Da chi resta la pratica del {}?", "Quando abbiamo avuto un ritardo con il {}?",
         "Con chi abbiamo parlato del {}?", "Che cosa vale per il {}?"),
        "contratti contratto|libri libro|giardini giardino|fatture fattura|treni treno|consegne consegna|finestre "
        "finestra|clienti cliente|"
        "lavori lavoro|tetti tetto|alberi albero|muri muro|prestiti prestito|documenti documento|quadri quadro|pagamenti "
        "pagamento|"
        "venditori venditrice|tubi tubo|motori motore|armadi armadio|biglietti biglietto|appartamenti appartamento|"
        "riparazioni riparazione|vigneti vigneto|orologi orologio",
    ),
    "Russian": Language(
        ("По поводу {} сегодня звонила Орлова", "Папка насчёт {} лежит у Белова", "Вчера из-за {} была задержка",
         "Насчёт {} говорили с мэрией", "Новый список касается {}"),
        ("Кто звонил и спрашивал про {}?", "У кого лежит папка, где {}?", "Когда была задержка, где {}?",
         "С кем говорили, обсуждая {}?", "Что касается темы {}?"),
        "договоров договор|квартиры квартиру|насосов насосы|счетов счета|поставки поставку|книг книги|билетов билет|"
        "заводов завод|"
        "машин машину|договорённостей договорённость|деревьев дерево|проверок проверка|складов складе|крыши крышу|заказов "
        "заказы|"
        "ремонта ремонтом|учителей учитель|окон окна|поездов поезд|музеев музей|садов саду|кредитов кредиты|труб трубы|"
        "больниц больницу|отчётов отчёты",
    ),
    "Arabic": Language(
        ("اتصلت اليوم سلمى بخصوص {}", "ملف {} عند السيد كريم", "تأخرنا أمس بسبب {}", "تحدثنا مع البلدية عن {}",
        "القائمة الجديدة تخص {}"),
        ("من اتصل بخصوص {}؟", "عند من ملف {}؟", "متى تأخرنا بسبب {}؟", "مع من تحدثنا عن {}؟", "ماذا تخص القائمة {}؟"),
        "العقد عقدنا|الشركات شركة|السيارة سيارات|المكتبة مكتبات|الفاتورة فاتورتنا|المهندسين مهندس|الطابعة طابعات|المدرسة "
        "مدرستنا|الحديقة حديقة|"
        "المضخة مضخات|القطار قطارنا|الشقة شقتنا|الحاسوب حاسوبي|البضاعة بضاعتنا|المستودع مستودعات|المحاسبون محاسب|النافذة نافذة|"
        "المصنع مصنعهم|التذكرة تذكرتي|المطعم مطعمنا|الدفتر دفتري|الخزانة خزانتي|المستشفى مستشفى|البرنامج برنامجنا|الجدار جداري",
    ),
    "Hebrew": Language(
        ("בקשר {} התקשרה היום דנה", "התיק בעניין {} נמצא אצל אורי", "אתמול היה עיכוב בגלל {}",
        "דיברנו עם העירייה בעניין {}", "הרשימה החדשה חלה על {}"),
        ("מי התקשר בקשר {}?", "אצל מי התיק בעניין {}?", "מתי היה עיכוב בגלל {}?", "עם מי דיברנו בעניין {}?", "מה חל על {}?"),
        "החוזים חוזה|המכונית מכוניות|החשבונית חשבוניות|הדירה דירות|המשאבות משאבה|הספרים ספר|הרכבת רכבות|הגנים גן|המפעלים "
        "מפעל|החלונות חלון|"
        "העצים עץ|המחשבים מחשב|הכרטיסים כרטיס|המנועים מנוע|הלקוחות לקוח|המחסנים מחסן|השיעורים שיעור|הבדיקות בדיקה|ההזמנות "
        "הזמנה|"
        "המשלוחים משלוח|התמונות תמונה|המפתחות מפתח|הצינורות צינור|המסעדות מסעדה|הארונות ארון",
    ),
    "Thai": Language(
        ("เรื่อง{}ที่ค้างอยู่คุณสมชายโทรมาวันนี้", "แฟ้มของ{}ชุดใหม่อยู่กับคุณวิภา", "เมื่อวานงาน{}ทั้งหมดล่าช้า",
         "เราคุยเรื่อง{}หลายครั้งกับเทศบาล", "รายการใหม่ใช้กับ{}ทุกชนิด"),
        ("ใครโทรมาเรื่อง{}", "แฟ้มของ{}อยู่กับใคร", "งาน{}ล่าช้าเมื่อไหร่", "เราคุยเรื่อง{}กับใคร", "อะไรใช้กับ{}"),
        "ใบแจ้งหนี้ ใบแจ้งหนี้|บ้านเช่า บ้านเช่า|สัญญา สัญญา|รถบรรทุก รถบรรทุก|หนังสือ หนังสือ|หน้าต่าง หน้าต่าง|ต้นไม้ ต้นไม้|"
        "เครื่องพิมพ์ เครื่องพิมพ์|รถไฟ รถไฟ|กุญแจ กุญแจ|ปั๊มน้ำ ปั๊มน้ำ|โรงงาน โรงงาน|ตั๋วเครื่องบิน ตั๋วเครื่องบิน|สวนหลังบ้าน สวนหลังบ้าน|"
        "หลังคา หลังคา|โกดัง โกดัง|ร้านอาหาร ร้านอาหาร|โรงพยาบาล โรงพยาบาล|คอมพิวเตอร์ คอมพิวเตอร์|พิพิธภัณฑ์ พิพิธภัณฑ์|"
        "ท่อประปา ท่อประปา|ตู้เสื้อผ้า ตู้เสื้อผ้า|บัตรประชาชน บัตรประชาชน|พรมเช็ดเท้า พรมเช็ดเท้า|ค่าไฟฟ้า ค่าไฟฟ้า",
    ),
}  # fmt: skip


class Case(NamedTuple):
    language: str
    said: str
    asked: str


def cases() -> list[Case]:
    """All questions, each with the message that answers it."""
    out = []
    for name, of in LANGUAGES.items():
        for n, pair in enumerate(of.words.split("|")):
            told, wanted = pair.split()
            out.append(Case(name, f"{of.said[n % 5].format(told)}, {1000 + 17 * n}.", of.asked[n % 5].format(wanted)))
    return out


def ask_all(where: Path, out: dict[str, list[int]], times: list[float]) -> None:
    """Place of each question's message among the hits (0: not among the first forty)."""
    made = cases()
    chat: list[Chat] = []
    for case in made:
        chat += [{"role": "user", "content": case.said}, {"role": "assistant", "content": "ok"}]
    with home(where):
        agent = Agent("20260101_languages", 2_000_000)
        hook("pre_api_request", agent.session_id, chat)
        for case in made:
            began = time.perf_counter()
            answer = agent.tool("lcm_grep", query=case.asked, limit=40, format="json")
            times.append(time.perf_counter() - began)
            texts = [hit.get("snippet") or "" for hit in answer["results"] if hit["type"] == "message"]
            out.setdefault(case.language, []).append(
                next((n for n, text in enumerate(texts, 1) if case.said in text), 0)
            )
        agent.close()


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    report = Report("languages", "words in other forms, nine languages", args.quick)
    InstantModel().install()
    from hermes_lcm.search import forms

    where = args.where or Path(tempfile.gettempdir())
    plain: dict[str, list[int]] = {}
    found: dict[str, list[int]] = {}
    times: list[float] = []
    with patch.object(forms, "languages", lambda _: ()):
        ask_all(where, plain, [])
    ask_all(where, found, times)
    plain["all"], found["all"] = ([n for each in of.values() for n in each] for of in (plain, found))

    def shares(places: list[int]) -> list[float]:
        return [round(sum(0 < place <= most for place in places) / len(places), 3) for most in PLACES]

    rows = [[name, len(found[name]), *shares(plain[name]), *shares(found[name])] for name in found]
    head = ("", "questions", *(f"R@{p} without forms" for p in PLACES), *(f"R@{p}" for p in PLACES))
    report.table("Words in other forms", head, rows)
    report.table("Time of a search", ("", *SPREAD), [["225 questions, 450 messages", *spread(times)]])
    report.budget("R@1 of all languages", shares(found["all"])[0], GOAL, least=True)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())

// Letters from outside: other charsets, HTML only, a newsletter, an invitation, an invoice. Their bytes are as such senders make them.
import { MARA, TOMAS } from "../../people.js";
import { encodedWord, quotedWord } from "../compose.js";
import { INBOX, type Letter, letter, markup, plain, UNREAD } from "./letter.js";

const MARA_TO = "mara.lindqvist@harbourlight.example";
const TOMAS_TO = "tomas.okafor@harbourlight.example";

/**
 * ISO-2022-JP, seven bits: "Mara, the 120 sensor housings you ordered leave Yokohama on 9 October and should arrive about
 * 2 November; the bill of lading follows next week. Sato Ken, Toko Seiki."
 */
const SHIPMENT_JIS = Buffer.from(
  "GyRCJV4hPCVpTU0bKEINCg0KGyRCJCQkRCRiJCpAJE9DJEskSiRDJEYkKiRqJF4kOSEjRWw5QUA6NSEkTjo0RiMkRyQ5ISMbKEINChskQiQ0Q21KOCQkJD8kQCQkJD8l" +
    "OyVzJTUhPGN+Qk4bKEIxMjAbJEI4RCRPISIbKEIxMBskQjduGyhCORskQkZ8JEsyI0lNOUEkKyRpPVAyWSQkJD8kNyReJDkhIxsoQg0KGyRCRX5DZSRPGyhCMTEbJEI3" +
    "bhsoQjIbJEJGfDoiJE5NPURqJEckOSEjQSUyWT5aN3QkT01oPTUkKkF3JGokNyReJDkhIxsoQg0KDQobJEIkNElUTEAkSkVAJCwkNCQ2JCQkXiQ3JD8kaSEiJCpDTiRp" +
    "JDskLyRAJDUkJCEjGyhCDQoNChskQjo0RiMbKEIgGyRCN3IbKEINChskQkVsOUFAOjUhM3Q8MDJxPFIbKEINCg==",
  "base64",
);
const SHIPMENT_SUBJECT_JIS = "GyRCJTslcyU1ITxjfkJOGyhCMTIwGyRCOEQbKEIgGyRCPVAyWSROJDQwRkZiGyhC";
const SATO_JIS = "GyRCOjRGIxsoQiAbJEI3chsoQg==";

/** GBK: the third quotation for buoy shells, 486 yuan each from 200 on, 35 days; freight is free if confirmed by Friday. */
const QUOTE_GBK = Buffer.from(
  "TWFyYaOsxPq6w6O6DQoNCri9yc+12sj9xfq4obHqzeK/x7XEsai826GjtaW8286qyMvD8bHSIDQ4NiDUqqOsxvC2qcG/IDIwMCC8/qOsvbu79cbaIDM1IMzsoaMNCsjnufux" +
    "vtbczuXWrsewyLfIz6Os1Mu30dPJztLDx7PQtaOhow0KDQq0y9bCDQrN9be8DQrD98C9tefX06Ooye7b2qOp09DP3rmry74NCg==",
  "base64",
);

/** windows-1252 with its own signs (euro, low quotes, dash): the September calibration costs 2,480.00 euro, due on the 30th. */
const INVOICE_1252 = Buffer.from(
  "U2VociBnZWVocnRlIEZyYXUgTGluZHF2aXN0LA0KDQphbmJlaSBkaWUgUmVjaG51bmcgZvxyIGRpZSBLYWxpYnJpZXJ1bmcgaW0gU2VwdGVtYmVyOiAyLjQ4MCwwMCCAIGlu" +
    "a2wuIE13U3QuDQpCaXR0ZSD8YmVyd2Vpc2VuIFNpZSBkZW4gQmV0cmFnIGJpcyB6dW0gMzAuIJYgZGFzIFphaGx1bmdzemllbCBzdGVodCBhdWYgU2VpdGUgMS4NCtxicmln" +
    "ZW5zOiBkaWUghE5vcmRsaWNodJMtQm9qZSBpc3Qgd2llZGVyIGltIExhYm9yLCBEci4gV2Vp3yBtZWxkZXQgc2ljaCBiZWkgSWhuZW4uDQoNCk1pdCBmcmV1bmRsaWNoZW4g" +
    "R3L832VuDQpK9nJnIE38bGxlcg0KUHL8ZmxhYm9yIEv8c3RlIEdtYkgNCg==",
  "base64",
);

const PAPER = Buffer.from(
  "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n" +
    "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
);

const INVITATION = `BEGIN:VCALENDAR
PRODID:-//Harbourlight//Sea trial//EN
VERSION:2.0
METHOD:REQUEST
BEGIN:VEVENT
UID:sea-trial-14@harbourlight.example
SUMMARY:Sea trial, buoys 11 to 22
LOCATION:Port of Eastvik\\, gate 3
ORGANIZER;CN=Ingrid Sorensen:mailto:ingrid.sorensen@harbourlight.example
END:VEVENT
END:VCALENDAR
`;

export const WORLD_LETTERS: readonly Letter[] = [
  letter({
    key: "tidal-post-212",
    minutesBefore: 400,
    from: `${encodedWord("The Tidal Post 🌊")} <news@tidalpost.example>`,
    to: MARA_TO,
    subject: `${quotedWord("This week: why tide tables drift — and ")}\r\n ${quotedWord("a café for lighthouse keepers")}`,
    headers: [
      ["List-Unsubscribe", "<mailto:leave@tidalpost.example?subject=leave>"],
      ["List-Unsubscribe-Post", "List-Unsubscribe=One-Click"],
      ["List-ID", "The Tidal Post <weekly.tidalpost.example>"],
      ["Precedence", "bulk"],
    ],
    boxes: [
      [MARA, ["INBOX", "UNREAD", "CATEGORY_PROMOTIONS"]],
      [TOMAS, ["INBOX", "CATEGORY_PROMOTIONS"]],
    ],
    content: {
      type: "multipart/alternative",
      parts: [
        plain(
          "THE TIDAL POST, No. 212\n\n1. Why tide tables drift: a century of gauges, and who moved the zero.\n2. The café for lighthouse keepers: open on stormy days only.\n3. Jobs: two deckhands, one data engineer.\n\nYou get this because you asked for it. To leave: leave@tidalpost.example\n",
        ),
        markup(
          '<table width="600"><tr><td><h1>The Tidal Post</h1><p>No. 212</p><h3>Why tide tables drift</h3><p>A century of gauges, and who moved the zero.</p><h3>The café for lighthouse keepers</h3><p>Open on stormy days only.</p><p style="color:#999">You get this because you asked for it. <a href="https://tidalpost.example/leave">Leave</a></p></td></tr></table>\n',
        ),
      ],
    },
  }),
  letter({
    key: "shipment-yokohama",
    minutesBefore: 1440 + 30,
    from: `${encodedWord("", "ISO-2022-JP", Buffer.from(SATO_JIS, "base64"))} <sato@toko-seiki.example>`,
    to: MARA_TO,
    cc: TOMAS_TO,
    subject: encodedWord("", "ISO-2022-JP", Buffer.from(SHIPMENT_SUBJECT_JIS, "base64")),
    boxes: [
      [MARA, [...UNREAD, "Label_1"]],
      [TOMAS, INBOX],
    ],
    content: { type: "text/plain; charset=ISO-2022-JP", encoding: "7bit", content: SHIPMENT_JIS },
  }),
  letter({
    key: "invoice-september",
    minutesBefore: 2 * 1440 + 45,
    from: `=?windows-1252?Q?J=F6rg_M=FCller?= <buchhaltung@prueflabor-kueste.example>`,
    to: MARA_TO,
    subject: "=?windows-1252?Q?Rechnung_2041_=96_Kalibrierung_September_=282=2E480=2C00_=80=29?=",
    boxes: [[MARA, [...INBOX, "Label_1"]]],
    content: {
      type: "multipart/mixed",
      parts: [
        { type: "text/plain; charset=windows-1252", encoding: "8bit", content: INVOICE_1252 },
        {
          type: "application/pdf",
          encoding: "base64",
          content: PAPER,
          headers: [["Content-Disposition", "attachment; filename*=UTF-8''Rechnung%202041%20f%C3%BCr%20Kalibrierung.pdf"]],
        },
      ],
    },
  }),
  letter({
    key: "ferry-booking",
    minutesBefore: 2 * 1440 + 700,
    from: '"Eastvik Ferries" <booking@eastvik-ferries.example>',
    to: MARA_TO,
    subject: "Your booking EF-70413: Tuesday 05:40, one car, two people",
    boxes: [[MARA, ["INBOX", "UNREAD", "CATEGORY_UPDATES"]]],
    content: markup(`<!doctype html><html><head><style>td{padding:4px}</style></head><body><p>Hello Mara Lindqvist,</p>
<table><tr><td>Departure</td><td><b>Tuesday, 05:40</b>, Eastvik quay 2</td></tr><tr><td>Vehicle</td><td>1 car &lt; 5&nbsp;m</td></tr>
<tr><td>Passengers</td><td>2</td></tr><tr><td>Paid</td><td>€&nbsp;84.50</td></tr></table>
<p>Please be at the gate 30 minutes before. You can change this booking until Monday noon.</p></body></html>
`),
  }),
  letter({
    key: "build-failed",
    minutesBefore: 55,
    from: '"Build lamp" <lamp@ci.harbourlight.example>',
    to: TOMAS_TO,
    subject: "[firmware] 2.8.2-rc1: 1 of 214 tests failed",
    boxes: [[TOMAS, ["INBOX", "UNREAD", "CATEGORY_UPDATES"]]],
    content: markup(`<html><body><h3>2.8.2-rc1 on bench-03</h3><p><b>213 passed, 1 failed</b></p>
<pre>thermistor_table &gt; refuses a table for another serial number
  expected: error E_SERIAL
  received: ok</pre><p>Started by Tomás Okafor, took 11 min 4 s.</p></body></html>
`),
  }),
  letter({
    key: "quote-shells",
    minutesBefore: 6 * 1440 + 20,
    from: "=?GBK?B?zfW3vA==?= <wang.fang@minglan.example>",
    to: MARA_TO,
    cc: TOMAS_TO,
    subject: "=?GBK?B?uKGx6s3iv8exqLzbo6i12sj9xfqjqQ==?=",
    boxes: [
      [MARA, [...INBOX, "STARRED", "Label_1"]],
      [TOMAS, INBOX],
    ],
    content: { type: "text/plain; charset=GBK", encoding: "base64", content: QUOTE_GBK },
  }),
  letter({
    key: "sea-trial-invitation",
    minutesBefore: 8 * 1440,
    from: '"Sorensen, Ingrid" <ingrid.sorensen@harbourlight.example>',
    to: `${MARA_TO}, ${TOMAS_TO}`,
    subject: "Invitation: Sea trial, buoys 11 to 22",
    boxes: [
      [MARA, [...INBOX, "Label_2"]],
      [TOMAS, INBOX],
    ],
    content: {
      type: "multipart/alternative",
      parts: [
        plain("Sea trial, buoys 11 to 22\nPort of Eastvik, gate 3, 06:00\nBring boots.\n"),
        { type: "text/calendar; charset=UTF-8; method=REQUEST", encoding: "base64", content: INVITATION },
      ],
    },
  }),
];

// Letters among colleagues and partners: a question that waits for an answer, a thread, a report with everything nested in it,
// and a forwarded message whose own text is not the sender's.
import { MARA, TOMAS } from "../../people.js";
import { encodedWord, quotedWord } from "../compose.js";
import { INBOX, type Letter, letter, markup, plain, SENT, UNREAD } from "./letter.js";

const MARA_FROM = "Mara Lindqvist <mara.lindqvist@harbourlight.example>";
const TOMAS_FROM = `${quotedWord("Tomás Okafor")} <tomas.okafor@harbourlight.example>`;
const INGRID_FROM = '"Sorensen, Ingrid" <ingrid.sorensen@harbourlight.example>';
const BOTH = `${MARA_FROM},\r\n ${TOMAS_FROM}`;

/** An 8 by 8 picture. */
const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAALUlEQVR42mN49uErJpLLm8aAVRSLBEQUXQIuiiKBLIqQQBOFSmCKgiSwigIRAAw2dv0ccFhRAAAAAElFTkSuQmCC",
  "base64",
);

const THREAD = ["drift-1", "drift-2", "drift-3", "drift-4"] as const;

function alternative(text: string, quoted?: string) {
  const html = text
    .split("\n\n")
    .map((paragraph) => `<p>${paragraph.replaceAll("\n", "<br>")}</p>`)
    .join("\n");
  return {
    type: "multipart/alternative" as const,
    parts: [
      plain(quoted ? `${text}\n\n${quoted.replace(/^/gm, "> ")}\n` : `${text}\n`),
      markup(`<div dir="ltr">${html}</div>${quoted ? `<blockquote>${quoted.replaceAll("\n", "<br>")}</blockquote>` : ""}\n`),
    ],
  };
}

const DRIFT_1 = `Hi both,

buoys 14 and 22 report 0.4 °C too warm since Monday. The other ten are fine. Before I call it a sensor problem: did anything change on our side?

Ingrid`;
const DRIFT_2 = `Yes: 2.8.1 went out to exactly those two on Monday morning. It reads the thermistor table from flash instead of the constant. I will compare the tables tonight.

Tomás`;
const DRIFT_3 = `Found it. The table for the new thermistors was written to both, but 14 and 22 still carry the old ones. 2.8.2 checks the serial number first. It needs a sign-off before I push it to the water.

Tomás`;
const DRIFT_4 = `Good catch. Please hold 2.8.2 until Ingrid has seen a full day on the bench buoy; the sea trial is on the 14th and I would rather lose a day than the trial.

Mara`;

export const WORK_LETTERS: readonly Letter[] = [
  letter({
    key: "delivery-slot",
    minutesBefore: 95,
    from: "Noor Haddad <noor.haddad@brightwater.example>",
    to: MARA_FROM,
    subject: "Can you confirm the delivery slot by Thursday?",
    boxes: [[MARA, [...UNREAD, "IMPORTANT"]]],
    content: plain(`Hi Mara,

the port has given us two slots for the twelve buoys:

  - Tuesday, 07:00 to 09:00, gate 3
  - Wednesday, 13:00 to 15:00, gate 5

The crane is only there on Tuesday, so that one would save us about €900. I have to answer the harbour master by Thursday noon. Which one do you want, and who will be on site from your side?

Thank you
Noor

--
Noor Haddad · Logistics · Brightwater Offshore
`),
  }),
  letter({
    key: "sign-off",
    minutesBefore: 130,
    from: MARA_FROM,
    to: TOMAS_FROM,
    subject: "Need your yes or no on 2.8.2 before Wednesday",
    boxes: [
      [TOMAS, [...UNREAD, "IMPORTANT"]],
      [MARA, SENT],
    ],
    content: plain(`Tomás,

the trial crew leaves on Wednesday at six. If 2.8.2 is to be on the buoys, I need your written yes by Tuesday evening, with the bench results attached. If you are not sure, say no: we sail with 2.8.0 then, and nobody will be cross.

Mara
`),
  }),
  letter({
    key: THREAD[0],
    minutesBefore: 2 * 1440 + 300,
    from: INGRID_FROM,
    to: BOTH,
    subject: "Pilot buoys: calibration drift",
    boxes: [
      [MARA, INBOX],
      [TOMAS, INBOX],
    ],
    content: alternative(DRIFT_1),
  }),
  letter({
    key: THREAD[1],
    minutesBefore: 2 * 1440 + 180,
    from: TOMAS_FROM,
    to: INGRID_FROM,
    cc: MARA_FROM,
    subject: "Re: Pilot buoys: calibration drift",
    answers: THREAD.slice(0, 1),
    boxes: [
      [MARA, INBOX],
      [TOMAS, SENT],
    ],
    content: alternative(DRIFT_2, DRIFT_1),
  }),
  letter({
    key: THREAD[2],
    minutesBefore: 1440 + 420,
    from: TOMAS_FROM,
    to: INGRID_FROM,
    cc: MARA_FROM,
    subject: "Re: Pilot buoys: calibration drift",
    answers: THREAD.slice(0, 2),
    boxes: [
      [MARA, INBOX],
      [TOMAS, SENT],
    ],
    content: alternative(DRIFT_3, DRIFT_2),
  }),
  letter({
    key: THREAD[3],
    minutesBefore: 1440 + 200,
    from: MARA_FROM,
    to: TOMAS_FROM,
    cc: INGRID_FROM,
    subject: "Re: Pilot buoys: calibration drift",
    answers: THREAD.slice(0, 3),
    boxes: [
      [MARA, SENT],
      [TOMAS, UNREAD],
    ],
    content: alternative(DRIFT_4, DRIFT_3),
  }),
  letter({
    key: "weekly-report",
    minutesBefore: 3 * 1440 + 60,
    from: INGRID_FROM,
    to: BOTH,
    subject: `${encodedWord("Weekly report – buoys 11–22 🌊")}`,
    boxes: [
      [MARA, [...INBOX, "Label_2"]],
      [TOMAS, INBOX],
    ],
    content: {
      type: "multipart/mixed",
      parts: [
        {
          type: "multipart/related",
          parts: [
            {
              type: "multipart/alternative",
              parts: [
                plain(`Weekly report, short form

Uptime: 99.2 % (one reset on buoy 17)
Battery: all above 71 %
Open: drift on 14 and 22, see the thread
Next: full bench day, then the sea trial

The numbers are in the table attached.
Ingrid
`),
                markup(`<h2>Weekly report, short form</h2>
<ul><li>Uptime: <b>99.2&nbsp;%</b> (one reset on buoy 17)</li><li>Battery: all above 71&nbsp;%</li>
<li>Open: drift on 14 and 22, see the thread</li><li>Next: full bench day, then the sea trial</li></ul>
<p>The numbers are in the table attached.<br>Ingrid</p><img src="cid:chart@harbourlight.example" alt="Uptime chart">
`),
              ],
            },
            {
              type: 'image/png; name="chart.png"',
              encoding: "base64",
              content: PICTURE,
              headers: [
                ["Content-ID", "<chart@harbourlight.example>"],
                ["Content-Disposition", 'inline; filename="chart.png"'],
              ],
            },
          ],
        },
        {
          type: 'text/csv; charset=UTF-8; name="buoys.csv"',
          encoding: "base64",
          content: "buoy,uptime_percent,battery_percent,drift_c\n11,100,84,0.0\n14,100,79,0.4\n17,97.6,73,0.0\n22,100,71,0.4\n",
          headers: [["Content-Disposition", 'attachment; filename="buoys.csv"']],
        },
      ],
    },
  }),
  letter({
    key: "forwarded-offer",
    minutesBefore: 5 * 1440 + 40,
    from: INGRID_FROM,
    to: BOTH,
    subject: "Fwd: Berth prices for October",
    boxes: [
      [MARA, INBOX],
      [TOMAS, INBOX],
    ],
    content: {
      type: "multipart/mixed",
      parts: [
        markup(
          "<p>For your files: the harbour's answer is attached as it came. <b>Nothing to do</b> before next month.</p><p>Ingrid</p>\n",
        ),
        {
          type: 'message/rfc822; name="Berth prices.eml"',
          encoding: "7bit",
          content: `From: Harbour Office <office@port-of-eastvik.example>
To: ingrid.sorensen@harbourlight.example
Subject: Berth prices for October
Content-Type: text/plain; charset=us-ascii

Dear Ms Sorensen,
a berth of up to 18 m is 62.00 a night in October, electricity included.
This text belongs to the attached message, not to the one around it.
`,
          headers: [["Content-Disposition", 'attachment; filename="Berth prices.eml"']],
        },
      ],
    },
  }),
];

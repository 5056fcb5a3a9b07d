import assert from "node:assert/strict";
import { test } from "node:test";
import type { FormQuestion } from "../../src/connectors/connector.js";
import { fieldsOf, fittingAnswer, formRequest } from "../../src/mcp/forms.js";

const QUESTION: FormQuestion = {
  key: "pick",
  message: "Which\u202e one?\nReally",
  fields: [
    {
      name: "channel",
      title: "Channel",
      required: true,
      choices: Array.from({ length: 250 }, (_, at) => ({ value: `C${at}`, title: `#room-${at}` })),
    },
    { name: "note", title: "Note", description: "May be left out.", required: false },
  ],
  otherwise: { outcome: "invalid_arguments", text: "Name it." },
};

test("the schema is flat, choices are titled, and nobody's text can turn it round (FORM-01)", () => {
  const request = formRequest({
    ...QUESTION,
    fields: QUESTION.fields.map((field) => ({ ...field, ...(field.choices ? { choices: field.choices.slice(0, 2) } : {}) })),
  });
  assert.deepEqual(request, {
    mode: "form",
    message: "Which one? Really",
    requestedSchema: {
      type: "object",
      properties: {
        channel: {
          type: "string",
          title: "Channel",
          oneOf: [
            { const: "C0", title: "#room-0" },
            { const: "C1", title: "#room-1" },
          ],
        },
        note: { type: "string", title: "Note", description: "May be left out.", maxLength: 320 },
      },
      required: ["channel"],
    },
  });
});

test("an answer is taken only when it is one of the choices; fields that were not asked are dropped (FORM-02)", () => {
  const fields = fieldsOf(QUESTION);
  assert.deepEqual(fittingAnswer(fields, { channel: "C249", note: "hi", admin: true, __proto__: "x" }), { channel: "C249", note: "hi" });
  assert.deepEqual(fittingAnswer(fields, { channel: "C0", note: "" }), { channel: "C0" });
  const wrong = [
    undefined,
    {},
    { channel: "C250" },
    { channel: "" },
    { channel: 7 },
    { channel: ["C0"] },
    { channel: null },
    { channel: "C0", note: "x".repeat(321) },
    { channel: "C0", note: {} },
  ];
  for (const content of wrong) assert.equal(fittingAnswer(fields, content), null, JSON.stringify(content));
  assert.equal(fittingAnswer(fields, Object.create({ channel: "C0" }) as Record<string, unknown>), null, "inherited values are no answer");
});

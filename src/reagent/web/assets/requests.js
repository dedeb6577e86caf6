/* The requests that reproduce an explanation. */

/* `target` is the output of the explanation, so that the model does not generate it again. The first bytes of a
   character at its end are no text that could be sent. */
export function requestOf(explanation) {
  const { method, seed, unit, display_unit, completion, levels, target, attributes, trace, what_if } = explanation;
  const messages = messagesOf(explanation);
  const replacer = replacerOf(explanation);
  return {
    ...(messages.length ? { messages } : { prompt: explanation.prompt }),
    target: withoutCut(completion),
    ...(target?.kind === "span" ? { target_span: withoutCut(target.text) } : {}),
    ...(trace ? { answer_span: withoutCut(trace.answer.text) } : {}),
    ...(attributes === "context" && isAboutAll(explanation) ? { attribute_target: true } : {}),
    ...(what_if?.length ? { what_if: true } : {}),
    method: method.id,
    ...(method.preset ? { preset: method.preset } : {}),
    ...(method.removal ? { removal: method.removal } : {}),
    ...(replacer ? { replacer } : {}),
    ...(unit && unit !== "span" && !levels?.length && !display_unit ? { unit } : {}),
    seed,
  };
}

const withoutCut = (text) => text.replace(/(?<=[^\ufffd])\ufffd+$/, "");

/* Whether all output was asked about, with a preset that removes only the prompt by default. */
const isAboutAll = ({ method, target }) => !method.preset?.startsWith("paper") && !["span", "contrast"].includes(target?.kind);

/* Why did the model not say `contrast` instead? A request cannot also ask for a phrase or an answer. */
export const contrastWith = ({ target_span, answer_span, ...request }, contrast) => ({ ...request, contrast });

/* The replacer of the probes; where units are deleted or masked, a replacer made the counterfactual texts only. */
const replacerOf = ({ method, replacer }) => (["delete", "mask"].includes(method.removal) ? undefined : replacer?.id);

/* Slice by characters: offsets count code points, while JavaScript strings count UTF-16 units. */
export const sliceText = (text, start, end) => [...text].slice(start, end).join("");

const messagesOf = ({ prompt, messages = [] }) =>
  messages.map(({ role, start, end }) => ({ role, content: sliceText(prompt, start, end) }));

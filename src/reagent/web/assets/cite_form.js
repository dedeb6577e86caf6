/* The form for a question about documents: convert it to a request, and fill it from a request or from citations. */
import { readDocuments } from "./documents.js";
import { createTextList } from "./text_list.js";

const EXAMPLE = {
  question: "When does the museum open?",
  documents: [
    { id: "clocks", text: "The museum of clocks opens at nine in the morning. Tickets cost four crowns." },
    { id: "mill", text: "The old mill stands by the river. It was built of stone." },
    { id: "ferry", text: "The ferry crosses the lake every hour. Dogs travel free of charge." },
  ],
};
const REMOVAL_NAMES = { "": "removed (default)", delete: "deleted", mask: "masked", replace: "replaced" };

export function createCiteForm(form, options) {
  const { question, given_answer, cite_removal, cite_tokens, cite_seed } = form.elements;
  const part = (id) => form.querySelector(`#${id}`);
  const documents = createTextList(part("documents"), "Document", { minimum: 1 });

  const buildRequest = () => ({
    question: question.value,
    documents: documents.read().map(({ name, content }) => ({ ...(name ? { id: name } : {}), text: content })),
    ...(given_answer.value.trim() ? { answer: given_answer.value } : {}),
    ...(cite_removal.value ? { removal: cite_removal.value } : {}),
    max_new_tokens: Number(cite_tokens.value),
    seed: Number(cite_seed.value),
  });

  const fill = (request) => {
    question.value = request.question;
    given_answer.value = request.answer ?? "";
    documents.fill(request.documents.map(({ id, text }) => ({ name: id, content: text })));
    cite_removal.value = request.removal ?? "";
    cite_tokens.value = request.max_new_tokens ?? cite_tokens.value;
    cite_seed.value = request.seed ?? cite_seed.defaultValue;
  };

  // The form asks the model again, so the answer is not filled in. The default removal stays the default.
  const fillCitations = ({ question, documents, removal, seed }) => {
    const numbered = documents.map(({ id, text }, i) => ({ ...(id === String(i + 1) ? {} : { id }), text }));
    fill({ question, documents: numbered, seed, ...(removal === "delete" ? {} : { removal }) });
  };

  /* Empty fields make room for the documents of the files. */
  const addFiles = async (files) => {
    const lists = await Promise.all([...files].map(readDocuments));
    documents.fill([...documents.read().filter(({ content }) => content.trim()), ...lists.flat()]);
  };

  const removals = ["", ...options.cite.removals];
  cite_removal.replaceChildren(...removals.map((id) => new Option(REMOVAL_NAMES[id] ?? id, id)));
  cite_tokens.max = options.limits.new_tokens;
  cite_tokens.defaultValue = Math.min(cite_tokens.defaultValue, options.limits.new_tokens);
  form.addEventListener("keydown", (event) => {
    const wanted = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (wanted && event.target.matches("textarea")) form.requestSubmit();
  });
  part("add-document").addEventListener("click", () => documents.add().focus());
  part("cite-example").addEventListener("click", () => fill(EXAMPLE));
  documents.fill([]);
  if (!question.value) fill(EXAMPLE);
  return { buildRequest, fill, fillCitations, addFiles };
}

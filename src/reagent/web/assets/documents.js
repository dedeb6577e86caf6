/* A prompt made of documents and a question. */

export function joinDocuments(documents, question) {
  const parts = documents.map((text, i) => `Document ${i + 1}:\n${text.trim()}`);
  return [...parts, `Question: ${question.trim()}\nAnswer:`].join("\n\n");
}

/* The documents and the question of such a prompt, or null for any other text. */
export function splitDocuments(prompt) {
  const match = /^Document 1:\n([^]*)\n\nQuestion: ([^]*)\nAnswer:$/.exec(prompt);
  if (!match) return null;
  const documents = [];
  let rest = match[1];
  for (let end; (end = rest.indexOf(headingOf(documents.length + 2))) >= 0; ) {
    const heading = headingOf(documents.length + 2);
    documents.push(rest.slice(0, end));
    rest = rest.slice(end + heading.length);
  }
  documents.push(rest);
  return joinDocuments(documents, match[2]) === prompt ? { documents, question: match[2] } : null;
}

/* The question of a prompt that was made of documents, even if the documents were shortened; else the prompt. */
export const questionOf = (prompt) => /^Document 1:\n[^]*\n\nQuestion: ([^]*)\nAnswer:$/.exec(prompt)?.[1] ?? prompt;

const headingOf = (number) => `\n\nDocument ${number}:\n`;
